"""Whoever finds a sent set wrong, and however: other programs learn of it, once, in order."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from sqlalchemy import Engine

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import Decision, Document, Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.domain.webhooks import MessageType
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.reviews import Reviews
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transaction, Transactions
from tests.building import predict_one
from tests.database import ON_BOTH
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change

RIGHT, WRONG, OTHER = ["a", "b"], ["c"], ["d"]
SENT = (MessageType.PREDICTION_AUTO_SENT, RIGHT)


@dataclass
class Desk:
    """A service that sends everything, and checks what it is told to."""

    begin: Transactions
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=lambda: FakeIds(0x7200_0000_0000))

    def __post_init__(self) -> None:
        parts = (self.begin, self.now, self.new_id)
        self.change_policy = Policies(*parts).change
        self.predictions = Predictions(FakePredictors(), *parts, LOTTERY)
        self.reviews = Reviews(*parts, FakePredictors(), LOTTERY)
        self.claim, self.complete = self.reviews.claim, self.reviews.complete
        self.report_verb = Outcomes(*parts, FakePredictors()).report

    def sent(self, **audits: float) -> Prediction:
        """Predict one document that is sent, with these rates of audits."""
        plan = AuditPlan(mode=AuditMode.SEND, **audits)
        self.change_policy(ADMIN, change(threshold=0.8, audits=plan), None)
        made = predict_one(self.predictions, CLIENT, Document(id="note", text="0.9"))
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
def desk(begin: Transactions) -> Desk:
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
    predict_one(desk.predictions, CLIENT, Document(id="note", text="0.9"))
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
    task = desk.claim(LEAD)
    assert task is not None
    desk.reviews.decide(LEAD, task.id, WRONG, None, task.version)
    assert desk.corrections == []
    desk.now.advance(minutes=1)
    desk.reviews.submit_decisions()
    assert desk.corrections == [(RIGHT, WRONG, "adjudication")]


@ON_BOTH
def test_an_outcome_that_comes_while_a_lead_decides_knows_of_the_decision(engine: Engine) -> None:
    begin = Transactions(engine)
    parts = (begin, utc_now, new_id)
    plan = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)
    Policies(*parts).change(ADMIN, change(threshold=0.8, audits=plan), None)
    predictions = Predictions(FakePredictors(), *parts, LOTTERY)
    made = predict_one(predictions, CLIENT, Document(text="0.9"))
    report = Outcomes(*parts, FakePredictors()).report
    with ThreadPoolExecutor(1) as pool:
        reports: list[Future[object]] = []

        def meanwhile(_: Transaction, about: Prediction, said: Annotation) -> None:
            """Let the report come before the decision is committed."""
            if said.kind is ReviewKind.ADJUDICATION:
                reports.append(pool.submit(report, CLIENT, about.id, RIGHT, "billing"))
                wait(reports, timeout=1)
                assert not reports[0].done(), "it waits for the decision"

        reviews = Reviews(*parts, FakePredictors(), LOTTERY, annotated=meanwhile)
        for who in (ANN, LEAD):
            task = reviews.claim(who)
            assert task is not None
            reviews.complete(who, task.id, WRONG, None, task.version)
        reports[0].result(timeout=120)
    with begin(read_only=True) as transaction:
        page = transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=9)
    steps = [one for one in page.items if one.data["prediction_id"] == made.id]
    assert [[*one.data["labels"]] for one in steps] == [RIGHT, WRONG, RIGHT]
    for before, after in pairwise(steps):
        assert after.data["previous_labels"] == [*before.data["labels"]]
