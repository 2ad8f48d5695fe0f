"""``webhook add|list|remove``."""

import json
from functools import partial

import pytest

from tests.cli.running import refusal, status

pytestmark = pytest.mark.usefixtures("folder")
run = partial(status, "webhook")


URL = "https://billing.example/hooks"


def test_a_webhook_is_added_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", URL, "--event", "review.completed", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["secret"].startswith("whsec_")
    assert body["events"] == ["review.completed"]
    assert run("list", "--json") == 0
    out = capsys.readouterr().out
    assert body["secret"] not in out
    assert [item["id"] for item in json.loads(out)["items"]] == [body["id"]]
    assert run("list") == 0
    assert "review.completed" in capsys.readouterr().out
    assert run("remove", body["id"]) == 0
    capsys.readouterr()
    assert run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"items": []}


def test_for_people_the_secret_alone_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", URL) == 0
    output = capsys.readouterr()
    assert output.out.startswith("whsec_")
    assert len(output.out.splitlines()) == 1
    assert URL in output.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "http://billing.example/"), "url must begin with https://"),
        (("add", URL, "--event", "nonsense"), "prediction.auto_sent"),
        (("remove", "nonsense"), "No webhook has the id 'nonsense'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    assert why in refusal(capsys, "webhook", *arguments)
