"""``setwise simulate``: what it prints, and what it refuses."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.running import refusal, status
from tests.trained import Artifacts, write_documents

SHORT = ("--weeks", "1", "--documents", "40", "--annotators", ".1,.2")

run = partial(status, "simulate")


def test_json_is_one_document_with_every_week(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SHORT, "--json") == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    (week,) = document["weeks"]
    assert (week["documents"], week["sent"], week["coverage"], week["accuracy"]) == (40, 0, 0, None)
    assert document["summary"]["documents"] == 40
    assert "simulate: 100%" in captured.err


def test_the_table_says_what_the_owner_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SHORT, "--without-loop", "--threshold", ".5") == 0
    out = capsys.readouterr().out
    assert "fixed by hand" in out
    assert "of 40 documents were sent" in out
    assert "hours a week" in out


def test_a_plan_for_a_model_recommends_rates(
    artifacts: Artifacts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_documents(tmp_path / "held-out.jsonl", 60, seed=8)
    given = ("--plan", "--artifact", str(artifacts.text), "--data", str(data), "--target", ".6")
    assert run(*given, "--documents", "900", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents_a_week"], found["confidences"]) == (900, 60)
    assert found["recommended"] == found["items"][0]
    assert run(*given, "--prices", "1,2,30") == 0
    shown = capsys.readouterr().out
    assert "weeks to a certificate" in shown
    assert "of the documents until the first certificate" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "1.0"), "target: 1 must be above 0 and below 1"),
        (("--annotators", ".1,x"), "annotators: 'x' is not a group"),
        (("--audit-mode", "later"), "--audit-mode 'later': write hold or send"),
        (("--noise", "some"), "--noise 'some': write none, known or estimated"),
        (("--recalibrate-every", "4"), "--recalibrate-every needs a model"),
        (("--threshold", ".9"), "--threshold needs --without-loop"),
        (("--drift-label", "a"), "--drift-label needs the first week"),
        (("--artifact", "model"), "--artifact needs documents"),
        (("--data", "notes.jsonl"), "--data needs the model"),
        (("--artifact", "nowhere", "--data", "nowhere.jsonl"), "nowhere"),
        (
            ("--artifact", "a", "--data", "b", "--overconfident"),
            "--overconfident is for synthetic scores",
        ),
        (("--drift-week", "99"), "drift-week: 99 must be from 1 to 30"),
        (("--lapse-week", "3", "--lapse-rate", "1.5"), "lapse-rate: 1.5 must be from 0 to 1"),
        (("--plan", "--artifact", "model"), "give both --artifact and --data"),
        (("--plan", "--prices", "1,2"), "--prices '1,2': write three numbers"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "simulate", *arguments)
