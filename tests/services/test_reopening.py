"""A decided document is decided again: what is sent changes, the evidence does not."""

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import Noise, answer_of
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewState
from setwise.service.domain.truth import Check, check, deciding
from setwise.service.services.analysis.noise import gold_of_audits
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, ANN, BEN, LEAD

WHY = "the patient called"


def sent(clinic: Clinic) -> Prediction:
    """Return a document that was sent automatically."""
    clinic.fix_threshold()
    return clinic.predict("0.9")


def changes(clinic: Clinic) -> list[tuple[list[str], list[str]]]:
    """Return what each correction replaced, and by what."""
    return [(before, after) for before, after, _ in clinic.corrections()]


def reviewed(clinic: Clinic, *labels: str, by: Caller = ANN, kind: str = "review") -> Prediction:
    """Return a document that somebody has answered."""
    (task,) = clinic.store(kind)
    clinic.answer(by, labels, seconds=60)
    return task.prediction


def test_a_sent_document_is_reviewed_with_the_reason_and_the_answer_corrects_it(
    clinic: Clinic,
) -> None:
    prediction = sent(clinic)
    opened_task = clinic.answers.reopen(LEAD, prediction.id, WHY)
    assert (opened_task.kind, opened_task.state) == (ReviewKind.REOPENED, ReviewState.WAITING)
    task = clinic.queue.claim(ANN)
    assert task is not None
    assert (task.id, task.kind, task.because, task.blind) == (
        opened_task.id,
        opened_task.kind,
        WHY,
        False,
    )
    annotation = clinic.reviews.complete(ANN, task.id, ["a"], None, task.version)
    assert (annotation.kind, annotation.settles) == (ReviewKind.REOPENED, True)
    assert clinic.annotations() == [annotation]
    assert changes(clinic) == [(["a", "b"], ["a"])]
    events = clinic.contents.events.values()
    assert [e.action for e in events if e.subject == task.id] == [
        "review.reopened", "review.claimed", "review.completed",
    ]  # fmt: skip


def test_an_answer_that_changes_nothing_sends_nothing(clinic: Clinic) -> None:
    prediction = reviewed(clinic, "b")
    before = changes(clinic)
    clinic.answers.reopen(LEAD, prediction.id, WHY, ["b"])
    assert changes(clinic) == before


def test_a_document_is_reopened_as_often_as_somebody_doubts_it_even_for_who_decided(
    clinic: Clinic,
) -> None:
    prediction = reviewed(clinic, "b")
    for place, labels in enumerate((("a",), ("c",), ("a", "c"))):
        clinic.answers.reopen(LEAD, prediction.id, f"{WHY} {place}")
        assert clinic.answer(ANN, labels)[1].round == place + 1
    assert changes(clinic)[-1] == (["c"], ["a", "c"])


def test_an_open_review_comes_first(clinic: Clinic) -> None:
    prediction = sent(clinic)
    clinic.answers.reopen(LEAD, prediction.id, WHY)
    with pytest.raises(errors.ReviewOpen):
        clinic.answers.reopen(ADMIN, prediction.id, WHY)


def test_a_reviewer_corrects_an_own_answer_while_it_is_the_last_one(clinic: Clinic) -> None:
    prediction = reviewed(clinic, "b")
    clinic.now.advance(minutes=1)
    task = clinic.answers.reopen(ANN, prediction.id, "I overlooked page two", ["b", "a"])
    assert task.state is ReviewState.COMPLETED
    assert clinic.annotations()[-1].labels == ("a", "b")
    assert changes(clinic)[-1] == (["b"], ["a", "b"])
    with pytest.raises(errors.PredictionNotFound):
        clinic.answers.reopen(BEN, prediction.id, WHY, ["a"])
    with pytest.raises(errors.PredictionNotFound):
        clinic.answers.reopen(ANN, prediction.id, WHY)
    clinic.now.advance(minutes=1)
    clinic.answers.reopen(LEAD, prediction.id, WHY, ["c"])
    with pytest.raises(errors.ReviewAlreadyDecided):
        clinic.answers.reopen(ANN, prediction.id, WHY, ["a"])


@pytest.mark.parametrize(("reason", "labels"), [("", None), (" ", ["a"]), (WHY, ["x"])])
def test_what_cannot_be_stored_reopens_nothing(
    clinic: Clinic, reason: str, labels: list[str] | None
) -> None:
    prediction = sent(clinic)
    with pytest.raises(errors.InvalidRequest):
        clinic.answers.reopen(LEAD, prediction.id, reason, labels)
    assert clinic.queue.claim(ANN) is None


def known(made: Prediction, said: list[Annotation]) -> Check:
    found_check = check(made.id, said)
    assert found_check is not None
    return found_check


@pytest.mark.parametrize("kind", ["review", "audit"])
def test_a_correction_is_no_evidence_but_teaches_what_an_ordinary_review_said(
    clinic: Clinic, kind: str
) -> None:
    prediction = reviewed(clinic, "a", "b", kind=kind)
    first = clinic.annotations()
    clinic.now.advance(minutes=1)
    clinic.answers.reopen(LEAD, prediction.id, WHY, ["c"])
    annotations = clinic.annotations()
    assert deciding(annotations) == deciding(first)
    learnt = answer_of(known(prediction, annotations), Noise.NONE)
    assert not isinstance(learnt, str)
    assert learnt.agreed is (kind == "audit")
    with clinic.begin(read_only=True) as transaction:
        assert gold_of_audits(transaction.evidence.contradicted_or_read_again()) == []


def test_what_nobody_drew_teaches_nothing(clinic: Clinic) -> None:
    prediction = sent(clinic)
    clinic.answers.reopen(LEAD, prediction.id, WHY, ["c"])
    learnt = answer_of(known(prediction, clinic.annotations()), Noise.NONE)
    assert isinstance(learnt, str)


def test_erasing_a_text_erases_why_it_was_reopened(clinic: Clinic) -> None:
    prediction = sent(clinic)
    clinic.answers.reopen(LEAD, prediction.id, WHY)
    with clinic.begin() as transaction:
        transaction.texts.purge([prediction.id], clinic.now())
    task = clinic.queue.claim(ANN)
    assert task is not None
    assert task.because is None
