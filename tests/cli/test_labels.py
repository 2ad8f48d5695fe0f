"""``setwise label add|list`` on a database of its own."""

import json
from pathlib import Path

import pytest

from setwise.service.cli import main


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert run("db", "upgrade") == 0
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    return int(str(done.value.code or 0))


def test_labels_of_a_file_are_added_once(
    installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (installation / "labels.txt").write_text("wheat\n\ngrain\n")
    capsys.readouterr()
    assert run("label", "add", "labels.txt", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"added": ["wheat", "grain"], "present": []}
    assert run("label", "add", "labels.txt") == 0
    assert capsys.readouterr().out == "0 labels added, 2 were there already\n"
    assert run("label", "list", "--json") == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(item["label"], item["state"]) for item in items] == [
        ("grain", "accepted"),
        ("wheat", "accepted"),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("grain\ngrain\n", "has on line 2 'grain', as on line 1"),
        ("grain\nGrain\n", "has on line 2 'Grain', spelt almost like 'grain' on line 1"),
        ("", "is empty"),
    ],
)
def test_a_faulty_file_ends_with_status_2_and_one_line(
    installation: Path, capsys: pytest.CaptureFixture[str], content: str, why: str
) -> None:
    (installation / "labels.txt").write_text(content)
    capsys.readouterr()
    assert run("label", "add", "labels.txt") == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
