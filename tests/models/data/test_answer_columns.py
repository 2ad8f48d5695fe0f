"""Another model's answers in the columns of tables."""

import csv
import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.reading import document_lines
from setwise.models.data.lines import DataError, DataWarning

ANSWERED = [
    {
        "id": "a",
        "text": "Fever",
        "labels": ["x"],
        "scores": {"x": 0.9, "y": 0.25},
        "candidates": [{"labels": ["x"], "score": 0.5}, {"labels": ["x", "y"]}],
        "metadata": {"pages": 3.0},
    },
    {"id": "b", "text": "Rash", "labels": [], "scores": {"y": 0.5}, "candidates": [{"labels": []}]},
]


def answered_csv(path):
    columns = ["id", "text", "labels", "scores", "candidates", "pages"]
    rows = [
        [
            one["id"],
            one["text"],
            ";".join(one["labels"]),
            json.dumps(one["scores"]),
            json.dumps(one["candidates"]),
            one.get("metadata", {}).get("pages", ""),
        ]
        for one in ANSWERED
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def answered_parquet(path):
    parquet.write_table(pa.Table.from_pylist(ANSWERED), path)


@pytest.mark.parametrize(
    ("name", "write"), [("a.csv", answered_csv), ("a.parquet", answered_parquet)]
)
def test_answers_in_tables_are_those_of_json_lines(tmp_path, name, write):
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps(one) + "\n" for one in ANSWERED))
    write(tmp_path / name)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        wanted, found = (
            read_dataset(path, external=True, numbers=["pages"]) for path in (own, tmp_path / name)
        )
    assert (found.ids, found.texts, found.label_names) == (
        ("a", "b"),
        ("Fever", "Rash"),
        ("x", "y"),
    )
    np.testing.assert_array_equal(found.Y.toarray(), wanted.Y.toarray())
    for member in ("doc_indptr", "counts", "set_scores", "numbers"):
        expected = getattr(wanted.answers, member)
        np.testing.assert_array_equal(getattr(found.answers, member), expected)
    np.testing.assert_array_equal(found.answers.sets.labels, wanted.answers.sets.labels)
    np.testing.assert_array_equal(found.answers.scores.toarray(), wanted.answers.scores.toarray())


def test_bare_answers_need_no_text(tmp_path):
    (tmp_path / "a.csv").write_text("id;labels;answer\n1;x|y;x\n2;;\n")
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        layout = FileLayout(label_separator="|")
        dataset = read_dataset(tmp_path / "a.csv", layout=layout, external=True)
    assert dataset.label_names == ("x", "y")
    assert dataset.texts is None
    assert dataset.answers.n_answers.tolist() == [1, 1]
    lines = [json.loads(line) for _, line in document_lines(tmp_path / "a.csv", numbers=())]
    assert [(line["id"], line["answer"]) for line in lines] == [("1", ["x"]), ("2", [])]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("text,labels,pages\na,x,1\n", ": there is no column scores, candidates or answer"),
        ("text,labels,answer\na,x,y\n", ": there is no column 'pages'; name it (--number)"),
        ("labels,scores,pages\nx,{x},1\n", ", line 2: 'scores' is no JSON (column 2: Expecting"),
        ('labels,scores,pages\nx,"{""x"": 2}",1\n', ", line 2: scores/x: 2 is no probability"),
        ("labels,answer,pages\nx,x,many\n", ", line 2: metadata/pages: 'many' is no number"),
        ("labels,answer,metadata\nx,x,3\n", ", line 2: metadata: it is no object"),
    ],
)
def test_bad_answers_in_tables_are_named(tmp_path, content, fault):
    (tmp_path / "a.csv").write_text(content)
    with (
        warnings.catch_warnings(action="ignore", category=DataWarning),
        pytest.raises(DataError) as error,
    ):
        read_dataset(tmp_path / "a.csv", external=True, numbers=["pages"])
    assert str(error.value).removeprefix(str(tmp_path / "a.csv")).startswith(fault)
