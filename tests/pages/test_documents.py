"""A list leads to documents, and a document's page tells all that happened to it."""

import re

import pytest

from setwise.service.domain.callers import Role
from tests.browsing import Browser
from tests.edge import Service


@pytest.fixture
def browser(service: Service) -> Browser:
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser


def reviewed(service: Service, labels: list[str]) -> str:
    """Let a reviewer answer a document, which an outcome then contradicts; return its address."""
    body = {"document": {"id": "note <17>", "text": "0.5"}}
    made = service.post("/v1/predictions", by="client", json=body).json()
    service.clock.advance(seconds=1)
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    answer = {"labels": labels, "comment": "see <page 2>"}
    version = {"If-Match": str(task["version"])}
    path = f"/v1/reviews/{task['id']}/complete"
    assert service.post(path, by="reviewer", json=answer, headers=version).status_code == 200
    service.clock.advance(seconds=1)
    outcome = {"labels": ["d"], "source": "billing"}
    service.post(f"/v1/predictions/{made['id']}/outcome", by="client", json=outcome)
    return f"/documents/{made['id']}"


def test_an_empty_list_says_so(browser: Browser) -> None:
    assert "No document has been sent to the service yet." in browser.get("/documents").text
    shown = browser.get("/documents?text=fever").text
    assert "No document matches." in shown
    assert 'value="fever"' in shown


def test_a_document_tells_who_said_what_about_it(service: Service, browser: Browser) -> None:
    address = reviewed(service, ["a"])
    listed = browser.get("/documents?state=contradicted").text
    assert f'<a href="{address}">note &lt;17&gt;</a>' in listed
    assert "1 document" in listed
    shown = browser.get(address).text
    happened = shown[shown.index("What happened") :]
    events = re.findall(r'<th scope="row">(.*?)</th>', happened, re.DOTALL)
    assert [one.split("<")[0] for one in events[:5]] == [
        "Predicted", "Review opened", "Answered", "Sent", "Outcome reported",
    ]  # fmt: skip
    assert "see &lt;page 2&gt;" in happened
    assert "reviewer" in happened


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("confidence_from=2", "less than or equal to 1"),
        ("confidence_from=x", "valid number"),
        ("created_from=yesterday", "Enter a time"),
        ("text=%22%22", "has no word"),
        ("confidence_from=0.5&confidence_to=0.5", "must be greater than confidence_from"),
    ],
)
def test_a_filter_that_cannot_match_is_refused_at_its_field(
    service: Service, browser: Browser, query: str, fault: str
) -> None:
    service.predict("0.5")
    response = browser.get(f"/documents?{query}")
    assert response.status_code == 200
    name = query.partition("=")[0] if "&" not in query else "confidence_to"
    shown = re.search(rf'id="{name}-fault">([^<]*)<', response.text)
    assert shown is not None
    assert fault in shown[1]
    assert "<table" not in response.text


def test_a_link_can_narrow_a_list_by_what_the_form_does_not_ask(
    service: Service, browser: Browser
) -> None:
    service.predict("0.5")
    shown = browser.get("/documents?reviewer=nobody&state=waiting").text
    assert "answered by one person" in shown
    assert '<a href="/documents?state=waiting">Show all</a>' in shown
    assert '<input type="hidden" name="reviewer" value="nobody">' in shown
