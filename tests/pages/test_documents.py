"""A list leads to documents, and a document's page tells all that happened to it."""

import html
import re

import httpx
import pytest

from setwise.service.domain.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.browsing import Browser
from tests.edge import Service
from tests.fakes import FakePredictor

UNKNOWN = "019b7a0b-0000-7000-9000-0000000000ff"


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


def test_another_models_answer_is_shown_beside_the_text_or_without_one(
    service: Service, browser: Browser
) -> None:
    service.predictors.predictor = FakePredictor(external=True)
    answer = {
        "scores": {"<a>": 0.25, "b": 1},
        "candidates": [{"labels": ["a", "b"]}, {"labels": []}],
    }
    for document in ({"text": "so it <is> fine", **answer}, {"labels": ["c"]}):
        body = {"document": document}
        made = service.post("/v1/predictions", by="client", json=body).json()
        shown = browser.get(f"/documents/{made['id']}").text
        told = service.get(f"/v1/documents/{made['id']}", by="lead").json()
        if "text" in document:
            assert "it &lt;is&gt;" in shown
            assert '<mark class="for" dir="auto">so</mark> (strong)' in shown
            assert '<mark class="against" dir="auto">fine</mark> (moderate)' in shown
            assert "1.5" not in shown
            assert "&lt;a&gt; 0.25; b 1" in shown
            assert told["scores"] == answer["scores"]
        else:
            assert "came without its text" in shown
            assert told["labels"] == ["c"]
            assert "scores" not in told


def test_a_document_tells_who_said_what_about_it(service: Service, browser: Browser) -> None:
    address = reviewed(service, ["a"])
    listed = browser.get("/documents?state=contradicted").text
    assert f'<a href="{address}">note &lt;17&gt;</a>' in listed
    assert "1 document" in listed
    shown = browser.get(address).text
    happened = shown[shown.index("What happened") :]
    events = re.findall(r'<th scope="row">(.*?)</th>', happened, re.DOTALL)
    assert [one.split("<")[0] for one in events[:5]] == [
        "Predicted", "Review opened", "Submitted", "Sent", "Outcome reported",
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
    shown = browser.get("/documents?client_id=nobody&state=waiting").text
    assert "of one client" in shown
    assert '<a href="/documents?state=waiting">Show all</a>' in shown
    assert '<input type="hidden" name="client_id" value="nobody">' in shown


def test_people_are_chosen_by_name(service: Service, browser: Browser) -> None:
    ann = service.person("ann", Role.REVIEWER)
    shown = browser.get(f"/documents?reviewer={ann}&assigned_to=gone").text
    assert f'<option value="{ann}" selected>Ann</option>' in shown
    assert '<option value="gone" selected>gone</option>' in shown
    assert '<details class="more" open>' in shown
    assert "selected>me</option>" in browser.get("/documents?assigned_to=me").text


def tried(browser: Browser, text: str) -> httpx.Response:
    return browser.submit("/try", {"csrf": browser.token("/try"), "text": text})


def test_a_text_is_tried_without_a_trace(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    assert '<a href="/try">' in browser.get("/").text
    shown = tried(browser, "0.9").text
    assert "Sent automatically: its confidence, 0.9, reaches the threshold of 0.8." in shown
    assert "Label sets" in shown
    assert "is below the threshold" in tried(browser, "0.7").text
    assert service.get("/v1/predictions", by="admin").json()["items"] == []


def test_a_text_that_cannot_be_tried_is_refused_and_stays(
    service: Service, browser: Browser
) -> None:
    assert "is empty" in tried(browser, " ").text
    service.predictors.predictor = None
    refused = tried(browser, "<fever>")
    assert refused.status_code == 422
    assert "&lt;fever&gt;</textarea>" in refused.text
    assert "No model is active" in refused.text


def test_who_tries_a_text_is_given_no_audit_that_is_open(service: Service) -> None:
    policy = PolicyChange(
        0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=AuditPlan(certification_rate=1.0)
    )
    service.services.policy.change(SYSTEM, policy, None)
    service.predict("0.5")
    lea = service.person("lea", Role.LEAD)
    browser = Browser(service)
    browser.sign_in("lea")
    tried(browser, "0.5")
    caller = Caller(lea, "lea", Role.LEAD)
    assert service.services.reviews.claim(caller) is None
    service.predict("0.6")
    claimed = service.services.reviews.claim(caller)
    assert claimed is not None
    assert tried(browser, "0.6").status_code == 422


@pytest.mark.parametrize("figure", ["volume", "confidence"])
def test_a_row_of_a_figure_leads_to_as_many_documents_as_it_counts(
    service: Service, browser: Browser, figure: str
) -> None:
    service.fix_threshold(0.8)
    for confidence in ("0.3", "0.35", "0.9", "1.0"):
        service.predict(confidence)
    page = browser.get("/cockpit").text + browser.get("/cockpit/details").text
    section = page[page.index(f'id="{figure}"') :].partition("</section>")[0]
    links = [html.unescape(one) for one in re.findall(r'href="(/documents\?[^"]*)"', section)]
    rows = browser.get(f"/cockpit/{figure}.json").json()
    assert len(links) == len(rows)
    counted = [row["sent"] + row["audited"] + row["reviewed"] for row in rows]
    assert sum(counted) == 4
    for link, expected in zip(links, counted, strict=True):
        shown = browser.get(link).text
        assert shown.count('<th scope="row">') == expected, link


def test_a_lead_reopens_a_document_with_a_reason(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    address = f"/documents/{service.predict('0.9').json()['id']}"
    form = {"csrf": browser.token(address), "reason": " "}
    refused = browser.submit(f"{address}/reopen", form)
    assert refused.status_code == 422
    assert "Enter a value." in refused.text
    done = browser.submit(f"{address}/reopen", {**form, "reason": "see <page 2>"})
    assert (done.status_code, done.headers["Location"]) == (303, address)
    shown = browser.get(address).text
    assert "see &lt;page 2&gt;" in shown
    assert f'action="{address}/reopen"' not in shown, "a review is open"
    again = browser.submit(f"{address}/reopen", {**form, "reason": "twice"})
    assert "its answer comes first" in again.text
    service.person("ben", Role.REVIEWER)
    desk = Browser(service)
    desk.sign_in("ben")
    desk.submit("/desk/claim", {"csrf": desk.token("/desk")})
    assert "Reopened: see &lt;page 2&gt;" in desk.get("/desk").text


def test_what_a_page_finds_can_be_exported(service: Service, browser: Browser) -> None:
    service.predict("0.5")
    service.predict("0.6")
    found = "label=a&confidence_from=0.55&created_from=2020-01-01T00:00"
    links = re.findall(r'href="(/v1/[^"]+)"', browser.get(f"/documents?{found}").text)
    assert [browser.get(html.unescape(one)).text.count("note 0.6") for one in links] == [1, 1]
    assert "note 0.5" not in browser.get(html.unescape(links[0])).text
    assert "/v1/" not in browser.get("/documents?label=none").text.partition("</main>")[0]


def behind(browser: Browser, path: str) -> list[int]:
    """Return how many documents each link of a page leads to, in order."""
    page = browser.get(path).text.partition("<main")[2]
    links = re.findall(r'href="(/documents\?[^"]+)"', page)
    return [browser.get(html.unescape(one)).text.count('<th scope="row">') for one in links]


def test_figures_of_the_start_page_lead_to_documents_for_who_may_read_them(
    service: Service, browser: Browser
) -> None:
    service.fix_threshold(0.8)
    for confidence in ("0.3", "0.35", "0.9"):
        service.predict(confidence)
    service.post("/v1/reviews/claim", by="reviewer")
    # Sent, to a reviewer; waiting or held, held; above and below the threshold.
    assert behind(browser, "/") == [1, 2, 2, 1, 1, 2]
    service.person("ann", Role.REVIEWER)
    reviewer = Browser(service)
    reviewer.sign_in("ann")
    assert behind(reviewer, "/") == []


def test_figures_of_the_board_lead_to_documents(service: Service, browser: Browser) -> None:
    policy = PolicyChange(
        0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=AuditPlan(certification_rate=1.0)
    )
    service.services.policy.change(SYSTEM, policy, None)
    for confidence, labels in (("0.5", ["a", "b"]), ("0.6", ["c"]), ("0.7", None)):
        service.predict(confidence)
        task = service.post("/v1/reviews/claim", by="reviewer").json()
        if labels is not None:
            path = f"/v1/reviews/{task['id']}/complete"
            version = {"If-Match": str(task["version"])}
            service.post(path, by="reviewer", json={"labels": labels}, headers=version)
    # One is right; of one a lead must decide, and one is not read yet.
    assert behind(browser, "/board/breaker") == [1, 2]
    # Answers of the reviewer, and blind ones.
    assert behind(browser, "/board/groups")[-2:] == [2, 2]
    service.services.certification.certify()
    assert set(behind(browser, "/board/certifications")) == {3}


def press(browser: Browser, act: str, *, at: str = "/documents", **given: object) -> httpx.Response:
    """Press a button below a list."""
    form = {"csrf": browser.token("/documents"), "act": act, **given}
    return browser.submit(at, form)


def waiting(service: Service, *confidences: str) -> list[str]:
    return [service.predict(one).json()["id"] for one in confidences]


def said(response: httpx.Response) -> str:
    """Return what a page says came of a form."""
    assert response.status_code == 200
    told = r'<div class="(?:done|note)" role="status">(.*?)</div>'
    found = re.search(told, response.text, re.DOTALL)
    return re.sub("<[^>]*>", " ", html.unescape(found[1])).strip()


def test_ticked_documents_are_assigned_and_put_first(service: Service, browser: Browser) -> None:
    ben = service.person("ben", Role.REVIEWER)
    first, second, other = waiting(service, "0.3", "0.4", "0.45")
    assert said(press(browser, "assign", id=[first, second], assignee=ben)) == (
        "2 documents assigned to Ben."
    )
    shown = browser.get("/documents?state=waiting").text
    assert shown.count("assigned to Ben") == 2
    assert said(press(browser, "prioritize", all="yes", listed=[other])) == (
        "1 document put first in the queue."
    )
    assert ">first in the queue<" in browser.get("/documents").text
    assert "anybody may review" in said(press(browser, "assign", id=first))


def test_what_an_action_does_not_fit_is_named_with_the_reason(
    service: Service, browser: Browser
) -> None:
    service.fix_threshold(0.8)
    sent, open_one = waiting(service, "0.9", "0.3")
    told = said(press(browser, "reopen", id=[sent, open_one], why="new rule"))
    assert told.startswith("1 document sent back to review.")
    assert "1 document stayed as before" in told
    assert "note 0.3 : " in told


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"act": "prioritize"}, "Tick at least one document."),
        ({"act": "reopen", "id": "?", "why": " "}, "is empty"),
        ({"act": "assign", "id": "?", "assignee": "nobody"}, "is nobody who may review"),
        ({"act": "burn", "id": "?"}, "Choose what to do"),
    ],
)
def test_an_action_that_cannot_be_meant_changes_nothing_and_keeps_the_ticks(
    service: Service, browser: Browser, given: dict[str, str], fault: str
) -> None:
    (made,) = waiting(service, "0.3")
    refused = press(browser, **{**given, **({"id": made} if "id" in given else {})})
    assert refused.status_code == 422
    assert "Nothing was changed." in refused.text
    assert fault in refused.text
    assert (f'value="{made}" checked' in refused.text) == ("id" in given)


def test_many_documents_are_changed_after_a_question_and_only_those_it_counted(
    service: Service, browser: Browser
) -> None:
    ids = waiting(service, *(f"0.{n}" for n in range(30, 42)))
    at = "/documents?state=waiting&confidence_to=0.41"
    asked = press(browser, "prioritize", at=at, matching="yes").text
    assert "11 documents will be put first in the queue." in asked
    assert ">first in the queue<" not in browser.get("/documents").text
    waiting(service, "0.35")
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', asked))
    assert set(fields["id"].split(",")) == set(ids[:11])
    told = said(browser.submit(html.unescape(at), fields))
    assert told == "11 documents put first in the queue."


def test_a_search_that_finds_too_much_changes_nothing(
    service: Service, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.services.documents.selections.MOST_FOUND", 1)
    waiting(service, "0.3", "0.4")
    refused = press(browser, "prioritize", matching="yes")
    assert refused.status_code == 422
    assert "Narrow the filters." in refused.text


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
    shown = auditor.get("/documents").text
    assert 'value="file:jsonl"' in shown
    assert 'value="prioritize"' not in shown
    assert press(auditor, "file:jsonl", id=made).status_code == 303
    assert press(auditor, "prioritize", id=made).status_code == 403
    form = {"csrf": reviewer.token("/desk"), "act": "file:csv", "id": made}
    assert reviewer.submit("/documents", form).status_code == 403
    forged = {"csrf": "x", "act": "file:csv", "id": made}
    assert auditor.submit("/documents", forged).status_code == 403


def saved(browser: Browser, name: str, query: str) -> httpx.Response:
    form = {"csrf": browser.token("/documents"), "search_name": name}
    return browser.submit(f"/documents/searches?{query}", form)


def test_a_saved_search_is_listed_for_its_owner_until_it_is_deleted(
    service: Service, browser: Browser
) -> None:
    assert 'name="search_name"' not in browser.get("/documents").text, "nothing to save"
    query = "label=%3Ca%3E&state=waiting"
    done = saved(browser, "wards <3>", f"state=waiting&label=%3Ca%3E&after={UNKNOWN}&x=1")
    assert (done.status_code, done.headers["Location"]) == (
        303,
        f"/documents?{query}&after={UNKNOWN}",
    )
    link = f'<a href="/documents?{html.escape(query)}"'
    for address in ("/documents", "/documents?state=sent"):
        shown = browser.get(address).text
        assert f'{link} dir="auto">wards &lt;3&gt;</a>' in shown
    assert f'{link} aria-current="true"' in browser.get(f"/documents?{query}").text
    service.person("ada", Role.AUDITOR)
    auditor = Browser(service)
    auditor.sign_in("ada")
    assert "wards" not in auditor.get("/documents").text
    form = {"csrf": auditor.token("/documents"), "search_name": "wards <3>"}
    assert auditor.submit("/documents/searches/delete", form).status_code == 303
    assert link in browser.get("/documents").text, "it is not the auditor's"
    assert saved(auditor, "mine", "state=sent").status_code == 303
    form["csrf"] = browser.token("/documents")
    assert browser.submit("/documents/searches/delete", form).headers["Location"] == "/documents"
    assert link not in browser.get("/documents").text


def test_a_search_without_a_name_or_of_one_document_is_not_saved(
    service: Service, browser: Browser
) -> None:
    refused = saved(browser, " ", "state=waiting")
    assert refused.status_code == 422
    assert "It is empty" in re.search(r'id="search_name-fault">([^<]*)<', refused.text)[1]
    assert saved(browser, "one", "document_id=note-17").status_code == 422
    assert "Save this search" not in browser.get("/documents?document_id=note-17").text
    service.person("ann", Role.REVIEWER)
    reviewer = Browser(service)
    reviewer.sign_in("ann")
    form = {"csrf": reviewer.token("/desk"), "search_name": "mine"}
    for path in ("/documents/searches?state=sent", "/documents/searches/delete"):
        assert reviewer.submit(path, form).status_code == 403
        assert browser.submit(path, {**form, "csrf": "x"}).status_code == 403
