"""What people wrote goes when its time is over or somebody asks; numbers stay."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import Annotation, HeldDecision, ReviewTask
from setwise.service.domain.webhooks import DeliveryAttempt, DeliveryState, ReceiverResponse
from setwise.service.services.documents import texts as module
from setwise.service.stores.transaction import Transactions
from tests.fakes import START as NOW
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
from tests.samples import (
    ADMIN,
    ANN,
    BEN,
    add_predictions,
    delivery,
    endpoint,
    prediction,
    sent_message,
    task,
)

DAY = timedelta(days=1)


def real_id(age: timedelta, number: int) -> str:
    """Return an id as it was made ``age`` ago."""
    milliseconds = int((NOW - age).timestamp() * 1_000)
    return (
        f"{milliseconds:012x}"[:8] + "-" + f"{milliseconds:012x}"[8:] + f"-7000-8000-{number:012x}"
    )


@pytest.fixture
def next_number() -> Callable[[], int]:
    numbers = iter(range(1, 10_000))
    return lambda: next(numbers)


class Archive(Clinic):
    """Documents of every age in a clinic."""

    def __init__(self, begin: Transactions, next_number: Callable[[], int]) -> None:
        super().__init__(begin)
        self.number = next_number
        self.texts = replace(self.texts, retain_auto=30 * DAY)
        self.purge = self.texts.purge
        self.purge_all = replace(self.texts, retain_reviewed=90 * DAY).purge

    def erase(self, caller: Caller, document_id: str) -> int:
        return self.texts.erase(caller, document_id=document_id).predictions

    def sent(self, age: timedelta, name: str = "note-1") -> Prediction:
        prediction = self._made(age, name, Decision.AUTO)
        with self.begin() as transaction:
            add_predictions(transaction, prediction)
        return prediction

    def queued(self, age: timedelta, name: str = "note-1") -> ReviewTask:
        waiting = task(self._made(age, name, Decision.REVIEW))
        with self.begin() as transaction:
            add_predictions(transaction, waiting.prediction)
            transaction.reviews.add(waiting)
        return waiting

    def reviewed(self, age: timedelta, name: str = "note-1") -> Prediction:
        waiting = self.queued(age, name)
        task = waiting.claimed(BEN.id, NOW, DAY).skipped(BEN.id, "it says fever", NOW)
        held_task = task.claimed(ANN.id, NOW, DAY)
        annotation = Annotation(
            id=real_id(age, self.number()),
            task_id=waiting.id,
            prediction_id=waiting.prediction.id,
            reviewer=ANN.id,
            labels=("a",),
            comment="the fever is high",
            agreed=False,
            chosen_rank=1,
            suggestion_shown=True,
            seconds=1.0,
            created_at=NOW,
        )
        with self.begin() as transaction:
            transaction.reviews.save(task)
            transaction.reviews.save(held_task)
            transaction.reviews.save(held_task.completed(ANN.id, held_task.version))
            transaction.reviews.annotate(annotation)
        return waiting.prediction

    def read(self, one: Prediction) -> Prediction:
        return self.contents.predictions[one.id]

    def _made(self, age: timedelta, name: str, decision: Decision) -> Prediction:
        reason = Reason.ABOVE_THRESHOLD if decision is Decision.AUTO else Reason.BELOW_THRESHOLD
        answer = {"labels": ["fever"]}
        document = Document(name, "fever, no cough", metadata={"ward": "west"}, answer=answer)
        new_prediction = prediction(
            document=document, decision=decision, reason=reason, created_at=NOW - age
        )
        return new_prediction._replace(id=real_id(age, self.number()))


@pytest.fixture
def archive(begin: Transactions, next_number: Callable[[], int]) -> Archive:
    return Archive(begin, next_number)


def without_words(one: Prediction) -> Prediction:
    return one._replace(document=Document(one.document.id))


def test_texts_of_sent_documents_go_after_their_time(archive: Archive) -> None:
    old, young = archive.sent(31 * DAY), archive.sent(29 * DAY)
    assert archive.purge() == 1
    assert archive.read(old) == without_words(old)
    assert archive.read(young) == young
    assert archive.purge() == 0
    assert archive.actions() == ["texts.purged"]


def test_whatever_people_reviewed_stays_unless_the_setting_says_otherwise(
    archive: Archive,
) -> None:
    prediction = archive.reviewed(100 * DAY)
    assert archive.purge() == 0
    assert archive.read(prediction) == prediction
    assert archive.purge_all() == 1
    assert archive.read(prediction) == without_words(prediction)
    with archive.begin(read_only=True) as transaction:
        (annotation,) = transaction.reviews.annotations_of(prediction.id)
        (task,) = transaction.reviews.page(state=None, reason=None, after=None, limit=9).items
    assert (annotation.comment, annotation.labels) == (None, ("a",))
    assert [skip.reason for skip in task.skips] == ["purged"]


def test_what_waits_for_a_person_keeps_its_text(archive: Archive) -> None:
    waiting = archive.queued(1_000 * DAY)
    assert archive.purge_all() == 0
    assert archive.read(waiting.prediction) == waiting.prediction


def test_a_long_past_is_purged_in_parts(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PURGED_AT_ONCE", 2)
    old = [archive.sent((31 + n) * DAY) for n in range(5)]
    assert archive.purge() == 5
    assert all(archive.read(one).document.text is None for one in old)
    assert archive.actions() == ["texts.purged"] * 3


def test_answers_of_receivers_go_too(archive: Archive) -> None:
    prediction = archive.sent(31 * DAY)
    message = sent_message(prediction, real_id(31 * DAY, archive.number()))
    told = endpoint()
    under_way = delivery(message, told)
    old, young = (
        DeliveryAttempt(
            real_id(age, archive.number()),
            under_way.id,
            number,
            ReceiverResponse(NOW - age, 0.1, 500, "fever? what fever", None),
        )
        for number, age in ((1, 31 * DAY), (2, DAY))
    )
    with archive.begin() as transaction:
        transaction.outbox.add(message)
        transaction.endpoints.add(told)
        transaction.deliveries.add([under_way])
        transaction.deliveries.log([old, young])
    archive.purge()
    with archive.begin(read_only=True) as transaction:
        attempts = transaction.deliveries.attempts(under_way.id)
    assert [one.answer.excerpt for one in attempts] == ["", "fever? what fever"]
    assert [one.answer.status for one in attempts] == [500, 500]


@ON_BOTH
def test_a_document_is_forgotten_on_request_whatever_its_state(archive: Archive) -> None:
    prediction, waiting = archive.sent(DAY, "note-7"), archive.queued(DAY, "note-7").prediction
    other = archive.sent(DAY, "note-8")
    assert archive.erase(ADMIN, "note-7") == 2
    for one in (prediction, waiting):
        kept_prediction = archive.read(one)
        assert kept_prediction == one._replace(document=Document())
    assert archive.read(other) == other
    assert archive.erase(ADMIN, "note-7") == 0
    assert archive.actions() == ["document.erased"] * 2


def test_messages_forget_the_document_whether_they_have_arrived_or_not(archive: Archive) -> None:
    prediction, pending = (archive.sent(DAY, "note-7") for _ in range(2))
    told = endpoint()
    messages = [sent_message(one, real_id(DAY, archive.number())) for one in (prediction, pending)]
    with archive.begin() as transaction:
        transaction.endpoints.add(told)
        for message, state in zip(messages, ("delivered", "pending"), strict=True):
            transaction.outbox.add(message)
            ends = None if state == "pending" else NOW
            new_delivery = delivery(message, told, state=DeliveryState(state), finished_at=ends)
            transaction.deliveries.add([new_delivery])
        transaction.outbox.mark_routed([message.id for message in messages], NOW)
    archive.erase(ADMIN, "note-7")
    with archive.begin(read_only=True) as transaction:
        listed_messages = transaction.outbox.unacknowledged(
            prediction.client_id, after=None, limit=9
        ).items
    assert {message.data["prediction_id"] for message in listed_messages} == {
        prediction.id,
        pending.id,
    }
    assert [message.data["document_id"] for message in listed_messages] == [None, None]
    assert {message.document_key for message in listed_messages} == {
        prediction.id
    }  # still in order


def test_an_erased_document_takes_the_comment_of_a_decision_under_way_with_it(
    archive: Archive,
) -> None:
    task = archive.queued(DAY).claimed(ANN.id, NOW, DAY)
    decision = HeldDecision(("a",), "the fever is high", "Ann", NOW, NOW + DAY)
    with archive.begin() as transaction:
        transaction.reviews.save(task.decided(ANN.id, task.version, decision, DAY))
    archive.erase(ADMIN, "note-1")
    with archive.begin(read_only=True) as transaction:
        kept_task = transaction.reviews.get(task.id)
    assert kept_task is not None
    assert kept_task.decision == replace(decision, comment=None)


@pytest.mark.parametrize("name", ["", "a\x00"])
def test_a_name_that_no_document_has_is_refused(archive: Archive, name: str) -> None:
    with pytest.raises(InvalidRequest):
        archive.erase(ADMIN, name)
