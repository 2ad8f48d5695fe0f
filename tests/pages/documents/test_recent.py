"""Reviewers see what they answered, and correct it late."""

import re

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.browsing import Browser
from tests.kit.edge import Service


@pytest.fixture
def ann(service: Service) -> Caller:
    return Caller(service.person("ann", Role.REVIEWER), "ann", Role.REVIEWER)


def answered(service: Service, ann: Caller, *labels: str) -> str:
    """Let Ann answer a document; return its address."""
    prediction_id = service.predict("0.9").json()["id"]
    service.clock.advance(minutes=1)
    task = service.services.queue.claim(ann)
    assert task is not None
    service.services.reviews.complete(ann, task.id, labels, None, task.version)
    service.clock.advance(minutes=1)
    return f"/recent/{prediction_id}"


def browsing(service: Service, login: str = "ann") -> Browser:
    browser = Browser(service)
    browser.sign_in(login)
    return browser


def test_a_late_correction_is_sent_and_nobody_else_makes_it(service: Service, ann: Caller) -> None:
    address = answered(service, ann, "a")
    browser = browsing(service)
    assert f'<a href="{address}">note 0.9</a>' in browser.get("/recent").text
    form = {"csrf": browser.token(address), "labels": "c\r\nb", "reason": "page <2>"}
    wrong = browser.submit(address, {**form, "labels": "x"})
    assert wrong.status_code == 422
    assert "“x” is in no list." in wrong.text
    assert browser.submit(address, form).status_code == 303
    text = browser.get(address).text
    assert '<span class="label">b</span> <span class="label">c</span>' in text
    (*_, sent) = service.get("/v1/outbox", by="client").json()["items"]
    assert (sent["type"], sent["data"]["labels"]) == ("document.corrected", ["b", "c"])
    service.person("ben", Role.REVIEWER)
    assert browsing(service, "ben").get(address).status_code == 404


def test_an_audit_that_is_corrected_stays_the_evidence_and_looks_like_any_review(
    service: Service, ann: Caller
) -> None:
    plain = browsing(service).get(answered(service, ann, "a", "b")).text
    plan = AuditPlan(certification_rate=1.0)
    policy = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=plan)
    service.services.policy.change(SYSTEM, policy, None)
    address = answered(service, ann, "a", "b")
    browser = browsing(service)
    text = browser.get(address).text
    assert "audit" not in text
    assert "keep your first answer" in plain
    assert "keep your first answer" in text
    form = {"csrf": browser.token(address), "labels": "a", "reason": "page 2"}
    assert browser.submit(address, form).status_code == 303
    prediction = address.rpartition("/")[2]
    with service.database(read_only=True) as transaction:
        first, second = transaction.reviews.annotations_of(prediction)
    assert (first.kind, first.agreed, second.kind) == ("audit", True, "reopened")


def test_what_somebody_else_decides_is_not_corrected(service: Service, ann: Caller) -> None:
    address = answered(service, ann, "a")
    lead = Caller(service.person("lea", Role.LEAD), "lea", Role.LEAD)
    service.services.answers.reopen(lead, address.rpartition("/")[2], "the patient called")
    browser = browsing(service)
    text = browser.get(address).text
    assert "a reviewer decides again. It waits in the queue. You cannot correct" in text
    assert "Correct your answer" not in text
    form = {"csrf": browser.token("/"), "labels": "b", "reason": "late"}
    response = browser.submit(address, form)
    assert response.status_code == 422
    assert "a reviewer decides again" in response.text
    service.clock.advance(minutes=1)
    task = service.services.queue.claim(lead)
    assert task is not None
    assert "It is being read." in browser.get(address).text
    service.services.reviews.complete(lead, task.id, ["b"], None, task.version)
    text = browser.get(address).text
    assert "Another person decided on this document." in text
    assert '<dt>You missed</dt><dd><span class="label">b</span> </dd>' in text
    assert '<dt>Too many</dt><dd><span class="label">a</span> </dd>' in text
    listed_text = browser.get("/recent").text
    assert "You missed: b. Too many: a." in listed_text
    assert "Lea" not in listed_text, "roles are told, and no names"


def test_a_blind_answer_is_not_compared_before_the_lead_has_decided(
    service: Service, ann: Caller
) -> None:
    plan = AuditPlan(certification_rate=1.0)
    policy = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=plan)
    service.services.policy.change(SYSTEM, policy, None)
    address = answered(service, ann, "c")
    browser = browsing(service)
    open_case = browser.get("/recent").text + browser.get(address).text
    assert open_case.count("ot decided yet") == 2
    assert "You missed" not in open_case
    assert not {"audit", "lead decides"} & set(re.findall(r"audit|lead decides", open_case))
    lead = Caller(service.person("lea", Role.LEAD), "lea", Role.LEAD)
    task = service.services.queue.claim(lead)
    assert task is not None
    service.services.reviews.complete(lead, task.id, ["a", "b"], None, task.version)
    text = browser.get(address).text
    assert "A lead decided." in text
    assert "You missed: a, b. Too many: c." in browser.get("/recent").text


def test_a_reviewer_and_a_lead_talk_about_a_document(service: Service, ann: Caller) -> None:
    address = answered(service, ann, "a")
    service.person("lea", Role.LEAD)
    lead = browsing(service, "lea")
    page = address.replace("/recent/", "/documents/")
    form = {"csrf": lead.token(page), "text": "why not <b>?", "kind": "flagged"}
    response = lead.submit(f"{page}/comments", {**form, "text": " "})
    assert response.status_code == 422
    assert "Enter a value." in response.text
    assert lead.submit(f"{page}/comments", form).status_code == 303
    assert ">note 0.9</a>" in lead.get("/documents?state=flagged").text
    browser = browsing(service)
    assert f'<a href="{address}#comments" dir="auto">note 0.9</a>: 1 new' in browser.get("/").text
    assert browser.get("/desk/progress").json()["comments"] == 1
    service.clock.advance(seconds=1)
    text = browser.get(address).text
    assert browser.get("/desk/progress").json()["comments"] == 0
    assert "why not &lt;b&gt;?" in text
    thread = re.search(r'name="thread" value="([^"]+)"', text)
    assert thread is not None
    reply = {
        "csrf": browser.token(address), "text": "no fever", "kind": "resolved", "thread": thread[1],
    }  # fmt: skip
    assert browser.submit(f"{address}/comments", reply).status_code == 303
    assert "New comments" not in browser.get("/").text
    assert "No document matches" in lead.get("/documents?state=flagged").text


def test_a_late_correction_adds_a_label_once_known_ones_like_it_were_shown(
    service: Service, ann: Caller
) -> None:
    address = answered(service, ann, "a")
    browser = browsing(service)
    form = {"csrf": browser.token(address), "labels": "a\r\nB", "reason": "new code", "add": "yes"}
    response = browser.submit(address, form)
    assert response.status_code == 422
    assert "“B” is in no list. Is “b” meant?" in response.text
    assert 'name="seen" value="B"' in response.text
    again = {**form, "seen": "B", "missing": "yes"}
    unticked = {name: value for name, value in again.items() if name != "add"}
    assert browser.submit(address, unticked).status_code == 422
    assert browser.submit(address, again).status_code == 303
    text = browser.get(address).text
    assert '<span class="label">a label that is in no list</span>' in text
    assert re.search(r'name="missing"[^>]* checked', text)
