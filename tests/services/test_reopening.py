"""A decided document is decided again: what is sent changes, the evidence does not."""

from dataclasses import dataclass, field

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.recalibration import Noise, answer_of
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.truth import Check, check, deciding
from setwise.service.domain.webhooks import MessageType
from setwise.service.services.reviews import Reviews
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, ANN, BEN, LEAD, add_predictions, prediction
from tests.sqlite import Database

WHY = "the patient called"


@dataclass
class Office:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)

    def __post_init__(self) -> None:
        predictors = FakePredictors()
        self.reviews = Reviews(self.database, self.now, self.new_id, predictors, LOTTERY)

    def sent(self) -> Prediction:
        """Store a document that was sent automatically."""
        made = prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD)
        with self.database() as transaction:
            add_predictions(transaction, made)
        return made

    def reviewed(self, *labels: str, by: Caller = ANN, kind: str = "review") -> Prediction:
        """Store a document that somebody has answered."""
        made = prediction()
        with self.database() as transaction:
            add_predictions(transaction, made)
            transaction.reviews.add(
                ReviewTask(
                    self.new_id(), made, ReviewKind(kind), ReviewState.WAITING, 1, self.now()
                )
            )
        self.answer(by, *labels)
        return made

    def answer(self, caller: Caller, *labels: str) -> Annotation:
        self.now.advance(minutes=1)
        task = self.reviews.claim(caller)
        assert task is not None
        return self.reviews.complete(caller, task.id, labels, None, task.version)

    def messages(self) -> list[tuple[MessageType, object, object]]:
        sent = self.database.contents.messages.values()
        return [(m.type, m.data.get("previous_labels"), m.data.get("labels")) for m in sent]

    def said(self) -> list[Annotation]:
        return list(self.database.contents.annotations.values())


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_sent_document_is_reviewed_with_the_reason_and_the_answer_corrects_it(
    office: Office,
) -> None:
    made = office.sent()
    opened = office.reviews.reopen(LEAD, made.id, WHY)
    assert (opened.kind, opened.state) == (ReviewKind.REOPENED, ReviewState.WAITING)
    task = office.reviews.claim(ANN)
    assert task is not None
    assert (task.id, task.kind, task.because, task.blind) == (opened.id, opened.kind, WHY, False)
    said = office.reviews.complete(ANN, task.id, ["a"], None, task.version)
    assert (said.kind, said.settles) == (ReviewKind.REOPENED, True)
    assert office.said() == [said]
    assert office.messages() == [(MessageType.DOCUMENT_CORRECTED, ["a", "b"], ["a"])]
    events = office.database.contents.events.values()
    assert [e.action for e in events if e.subject == task.id] == [
        "review.reopened", "review.claimed", "review.completed",
    ]  # fmt: skip


def test_an_answer_that_changes_nothing_sends_nothing(office: Office) -> None:
    made = office.reviewed("b")
    before = office.messages()
    office.reviews.reopen(LEAD, made.id, WHY, ["b"])
    assert office.messages() == before


def test_a_document_is_reopened_as_often_as_somebody_doubts_it_even_for_who_decided(
    office: Office,
) -> None:
    made = office.reviewed("b")
    for place, labels in enumerate((("a",), ("c",), ("a", "c"))):
        office.reviews.reopen(LEAD, made.id, f"{WHY} {place}")
        assert office.answer(ANN, *labels).round == place + 1
    assert office.messages()[-1] == (MessageType.DOCUMENT_CORRECTED, ["c"], ["a", "c"])


def test_an_open_review_comes_first(office: Office) -> None:
    made = office.sent()
    office.reviews.reopen(LEAD, made.id, WHY)
    with pytest.raises(errors.ReviewOpen):
        office.reviews.reopen(ADMIN, made.id, WHY)


def test_a_reviewer_corrects_an_own_answer_while_it_is_the_last_one(office: Office) -> None:
    made = office.reviewed("b")
    office.now.advance(minutes=1)
    done = office.reviews.reopen(ANN, made.id, "I overlooked page two", ["b", "a"])
    assert done.state is ReviewState.COMPLETED
    assert office.said()[-1].labels == ("a", "b")
    assert office.messages()[-1] == (MessageType.DOCUMENT_CORRECTED, ["b"], ["a", "b"])
    with pytest.raises(errors.PredictionNotFound):
        office.reviews.reopen(BEN, made.id, WHY, ["a"])
    with pytest.raises(errors.PredictionNotFound):
        office.reviews.reopen(ANN, made.id, WHY)
    office.now.advance(minutes=1)
    office.reviews.reopen(LEAD, made.id, WHY, ["c"])
    with pytest.raises(errors.ReviewAlreadyDecided):
        office.reviews.reopen(ANN, made.id, WHY, ["a"])


@pytest.mark.parametrize(("reason", "labels"), [("", None), (" ", ["a"]), (WHY, ["x"])])
def test_what_cannot_be_stored_reopens_nothing(
    office: Office, reason: str, labels: list[str] | None
) -> None:
    made = office.sent()
    with pytest.raises(errors.InvalidRequest):
        office.reviews.reopen(LEAD, made.id, reason, labels)
    assert office.reviews.claim(ANN) is None


def known(made: Prediction, said: list[Annotation]) -> Check:
    found = check(made.id, said)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["review", "audit"])
def test_a_correction_is_no_evidence_but_teaches_what_an_ordinary_review_said(
    office: Office, kind: str
) -> None:
    made = office.reviewed("a", "b", kind=kind)
    first = office.said()
    office.now.advance(minutes=1)
    office.reviews.reopen(LEAD, made.id, WHY, ["c"])
    said = office.said()
    assert deciding(said) == deciding(first)
    learnt = answer_of(known(made, said), Noise.NONE)
    assert not isinstance(learnt, str)
    assert learnt.agreed is (kind == "audit")
    with office.database(read_only=True) as transaction:
        assert transaction.annotators.pairs() == []
        assert transaction.annotators.gold() == []


def test_what_nobody_drew_teaches_nothing(office: Office) -> None:
    made = office.sent()
    office.reviews.reopen(LEAD, made.id, WHY, ["c"])
    learnt = answer_of(known(made, office.said()), Noise.NONE)
    assert isinstance(learnt, str)


def test_erasing_a_text_erases_why_it_was_reopened(office: Office) -> None:
    made = office.sent()
    office.reviews.reopen(LEAD, made.id, WHY)
    with office.database() as transaction:
        transaction.texts.purge([made.id], office.now())
    task = office.reviews.claim(ANN)
    assert task is not None
    assert task.because is None
