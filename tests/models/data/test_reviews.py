"""The product's own export of annotations is training data."""

import json
from pathlib import Path

import pytest

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.reviews import RARE
from setwise.models.data.lines import DataError, DataWarning


def row(document: str, labels: list[str], **changes: object) -> dict[str, object]:
    """Return a row as the service exports it, with content."""
    return {
        "id": "a1",
        "prediction_id": f"p-{document}-1",
        "document_id": document,
        "client_id": "billing",
        "predicted_labels": ["x", "y", "z"],
        "review_id": "r1",
        "reviewer": "ann",
        "labels": labels,
        "agreed": labels == ["x"],
        "suggestion_shown": False,
        "kind": "review",
        "settles": True,
        "group": "coders",
        "audit_role": "none",
        "text": f"text of {document}",
        "features": None,
        "metadata": {},
        **changes,
    }


def write(tmp_path: Path, *rows: dict[str, object]) -> Path:
    file = tmp_path / "annotations.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return file


def answers(dataset: Dataset) -> list[tuple[str, list[str], str | None]]:
    assert dataset.annotators is not None
    return [
        (id_, [dataset.label_names[at] for at in labels.nonzero()[0]], who)
        for id_, labels, who in zip(
            dataset.ids, dataset.Y.toarray(), dataset.annotators, strict=True
        )
    ]


EXPORT = (
    row("one", ["x"], suggestion_shown=True),
    row("two", ["x"], settles=False),
    row("two", ["y"], reviewer="bob", kind="overlap", settles=False),
    row("two", ["y"], reviewer="lea", kind="adjudication"),
    row("three", ["x"], reviewer="bob", kind="audit", audit_role="training", settles=False),
    row("three", ["x", "y"], reviewer="lea", kind="adjudication"),
)


def test_a_lead_decides_and_otherwise_the_answer_that_settled(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path, *EXPORT))
    assert dataset.texts == ("text of one", "text of two", "text of three")
    assert answers(dataset) == [
        ("billing/one", ["x"], "ann (suggestion shown)"),
        ("billing/two", ["y"], "gold"),
        ("billing/three", ["x", "y"], "gold"),
    ]


def test_every_answer_of_a_random_pair_counts_and_none_that_was_picked_out(tmp_path: Path) -> None:
    found = answers(read_dataset(write(tmp_path, *EXPORT), several=True))
    assert found == [
        ("billing/one", ["x"], "ann (suggestion shown)"),
        ("billing/two", ["x"], "ann"),
        ("billing/two", ["y"], "bob"),
        ("billing/two", ["y"], "gold"),
        ("billing/three", ["x", "y"], "gold"),
    ]


def test_what_proves_a_threshold_teaches_nothing(tmp_path: Path) -> None:
    audit = row("two", ["x"], kind="audit", audit_role="certification")
    again = row("two", ["x"], prediction_id="p-two-2")
    resent = row("2", ["x"], text="text of two")
    file = write(tmp_path, row("one", ["x"]), audit, again, resent)
    with pytest.warns(DataWarning, match="2 documents left out: they were drawn to certify"):
        assert read_dataset(file).ids == ("billing/one",)


def test_the_newest_prediction_of_a_document_counts(tmp_path: Path) -> None:
    newest = row("one", ["y"], prediction_id="p-one-2", text="another text")
    dataset = read_dataset(write(tmp_path, newest, row("one", ["x"]), row("two", ["x"])))
    assert answers(dataset)[0] == ("billing/one", ["y"], "ann")
    assert dataset.texts[0] == "another text"


def test_an_export_without_texts_and_a_foreign_row_in_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no document has text; export with content=true"):
        read_dataset(write(tmp_path, row("one", ["x"], text=None)))
    with pytest.raises(DataError, match="line 2: no row of an export of annotations"):
        read_dataset(write(tmp_path, row("one", ["x"]), {"id": "a", "text": "t", "labels": []}))
    with pytest.warns(DataWarning, match="1 document left out: they have no text"):
        read_dataset(write(tmp_path, row("one", ["x"], text=None), row("two", ["x"])))


def test_a_document_whose_set_nobody_knows_whole_teaches_nothing(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        row("one", ["x"]),
        row("two", ["x"], label_missing=True),
        row("three", ["y"], label_missing=True),
        row("three", ["y"], reviewer="lea", kind="adjudication"),
    )
    with pytest.warns(
        DataWarning, match="1 document left out: a label applies to them that nobody"
    ):
        dataset = read_dataset(file)
    assert answers(dataset) == [("billing/one", ["x"], "ann"), ("billing/three", ["y"], "gold")]


def _with_new(folder: Path, n: int) -> Path:
    new = [row(f"new-{place}", ["x", "new"]) for place in range(n)]
    return write(folder, *new, row("old", ["x"]))


def test_documents_with_a_rare_label_stay_whole_and_the_label_is_named(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match=r"1 label learnt from fewer than 10 documents: new \(9\)"):
        dataset = read_dataset(_with_new(tmp_path, RARE - 1))
    assert (dataset.n, dataset.label_names) == (RARE, ("new", "x"))


def test_documents_with_labels_that_may_be_misspelt_are_left_out_if_asked(tmp_path: Path) -> None:
    layout = FileLayout(least_documents=RARE)
    with pytest.warns(DataWarning, match=r"9 documents left out: fewer than 10 .*: new \(9\)"):
        assert read_dataset(_with_new(tmp_path, RARE - 1), layout=layout).ids == ("billing/old",)
    assert read_dataset(_with_new(tmp_path, RARE), layout=layout).label_names == ("new", "x")
