"""Ticked documents are changed or exported, and the page says what came of it."""

import html
import re

import httpx
import pytest

from setwise.service.domain.accounts.callers import Role
from tests.browsing import Browser
from tests.kit.edge import Service


def press(browser: Browser, act: str, *, at: str = "/documents", **given: object) -> httpx.Response:
    """Press a button below a list."""
    form = {"csrf": browser.token("/documents"), "act": act, **given}
    return browser.submit(at, form)


def waiting(service: Service, *confidences: str) -> list[str]:
    return [service.predict(one).json()["id"] for one in confidences]


def said(response: httpx.Response) -> str:
    """Return what a page says came of a form."""
    assert response.status_code == 200
    text = r'<div class="(?:done|note)" role="status">(.*?)</div>'
    match = re.search(text, response.text, re.DOTALL)
    return re.sub("<[^>]*>", " ", html.unescape(match[1])).strip()


def test_ticked_documents_are_assigned_and_put_first(service: Service, browser: Browser) -> None:
    ben = service.person("ben", Role.REVIEWER)
    first, second, other = waiting(service, "0.3", "0.4", "0.45")
    assert said(press(browser, "assign", id=[first, second], assignee=ben)) == (
        "2 documents assigned to Ben."
    )
    text = browser.get("/documents?state=waiting").text
    assert text.count("assigned to Ben") == 2
    assert said(press(browser, "prioritize", all="yes", listed=[other])) == (
        "1 document put first in the queue."
    )
    assert ">ahead in the queue" in browser.get("/documents").text
    assert "anyone may review" in said(press(browser, "assign", id=first))


def test_what_an_action_does_not_fit_is_named_with_the_reason(
    service: Service, browser: Browser
) -> None:
    service.fix_threshold(0.8)
    sent, open_one = waiting(service, "0.9", "0.3")
    text = said(press(browser, "reopen", id=[sent, open_one], why="new rule"))
    assert text.startswith("1 document sent back to review.")
    assert "1 document stayed unchanged" in text
    assert "note 0.3 : " in text


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"act": "prioritize"}, "Tick at least one document."),
        ({"act": "reopen", "id": "?", "why": " "}, "is empty"),
        ({"act": "assign", "id": "?", "assignee": "nobody"}, "is not a person who may review"),
        ({"act": "burn", "id": "?"}, "Choose what to do"),
    ],
)
def test_an_action_that_cannot_be_meant_changes_nothing_and_keeps_the_ticks(
    service: Service, browser: Browser, given: dict[str, str], fault: str
) -> None:
    (made,) = waiting(service, "0.3")
    response = press(browser, **{**given, **({"id": made} if "id" in given else {})})
    assert response.status_code == 422
    assert "Nothing was changed." in response.text
    assert fault in response.text
    assert (f'value="{made}" checked' in response.text) == ("id" in given)


def test_what_was_changed_before_a_refusal_is_said(
    service: Service, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.pages.documents.selections.MOST_CHANGED", 1)
    response = press(browser, "prioritize", id=[*waiting(service, "0.3"), "?"])
    assert response.status_code == 422
    assert "Only 1 document was changed." in response.text


def test_many_documents_are_changed_after_a_question_and_only_those_it_counted(
    service: Service, browser: Browser
) -> None:
    ids = waiting(service, *(f"0.{n}" for n in range(30, 42)))
    at = "/documents?state=waiting&confidence_to=0.41"
    text = press(browser, "prioritize", at=at, matching="yes").text
    assert "11 documents will be put first in the queue." in text
    assert ">ahead in the queue" not in browser.get("/documents").text
    waiting(service, "0.35")
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))
    assert set(fields["id"].split(",")) == set(ids[:11])
    told = said(browser.submit(html.unescape(at), fields))
    assert told == "11 documents put first in the queue."


def test_a_search_that_finds_too_much_changes_nothing(
    service: Service, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.services.documents.selections.MOST_FOUND", 1)
    waiting(service, "0.3", "0.4")
    response = press(browser, "prioritize", matching="yes")
    assert response.status_code == 422
    assert "Narrow the filters." in response.text


def test_a_selection_is_exported(service: Service, browser: Browser) -> None:
    first, second = waiting(service, "0.3", "0.4")
    for given, there, absent in (
        ({"id": first}, first, second),
        ({"matching": "yes", "at": "/documents?confidence_from=0.35"}, second, first),
    ):
        leads = press(browser, "file:csv", **given)
        assert leads.status_code == 303
        file = browser.get(leads.headers["Location"])
        assert file.headers["Content-Type"].startswith("text/csv")
        assert there in file.text
        assert absent not in file.text


def test_who_only_reads_may_export_and_change_nothing(service: Service) -> None:
    (made,) = waiting(service, "0.3")
    service.person("ada", Role.AUDITOR)
    service.person("ann", Role.REVIEWER)
    auditor, reviewer = Browser(service), Browser(service)
    auditor.sign_in("ada")
    reviewer.sign_in("ann")
    text = auditor.get("/documents").text
    assert 'value="file:jsonl"' in text
    assert 'value="prioritize"' not in text
    assert press(auditor, "file:jsonl", id=made).status_code == 303
    assert press(auditor, "prioritize", id=made).status_code == 403
    form = {"csrf": reviewer.token("/desk"), "act": "file:csv", "id": made}
    assert reviewer.submit("/documents", form).status_code == 403
    forged = {"csrf": "x", "act": "file:csv", "id": made}
    assert auditor.submit("/documents", forged).status_code == 403
