"""Audits, second readings and adjudications, from the draw to what other programs are told."""

from dataclasses import dataclass, field

import pytest

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.domain.webhooks import Message, MessageType
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.reviews import Reviews
from tests.building import predict_one
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, ANN, BEN, CAT, CLIENT, LEAD, change
from tests.sqlite import Database

RIGHT, WRONG = ["a", "b"], ["c"]
CHECK_ALL = AuditPlan(certification_rate=1.0)
SEND_ALL = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)


@dataclass
class Desk:
    """A model that answers RIGHT with the confidence that its text names, and people."""

    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)

    def __post_init__(self) -> None:
        parts = (self.database, self.now, self.new_id)
        self.change_policy = Policies(*parts).change
        self.predictions = Predictions(FakePredictors(), *parts, LOTTERY)
        reviews = Reviews(*parts, FakePredictors(), LOTTERY)
        self.claim, self.release = reviews.claim, reviews.release
        self.skip, self.complete = reviews.skip, reviews.complete

    def plan(self, audits: AuditPlan) -> None:
        self.change_policy(ADMIN, change(threshold=0.8, audits=audits), None)

    def predict(self, text: str = "0.9") -> Prediction:
        return predict_one(self.predictions, CLIENT, Document(id="note", text=text))

    def settle(self, who: Caller, labels: list[str]) -> tuple[ReviewTask, Annotation]:
        task = self.claim(who)
        assert task is not None
        self.now.advance(seconds=1)
        return task, self.complete(who, task.id, labels, None, task.version)

    @property
    def kinds(self) -> list[ReviewKind]:
        return [task.kind for task in self.database.contents.reviews.values()]

    @property
    def told(self) -> list[tuple[str, list[str]]]:
        messages: list[Message] = [*self.database.contents.messages.values()]
        return [(one.type.value, [*one.data["labels"]]) for one in messages]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_held_document_leaves_once_the_auditor_agrees(desk: Desk) -> None:
    desk.plan(CHECK_ALL)
    made = desk.predict()
    assert (made.decision, made.reason) == (Decision.REVIEW, Reason.AUDIT)
    assert made.selection.role is AuditRole.CERTIFICATION
    assert desk.told == []
    task, annotation = desk.settle(ANN, RIGHT)
    assert task.kind is ReviewKind.AUDIT
    assert (annotation.agreed, annotation.settles) == (True, True)
    assert (annotation.suggestion_shown, annotation.chosen_rank) == (False, None)
    assert desk.told == [(MessageType.REVIEW_COMPLETED, RIGHT)]
    assert desk.kinds == [ReviewKind.AUDIT]


@pytest.mark.parametrize("truth", [RIGHT, WRONG])
def test_a_lead_decides_where_the_auditor_contradicts_the_model(
    desk: Desk, truth: list[str]
) -> None:
    desk.plan(CHECK_ALL)
    desk.predict()
    _, annotation = desk.settle(ANN, WRONG)
    assert (annotation.agreed, annotation.settles) == (False, False)
    assert desk.told == []
    assert desk.claim(BEN) is None, "only a lead adjudicates"
    task, verdict = desk.settle(LEAD, truth)
    assert task.kind is ReviewKind.ADJUDICATION
    assert task.answers == (("a", "b"), ("c",))
    assert verdict.settles
    assert desk.told == [(MessageType.REVIEW_COMPLETED, truth)]


def test_a_document_sent_meanwhile_is_corrected_only_if_the_lead_finds_it_wrong(desk: Desk) -> None:
    desk.plan(SEND_ALL)
    sent = (MessageType.PREDICTION_AUTO_SENT, RIGHT)
    made = desk.predict()
    assert (made.decision, made.reason) == (Decision.AUTO, Reason.AUDIT)
    desk.settle(ANN, RIGHT)
    assert desk.told == [sent]
    desk.predict()
    desk.settle(ANN, WRONG)
    assert desk.told == [sent, sent]
    desk.settle(LEAD, WRONG)
    assert desk.told == [sent, sent, (MessageType.DOCUMENT_CORRECTED, WRONG)]


def test_an_agreeing_audit_that_is_drawn_is_read_again(desk: Desk) -> None:
    desk.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    desk.predict()
    _, annotation = desk.settle(ANN, RIGHT)
    assert (annotation.agreed, annotation.settles) == (True, False)
    task, reread = desk.settle(LEAD, RIGHT)
    assert task.kind is ReviewKind.ADJUDICATION
    assert task.blind
    assert task.answers == ()
    assert not reread.suggestion_shown
    assert desk.told == [(MessageType.REVIEW_COMPLETED, RIGHT)]


def test_a_lead_who_reads_an_agreeing_audit_again_sees_no_answer_meanwhile(desk: Desk) -> None:
    desk.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    agreed, contradicted = desk.predict("0.9"), desk.predict("0.91")
    desk.settle(ANN, RIGHT)
    desk.settle(ANN, WRONG)
    held = {task.prediction.id: task for _ in range(2) if (task := desk.claim(LEAD)) is not None}
    assert held[agreed.id].blind
    assert not held[contradicted.id].blind
    with desk.database(read_only=True) as transaction:
        assert transaction.reviews.held_blind(LEAD.id) == {agreed.id}


def test_what_nobody_would_send_is_audited_blindly_too_so_that_it_can_certify(desk: Desk) -> None:
    desk.plan(CHECK_ALL)
    made = desk.predict("0.3")
    assert made.reason is Reason.BELOW_THRESHOLD
    assert desk.kinds == [ReviewKind.AUDIT]
    assert made.selection.inclusion_probability == 1.0


@pytest.mark.parametrize("first", [ANN, BEN])
def test_two_readers_who_differ_are_judged_by_a_lead_and_agreeing_ones_are_not(
    desk: Desk, first: Caller
) -> None:
    second = BEN if first is ANN else ANN
    desk.plan(AuditPlan(overlap_rate=1.0))
    desk.predict("0.3")
    assert desk.kinds == [ReviewKind.REVIEW, ReviewKind.OVERLAP]
    desk.settle(first, RIGHT)
    desk.settle(second, RIGHT)
    assert desk.told == [(MessageType.REVIEW_COMPLETED, RIGHT)]
    assert len(desk.kinds) == 2
    desk.predict("0.3")
    (one, _), (two, unseen) = desk.settle(first, RIGHT), desk.settle(second, WRONG)
    assert (one.kind, two.kind) == (ReviewKind.REVIEW, ReviewKind.OVERLAP)
    assert (unseen.settles, unseen.suggestion_shown) == (False, False)
    judged, _ = desk.settle(LEAD, WRONG)
    assert judged.answers == (("a", "b"), ("c",))
    assert desk.told[1:] == [
        (MessageType.REVIEW_COMPLETED, RIGHT),
        (MessageType.DOCUMENT_CORRECTED, WRONG),
    ]


def test_nobody_reads_one_document_twice(desk: Desk) -> None:
    desk.plan(AuditPlan(overlap_rate=1.0))
    desk.predict("0.3")
    held = desk.claim(ANN)
    assert held is not None
    assert desk.claim(ANN) is None, "while she holds the first"
    desk.complete(ANN, held.id, RIGHT, None, held.version)
    assert desk.claim(ANN) is None, "after she has settled the first"
    desk.settle(BEN, WRONG)
    assert desk.claim(CAT) is None
    assert desk.claim(LEAD) is not None


def test_a_lead_who_audited_does_not_judge_the_audit(desk: Desk) -> None:
    desk.plan(CHECK_ALL)
    desk.predict()
    desk.settle(LEAD, WRONG)
    assert desk.claim(LEAD) is None
    judge, _ = desk.settle(ADMIN, RIGHT)
    assert judge.kind is ReviewKind.ADJUDICATION


def test_an_adjudication_that_is_given_back_waits_for_a_lead_again(desk: Desk) -> None:
    desk.plan(CHECK_ALL)
    desk.predict()
    desk.settle(ANN, WRONG)
    task = desk.claim(LEAD)
    assert task is not None
    assert desk.release(LEAD, task.id).escalated
    assert desk.claim(BEN) is None
    assert desk.claim(LEAD) is not None
