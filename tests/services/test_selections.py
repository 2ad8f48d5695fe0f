"""Actions on several documents at once: what they do, refuse and record."""

from dataclasses import replace

import pytest

from setwise.service.domain.accounts import ExternalIdentity
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.reviews import QueueFilter
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.documents.selections import Refusal
from tests.kit.edge import Service
from tests.samples import ADMIN, ANN, LEAD


@pytest.fixture
def ben(service: Service) -> Caller:
    return Caller(service.person("ben", Role.REVIEWER), "Ben", Role.REVIEWER)


def predict(service: Service, *confidences: str) -> list[str]:
    return [service.predict(one).json()["id"] for one in confidences]


def claimed(service: Service, who: Caller) -> str | None:
    task = service.services.queue.claim(who)
    return None if task is None else task.prediction.id


def listed(service: Service, **wanted: object) -> list[str]:
    matches = service.services.documents.find(ADMIN, DocumentFilter(**wanted))
    return [one.prediction.id for one in matches.page.items]


def test_what_is_assigned_is_given_to_nobody_else_and_first(service: Service, ben: Caller) -> None:
    act = service.services.selections
    early, late = predict(service, "0.3", "0.4")
    assert act.assign(LEAD, [late], ben.id).changed == [late]
    assert listed(service, assigned_to=ben.id) == [late]
    assert [claimed(service, ANN), claimed(service, ANN)] == [early, None]
    assert claimed(service, ben) == late
    outcome = act.assign(LEAD, [late], None)
    assert outcome.refused == [Refusal(late, "it is being reviewed")]


def test_assigned_documents_are_anybodys_again(service: Service, ben: Caller) -> None:
    act = service.services.selections
    (freed,) = predict(service, "0.3")
    act.assign(LEAD, [freed], ben.id)
    act.assign(LEAD, [freed], None)
    assert claimed(service, ANN) == freed
    (left,) = predict(service, "0.4")
    act.assign(LEAD, [left], ben.id)
    service.services.people.change(SYSTEM, ben.id, disabled=True)
    assert claimed(service, ANN) == left
    with pytest.raises(InvalidRequest):
        act.assign(LEAD, [left], ben.id)


def test_what_a_person_is_no_longer_given_goes_to_anybody(service: Service, ben: Caller) -> None:
    services = service.services
    act = services.selections
    skipped, erased, demoted = predict(service, "0.3", "0.35", "0.4")
    eve = ExternalIdentity("issuer eve", "eve", "Eve", Role.LEAD)
    lea = services.sessions.sign_in_externally(eve)[0].person
    for document, who in ((skipped, ben), (demoted, lea)):
        act.assign(LEAD, [document], who.id)
    assert claimed(service, ben) == skipped
    (task,) = service.services.queue.mine(ben)
    service.services.queue.skip(ben, task.id, "not mine")
    assert claimed(service, ANN) == skipped
    act.assign(LEAD, [erased], ben.id)
    services.people.erase(SYSTEM, ben.id)
    assert claimed(service, ANN) == erased
    services.sessions.sign_in_externally(replace(eve, role=Role.AUDITOR))
    assert claimed(service, ANN) == demoted


def test_who_has_answered_a_document_loses_its_other_review_to_anybody(
    service: Service, ben: Caller
) -> None:
    service.fix_threshold(0.8, audits=AuditPlan(overlap_rate=1.0))
    (twice,) = predict(service, "0.3")
    assert service.services.selections.assign(LEAD, [twice], ben.id).changed == [twice]
    reviews = service.services.reviews
    other = reviews.queue.claim(ben, QueueFilter(label="no such label"))
    assert other is not None
    reviews.complete(ben, other.id, ["a"], None, other.version)
    assert claimed(service, ben) is None
    assert claimed(service, ANN) == twice


def test_who_reads_the_suggestion_loses_a_blind_review_to_anybody(service: Service) -> None:
    audits = AuditPlan(certification_rate=1.0)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=audits)
    service.services.policy.change(SYSTEM, change, None)
    (drawn,) = predict(service, "0.5")
    lea = Caller(service.person("lea", Role.LEAD), "Lea", Role.LEAD)
    assert service.services.selections.assign(ADMIN, [drawn], lea.id).changed == [drawn]
    service.services.documents.get(lea, drawn)
    assert claimed(service, lea) is None
    assert claimed(service, ANN) == drawn


def test_a_blind_review_is_not_assigned_to_who_has_read_the_suggestion(service: Service) -> None:
    audits = AuditPlan(certification_rate=1.0)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=audits)
    service.services.policy.change(SYSTEM, change, None)
    read, unread = predict(service, "0.5", "0.6")
    lea = Caller(service.person("lea", Role.LEAD), "Lea", Role.LEAD)
    service.services.documents.get(lea, read)
    outcome = service.services.selections.assign(ADMIN, [read, unread], lea.id)
    assert outcome.changed == [unread]
    (refusal,) = outcome.refused
    assert refusal.id == read
    assert "seen it" in refusal.detail


def test_what_is_put_first_is_claimed_first_until_it_is_put_back(service: Service) -> None:
    act = service.services.selections
    first, second, third = predict(service, "0.3", "0.4", "0.45")
    act.prioritize(LEAD, [second, third], first=True)
    assert listed(service, prioritized=True) == [third, second]
    assert listed(service, prioritized=False) == [first]
    act.prioritize(LEAD, [second], first=False)
    assert [claimed(service, ANN) for _ in range(3)] == [third, first, second]
    event = service.services.audit_trail.page(SYSTEM).items[3]
    assert (event.action, event.detail["documents"]) == ("documents.prioritized", [second])


def test_documents_go_back_to_review_but_for_those_that_wait(service: Service) -> None:
    service.fix_threshold(0.8)
    sent, waiting = predict(service, "0.9", "0.3")
    missing = LEAD.id
    outcome = service.services.selections.reopen(LEAD, [waiting, sent, missing, sent], "new rule")
    assert outcome.changed == [sent]
    assert {refusal.id for refusal in outcome.refused} == {waiting, missing}
    assert listed(service, state="waiting") == [waiting, sent]
    event = service.services.audit_trail.page(SYSTEM).items[0]
    assert (event.action, event.detail) == (
        "documents.reopened", {"documents": [sent], "refused": 2}
    )  # fmt: skip


def test_selections_of_nothing_or_of_too_much_are_refused(service: Service) -> None:
    act = service.services.selections
    (made,) = predict(service, "0.3")
    for ids in ([], ["note"], [made] * 101):
        with pytest.raises(InvalidRequest):
            act.prioritize(LEAD, ids, first=True)


def test_a_search_for_an_action_leaves_out_what_somebody_must_answer_blindly(
    service: Service,
) -> None:
    audits = AuditPlan(certification_rate=1.0)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=audits)
    service.services.policy.change(SYSTEM, change, None)
    held, other = predict(service, "0.5", "0.6")
    assert claimed(service, LEAD) == held
    assert service.services.selections.matching(LEAD, DocumentFilter()) == [other]
