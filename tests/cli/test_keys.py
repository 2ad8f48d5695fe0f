"""``key create|list|revoke``."""

import json
import stat
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from setwise.service.stores.database import create
from setwise.service.stores.upkeep import migrate
from tests.cli.running import refusal, status

pytestmark = pytest.mark.usefixtures("folder")
run = partial(status, "key")


def created(capsys: pytest.CaptureFixture[str], role: str, name: str) -> dict[str, Any]:
    assert run("create", "--role", role, "--name", name, "--json") == 0
    key: dict[str, Any] = json.loads(capsys.readouterr().out)
    return key


def test_a_key_is_shown_once(capsys: pytest.CaptureFixture[str], sqlite_url: str) -> None:
    key = created(capsys, "client", "billing")
    assert set(key) == {"id", "name", "role", "key"}
    assert (key["name"], key["role"]) == ("billing", "client")
    assert key["key"].startswith("sw_client_")
    assert len(key["key"]) >= len("sw_client_") + 43
    assert run("list", "--json") == 0
    out = capsys.readouterr().out
    assert key["key"] not in out
    (item,) = json.loads(out)["items"]
    assert key["key"].startswith(item["prefix"])
    assert item["revoked_at"] is None
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    for file in database.parent.glob(f"{database.name}*"):
        assert key["key"].encode() not in file.read_bytes()


def test_names_are_listed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["ward [b]", "[/]", ":smile: [link=x]"]
    for name in names:
        created(capsys, "client", name)
    assert run("list") == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert all(f" {name} " in output.out for name in names)


def test_for_people_the_secret_alone_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("create", "--role", "reviewer", "--name", "Ada") == 0
    output = capsys.readouterr()
    assert output.out.startswith("sw_reviewer_")
    assert len(output.out.splitlines()) == 1
    assert "Ada" in output.err


def test_a_new_secret_alone_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    key = created(capsys, "client", "billing")
    assert run("rotate", key["id"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("sw_client_")
    assert output.out.strip() != key["key"]
    assert "The old one works until" in output.err


def test_a_revoked_key_says_when(capsys: pytest.CaptureFixture[str]) -> None:
    key = created(capsys, "client", "billing")
    assert run("revoke", key["id"]) == 0
    assert run("revoke", key["id"]) == 0
    assert run("list") == 0
    capsys.readouterr()
    assert run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["revoked_at"]


def test_a_key_may_be_limited(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--expires", "90d", "--scope", "review", "--scope", "read-queue", "--per-minute", "9")
    assert run("create", "--role", "lead", "--name", "desk", *limits) == 0
    assert run("create", "--role", "lead", "--name", "x", "--expires", "2999-01-31") == 0
    capsys.readouterr()
    assert run("list", "--json") == 0
    dated, limited = json.loads(capsys.readouterr().out)["items"]
    assert (limited["scopes"], limited["per_minute"]) == (["read-queue", "review"], 9)
    days = datetime.fromisoformat(limited["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < days <= timedelta(days=90)
    assert dated["expires_at"] == "2999-01-31T00:00:00+00:00"
    assert run("list") == 0
    assert "lead: read-queue, review" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "--role", "lead", "--name", "x", "--scope", "fly"], "fly"),
        (["create", "--role", "lead", "--name", "x", "--expires", "soon"], "--expires"),
        (["create", "--role", "king", "--name", "x"], "king"),
        (["create", "--name", "x"], "--role"),
        (["revoke", "019b7a0b-0000-7000-8000-00000000ffff"], "No key has the id"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refusal(capsys, "key", *arguments)


def test_the_pepper_is_private_and_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    created(capsys, "client", "one")
    pepper = folder / "pepper"
    assert stat.S_IMODE(pepper.stat().st_mode) == 0o600
    content = pepper.read_bytes()
    assert len(content) == 64
    created(capsys, "client", "two")
    assert pepper.read_bytes() == content
    assert [path.name for path in folder.iterdir()] == ["pepper"]


def test_without_tables_there_are_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", f"sqlite:///{tmp_path / 'none.db'}")
    assert run("list") == 2
    assert "setwise db upgrade" in capsys.readouterr().err
    engine = create(f"sqlite:///{tmp_path / 'none.db'}")
    migrate.upgrade(engine)
    engine.dispose()
    assert run("list", "--json") == 0
