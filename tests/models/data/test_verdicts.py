"""Rows that their tool marks as no answer are not learnt from."""

import csv
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.reading import document_lines
from setwise.models.data.lines import DataError, DataWarning

ANSWERS = [{"text": f"Fever {i}", "accept": ["fever"]} for i in range(3)]
CHOSEN = FileLayout(format="huggingface", labels_column="accept")


def read(folder: Path, *rows: Mapping[str, Any], layout: FileLayout = CHOSEN) -> Dataset:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_dataset(path, layout=layout)


@pytest.mark.parametrize(
    "mark",
    [
        {"answer": "reject"},
        {"answer": "ignore"},
        {"status": "discarded"},
        {"status": "Draft"},
        {"AssignmentStatus": "Rejected"},
        {"was_cancelled": True},
        {"skipped": "true"},
        {"is_draft": 1},
        {"deleted": True},
        {"accepted": False},
        {"is_approved": "False"},
        {"verdict": "reject"},
        {"label.responses.0.status": "discarded"},
    ],
    ids=str,
)
def test_rows_that_are_no_answers_are_left_out_with_a_warning(
    tmp_path: Path, mark: dict[str, object]
) -> None:
    ((name, value),) = mark.items()
    with pytest.warns(DataWarning, match=f"1 row left out .*'{name}' is '{value}'.*rename the col"):
        dataset = read(tmp_path, *ANSWERS, {"text": "Rash", "accept": ["rash"], **mark})
    assert dataset.ids == ("1", "2", "3")
    assert dataset.label_names == ("fever",)


@pytest.mark.parametrize(
    "mark",
    [
        {"responses": [{"status": "discarded"}, {"status": "draft"}]},
        {"label.responses.status": ["discarded"]},
    ],
    ids=str,
)
def test_rows_that_all_annotators_discarded_are_left_out(
    tmp_path: Path, mark: dict[str, list[object]]
) -> None:
    with pytest.warns(DataWarning, match="1 row left out"):
        dataset = read(tmp_path, *ANSWERS, {"text": "Rash", "accept": ["rash"], **mark})
    assert dataset.n == 3
    ((name, values),) = mark.items()
    kept = {name: [*values, {"status": "submitted"} if name == "responses" else "submitted"]}
    assert read(tmp_path, *ANSWERS, {"text": "Rash", "accept": ["rash"], **kept}).n == 4


def test_accepted_answers_are_read_without_a_word(tmp_path: Path) -> None:
    marks = {
        "answer": "accept",
        "status": "submitted",
        "skipped": False,
        "was_cancelled": None,
        "accepted": True,
        "approved": None,
        "responses": [],
        "deleted": "no",
    }
    with warnings.catch_warnings(action="error"):
        assert read(tmp_path, *({**row, **marks} for row in ANSWERS)).n == 3


def test_columns_that_hold_something_else_are_no_verdicts(tmp_path: Path) -> None:
    rows = [{"text": "a", "status": ["draft"]}, {"text": "b", "status": ["rejected"]}]
    layout = FileLayout(format="huggingface", labels_column="status")
    assert read(tmp_path, *rows, layout=layout).label_names == ("draft", "rejected")


def test_a_flag_beside_columns_of_labels_is_no_label(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "rash", "skipped", "was_cancelled"])
        table.writerows([["a", 1, 1, 0], ["b", 1, 0, 0], ["c", 1, 0, 1]])
    with pytest.warns(DataWarning, match="1 row left out"):
        dataset = read_dataset(path)
    assert dataset.label_names == ("rash", "skipped")
    assert dataset.ids == ("1", "2")


def test_a_file_without_an_answer_is_refused(tmp_path: Path) -> None:
    fault = r"rows\.jsonl: no row is an answer \('answer' is 'reject'\); export what was accepted"
    with pytest.raises(DataError, match=fault):
        read(tmp_path, *({**row, "answer": "reject"} for row in ANSWERS))


def test_what_is_predicted_needs_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "answer": "reject"}\n')
    assert len(list(document_lines(path, CHOSEN))) == 1


def test_annotations_that_nobody_stands_by_are_left_out(tmp_path: Path) -> None:
    def task(key: str = "annotations", **more: object) -> dict[str, Any]:
        result = [{"from_name": "labels", "value": {"choices": ["x"]}}]
        return {"data": {"text": "a"}, key: [{"result": result, **more}]}

    earlier, later = (
        {"accepted": accepted, "created_at": at} for accepted, at in ((False, "1"), (True, "2"))
    )
    tasks = [
        task(),
        task("completions"),
        task(reviews=[later, earlier]),
        task(was_cancelled=True),
        task("completions", skipped=True),
        task(
            reviews=[{"accepted": True, "created_at": "1"}, {"accepted": False, "created_at": "2"}]
        ),
        {"data": {"text": "a"}, "annotations": [], "drafts": [{"result": []}]},
    ]
    path, layout = tmp_path / "a.json", FileLayout(format="label-studio")
    path.write_text(json.dumps(tasks))
    with pytest.warns(DataWarning, match="4 tasks left out: they have no annotation, or only canc"):
        dataset = read_dataset(path, layout=layout)
    assert dataset.ids == ("1", "2", "3")
    path.write_text(json.dumps(tasks[3:]))
    with pytest.raises(DataError, match="no task has an annotation that was neither cancelled nor"):
        read_dataset(path, layout=layout)
