"""``setwise certify``: a proof from a file of checked answers."""

import json

import numpy as np
import pytest

from tests.cli.running import refusal, status


def write(folder, rows, name="audits.csv"):
    path = folder / name
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def test_a_threshold_is_proved_and_explained(tmp_path, capsys):
    rows = [*["0.99,1,a"] * 60, *["0.5,no,b", "0.5,true,c"] * 20]
    audits = write(tmp_path, ["confidence,right,id", *rows])
    assert status("certify", audits, "--target", 0.9) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Send at a confidence of 0.99 or more: 60.0 % of the answers."
    assert second.startswith("Of 60 checked ones, 60 were right (at least 96.2 %;")


def test_people_who_overlook_errors_and_unequal_draws_are_counted(tmp_path, capsys):
    rows = [
        {
            "confidence": 0.99,
            "right": None if turn % 2 else True,
            "audit_probability": 0.2 if turn % 3 else 0.4,
            "agreed": True,
            "reread": not turn % 2,
        }
        for turn in range(900)
    ]
    audits = write(tmp_path, map(json.dumps, rows), "audits.jsonl")
    command = ("certify", audits, "--target", 0.9, "--reread-rate", 0.5, "--json")
    assert status(*command) == 0
    proof = json.loads(capsys.readouterr().out)
    assert proof["certified"]
    # Of 300 that were drawn twice as often, half count.
    assert proof["n_above"] == pytest.approx(750, abs=4 * np.sqrt(75))


def test_the_tested_thresholds_are_drawn(tmp_path, capsys):
    audits = write(tmp_path, ["confidence,right", *["0.99,1"] * 60])
    assert status("certify", audits, "--target", 0.9, "--plot", tmp_path / "proof.svg") == 0
    svg = (tmp_path / "proof.svg").read_text("utf-8")
    assert "from 0.99 up: 100 %" in svg
    assert capsys.readouterr().out.splitlines()[0] in svg
    line = refusal(capsys, "certify", str(audits), "--target", "0.9", "--plot", str(tmp_path))
    assert "this is a folder; name a file" in line


def test_a_file_without_any_check_is_refused(tmp_path, capsys):
    audits = write(tmp_path, ["confidence,right", *["0.9,"] * 3])
    line = refusal(capsys, "certify", str(audits), "--target", "0.9")
    assert line.startswith(f"setwise: {audits}: no answer is checked yet; say in the column right")


def test_a_refusal_is_an_answer_and_ends_well(tmp_path, capsys):
    audits = write(tmp_path, ["confidence,right", *["0.9,1"] * 3])
    assert status("certify", audits, "--target", 0.9) == 0
    assert capsys.readouterr().out.startswith("Nothing is proved")
    assert status("certify", audits, "--target", 0.9, "--json") == 0
    assert json.loads(capsys.readouterr().out)["certified"] is False


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("--target", "95", "--target is 95; give a share from 0 to 1; 95 % is 0.95"),
        ("--target", "nan", "--target is nan"),
        ("--risk", "-1", "--risk is -1; give a share between 0 and 1"),
        ("--risk", "1", "--risk is 1; give a share between 0 and 1"),
        ("--risk", "10", "--risk is 10; give a share between 0 and 1; 10 % is 0.1"),
        ("--reread-rate", "0", "--reread-rate is 0"),
        ("--look", "-3", "--look is -3; give rising numbers of rows"),
        ("--plot", "proof.png", "proof.png: this would be no .png file; end its name in .svg"),
    ],
)
def test_an_option_out_of_range_is_blamed_not_the_file(tmp_path, capsys, option, value, fault):
    audits = write(tmp_path, ["confidence,right", "0.9,1"])
    line = refusal(capsys, "certify", str(audits), "--target", "0.9", option, value)
    assert line.startswith(f"setwise: {fault}")
    assert str(audits) not in line


def test_options_that_do_not_fit_the_file_are_named(tmp_path, capsys):
    audits = write(tmp_path, ["confidence,right", "0.9,1", "0.9,1"])
    command = ("certify", str(audits), "--target", "0.9")
    line = refusal(capsys, *command, "--look", "20", "--look", "30")
    assert line == f"setwise: --look is 20, but {audits} has only 2 rows"
    line = refusal(capsys, *command, "--look", "3", "--look", "3")
    assert line == "setwise: --look is 3, 3; give rising numbers of rows"
    line = refusal(capsys, *command, "--reread-rate", "0.5")
    assert line == f"setwise: --reread-rate needs a column reread, which {audits} lacks"


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (["confidence,right"], "no checked answers"),
        (["confidence,correct", "0.5,1"], "no column 'right' among 'confidence', 'correct'"),
        (["confidence,right", "0.5,1", "95,1"], "line 3: confidence is '95'"),
        (["confidence,right", "0.5,maybe"], "line 2: right is 'maybe'; give 0 or 1"),
        (["confidence,right,audit_probability", "0.5,1,0"], "audit_probability is '0'"),
        (["confidence,right,agreed", "0.5,1,1"], "give reread"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_place(tmp_path, capsys, rows, fault):
    audits = write(tmp_path, rows)
    line = refusal(capsys, "certify", str(audits), "--target", "0.9")
    assert str(audits) in line
    assert fault in line


def test_copies_and_earlier_attempts_are_counted(tmp_path, capsys):
    rows = [
        {"confidence": 0.99, "right": True, "cluster": "" if row < 50 else f"letter {row // 2}"}
        for row in range(90)
    ]
    audits = write(tmp_path, map(json.dumps, rows), "audits.jsonl")
    assert status("certify", audits, "--target", 0.9, "--look", 60, "--json") == 0
    proof = json.loads(capsys.readouterr().out)
    assert (proof["n_above"], proof["steps"][-1]["n_different"], proof["looks"]) == (90, 70, [60])
