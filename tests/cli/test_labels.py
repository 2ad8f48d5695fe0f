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
    with pytest.raises(SystemExit) as error:
        main(arguments)
    return int(str(error.value.code or 0))


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
    ("name", "content"),
    [
        ("labels.csv", 'label\r\ngrain\r\n"wheat, hard"\r\n'),
        ("labels.CSV", '\ufeffLabel;Name\ngrain;Grain, any\n"wheat, hard";Hard wheat\n'),
        ("labels.tsv", "id\tlabels\n1\tgrain\n2\twheat, hard\n"),
        ("labels.jsonl", '{"label": "grain"}\n{"label": "wheat, hard"}\n'),
        ("labels.txt", "\ufeffgrain\r\nwheat, hard\r\n"),
        ("labels", "grain\rwheat, hard\r"),
    ],
)
def test_labels_stand_in_a_column_of_a_table_or_one_a_line(
    installation: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    (installation / name).write_bytes(content.encode())
    capsys.readouterr()
    assert run("label", "add", name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["added"] == ["grain", "wheat, hard"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("labels.csv", "grain\nwheat\n", "there is no column 'label' among 'grain'; name it so in"),
        ("labels.csv", "wheat, hard\ngrain\n", "there is no column 'label'; name it so in the"),
        ("labels.csv", "grain,wheat\n", "there is no row below the titles"),
        ("labels.csv", "label\ngrain\n\ngrain\n", "has on line 4 'grain', as on line 2"),
        ("labels.txt", "label\ngrain\n", "on line 1 'label', which looks like the titles of"),
        ("labels.txt", "grain\nID;Label\n", "on line 2 'ID;Label', which looks like the titles"),
        ("labels.txt", "grain\tGrain\n", "on line 1 'grain Grain', which looks like a row of a"),
        ("labels.json", '["grain", "wheat"]', "which looks like JSON or a quoted cell"),
        ("labels.json", '[\n"grain",\n"wheat"\n]\n', "on line 1 '[', which looks like JSON"),
        ("labels.txt", '"wheat, ""hard"""\n', "which looks like JSON or a quoted cell"),
    ],
)
def test_what_looks_like_no_list_of_labels_adds_nothing(
    installation: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, why: str
) -> None:
    (installation / name).write_text(content)
    capsys.readouterr()
    assert run("label", "add", name) == 2
    assert why in capsys.readouterr().err
    assert run("label", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["items"] == []


def test_a_label_that_looks_like_a_title_is_added_if_it_is_meant(
    installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (installation / "labels.txt").write_text("label\n[sic]\n")
    capsys.readouterr()
    assert run("label", "add", "labels.txt", "--insist", "--json") == 0
    assert json.loads(capsys.readouterr().out)["added"] == ["label", "[sic]"]


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
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1


def test_a_project_without_a_model_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("doctor", "--json") == 0
    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["model"]["verdict"] == "warning"
    assert "open /board/start" in checks["model"]["cure"]
