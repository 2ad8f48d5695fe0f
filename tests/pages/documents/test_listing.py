"""A list is narrowed and exported, and figures lead to it."""

import html
import re

import pytest

from setwise.service.api.documents import DocumentQuery
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages.documents.filters import FILTERS
from setwise.service.pages.documents.listing import FIRST_WORDS
from tests.browsing import Browser
from tests.kit.edge import Service


def test_an_empty_list_says_so(browser: Browser) -> None:
    assert "No document has been sent to the service yet." in browser.get("/documents").text
    text = browser.get("/documents?text=fever").text
    assert "No document matches." in text
    assert 'value="fever"' in text


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
    match = re.search(rf'id="{name}-fault">([^<]*)<', response.text)
    assert match is not None
    assert fault in match[1]
    assert "<table" not in response.text


def chips(page: str) -> list[tuple[str, str]]:
    """The filters in use, and the address without each."""
    matches = re.findall(r'<li><a href="([^"]*)">([^<]*)<span class="unseen">: remove</span>', page)
    return [(html.unescape(words), html.unescape(address)) for address, words in matches]


def test_each_filter_in_use_can_be_removed(service: Service, browser: Browser) -> None:
    service.predict("0.5")
    values = ["text=note", "state=waiting", "label=a", "label=b", "confidence_from=0.4"]
    shown = chips(browser.get(f"/documents?{'&'.join(values)}&order=newest").text)
    names = ["State: waits for review", "With label: a", "With label: b", "Confidence from: 0.4"]
    assert [words for words, _ in shown] == names
    for value, (_, address) in zip(values[1:], shown, strict=True):
        rest = {each for each in values if each != value} | {"order=newest"}
        assert set(address.removeprefix("/documents?").split("&")) == rest
    assert chips(browser.get("/documents?order=oldest").text) == [
        ("Order: oldest first", "/documents")
    ]


def test_a_row_has_the_first_words_of_a_text(service: Service, browser: Browser) -> None:
    body = {"document": {"text": " \n 0." + "5" * 900}}
    service.post("/v1/predictions", by="client", json=body)
    page = browser.get("/documents").text
    (words,) = re.findall(r'<td><span dir="auto">(.*?)</span></td>', page)
    assert words == "0." + "5" * (FIRST_WORDS - 2)


def test_a_link_can_narrow_a_list_by_what_the_form_does_not_ask(
    service: Service, browser: Browser
) -> None:
    service.predict("0.5")
    text = browser.get("/documents?client_id=unknown&state=waiting").text
    assert ("only of one client", "/documents?state=waiting") in chips(text)
    assert '<input type="hidden" name="client_id" value="unknown">' in text


def test_the_address_keeps_every_filter() -> None:
    assert set(FILTERS) == set(DocumentQuery.model_fields) - {"cursor", "limit"}


def test_the_address_keeps_filters_of_several_values(service: Service, browser: Browser) -> None:
    ids = [service.predict(each).json()["id"] for each in ("0.5", "0.6", "0.7")]
    search = f"label=a&label=b%2Cc&id={ids[0]}&id={ids[1]}&prioritized=false"
    text = browser.get(f"/documents?{search}").text
    assert "No document matches." in text
    for name, value in (("label", "a"), ("label", "b,c"), ("id", ids[0]), ("id", ids[1])):
        assert re.search(f'<input[^>]* name="{name}"[^>]* value="{value}"', text), value
    assert '<option value="false" selected>not ahead</option>' in text
    query = f"label=a&id={ids[0]}&id={ids[1]}"
    text = browser.get(f"/documents?{query}").text
    assert text.count('<th scope="row">') == 2
    assert f'action="/documents?{html.escape(query)}"' in text
    (csv, _) = re.findall(r'href="(/v1/[^"]+)"', text)
    assert "note 0.7" not in browser.get(html.unescape(csv)).text


def test_people_are_chosen_by_name(service: Service, browser: Browser) -> None:
    ann = service.person("ann", Role.REVIEWER)
    text = browser.get(f"/documents?reviewer={ann}&assigned_to=gone").text
    assert f'<option value="{ann}" selected>Ann</option>' in text
    assert '<option value="gone" selected>gone</option>' in text
    assert ("Submitted by: Ann", "/documents?assigned_to=gone") in chips(text)
    assert "selected>me</option>" in browser.get("/documents?assigned_to=me").text


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
        text = browser.get(link).text
        assert text.count('<th scope="row">') == expected, link


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


def source_of(shown: str) -> str:
    return html.unescape(re.search(r'data-source="([^"]+)"', shown)[1])


def test_rows_of_an_open_list_change_in_place(service: Service, browser: Browser) -> None:
    for confidence in ("0.5", "0.6"):
        service.predict(confidence)
    text = browser.get("/documents?state=waiting").text
    assert text.count("waits for review") == 4  # and the filter and its chip
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    version = {"If-Match": str(task["version"])}
    path = f"/v1/reviews/{task['id']}/complete"
    service.post(path, by="reviewer", json={"labels": ["c"]}, headers=version)
    rows = browser.get(source_of(text)).text
    assert rows.count('<th scope="row">') == 2
    assert rows.count("waits for review") == 1
    assert "contradicted" in rows
    assert '<span class="sub"><span class="label">c</span>' in rows
    assert "on this page now" not in rows
    assert source_of(rows) == source_of(text)


def test_an_open_list_counts_other_documents_and_takes_no_blind_review(
    service: Service, browser: Browser
) -> None:
    text = browser.get("/documents?state=waiting").text
    assert 'data-live="30"' in text
    plan = AuditPlan(certification_rate=1.0)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=plan)
    service.services.policy.change(SYSTEM, change, None)
    service.predict("0.9")
    changed_text = browser.get(source_of(text)).text
    assert "1 other document is on this page now." in changed_text
    assert 'href="/documents?state=waiting"' in changed_text
    assert "0.9" not in changed_text
    lead = next(each for each in service.services.people.all(SYSTEM) if each.login == "lea")
    task = service.services.queue.claim(Caller(lead.id, lead.name, lead.role))
    assert task is not None
    assert task.kind is ReviewKind.AUDIT
    # Who holds it cannot have it listed by its id either.
    address = f"/documents/rows?shown={task.prediction.id}"
    assert task.prediction.id not in browser.get(address).text.partition("data-source")[0]
    assert '<th scope="row">' not in browser.get(address).text
    later = browser.get("/documents?after=" + task.prediction.id).text
    assert "on this page now" not in browser.get(source_of(later)).text


def test_rows_are_asked_for_by_ids_alone(browser: Browser) -> None:
    assert browser.get("/documents/rows?shown=nothing").status_code == 422
    assert browser.get("/documents/rows?state=lost").status_code == 200
