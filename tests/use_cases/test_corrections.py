"""Whoever finds a sent set wrong, and however: other programs learn of it, once, in order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from sqlalchemy import Engine

from service.db.clock import utc_now
from service.db.identity import new_id
from service.db.unit_of_work import Transactions
from service.domain.audits import AuditMode, AuditPlan, AuditRole
from service.domain.delivery import MessageType
from service.domain.people import Caller
from service.domain.predictions import Decision, Document, Prediction
from service.use_cases.administer import ChangePolicy
from service.use_cases.decide import DecideReview, SettleDecisions
from service.use_cases.outcomes import ReportOutcome
from service.use_cases.ports import Begin
from service.use_cases.predict import Predict
from service.use_cases.review import ClaimReview, CompleteReview
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change

RIGHT, WRONG, OTHER = ["a", "b"], ["c"], ["d"]
SENT = (MessageType.PREDICTION_AUTO_SENT, RIGHT)


@dataclass
class Desk:
    """A service that sends everything, and checks what it is told to."""

    begin: Begin
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=lambda: FakeIds(0x7200_0000_0000))

    def __post_init__(self) -> None:
        parts = (self.begin, self.now, self.new_id)
        self.change_policy = ChangePolicy(*parts)
        self.predict_verb = Predict(FakePredictors(), *parts, LOTTERY)
        self.claim = ClaimReview(*parts)
        self.complete = CompleteReview(*parts, FakePredictors(), LOTTERY)
        self.report_verb = ReportOutcome(*parts)

    def sent(self, **audits: float) -> Prediction:
        """Predict one document that is sent, with these rates of audits."""
        plan = AuditPlan(mode=AuditMode.SEND, **audits)
        self.change_policy(ADMIN, change(threshold=0.8, audits=plan), None)
        made = self.predict_verb(CLIENT, Document(id="note", text="0.9"))
        assert made.decision is Decision.AUTO
        return made

    def settle(self, who: Caller, labels: list[str]) -> None:
        task = self.claim(who)
        assert task is not None
        self.now.advance(seconds=1)
        self.complete(who, task.id, labels, None, task.version)

    def report(self, of: Prediction, labels: list[str]) -> None:
        self.now.advance(seconds=1)
        self.report_verb(CLIENT, of.id, labels, "billing")

    @property
    def told(self) -> list[tuple[str, list[str]]]:
        with self.begin(read_only=True) as transaction:
            page = transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=50)
        return [(one.type.value, [*one.data["labels"]]) for one in page.items]

    @property
    def corrections(self) -> list[tuple[list[str], list[str], str]]:
        with self.begin(read_only=True) as transaction:
            page = transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=50)
        return [
            ([*one.data["previous_labels"]], [*one.data["labels"]], str(one.data["source"]))
            for one in page.items
            if one.type is MessageType.DOCUMENT_CORRECTED
        ]


@pytest.fixture
def desk(begin: Begin) -> Desk:
    return Desk(begin)


@pytest.mark.parametrize("role", [AuditRole.CERTIFICATION, AuditRole.TRAINING])
def test_a_contradicting_audit_corrects_once_the_lead_agrees_with_it(
    desk: Desk, role: AuditRole
) -> None:
    made = desk.sent(**{f"{role.value}_rate": 1.0})
    assert made.selection.role is role
    desk.settle(ANN, WRONG)
    assert desk.told == [SENT]
    desk.settle(LEAD, WRONG)
    assert desk.corrections == [(RIGHT, WRONG, "adjudication")]


def test_a_lead_who_sides_with_the_model_corrects_nothing(desk: Desk) -> None:
    desk.sent(certification_rate=1.0)
    desk.settle(ANN, WRONG)
    desk.settle(LEAD, RIGHT)
    assert desk.told == [SENT]


def test_a_fault_that_the_auditor_missed_is_corrected_when_it_is_read_again(desk: Desk) -> None:
    desk.sent(certification_rate=1.0, gold_reread_rate=1.0)
    desk.settle(ANN, RIGHT)
    desk.settle(LEAD, OTHER)
    assert desk.corrections == [(RIGHT, OTHER, "adjudication")]


def test_a_lead_who_overrules_an_outcome_corrects_the_correction(desk: Desk) -> None:
    made = desk.sent(certification_rate=1.0)
    desk.settle(ANN, WRONG)
    desk.report(made, OTHER)
    desk.settle(LEAD, RIGHT)
    assert desk.corrections == [(RIGHT, OTHER, "billing"), (OTHER, RIGHT, "adjudication")]


def test_an_outcome_that_says_what_the_lead_said_corrects_nothing_more(desk: Desk) -> None:
    made = desk.sent(certification_rate=1.0)
    desk.settle(ANN, WRONG)
    desk.settle(LEAD, WRONG)
    desk.report(made, WRONG)
    assert desk.corrections == [(RIGHT, WRONG, "adjudication")]
    desk.report(made, RIGHT)
    assert desk.corrections[1:] == [(WRONG, RIGHT, "billing")]


def test_a_set_that_was_sent_after_a_review_is_corrected_when_a_lead_overrules_it(
    desk: Desk,
) -> None:
    plan = AuditPlan(overlap_rate=1.0)
    desk.change_policy(ADMIN, change(threshold=0.95, audits=plan), None)
    desk.predict_verb(CLIENT, Document(id="note", text="0.9"))
    desk.settle(ANN, RIGHT)
    desk.settle(BEN, WRONG)
    desk.settle(LEAD, WRONG)
    assert desk.told == [
        (MessageType.REVIEW_COMPLETED, RIGHT),
        (MessageType.DOCUMENT_CORRECTED, WRONG),
    ]


def test_a_decision_that_may_be_taken_back_corrects_when_it_stands(desk: Desk) -> None:
    desk.sent(certification_rate=1.0)
    desk.settle(ANN, WRONG)
    settle = SettleDecisions(desk.begin, desk.now, desk.complete)
    decide = DecideReview(desk.begin, desk.now, desk.new_id, desk.complete, settle)
    task = desk.claim(LEAD)
    assert task is not None
    decide(LEAD, task.id, WRONG, None, task.version)
    assert desk.corrections == []
    desk.now.advance(minutes=1)
    settle()
    assert desk.corrections == [(RIGHT, WRONG, "adjudication")]


def test_an_outcome_and_a_lead_at_one_instant_leave_programs_with_the_last_word(
    engine: Engine,
) -> None:
    begin = Transactions(engine)
    parts = (begin, utc_now, new_id)
    plan = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)
    ChangePolicy(*parts)(ADMIN, change(threshold=0.8, audits=plan), None)
    predict = Predict(FakePredictors(), *parts, LOTTERY)
    claim = ClaimReview(*parts)
    complete = CompleteReview(*parts, FakePredictors(), LOTTERY)
    report = ReportOutcome(*parts)
    for _ in range(8):
        made = predict(CLIENT, Document(text="0.9"))
        audit = claim(ANN)
        assert audit is not None
        complete(ANN, audit.id, WRONG, None, audit.version)
        decision = claim(LEAD)
        assert decision is not None
        barrier = threading.Barrier(2)

        def told(call: object, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(timeout=30)
            assert callable(call)
            call()

        with ThreadPoolExecutor(2) as pool:
            calls = (
                lambda made=made: report(CLIENT, made.id, RIGHT, "billing"),
                lambda task=decision: complete(LEAD, task.id, WRONG, None, task.version),
            )
            for done in [pool.submit(told, call) for call in calls]:
                done.result()
        with begin(read_only=True) as transaction:
            page = transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=200)
        steps = [one for one in page.items if one.data["prediction_id"] == made.id]
        labels = [[*one.data["labels"]] for one in steps]
        # Whoever came second knew of the first: either the lead's word stands, or the report
        # after it has put the first set back.
        assert labels in ([RIGHT, WRONG], [RIGHT, WRONG, RIGHT])
        for before, after in pairwise(steps):
            assert after.data["previous_labels"] == [*before.data["labels"]]
        with begin(read_only=True) as transaction:
            (outcome,) = transaction.outcomes.of(made.id)
            said = transaction.reviews.annotations_of(made.id)[-1]
        lead_last = said.created_at > outcome.created_at
        assert labels[-1] == (WRONG if lead_last else RIGHT)
