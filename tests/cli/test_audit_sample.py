"""``setwise audit-sample``: from any system's answers to a proof."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.running import refusal, status


def answers(folder: Path, name: str = "answers.jsonl") -> Path:
    """Write 400 sure answers and 400 that are not."""
    rows = [
        {
            "id": f"a{number}",
            "text": f"=HYPERLINK({number})",
            "labels": ["x", "y"] if number % 2 else [],
            "confidence": 0.99 if number % 2 else 0.4,
        }
        for number in range(800)
    ]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_table_comes_back_filled_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "check.csv"
    assert status("audit-sample", answers(tmp_path), "--n", 440, "--out", out) == 0
    err = capsys.readouterr().err
    assert (
        err == f"440 of 800 answers in {out}: 400 with a confidence of 0.99 or more, 40 with less\n"
    )
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["confidence"], row["audit_probability"]) for row in rows} == {
        ("0.99", "1.0"),
        ("0.4", "0.1"),
    }
    assert {row["right"] for row in rows} == {""}
    assert all(row["text"].startswith("'=HYPERLINK") for row in rows)
    for row in rows:
        row["right"] = "1" if row["confidence"] == "0.99" else "0"
    with out.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    assert status("certify", out, "--target", 0.9) == 0
    assert capsys.readouterr().out.startswith("Send at a confidence of 0.99 or more: ")


def test_tasks_of_label_studio_come_back_with_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, config = tmp_path / "tasks.json", tmp_path / "interface.xml"
    sample = ("audit-sample", answers(tmp_path), "--n", 440, "--format", "label-studio")
    assert status(*sample, "--out", out, "--config", config) == 0
    capsys.readouterr()
    tasks = json.loads(out.read_text())
    assert {task["data"]["answer"] for task in tasks} == {"x, y", "no label"}
    assert 'name="right"' in config.read_text()
    for task in tasks:
        choice = "right" if task["data"]["confidence"] == 0.99 else "wrong"
        region = {"from_name": "right", "type": "choices", "value": {"choices": [choice]}}
        task["annotations"] = [{"completed_by": 1, "result": [region]}]
    out.write_text(json.dumps(tasks))
    assert status("certify", out, "--target", 0.9, "--json") == 0
    proof = json.loads(capsys.readouterr().out)
    assert (proof["certified"], proof["threshold"]) == (True, 0.99)
    tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = ["perhaps"]
    out.write_text(json.dumps(tasks))
    assert "entry 1: the choice is" in refusal(capsys, "certify", str(out), "--target", "0.9")


def test_answers_without_a_confidence_are_left_out_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("document_id,confidence\na,0.9\nb,\nc,1.0000001\n")
    assert status("audit-sample", path, "--n", 9, "--out", tmp_path / "out.csv") == 0
    assert "1 answers have no confidence and are left out" in capsys.readouterr().err
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert sorted(row.partition(",")[0] for row in rows[1:]) == ["a", "c"]


def test_cells_that_are_no_single_value_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "answers.jsonl", tmp_path / "out.csv"
    sample = ("audit-sample", path, "--n", "1", "--out", out)
    path.write_text('{"confidence": [0.9]}\n')
    assert "line 1: confidence is [0.9]; give a number" in refusal(capsys, *map(str, sample))
    path.write_text('{"id": ["a"], "confidence": 0.9}\n')
    assert "line 1: 'id' is ['a']; give a text or a number" in refusal(capsys, *map(str, sample))


def test_texts_come_from_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, texts = tmp_path / "answers.csv", tmp_path / "texts.csv"
    path.write_text("id,confidence,labels\na,0.9,x\n")
    texts.write_text("id,text\na,Fever\n")
    sample = (
        "audit-sample",
        path,
        "--n",
        1,
        "--format",
        "label-studio",
        "--out",
        tmp_path / "t.json",
    )
    assert "no text of 'a'; name the documents (--texts)" in refusal(capsys, *map(str, sample))
    assert status(*sample, "--texts", texts) == 0
    (task,) = json.loads((tmp_path / "t.json").read_text())
    assert (task["data"]["text"], task["data"]["answer"]) == ("Fever", "x")


@pytest.mark.parametrize(
    ("content", "options", "fault"),
    [
        ("id,score\na,0.9\n", (), "no column 'confidence' among 'id', 'score'"),
        ("confidence\n95\n", (), "line 2: confidence is '95'"),
        (
            "confidence\n0.9\n",
            ("--target", "95"),
            "--target is 95; give a share from 0 to 1; 95 % is",
        ),
        ("id,confidence\na,\n", (), "no answer has a confidence"),
        ("confidence\n0.9\n", ("--out", "out.jsonl"), "this would be no .jsonl file; end its name"),
        ("confidence\n0.9\n", ("--out", "out.json"), "end its name in .csv"),
    ],
)
def test_what_cannot_be_drawn_from_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    options: tuple[str, ...],
    fault: str,
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(content)
    capsys.readouterr()
    assert status("audit-sample", path, "--n", 1, "--out", tmp_path / "out.csv", *options) == 2
    assert fault in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
