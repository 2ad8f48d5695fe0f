"""The catalogue on the board: every label is listed, described, and decided on by a lead."""

import csv
import io
import re

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.labels import Additions, LabelChange, LabelState
from tests.browsing import Browser
from tests.kit.edge import Service

LABELS = "/board/labels"
NAMES = [f"L{number:03}" for number in range(60)] + ["=risky"]


@pytest.fixture
def board(service: Service) -> Browser:
    service.predictors.predictor.labels = NAMES
    service.person("ada", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in("ada")
    return browser


def test_every_label_of_the_model_is_listed_and_found(board: Browser) -> None:
    first = board.get(LABELS).text
    assert "Described: 0 of the model&#39;s 61 labels." in first
    assert [f">{name}</a></th>" in first for name in (NAMES[0], NAMES[-1])] == [True, False]
    assert 'href="/board/labels?after=50" rel="next">More</a>' in first
    assert ">=risky</a></th>" in board.get(f"{LABELS}?after=50").text
    text = board.get(f"{LABELS}?query=l059").text
    assert ">L059</a></th>" in text
    assert ">L000</a></th>" not in text


def test_the_template_is_filled_in_and_uploaded(service: Service, board: Browser) -> None:
    template = board.get(f"{LABELS}/template.csv")
    rows = list(csv.DictReader(io.StringIO(template.text)))
    assert [row["label"] for row in rows] == [*NAMES[:-1], "'=risky"]
    assert list(rows[0]) == ["label", "name", "guideline", "parent"]
    filled = (
        template.text.replace("L000,,,", "L000,First,Only if first,H").rstrip() + "\r\nH,,,\r\n"
    )
    response = board.send(
        "POST",
        LABELS,
        data={"csrf": board.token(LABELS)},
        files={"file": ("labels.csv", filled.encode("utf-8-sig"), "text/csv")},
    )
    assert response.status_code == 303, response.text
    notes = {note.label: note for note in service.services.labels.notes(SYSTEM)}
    assert notes["L000"][1:] == ("First", "Only if first", "H")
    assert "=risky" not in notes  # nothing is said of it
    text = board.get(LABELS).text
    assert "Described: 1 of the model&#39;s 61 labels." in text
    assert "1 described label unknown to the model" in text


def test_an_empty_form_removes_no_description(service: Service, board: Browser) -> None:
    form = {"csrf": board.token(LABELS)}
    assert board.submit(LABELS, {**form, "text": "label,name\nL000,First"}).status_code == 303
    assert board.submit(LABELS, form).status_code == 422
    assert len(service.services.labels.notes(SYSTEM)) == 1
    assert "of 1 label are removed" in board.get(f"{LABELS}/remove").text
    assert board.submit(f"{LABELS}/remove", form).status_code == 303
    assert service.services.labels.notes(SYSTEM) == []


@pytest.fixture
def lead(service: Service) -> Browser:
    service.predictors.predictor.labels = NAMES
    service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    return browser


def proposed(service: Service, *labels: str) -> str:
    """Let Rita answer a document with new labels; return the document's address."""
    rita = Caller(service.person("rita", Role.REVIEWER), "rita", Role.REVIEWER)
    service.predict("0.4")
    task = service.services.queue.claim(rita)
    assert task is not None
    service.services.reviews.complete(
        rita, task.id, labels, None, task.version, additions=Additions(labels, insist=True)
    )
    service.clock.advance(minutes=1)
    return f"/documents/{task.prediction.id}"


def fields(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))


def state_of(service: Service, label: str) -> LabelState:
    return service.services.labels.get(SYSTEM, label).state


def test_labels_wait_for_a_lead_with_who_proposed_them_and_where(
    service: Service, lead: Browser
) -> None:
    assert "No label waits for a lead." in lead.get(LABELS).text
    document = proposed(service, "flood <1>/2")
    text = lead.get(LABELS).text
    assert "No label waits" not in text
    assert ">flood &lt;1&gt;/2</a></th>" in text
    assert f'href="{document}">the first</a>' in text
    assert "Rita" in text
    assert "1 proposed label waiting for a lead." in lead.get("/board").text
    for state, there in (("proposed", True), ("retired", False), ("nonsense", True)):
        listed = lead.get(f"{LABELS}?query=flood&state={state}").text.partition(">Catalogue<")[2]
        assert (">flood &lt;1&gt;/2</a>" in listed) is there


def row(browser: Browser, query: str) -> str:
    """Return the only row of the catalogue that matches a query."""
    return browser.get(f"{LABELS}?{query}").text.rpartition("<tbody>")[2].partition("</tbody>")[0]


@pytest.mark.parametrize(
    ("query", "acts"),
    [
        ("query=flood", ["rename", "merge", "accept", "retire"]),
        ("query=L000", ["retire"]),
        ("query=L001&state=retired", ["accept"]),
    ],
)
def test_a_row_counts_documents_and_holds_what_can_be_decided(
    service: Service, lead: Browser, query: str, acts: list[str]
) -> None:
    proposed(service, "flood")
    service.services.labels.change(SYSTEM, "L001", LabelChange(LabelState.RETIRED), 0)
    text = row(lead, query)
    assert re.findall(rf'action="{LABELS}/(\w+)\?{query.replace("&", "&amp;")}"', text) == acts
    assert ('<a href="/documents?final_label=flood' in text) is (query == "query=flood")
    service.person("otto", Role.AUDITOR)
    auditor = Browser(service)
    auditor.sign_in("otto")
    assert "<form" not in row(auditor, query)


def test_a_decision_in_a_row_leads_back_to_the_list_as_it_was(
    service: Service, lead: Browser
) -> None:
    proposed(service, "flod")
    there = f"{LABELS}?query=fl&state=proposed"
    named = {**fields(lead.get(there).text), "name": "flood"}
    response = lead.submit(f"{LABELS}/rename?query=fl&state=proposed", named)
    assert "cannot be undone" in response.text
    assert f'href="{there.replace("&", "&amp;")}">Go back</a>' in response.text
    done = lead.submit(f"{LABELS}/rename?query=fl", {**named, **fields(response.text)})
    assert done.headers["location"] == f"{LABELS}?query=fl&done=label-renamed"
    assert "The label is renamed" in lead.get(done.headers["location"]).text
    assert state_of(service, "flood") is LabelState.ACCEPTED


def test_a_refused_decision_in_a_row_keeps_the_row_open_with_what_was_typed(
    service: Service, lead: Browser
) -> None:
    proposed(service, "flood", "gale")
    sent = {**fields(lead.get(f"{LABELS}?query=flood").text), "into": "zzz", "sure": "yes"}
    response = lead.submit(f"{LABELS}/merge?state=proposed", sent)
    _, _, menu = response.text.partition('<details class="menu" name="menu" open>')
    menu = menu.partition("</details>")[0]
    assert (response.status_code, "Change flood" in menu) == (422, True)
    assert 'name="into" value="zzz"' in menu
    assert "is not a label" in menu
    assert fields(menu).keys() == {"csrf", "of", "version"}, "a second try is asked about again"
    lead.submit(f"{LABELS}/retire", {**sent, "of": "gale"})
    changed_response = lead.submit(
        f"{LABELS}/rename?query=gale", {**sent, "of": "gale", "name": "storm"}
    )
    assert changed_response.status_code == 412
    assert '<p class="alert">Someone else changed this' in changed_response.text, (
        "it is not in this list"
    )


def test_a_lead_accepts_and_retires_a_label_and_offers_it_again(
    service: Service, lead: Browser
) -> None:
    proposed(service, "flood")
    for act, state in (
        ("accept", LabelState.ACCEPTED),
        ("retire", LabelState.RETIRED),
        ("accept", LabelState.ACCEPTED),
    ):
        shown = fields(lead.get(f"{LABELS}/label?label=flood").text)
        response = lead.submit(f"{LABELS}/label/{act}", shown)
        assert (response.status_code, state_of(service, "flood")) == (303, state)
    assert lead.submit(f"{LABELS}/label/accept", shown).status_code == 409, "it has changed"


def test_a_lead_renames_and_merges_only_after_a_question(service: Service, lead: Browser) -> None:
    document = proposed(service, "flod")
    named = {**fields(lead.get(f"{LABELS}/label?label=flod").text), "name": "L-001"}
    response = lead.submit(f"{LABELS}/label/rename", named)
    assert "spelt almost like L001" in response.text
    assert "cannot be undone" in response.text
    assert state_of(service, "flod") is LabelState.PROPOSED
    named = {**fields(response.text), "name": "flood"}
    assert lead.submit(f"{LABELS}/label/rename", named).status_code == 303
    assert (state_of(service, "flod"), state_of(service, "flood")) == ("merged", "accepted")
    page = lead.get(f"{LABELS}/label?label=flood").text
    nowhere = lead.submit(f"{LABELS}/label/merge", {**fields(page), "into": "zzz", "sure": "yes"})
    assert (nowhere.status_code, "is not a label" in nowhere.text) == (422, True)
    response = lead.submit(f"{LABELS}/label/merge", {**fields(page), "into": "L001"})
    assert lead.submit(f"{LABELS}/label/merge", fields(response.text)).status_code == 303
    assert state_of(service, "flood") is LabelState.MERGED
    assert '<span class="label">L001</span>' in lead.get(document).text
    assert "Nothing is left to decide" in lead.get(f"{LABELS}/label?label=flood").text


def test_labels_of_an_erased_document_are_offered_and_removed_after_a_question(
    service: Service, lead: Browser
) -> None:
    prediction = proposed(service, "Quuxword, Jane", "flood").rpartition("/")[2]
    accepted_fields = fields(lead.get(f"{LABELS}/label?label=flood").text)
    lead.submit(f"{LABELS}/label/accept", accepted_fields)
    assert "May name a person" not in lead.get(LABELS).text
    service.services.texts.erase(SYSTEM, prediction_id=prediction)
    offered = lead.get(LABELS).text.partition("May name a person")[2].partition(">Proposed<")[0]
    assert ("Quuxword, Jane" in offered, "flood" in offered) == (True, False)
    page = lead.get(f"{LABELS}/label?label=Quuxword%2C+Jane").text
    response = lead.submit(f"{LABELS}/label/forget", fields(page))
    assert "cannot be undone" in response.text
    assert state_of(service, "Quuxword, Jane") is LabelState.PROPOSED
    done = lead.submit(f"{LABELS}/label/forget", fields(response.text))
    assert done.status_code == 303
    text = lead.get(done.headers["location"]).text
    assert ("The label is removed." in text, "Quuxword" in text) == (True, False)
    life = lead.get(f"/documents/{prediction}").text
    assert "Quuxword" not in life


def test_only_leads_and_administrators_decide(service: Service, lead: Browser) -> None:
    proposed(service, "flood")
    sent_fields = fields(lead.get(f"{LABELS}/label?label=flood").text)
    for login, role in (("otto", Role.AUDITOR), ("ben", Role.REVIEWER)):
        service.person(login, role)
        browser = Browser(service)
        browser.sign_in(login)
        page = browser.get(f"{LABELS}/label?label=flood")
        assert page.status_code == (200 if role is Role.AUDITOR else 403)
        assert "Rename it" not in page.text
        sent_fields["csrf"] = browser.token("/")
        assert browser.submit(f"{LABELS}/label/accept", sent_fields).status_code == 403
    assert state_of(service, "flood") is LabelState.PROPOSED
    assert "keeps its name" in lead.get(f"{LABELS}/label?label=L000").text
