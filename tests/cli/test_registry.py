"""``model add|list|activate|verify``."""

import gzip
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from setwise.models.storage.artifacts import load
from tests.cli.running import refusal, status
from tests.trained import Artifacts

pytestmark = pytest.mark.usefixtures("folder")
run = partial(status, "model")


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run("list", "--json") == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_models_are_added_and_one_is_active(
    artifacts: Artifacts, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert run("add", str(artifacts.text), "--activate", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["active"], first["summary"]["n_labels"]) == (True, 6)
    assert run("add", str(artifacts.other_text)) == 0
    second, again = listed(capsys)
    assert again == first
    assert second["active"] is False
    assert run("activate", second["id"]) == 0
    assert run("list") == 0
    assert [item["active"] for item in listed(capsys)] == [True, False]
    kept = sorted(path.name[:12] for path in (folder / "artifacts").iterdir())
    assert kept == sorted([first["version"], second["version"]])


def test_a_model_of_another_models_answers_starts_from_its_labels(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(gzip.compress("\ufeffgrain \r\nfie\u0300vre\u2028Q\r\n".encode()))
    assert run("add", "--external", "--labels", str(labels), "--activate") == 0
    (made,) = listed(capsys)
    assert (made["active"], made["summary"]["kind"], made["summary"]["n_labels"]) == (
        True,
        "external",
        2,
    )
    (path,) = (folder / "artifacts").iterdir()
    assert load(path).label_names == ("grain", "fi\u00e8vre Q")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name an artifact"),
        (["--external"], "--labels FILE"),
        (
            ["--external", "--labels", "twice.txt"],
            "twice.txt, line 3: the label 'grain' is on line",
        ),
        (
            ["--external", "--labels", "latin1.txt"],
            "latin1.txt, line 1: byte 3 (0xe8) is not UTF-8",
        ),
        (["--external", "--labels", "blank.txt"], "blank.txt, line 2: no label name; give one"),
        (["--external", "--labels", "missing.txt"], "missing.txt"),
        (
            ["--external", "--labels", "titled.txt"],
            "titled.txt, line 1: 'labels' looks like the titles of columns; leave them out",
        ),
        (["--external", "--labels", "codes.csv"], "codes.csv: there is no column 'label' among"),
        (["artifact", "--external", "--labels", "twice.txt"], "not both"),
        (["artifact", "--labels", "twice.txt"], "--external"),
    ],
)
def test_what_cannot_start_a_model_is_refused(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twice.txt").write_text("grain\ntrade\ngrain \n")
    Path("titled.txt").write_text("labels\ngrain\n")
    Path("codes.csv").write_text("code,name\nA,Grain\n")
    Path("blank.txt").write_text("grain\n\ntrade\n")
    Path("latin1.txt").write_bytes("fi\u00e8vre\n".encode("latin-1"))
    assert message in refusal(capsys, "model", "add", *arguments)
    assert listed(capsys) == []


def test_a_sound_artifact_is_verified_without_a_database(
    artifacts: Artifacts, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
    assert run("verify", str(artifacts.vectors)) == 0
    assert capsys.readouterr().out.startswith("sound: ")


@pytest.fixture
def damaged(artifacts: Artifacts, tmp_path: Path) -> Path:
    copy = tmp_path / "damaged"
    shutil.copytree(artifacts.text, copy)
    victim = next(copy.glob("*.safetensors"))
    victim.write_bytes(victim.read_bytes()[:-1])
    return copy


@pytest.mark.parametrize("command", ["add", "verify"])
def test_what_is_no_artifact_is_one_line_that_names_it(
    command: str, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(damaged) in refusal(capsys, "model", command, str(damaged))
    assert listed(capsys) == []


def test_an_unknown_model_cannot_be_activated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("activate", "nonsense") == 2
    assert "No registered model has the id 'nonsense'" in capsys.readouterr().err
