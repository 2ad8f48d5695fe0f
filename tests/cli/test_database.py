"""``db upgrade|downgrade|current|check|rebuild``."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from setwise.service.runtime.object_stores import local_folder
from setwise.service.stores.upkeep.revisions import newest
from tests.cli.running import refusal, status


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("SETWISE_DATABASE_URL", raising=False)
    return tmp_path / "data"


run = partial(status, "db")


def test_a_database_is_brought_up_and_taken_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("current") == 0
    assert run("upgrade") == 0
    assert run("upgrade") == 0
    assert run("current") == 0
    assert run("check") == 0
    assert run("downgrade", "base") == 0
    assert capsys.readouterr().out.splitlines() == [
        "base",
        f"at {newest()}",
        f"at {newest()}",
        newest(),
        f"at {newest()}, as this release needs",
        "at base",
    ]
    assert (folder / "setwise.db").exists()


def test_a_planted_trigger_fails_the_check(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("upgrade") == 0
    with closing(sqlite3.connect(folder / "setwise.db")) as connection:
        connection.execute(
            "CREATE TRIGGER planted AFTER INSERT ON api_keys BEGIN DELETE FROM jobs; END"
        )
    assert "trigger planted of api_keys was added" in refusal(capsys, "db", "check")


def test_checks_are_rebuilt_and_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("upgrade") == 0
    capsys.readouterr()
    assert run("rebuild", "checks") == 0
    output = capsys.readouterr()
    assert output.out == "checks rebuilt from what was answered to 0 predictions\n"
    assert "0 of 0 predictions" in output.err
    assert "'checks'" in refusal(capsys, "db", "rebuild", "annotations")


def test_a_misspelt_setting_is_named_before_the_wrong_database_is_migrated_unnoticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_DATABSE_URL", "postgresql://owner:secret@db/setwise")
    assert run("upgrade") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("setwise: warning: SETWISE_DATABSE_URL is no setting")
    assert "is `SETWISE_DATABASE_URL` meant?" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "run setwise db upgrade"),
        (["upgrade", "9999"], "9999"),
        (["downgrade"], "REVISION"),
        (["downgrade", "base"], "There is no database"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, "db", *arguments)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://root:hunter2@localhost/x", "postgresql+psycopg"),
        ("postgresql://setwise:hunter2@127.0.0.1:1/x", "does not answer"),
    ],
)
def test_a_wrong_address_is_one_line_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, said: str
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", url)
    assert run("current") == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert said in line
    assert "hunter2" not in line


@pytest.mark.parametrize("name", ["a%20b", "e?f", "data dir ü?#1", "a:b@c", "[x]*", "s3::x"])
def test_a_folder_of_any_name_holds_its_own_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / name))
    assert run("upgrade") == 0
    assert run("check") == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "setwise.db").is_file()
    assert status("backup", tmp_path / name / "backup.zip") == 0
    assert status("restore", "--force", tmp_path / name / "backup.zip") == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert local_folder(str(tmp_path / name / "files")) == tmp_path / name / "files"


def test_a_database_of_another_release_is_sent_to_that_release(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("upgrade") == 0
    with closing(sqlite3.connect(folder / "setwise.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for arguments in (("db", "check"), ("db", "upgrade"), ("key", "list")):
        text = refusal(capsys, *arguments)
        assert "install the release that made it, or a newer one" in text
        assert "run setwise db upgrade" not in text
