"""Audits, second readings and adjudications, from the draw to what other programs are told."""

import pytest

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.domain.webhooks import MessageType
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, ANN, BEN, CAT, LEAD

RIGHT, WRONG = ["a", "b"], ["c"]
CHECK_ALL = AuditPlan(certification_rate=1.0)
SEND_ALL = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)


def test_a_held_document_leaves_once_the_auditor_agrees(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=CHECK_ALL)
    made = clinic.predict()
    assert (made.decision, made.reason) == (Decision.REVIEW, Reason.AUDIT)
    assert made.selection.role is AuditRole.CERTIFICATION
    assert clinic.messages() == []
    task, annotation = clinic.answer(ANN, RIGHT)
    assert task.kind is ReviewKind.AUDIT
    assert (annotation.agreed, annotation.settles) == (True, True)
    assert (annotation.suggestion_shown, annotation.chosen_rank) == (False, None)
    assert clinic.messages() == [(MessageType.REVIEW_COMPLETED, RIGHT)]
    assert clinic.kinds() == [ReviewKind.AUDIT]


@pytest.mark.parametrize("truth", [RIGHT, WRONG])
def test_a_lead_decides_where_the_auditor_contradicts_the_model(
    clinic: Clinic, truth: list[str]
) -> None:
    clinic.fix_threshold(audits=CHECK_ALL)
    clinic.predict()
    _, annotation = clinic.answer(ANN, WRONG)
    assert (annotation.agreed, annotation.settles) == (False, False)
    assert clinic.messages() == []
    assert clinic.claim(BEN) is None, "only a lead adjudicates"
    task, verdict = clinic.answer(LEAD, truth)
    assert task.kind is ReviewKind.ADJUDICATION
    assert task.answers == (("a", "b"), ("c",))
    assert verdict.settles
    assert clinic.messages() == [(MessageType.REVIEW_COMPLETED, truth)]


def test_a_document_sent_meanwhile_is_corrected_only_if_the_lead_finds_it_wrong(
    clinic: Clinic,
) -> None:
    clinic.fix_threshold(audits=SEND_ALL)
    sent = (MessageType.PREDICTION_AUTO_SENT, RIGHT)
    made = clinic.predict()
    assert (made.decision, made.reason) == (Decision.AUTO, Reason.AUDIT)
    clinic.answer(ANN, RIGHT)
    assert clinic.messages() == [sent]
    clinic.predict()
    clinic.answer(ANN, WRONG)
    assert clinic.messages() == [sent, sent]
    clinic.answer(LEAD, WRONG)
    assert clinic.messages() == [sent, sent, (MessageType.DOCUMENT_CORRECTED, WRONG)]


def test_an_agreeing_audit_that_is_drawn_is_read_again(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    clinic.predict()
    _, annotation = clinic.answer(ANN, RIGHT)
    assert (annotation.agreed, annotation.settles) == (True, False)
    task, reread = clinic.answer(LEAD, RIGHT)
    assert task.kind is ReviewKind.ADJUDICATION
    assert task.blind
    assert task.answers == ()
    assert not reread.suggestion_shown
    assert clinic.messages() == [(MessageType.REVIEW_COMPLETED, RIGHT)]


def test_a_lead_who_reads_an_agreeing_audit_again_sees_no_answer_meanwhile(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    agreed, contradicted = clinic.predict("0.9"), clinic.predict("0.91")
    clinic.answer(ANN, RIGHT)
    clinic.answer(ANN, WRONG)
    held = {task.prediction.id: task for _ in range(2) if (task := clinic.claim(LEAD)) is not None}
    assert held[agreed.id].blind
    assert not held[contradicted.id].blind
    with clinic.begin(read_only=True) as transaction:
        assert transaction.reviews.held_blind(LEAD.id) == {agreed.id}


def test_what_nobody_would_send_is_audited_blindly_too_so_that_it_can_certify(
    clinic: Clinic,
) -> None:
    clinic.fix_threshold(audits=CHECK_ALL)
    made = clinic.predict("0.3")
    assert made.reason is Reason.BELOW_THRESHOLD
    assert clinic.kinds() == [ReviewKind.AUDIT]
    assert made.selection.inclusion_probability == 1.0


@pytest.mark.parametrize("first", [ANN, BEN])
def test_two_readers_who_differ_are_judged_by_a_lead_and_agreeing_ones_are_not(
    clinic: Clinic, first: Caller
) -> None:
    second = BEN if first is ANN else ANN
    clinic.fix_threshold(audits=AuditPlan(overlap_rate=1.0))
    clinic.predict("0.3")
    assert clinic.kinds() == [ReviewKind.REVIEW, ReviewKind.OVERLAP]
    clinic.answer(first, RIGHT)
    clinic.answer(second, RIGHT)
    assert clinic.messages() == [(MessageType.REVIEW_COMPLETED, RIGHT)]
    assert len(clinic.kinds()) == 2
    clinic.predict("0.3")
    (one, _), (two, unseen) = clinic.answer(first, RIGHT), clinic.answer(second, WRONG)
    assert (one.kind, two.kind) == (ReviewKind.REVIEW, ReviewKind.OVERLAP)
    assert (unseen.settles, unseen.suggestion_shown) == (False, False)
    judged, _ = clinic.answer(LEAD, WRONG)
    assert judged.answers == (("a", "b"), ("c",))
    assert clinic.messages()[1:] == [
        (MessageType.REVIEW_COMPLETED, RIGHT),
        (MessageType.DOCUMENT_CORRECTED, WRONG),
    ]


def test_nobody_reads_one_document_twice(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=AuditPlan(overlap_rate=1.0))
    clinic.predict("0.3")
    held = clinic.claim(ANN)
    assert held is not None
    assert clinic.claim(ANN) is None, "while she holds the first"
    clinic.reviews.complete(ANN, held.id, RIGHT, None, held.version)
    assert clinic.claim(ANN) is None, "after she has settled the first"
    clinic.answer(BEN, WRONG)
    assert clinic.claim(CAT) is None
    assert clinic.claim(LEAD) is not None


def test_a_lead_who_audited_does_not_judge_the_audit(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=CHECK_ALL)
    clinic.predict()
    clinic.answer(LEAD, WRONG)
    assert clinic.claim(LEAD) is None
    judge, _ = clinic.answer(ADMIN, RIGHT)
    assert judge.kind is ReviewKind.ADJUDICATION


def test_an_adjudication_that_is_given_back_waits_for_a_lead_again(clinic: Clinic) -> None:
    clinic.fix_threshold(audits=CHECK_ALL)
    clinic.predict()
    clinic.answer(ANN, WRONG)
    task = clinic.claim(LEAD)
    assert task is not None
    assert clinic.queue.release(LEAD, task.id).escalated
    assert clinic.claim(BEN) is None
    assert clinic.claim(LEAD) is not None
