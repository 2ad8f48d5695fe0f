"""Files of other tools: the same documents in every format give the same data set."""

import bz2
import csv
import gzip
import io
import json
import random
import re
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile

import arff
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.sparse import csr_array

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.reading import document_lines
from setwise.models.data.lines import DataError, DataWarning
from setwise.models.training_external import start_external

DOCUMENTS = [
    {"id": "a", "text": 'Fever, "high"\nsince; Monday', "labels": ["x", "y z"]},
    {"id": "b", "text": "Ünïcode…", "labels": []},
    {"id": "c", "text": "Rash", "labels": ["y z"]},
]
NAMES = ("w", "x", "y z")


def csv_of(rows, delimiter=","):
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    return written.getvalue().encode()


def truth(labels):
    return [int(name in labels) for name in NAMES]


def written_csv(path, documents):
    rows = [[one["id"], one["text"], "|".join(one["labels"])] for one in documents]
    path.write_bytes(csv_of([["id", "text", "labels"], *rows]))
    return FileLayout(label_separator="|")


def written_columns(path, documents):
    rows = [[one["id"], one["text"], *truth(one["labels"])] for one in documents]
    path.write_bytes(b"\xef\xbb\xbf" + csv_of([["id", "note", *NAMES], *rows], ";"))
    return FileLayout(text_column="note")


def written_packed(path, documents):
    rows = [["x", one["id"], one["text"], *truth(one["labels"])] for one in documents]
    path.write_bytes(gzip.compress(csv_of([["site", "id", "text", *NAMES], *rows], "\t")))
    return FileLayout(label_columns=NAMES, format="csv")


def written_parquet(path, documents):
    parquet.write_table(pa.Table.from_pylist(documents), path)
    return FileLayout()


def written_parquet_columns(path, documents):
    rows = [
        {"id": one["id"], "text": one["text"]} | {name: name in one["labels"] for name in NAMES}
        for one in documents
    ]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return FileLayout()


def written_names(path, documents):
    rows = [one | {"label_text": one["labels"], "length": 3} for one in documents]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return FileLayout(labels_column="label_text")


def written_0_1(path, documents):
    kind = float if len(documents) % 2 else bool
    rows = [one | {"labels": [kind(v) for v in truth(one["labels"])]} for one in documents]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path.with_name("labels.txt").write_text("".join(f"{name}\n" for name in NAMES))
    return FileLayout(format="huggingface")


def written_numbers(path, documents):
    written_0_1(path, documents)
    rows = [one | {"labels": [NAMES.index(name) for name in one["labels"]]} for one in documents]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return FileLayout(format="huggingface")


def written_tasks(path, documents):
    tasks = [
        {
            "id": number,
            "data": {"id": one["id"], "text": one["text"]},
            "annotations": [
                {
                    "completed_by": {"id": 3, "email": "kim@example.org"},
                    "was_cancelled": False,
                    "result": [
                        {
                            "from_name": "labels",
                            "to_name": "text",
                            "type": "choices",
                            "value": {"choices": one["labels"]},
                        }
                    ],
                }
            ],
        }
        for number, one in enumerate(documents)
    ]
    path.write_text(json.dumps(tasks))
    return FileLayout(format="label-studio")


TEXT_WRITERS = {
    "a.csv": written_csv,
    "b.csv": written_columns,
    "c.tsv.gz": written_packed,
    "a.parquet": written_parquet,
    "b.parquet": written_parquet_columns,
    "a.jsonl": written_names,
    "b.jsonl": written_0_1,
    "c.json": written_numbers,
    "d.json": written_tasks,
}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(
    lambda text: f"word {text}"
)


@pytest.mark.parametrize("name", TEXT_WRITERS)
@settings(max_examples=15)
@given(
    given_texts=st.lists(texts, min_size=1, max_size=4),
    labels=st.lists(st.sets(st.sampled_from(NAMES)), min_size=4, max_size=4),
)
def test_the_same_texts_in_every_format_give_the_same_data_set(
    tmp_path_factory, name, given_texts, labels
):
    folder = tmp_path_factory.mktemp("formats")
    documents = [
        {"id": f"d{i}", "text": text, "labels": sorted(labels[i] | ({"x"} if i == 0 else set()))}
        for i, text in enumerate(given_texts)
    ]
    own = folder / "own.jsonl"
    own.write_text("".join(json.dumps(one) + "\n" for one in documents))
    wanted = read_dataset(own)
    layout = TEXT_WRITERS[name](folder / name, documents)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        found = read_dataset(folder / name, layout=layout)
    assert (found.ids, found.texts, found.label_names) == (
        wanted.ids,
        wanted.texts,
        wanted.label_names,
    )
    np.testing.assert_array_equal(found.Y.toarray(), wanted.Y.toarray())


@pytest.mark.parametrize("name", TEXT_WRITERS)
def test_documents_of_every_format_can_be_predicted(tmp_path, name):
    layout = TEXT_WRITERS[name](tmp_path / name, DOCUMENTS)
    lines = [json.loads(line) for _, line in document_lines(tmp_path / name, layout)]
    assert [(line["id"], line["text"]) for line in lines] == [
        (one["id"], one["text"]) for one in DOCUMENTS
    ]


# --- vectors ------------------------------------------------------------------------------------

matrices = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 1.0, -2.5, 1e-3]), min_size=width, max_size=width),
            st.sets(st.integers(0, 2)),
        ),
        min_size=1,
        max_size=4,
    )
)


def sparse_line(numbers, values, first):
    fields = (f"{i + first}:{v!r}" for i, v in enumerate(values) if v)
    return f"{','.join(map(str, sorted(numbers)))} {' '.join(fields)}\n"


def written_svm(path, rows):
    path.write_text("".join(sparse_line(labels, values, 1) for values, labels in rows))


def written_extreme(path, rows):
    head = f"{len(rows)} {len(rows[0][0])} {len(NAMES)}\n"
    lines = "".join(sparse_line(labels, values, 0) for values, labels in rows)
    path.write_bytes(gzip.compress((head + lines).encode()))


def written_arff(path, rows, *, sparse=False):
    columns = [(f"f {i}", "NUMERIC") for i in range(len(rows[0][0]))]
    held = {
        "relation": "notes",
        "attributes": [*columns, *((name, ["0", "1"]) for name in NAMES)],
        "data": [[*values, *(str(int(i in labels)) for i in range(3))] for values, labels in rows],
    }
    if sparse:
        held["data"] = [
            {i: value for i, value in enumerate(row) if value not in {0, "0"}}
            for row in held["data"]
        ]
    path.write_text(arff.dumps(held))
    labels = "".join(f'<label name="{name}"></label>' for name in NAMES)
    path.with_name("notes.xml").write_text(
        f'<labels xmlns="http://mulan.sourceforge.net/labels">{labels}</labels>'
    )


def written_sparse_arff(path, rows):
    written_arff(path, rows, sparse=True)


def written_npz(path, rows):
    Y = [[int(i in labels) for i in range(3)] for _, labels in rows]
    np.savez(path, X=[values for values, _ in rows], Y=Y, label_names=NAMES)


def written_sparse_npz(path, rows):
    arrays = {}
    for name, dense in (
        ("X", [values for values, _ in rows]),
        ("Y", [[i in labels for i in range(3)] for _, labels in rows]),
    ):
        held = csr_array(np.array(dense))
        arrays |= {f"{name}_{part}": getattr(held, part) for part in ("data", "indices", "indptr")}
        arrays[f"{name}_shape"] = held.shape
    np.savez(path, **arrays)


VECTOR_WRITERS = {
    "a.xc.txt.gz": written_extreme,
    "notes-train.arff": written_arff,
    "notes.arff": written_sparse_arff,
    "a.npz": written_npz,
    "b.npz": written_sparse_npz,
}


@pytest.mark.parametrize("name", VECTOR_WRITERS)
@settings(max_examples=15)
@given(rows=matrices)
def test_the_same_vectors_in_every_format_give_the_same_data_set(tmp_path_factory, name, rows):
    folder = tmp_path_factory.mktemp("formats")
    width = len(rows[0][0])
    (folder / "labels.txt").write_text("".join(f"{each}\n" for each in NAMES))
    (folder / "features.txt").write_text("".join(f"f {i}\n" for i in range(width)))
    written_svm(folder / "a.svm", rows)
    VECTOR_WRITERS[name](folder / name, rows)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        wanted, found = read_dataset(folder / "a.svm"), read_dataset(folder / name)
    assert (found.ids, found.label_names) == (wanted.ids, wanted.label_names)
    assert found.feature_names == wanted.feature_names
    np.testing.assert_array_equal(found.X.toarray(), wanted.X.toarray())
    np.testing.assert_array_equal(found.Y.toarray(), wanted.Y.toarray())
    assert (found.X.dtype, found.X.indices.dtype) == (wanted.X.dtype, wanted.X.indices.dtype)
    read = [json.loads(line) for _, line in document_lines(folder / name)]
    assert [sum(one["features"].values()) for one in read] == [sum(values) for values, _ in rows]


def sparse_arrays(shape):
    parts = {"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 1], "X_shape": shape}
    return parts | {"Y": [[1]], "label_names": ["a"]}


# --- what is refused ----------------------------------------------------------------------------


def refusal(path, content, **layout):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as error:
        read_dataset(path, layout=FileLayout(**layout))
    assert str(error.value).startswith(str(path))
    assert "; " in str(error.value)
    return str(error.value).removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", ": the file is empty"),
        ("text,labels\n", ": the file holds no documents"),
        ("text,labels\na,x\nb,y,z\n", ", line 3: 3 cells, but 2 columns"),
        ('text,labels\n"a\nb",x\nc\n', ", line 4: 1 cells, but 2 columns"),
        ('text,labels\na,x\n"b,y\n', ", line 3: a quoted cell that never ends"),
        ('text,labels\n"a"b,x\n', ", line 2: ',' expected after '\"'"),
        ("text,labels,text\na,x,b\n", ", line 1: there are two columns 'text'"),
        ("text,,labels\na,,b\na,x,b\n", ", line 3: column 2 has no name, but holds 'x'"),
        ("text,labels\ra,x\r\rb,y,z\r", ", line 4: 3 cells, but 2 columns"),
        ("text,labels\na,\"['x', 'y\"\n", ", line 2: 'labels' holds \"['x', 'y\", a list that is"),
        ("text,labels\na,[x]\n", ", line 2: 'labels' holds '[x]', a list that is neither JSON nor"),
        ('text,labels\na,"{""x"": 1}"\n', ", line 2: 'labels' holds '{\"x\": 1}', an object"),
        (
            "text,labels\na,(['x'])\n",
            ", line 2: 'labels' holds \"(['x'])\", a list that is neither",
        ),
        ("text,labels\na,'x';y\n", ", line 2: the label \"'x'\" looks like a list or is in quotes"),
        ("text,labels\na,x\nb,z|y\n", ", line 3: 'labels' seems to separate labels by '|'; name"),
        ("text,labels\na,x\nb,y\nc,x/y\n", ", line 4: 'labels' seems to separate labels by '/'"),
        ("text,labels\na,x\nb,y\nc,x y\n", ", line 4: 'labels' seems to separate labels by ' '"),
        ('text,labels\na,x\nb,y\nc,"y, x"\n', ", line 4: 'labels' seems to separate labels by ','"),
        ("body,labels\na,x\n", ", line 2: there is no column 'text'; name it (--text-column)"),
        ("id,text\n1,a\n", ": there is no column 'labels'; name it (--labels-column)"),
        ("text,x,y\na,1,\n", ", line 2: the column 'y' is empty; write 0 or 1"),
        ("text,x,y\na,1,0\nb,0,2024\n", ", line 3: the column 'y' holds '2024'; write 0 or 1"),
        ("text,labels\na,x;;y\n", ", line 2: an empty label in 'x;;y'; separate labels by one ';'"),
        ("id,text,labels\n1,a,x\n1,b,y\n", ", line 3: id '1' is on line 2 already"),
        ("id,text,labels\n,a,x\n", ", line 2: 'id' is empty"),
        (b"text,labels\na\xe9,x\n", ", line 2: byte 2 (0xe9) is not UTF-8; save the file as UTF-8"),
        ("text,labels\na,x\n".encode("utf-16"), ": this is UTF-16; save the file as UTF-8"),
        ("text,labels\na,x\n".encode("utf-16-le"), ", line 1: there are NUL characters, as in"),
        (b"PK\x03\x04\x0a\0", ": this is a ZIP archive or a spreadsheet; unpack it"),
        (bz2.compress(b"text,labels\n"), ": this is a bzip2 file; unpack it"),
        (
            gzip.compress(gzip.compress(b"text,labels\n", mtime=0), mtime=0),
            ": this is gzipped twice; unpack it once",
        ),
    ],
)
def test_a_bad_row_of_csv_is_named_with_its_fault_and_a_cure(tmp_path, content, fault):
    assert refusal(tmp_path / "a.csv", content).startswith(fault)


def test_rows_without_ids_are_numbered_and_empty_cells_are_no_labels(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\r\n\r\na,\r\nb,x; y\r\n")
    dataset = read_dataset(tmp_path / "a.csv")
    assert (dataset.ids, dataset.label_names) == (("1", "2"), ("x", "y"))
    assert dataset.Y.toarray().tolist() == [[0, 0], [1, 1]]


def test_an_unused_separator_is_doubted(tmp_path):
    (tmp_path / "a.csv").write_text('text,labels\na,"x, y"\nb,y\nc,dry x\nd,dry y\n')
    with pytest.warns(DataWarning, match="no cell of 'labels' holds ';'.*--label-separator"):
        read_dataset(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "cell",
    [
        "x;y",
        " y ; x ",
        '["x", "y"]',
        "['x', 'y']",
        "['x' 'y']",
        "['x'\n 'y']",
        "('x', 'y')",
        "{'y', 'x'}",
        "frozenset({'x', 'y'})",
        "array(['x', 'y'], dtype=object)",
        "[np.str_('x'), np.str_('y')]",
        "Index(['x', 'y'], dtype='object')",
        "np.array(['x', 'y'])",
        "deque(['x', 'y'])",
        '{"choices": ["x", "y"]}',
    ],
)
def test_a_list_in_a_cell_is_read_however_it_is_written(tmp_path, cell):
    (tmp_path / "a.csv").write_bytes(csv_of([["text", "labels"], ["a", cell], ["b", "y"]]))
    dataset = read_dataset(tmp_path / "a.csv", layout=FileLayout(label_separator=";"))
    assert (dataset.label_names, dataset.Y.toarray().tolist()) == (("x", "y"), [[1, 1], [0, 1]])


@pytest.mark.parametrize("cell", ["", "[]", "{}", "()", "set()", " ", "array([], dtype=object)"])
def test_an_empty_list_in_a_cell_is_no_label(tmp_path, cell):
    (tmp_path / "a.csv").write_bytes(csv_of([["text", "labels"], ["a", cell], ["b", "y"]]))
    assert read_dataset(tmp_path / "a.csv").Y.toarray().tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        ("sep=|\r\ntext|labels\r\na|x;y\r\nb|y\r\n", None),
        ('text, labels\na, "x;y"\nb, y\n', None),
        ("\ufefftext,labels\ra,x;y\rb,y\r", None),
        ("text,labels,,\na,x;y,,\nb,y,,\n", None),
        ("text,labels\na,x;y,,\nb,y,\n", None),
        ("text,labels\na,x;y\n,\nb,y\n ,\n", "2 rows without any content, left out"),
        (",text,labels\n0,a,x;y\n1,b,y\n", "the first column has no name"),
        ("Unnamed: 0,text,x,y\n0,a,1,1\n1,b,0,1\n", "the first column has no name"),
    ],
)
def test_tables_are_read_as_spreadsheets_and_pandas_write_them(tmp_path, content, warning):
    (tmp_path / "a.csv").write_bytes(content.encode())
    with warnings.catch_warnings(record=True, action="always") as caught:
        dataset = read_dataset(tmp_path / "a.csv")
    assert (dataset.ids, dataset.texts, dataset.label_names) == (("1", "2"), ("a", "b"), ("x", "y"))
    assert dataset.Y.toarray().tolist() == [[1, 1], [0, 1]]
    assert [warning in str(each.message) for each in caught] == ([True] if warning else [])


def test_one_class_a_row_is_a_label_by_its_number(tmp_path):
    (tmp_path / "labels.txt").write_text("x\ny\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "labels": 1}\n{"text": "b", "labels": 0.0}\n')
    (tmp_path / "a.csv").write_text("text,labels\na,1\nb,0\n")
    for name, format_ in (("a.jsonl", "huggingface"), ("a.csv", "csv")):
        with warnings.catch_warnings(action="ignore", category=DataWarning):
            dataset = read_dataset(tmp_path / name, layout=FileLayout(format=format_))
        assert (dataset.label_names, dataset.Y.toarray().tolist()) == (("x", "y"), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{"text": "a", "x": 1}, {"text": "b", "x": 0, "y": 1}], "the column 'y' is not in the"),
        ([{"text": "a", "x": 1}, {"text": "b"}], "the column 'x' is empty"),
        ([{"text": "a", "labels": ["x"]}, {"text": "b", "label": ["y"]}], "'labels' is null"),
        ([{"text": "a", "x": 1, "x ": 1}], "the column 'x' is given twice, in two spellings"),
    ],
)
def test_the_first_record_does_not_decide_which_labels_there_are(tmp_path, rows, fault):
    content = "".join(json.dumps(row) + "\n" for row in rows)
    message = refusal(tmp_path / "a.jsonl", content, format="huggingface")
    assert message.startswith(f", line {len(rows)}: {fault}")


@pytest.mark.parametrize(
    "spelling", ["fi\u00e8vre Q", "fie\u0300vre Q", " fi\u00e8vre\u00a0Q\u200b "]
)
@pytest.mark.parametrize("name", TEXT_WRITERS)
def test_a_label_has_one_name_however_it_is_spelled(tmp_path, monkeypatch, name, spelling):
    monkeypatch.setitem(globals(), "NAMES", ("w", spelling))
    documents = [
        {"id": "a", "text": "a", "labels": [spelling]},
        {"id": "b", "text": "b", "labels": []},
    ]
    layout = TEXT_WRITERS[name](tmp_path / name, documents)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        dataset = read_dataset(tmp_path / name, layout=layout)
    used = [label for label, n in zip(dataset.label_names, dataset.Y.sum(axis=0), strict=True) if n]
    assert used == ["fi\u00e8vre Q"]


def test_ids_are_read_as_they_were_before_other_tools_changed_them(tmp_path):
    table = pa.table({"id": [17.0, 2.5], "text": [b"a", b"b"], "labels": [[b"x"], []]})
    parquet.write_table(table, tmp_path / "a.parquet")
    dataset = read_dataset(tmp_path / "a.parquet")
    assert (dataset.ids, dataset.texts, dataset.label_names) == (("17", "2.5"), ("a", "b"), ("x",))
    (tmp_path / "a.csv").write_text("id,text,labels\n'-17,'=x,\n")
    assert read_dataset(tmp_path / "a.csv").ids == ("-17",)
    parquet.write_table(table.set_column(0, "id", [[b"\xa0", b"b"]]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"row 1: byte 1 \(0xa0\) is not UTF-8"):
        read_dataset(tmp_path / "a.parquet")


def test_many_columns_take_no_longer_than_their_number(tmp_path):
    names = [f"l{i}" for i in range(30_000)]
    (tmp_path / "a.csv").write_bytes(csv_of([["text", *names], ["a", *[1] * len(names)]]))
    began = time.process_time()
    assert read_dataset(tmp_path / "a.csv").Y.nnz == len(names)
    assert time.process_time() - began < 2.0  # quadratic: 10 s


def test_a_cell_may_be_longer_than_csv_allows_by_default(tmp_path):
    (tmp_path / "a.csv").write_bytes(csv_of([["text", "x"], ["word " * 50_000, 1]]))
    assert len(read_dataset(tmp_path / "a.csv").texts[0]) == 250_000


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ([[0, 1, 1], [0, 1]], ", line 2: 'labels' is no list of 3 times 0 or 1"),
        ([[0, 2], [0, 1, 1]], ", line 2: 'labels' is no list of label numbers, as it was before"),
        ([[0, 2], [3]], ", line 2: label 3, but labels.txt ends at label 2"),
        ([[0], [-1]], ", line 2: label -1, but"),
        ([[0], [0.5]], ", line 2: 'labels' mixes kinds"),
        ([["x"], [0, "x"]], ", line 2: 'labels' mixes kinds"),
        ([["x"], [True]], ", line 2: 'labels' mixes kinds"),
        ([[0, 2], [1, 1]], ", line 2: 'labels' repeats a label number"),
        ([["x"], ["x", None]], ", line 2: 'labels' mixes kinds"),
        ([["x"], 3.5], ", line 2: 'labels' is 3.5; give a list"),
        ([["x"], True], ", line 2: 'labels' is True; give a list"),
        ([["x"], None], ", line 2: 'labels' is null; leave the document out if its labels are"),
        ([["x"], ["['x']"]], r""", line 2: the label "\['x'\]" looks like a list"""),
        ([2, -1], ", line 2: label -1, but labels.txt ends at label 2; .* are left out"),
        ([[0], [10**400]], ", line 2: label 1000000000"),
        ([[0], [float("inf")]], ", line 2: 'labels' mixes kinds"),
    ],
)
def test_bad_numbers_of_labels_are_named(tmp_path, labels, fault):
    (tmp_path / "labels.txt").write_text("x\ny\nz\n")
    content = "".join(json.dumps({"text": "a", "labels": each}) + "\n" for each in labels)
    assert re.match(fault, refusal(tmp_path / "a.jsonl", content, format="huggingface"))


def test_numbers_of_labels_need_their_names(tmp_path):
    message = refusal(tmp_path / "a.jsonl", '{"text": "a", "labels": [1]}', format="huggingface")
    assert message.startswith(", line 1: 'labels' holds numbers, and there is no labels.txt")


def test_parquet_names_the_row(tmp_path):
    parquet.write_table(
        pa.table({"text": ["a", None], "labels": [["x"], []]}), tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match=r"a\.parquet, row 2: 'text' is null; give a string"):
        read_dataset(tmp_path / "a.parquet")
    assert refusal(tmp_path / "b.parquet", b"PAR1").startswith(": not a Parquet file")


def test_parquet_is_read_group_by_group(tmp_path):
    table = pa.table({"text": [random.randbytes(1000).hex() for _ in range(4096)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=512, use_dictionary=False)
    tracemalloc.start()
    try:
        lines = document_lines(tmp_path / "a.parquet")
        assert json.loads(next(lines)[1])["text"] == table["text"][0].as_py()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (tmp_path / "a.parquet").stat().st_size / 2


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("1 2\n", ", line 1: the header is not three numbers"),
        ("1 999999999 2\n0 0:1\n", ", line 1: the header says 999999999 features or labels; at"),
        ("2 2 2\n0 0:1\n", ", line 1: the header says 2 documents, but there are 1"),
        ("1 2 2\n2 0:1\n", ", line 2: label 2, but the header says 2 labels; count labels from 0"),
        ("1 2 2\n1 2:1\n", ", line 2: feature 2, but there are 2 features; say in the header"),
        ("1 2 2\n1 1:1 1:2\n", ", line 2: feature 1 is given twice; number features from 0"),
    ],
)
def test_a_bad_file_of_the_extreme_repository_is_refused(tmp_path, content, fault):
    assert refusal(tmp_path / "a.xc.txt", content).startswith(fault)


def test_the_extreme_repository_numbers_labels_and_features_from_0(tmp_path):
    (tmp_path / "a.txt").write_text("2 2 3\n0,2 1:0.5\n\t0:1\n")
    dataset = read_dataset(tmp_path / "a.txt", layout=FileLayout(format="xc"))
    assert (dataset.label_names, dataset.feature_names) == (("0", "1", "2"), ("0", "1"))
    assert dataset.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0]]
    assert dataset.X.toarray().tolist() == [[0, 0.5], [1, 0]]


def test_what_is_no_arff_is_refused(tmp_path):
    (tmp_path / "a.xml").write_text('<labels><label name="x"/></labels>')
    head, column, *rest = ARFF.splitlines(keepends=True)
    repeated = "".join([head, column, column, *rest])
    assert refusal(tmp_path / "a.arff", repeated + "1,1,red,1\n").startswith(", line 3: ")


ARFF = "@relation r\n@attribute f numeric\n@attribute c {red,green}\n@attribute x {0,1}\n@data\n"


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("1,red,1\n2,red,?\n", ", line 7: the attribute 'x' is missing (?); leave the document"),
        ("1,red,maybe\n", ", line 6: "),
        ("1,red,1\nb,red,0\n", ", line 7: Invalid numerical value"),
        ("1,red\n", ", line 6: Bad @DATA instance format"),
        ("1,blue,1\n", ", line 6: "),
        ("1e39,red,1\n", ", line 6: the attribute 'f' is not finite in 32 bits"),
        ("1,%n\n", ", line 6: Bad @DATA instance format: 1,%n; correct"),
        ("{5 1}\n", ", line 6: "),
        ("{1 red,}\n", ", line 6: "),
        ("", ": the file holds no documents"),
    ],
)
def test_a_bad_line_of_arff_is_named(tmp_path, rows, fault):
    (tmp_path / "a.xml").write_text('<labels><label name="x"/></labels>')
    assert refusal(tmp_path / "a.arff", ARFF + rows).startswith(fault)


def test_arff_turns_nominal_values_into_features_and_needs_the_names_of_labels(tmp_path):
    assert refusal(tmp_path / "a.arff", ARFF).startswith(": there is no XML file beside it")
    (tmp_path / "a.arff").write_text(ARFF + "1,green,1\n2,red,0\n")
    (tmp_path / "a.xml").write_text('<labels><label name="x"/></labels>')
    dataset = read_dataset(tmp_path / "a.arff")
    assert (dataset.feature_names, dataset.label_names) == (("f", "c=green"), ("x",))
    assert dataset.X.toarray().tolist() == [[1, 1], [2, 0]]


@pytest.mark.parametrize(
    ("row", "features", "labels"),
    [
        ("{0 3}", [3, 0], [1, 0]),
        ("{0 2, 1 green, 2 0, 3 yes}", [2, 1], [0, 1]),
        ("{1 green, 3 YES}", [0, 1], [1, 1]),
    ],
)
def test_what_a_sparse_row_leaves_out_has_its_first_value(tmp_path, row, features, labels):
    (tmp_path / "a.xml").write_text('<labels><label name="x"/><label name="it\'s"/></labels>')
    head = "@relation r\n@attribute f numeric\n@attribute c {red,green}\n@ATTRIBUTE x{1,0}\n"
    head += "@attribute 'it\\'s' {No,yes,YES}\n@data\n"
    (tmp_path / "a.arff").write_text(f"{head}{row}\n{{0 1}}\n")
    dataset = read_dataset(tmp_path / "a.arff")
    assert (dataset.feature_names, dataset.label_names) == (("f", "c=green"), ("x", "it's"))
    assert dataset.X.toarray()[0].tolist() == features
    assert dataset.Y.toarray()[0].tolist() == labels


@pytest.mark.parametrize(("option", "names"), [("-C 2", ("f", "g")), ("-split 5 -C -1", ("x",))])
def test_the_header_of_meka_names_the_labels(tmp_path, option, names):
    columns = "".join(f"@attribute {name} {{0,1}}\n" for name in "fgx")
    (tmp_path / "a.arff").write_text(f"@relation 'r: {option}'\n{columns}@data\n1,1,1\n")
    assert read_dataset(tmp_path / "a.arff").label_names == names


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"Y": [[1]]}, ": there is no array X"),
        ({"X": [1], "Y": [[1]]}, r": X has the shape \(1,\)"),
        ({"X": [[1]], "Y": [[1], [0]]}, ": 1 rows of X, 2 of Y"),
        ({"X": [[1], [2]], "Y": [[1], [2]]}, ", row 2: a label is neither 0 nor 1"),
        ({"X": [[1], [np.nan]], "Y": [[1], [1]]}, ", row 2: a feature is not finite in 32 bits"),
        ({"X": [["a"]], "Y": [[1]]}, ": X holds <U1"),
        ({"X_data": [1], "Y": [[1]]}, ": not an archive of arrays"),
        ({"X": [[1]], "Y": [[1]]}, ": the labels have no names"),
        ({"X": [[1]], "Y": [[1]], "label_names": ["a", "b"]}, ": 2 label names for 1 columns"),
        ({"X": np.array([[{}]], object), "Y": [[1]]}, ": not an archive of arrays"),
        (sparse_arrays((1, 2**40)), ": X has 1099511627776 columns; at most"),
    ],
)
def test_bad_arrays_are_refused(tmp_path, arrays, fault):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"a\.npz{fault}"):
        read_dataset(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("a.parquet", "pyarrow", "parquet"), ("a.arff", "arff", "arff")],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=rf"install setwise\[{extra}\]"):
        read_dataset(tmp_path / name)


@pytest.mark.parametrize("header", ["(1000000000000, 9)", "(" * 1000, "(-1,)"])
def test_a_lying_header_of_an_array_is_refused(tmp_path, header):
    content = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {header}, }}"
    array = b"\x93NUMPY\x01\0" + struct.pack("<H", len(content)) + content.encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", array)
    with pytest.raises(DataError, match=r"a\.npz: not an archive of arrays"):
        read_dataset(tmp_path / "a.npz")


def test_an_encrypted_npz_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), Y=np.eye(2), label_names=["a", "b"])
    archive = bytearray((tmp_path / "a.npz").read_bytes())
    archive[archive.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory
    (tmp_path / "a.npz").write_bytes(archive)
    with pytest.raises(DataError, match=r"a\.npz.* is encrypted"):
        read_dataset(tmp_path / "a.npz")


def test_a_text_is_no_list_of_names(tmp_path):
    with pytest.raises(TypeError, match=r"label_columns is a text; give a tuple: \('x',\)"):
        FileLayout(label_columns="x")
    with pytest.raises(TypeError, match=r"numbers is a text; give a list of names: \['pages'\]"):
        read_dataset(tmp_path / "a.jsonl", external=True, numbers="pages")
    with pytest.raises(TypeError, match=r"label_names is a text; give a list of names: \['x'\]"):
        start_external("x")


@pytest.mark.parametrize(
    "name",
    [
        "A.CSV",
        "a.ndjson",
        "a.JSONL",
        "A.NDJSON.GZ",
        "a.csv.GZ",
        "a.jsonlines",
        "a.json",
        "a.JSON.gz",
    ],
)
def test_names_of_files_end_in_letters_of_any_size(tmp_path, name):
    rows = [{"id": "a", "text": "Fever", "labels": ["x"]}]
    content = csv_of([["id", "text", "labels"], ["a", "Fever", "x"]])
    if "csv" not in name.lower():
        content = json.dumps(rows[0])
    content = content.encode() if isinstance(content, str) else content
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    assert read_dataset(path).texts == ("Fever",)


def test_the_ending_tab_is_known_and_json_holds_tasks_if_it_is_a_list(tmp_path):
    rows = [["id", "text", "labels"], ["a", "Fever, chills", "x"]]
    (tmp_path / "a.tab").write_bytes(csv_of(rows, "\t"))
    assert read_dataset(tmp_path / "a.tab").texts == ("Fever, chills",)
    for name, lead in (("tasks.json", ""), ("late.json", "\ufeff\n \n")):
        written_tasks(tmp_path / name, DOCUMENTS)
        (tmp_path / name).write_text(lead + (tmp_path / name).read_text())
        assert read_dataset(tmp_path / name).ids == tuple(one["id"] for one in DOCUMENTS)
    (tmp_path / "list.json").write_text(json.dumps(DOCUMENTS, indent=1))
    with pytest.raises(
        DataError, match=r"no task of Label Studio.* or give one JSON object a line"
    ):
        read_dataset(tmp_path / "list.json")
