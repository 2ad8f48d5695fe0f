"""``person create|list|change|password|disable|enable``."""

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import refusal, status

PASSWORD = "correct horse battery"


pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch):
    def typed(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return typed


run = partial(status, "person")


ANN = ("create", "--login", "Ann@ward.example", "--name", "Ann", "--role", "reviewer")


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run("list", "--json") == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_an_account_is_made_with_a_password_from_stdin(
    capsys: pytest.CaptureFixture[str], types, sqlite_url: str
) -> None:
    types(f"{PASSWORD}\nignored\n")
    assert run(*ANN, "--json") == 0
    output = capsys.readouterr()
    person = json.loads(output.out)
    assert (person["login"], person["role"]) == ("ann@ward.example", "reviewer")
    assert PASSWORD not in output.out + output.err
    assert listed(capsys) == [person]
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    for file in database.parent.glob(f"{database.name}*"):
        assert PASSWORD.encode() not in file.read_bytes()


def test_an_account_is_disabled_enabled_and_changed(
    capsys: pytest.CaptureFixture[str], types
) -> None:
    types(PASSWORD)
    assert run(*ANN) == 0
    assert run("disable", "ann@ward.example") == 0
    assert listed(capsys)[0]["disabled_at"]
    assert run("enable", "ann@ward.example") == 0
    assert run("change", "ann@ward.example", "--role", "auditor", "--name", "Ann Lee") == 0
    (person,) = listed(capsys)
    assert (person["role"], person["name"], person["disabled_at"]) == ("auditor", "Ann Lee", None)
    types("another long password")
    assert run("password", "ann@ward.example") == 0
    assert run("list") == 0
    assert "Ann Lee" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (ANN, "", "no password"),
        ((*ANN[:-1], "king"), PASSWORD, "king"),
        (("password", "nobody"), PASSWORD, "nobody"),
        (("change", "nobody"), "", "--role"),
        ((*ANN, "--password", PASSWORD), "", "--password"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], types, arguments: tuple[str, ...], given: str, said: str
) -> None:
    types(given)
    assert said in refusal(capsys, "person", *arguments)
