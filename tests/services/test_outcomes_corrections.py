"""Whoever finds a sent set wrong, and however: other programs learn of it, once, in order."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

import pytest
from sqlalchemy import Engine

from setwise.service.domain.predictions import Decision, Document, Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.domain.webhooks import MessageType
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transaction, Transactions
from tests import building
from tests.building import predict_one
from tests.fakes import LOTTERY, FakePredictors
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change

RIGHT, WRONG, OTHER = ["a", "b"], ["c"], ["d"]
SENT = (MessageType.PREDICTION_AUTO_SENT, RIGHT)


def sent(clinic: Clinic, **audits: float) -> Prediction:
    """Return a document that is sent, with these rates of audits."""
    clinic.fix_threshold(audits=AuditPlan(mode=AuditMode.SEND, **audits))
    prediction = clinic.predict("0.9")
    assert prediction.decision is Decision.AUTO
    return prediction


@pytest.mark.parametrize("role", [AuditRole.CERTIFICATION, AuditRole.TRAINING])
def test_a_contradicting_audit_corrects_once_the_lead_agrees_with_it(
    clinic: Clinic, role: AuditRole
) -> None:
    prediction = sent(clinic, **{f"{role.value}_rate": 1.0})
    assert prediction.selection.role is role
    clinic.answer(ANN, WRONG)
    assert clinic.messages() == [SENT]
    clinic.answer(LEAD, WRONG)
    assert clinic.corrections() == [(RIGHT, WRONG, "adjudication")]


def test_a_lead_who_sides_with_the_model_corrects_nothing(clinic: Clinic) -> None:
    sent(clinic, certification_rate=1.0)
    clinic.answer(ANN, WRONG)
    clinic.answer(LEAD, RIGHT)
    assert clinic.messages() == [SENT]


def test_a_fault_that_the_auditor_missed_is_corrected_when_it_is_read_again(clinic: Clinic) -> None:
    sent(clinic, certification_rate=1.0, gold_reread_rate=1.0)
    clinic.answer(ANN, RIGHT)
    clinic.answer(LEAD, OTHER)
    assert clinic.corrections() == [(RIGHT, OTHER, "adjudication")]


def test_a_lead_who_overrules_an_outcome_corrects_the_correction(clinic: Clinic) -> None:
    prediction = sent(clinic, certification_rate=1.0)
    clinic.answer(ANN, WRONG)
    clinic.report(prediction, OTHER)
    clinic.answer(LEAD, RIGHT)
    assert clinic.corrections() == [(RIGHT, OTHER, "billing"), (OTHER, RIGHT, "adjudication")]


def test_an_outcome_that_says_what_the_lead_said_corrects_nothing_more(clinic: Clinic) -> None:
    prediction = sent(clinic, certification_rate=1.0)
    clinic.answer(ANN, WRONG)
    clinic.answer(LEAD, WRONG)
    clinic.report(prediction, WRONG)
    assert clinic.corrections() == [(RIGHT, WRONG, "adjudication")]
    clinic.report(prediction, RIGHT)
    assert clinic.corrections()[1:] == [(WRONG, RIGHT, "billing")]


def test_a_set_that_was_sent_after_a_review_is_corrected_when_a_lead_overrules_it(
    clinic: Clinic,
) -> None:
    plan = AuditPlan(overlap_rate=1.0)
    clinic.fix_threshold(0.95, audits=plan)
    clinic.predict("0.9")
    clinic.answer(ANN, RIGHT)
    clinic.answer(BEN, WRONG)
    clinic.answer(LEAD, WRONG)
    assert clinic.messages() == [
        (MessageType.REVIEW_COMPLETED, RIGHT),
        (MessageType.DOCUMENT_CORRECTED, WRONG),
    ]


def test_a_decision_that_may_be_taken_back_corrects_when_it_stands(clinic: Clinic) -> None:
    sent(clinic, certification_rate=1.0)
    clinic.answer(ANN, WRONG)
    task = clinic.claimed(LEAD)
    clinic.reviews.decide(LEAD, task.id, WRONG, None, task.version)
    assert clinic.corrections() == []
    clinic.now.advance(minutes=1)
    clinic.reviews.submit_decisions()
    assert clinic.corrections() == [(RIGHT, WRONG, "adjudication")]


@ON_BOTH
def test_an_outcome_that_comes_while_a_lead_decides_knows_of_the_decision(engine: Engine) -> None:
    begin = Transactions(engine)
    parts = (begin, utc_now, new_id)
    plan = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)
    Policies(*parts).change(ADMIN, change(threshold=0.8, audits=plan), None)
    predictions = Predictions(FakePredictors(), *parts, LOTTERY)
    prediction = predict_one(predictions, CLIENT, Document(text="0.9"))
    report = Outcomes(*parts, FakePredictors()).report
    with ThreadPoolExecutor(1) as pool:
        reports: list[Future[object]] = []

        def meanwhile(_: Transaction, about: Prediction, said: Annotation) -> None:
            """Let the report come before the decision is committed."""
            if said.kind is ReviewKind.ADJUDICATION:
                reports.append(pool.submit(report, CLIENT, about.id, RIGHT, "billing"))
                wait(reports, timeout=1)
                assert not reports[0].done(), "it waits for the decision"

        reviews = building.reviews(*parts, annotated=meanwhile)
        for who in (ANN, LEAD):
            task = reviews.queue.claim(who)
            assert task is not None
            reviews.complete(who, task.id, WRONG, None, task.version)
        reports[0].result(timeout=120)
    with begin(read_only=True) as transaction:
        page = transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=9)
    steps = [one for one in page.items if one.data["prediction_id"] == prediction.id]
    assert [[*one.data["labels"]] for one in steps] == [RIGHT, WRONG, RIGHT]
    for before, after in pairwise(steps):
        assert after.data["previous_labels"] == [*before.data["labels"]]
