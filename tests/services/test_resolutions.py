"""Reviewers see what was decided after them, once that reveals nothing."""

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.outcomes import DecidedBy, Resolution
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import Selection
from setwise.service.services.outcomes import Outcomes
from tests.kit.clinic import Clinic
from tests.samples import ANN, BEN, CLIENT, LEAD, add_predictions, prediction
from tests.services.test_reopening import reviewed


def queued(clinic: Clinic, kind: str, *, of: Prediction | None = None) -> Prediction:
    """Store a document, unless it is stored, with a review of a kind."""
    document = of or prediction(document=Document(id=f"note {clinic.new_id()}", text="fever"))
    task = ReviewTask(
        clinic.new_id(), document, ReviewKind(kind), ReviewState.WAITING, 1, clinic.now()
    )
    with clinic.begin() as transaction:
        if of is None:
            add_predictions(transaction, document)
        transaction.reviews.add(task)
    return document


def resolved(clinic: Clinic, caller: Caller) -> Resolution | None:
    """Return what was decided on the document that the caller answered last."""
    newest, *_ = clinic.answers.recent(caller).items
    own = clinic.answers.own(caller, newest.prediction.id)
    assert own.resolution == newest.resolution
    return newest.resolution


def test_an_answer_that_counts_is_the_decision(clinic: Clinic) -> None:
    reviewed(clinic, "a")
    resolution = resolved(clinic, ANN)
    assert resolution is not None
    assert (resolution.labels, resolution.by, resolution.agreed) == (("a",), DecidedBy.YOU, True)


@pytest.mark.parametrize("kind", ["audit", "overlap"])
def test_a_blind_answer_is_compared_with_what_the_lead_decided_but_not_before(
    clinic: Clinic, kind: str
) -> None:
    document = reviewed(clinic, "c", kind="review", by=BEN) if kind == "overlap" else None
    queued(clinic, kind, of=document)
    clinic.answer(ANN, ["a", "d"], seconds=60)
    assert resolved(clinic, ANN) is None, "a lead has not read it"
    clinic.answer(LEAD, ["a", "b"], seconds=60)
    resolution = resolved(clinic, ANN)
    assert resolution is not None
    assert resolution.by is DecidedBy.LEAD
    assert (resolution.missed, resolution.surplus) == (("b",), ("d",))


def test_nothing_tells_which_check_a_confirmed_answer_was(clinic: Clinic) -> None:
    """An audit, one that a lead read again, and a second answer to a review look alike."""
    queued(clinic, "audit")
    clinic.answer(ANN, ["a", "b"], seconds=60)
    audit = resolved(clinic, ANN)
    queued(clinic, "overlap", of=reviewed(clinic, "a", "b", by=BEN))
    clinic.answer(ANN, ["a", "b"], seconds=60)
    overlap = resolved(clinic, ANN)
    queued(clinic, "audit", of=(reread := queued(clinic, "adjudication")))
    with clinic.begin(read_only=True) as transaction:
        lead_reads, _ = transaction.reviews.tasks_of(reread.id)
    task = clinic.queue.claim(ANN)
    assert task is not None
    clinic.reviews.complete(ANN, task.id, ["a", "b"], None, task.version)
    assert resolved(clinic, ANN) is None
    obstacle = clinic.answers.own(ANN, reread.id).obstacle
    assert obstacle == "This document is not decided yet."
    claimed_task = clinic.queue.claim(LEAD, only=lead_reads.id)
    assert claimed_task is not None
    clinic.now.advance(minutes=1)
    clinic.reviews.complete(LEAD, claimed_task.id, ["a", "b"], None, claimed_task.version)
    newest_first = [own.annotation for own in clinic.answers.recent(ANN).items]
    for shown, answer in zip((resolved(clinic, ANN), overlap, audit), newest_first, strict=True):
        assert shown == Resolution(("a", "b"), DecidedBy.YOU, answer.created_at, (), ())


@pytest.mark.parametrize("copied", ["name", "content"])
def test_nothing_is_shown_while_a_copy_is_read_blindly(clinic: Clinic, copied: str) -> None:
    selection = Selection(cluster=0.25)
    first = prediction(document=Document(id="note-1", text="fever"))._replace(selection=selection)
    copy = prediction(
        document=Document(id="note-1" if copied == "name" else "note-2", text="fever")
    )._replace(selection=selection if copied == "content" else Selection(cluster=0.5))
    with clinic.begin() as transaction:
        add_predictions(transaction, first, copy)
    queued(clinic, "review", of=first)
    clinic.answer(ANN, ["a"], seconds=60)
    assert resolved(clinic, ANN) is not None
    queued(clinic, "audit", of=copy)
    assert resolved(clinic, ANN) is None
    clinic.answer(BEN, ["a", "b"], seconds=60)
    assert resolved(clinic, ANN) is not None


def test_an_outcome_decides_without_a_name(clinic: Clinic) -> None:
    document = reviewed(clinic, "a")
    clinic.now.advance(minutes=1)
    outcomes = Outcomes(clinic.begin, clinic.now, clinic.new_id, clinic.reviews.predictors)
    outcomes.report(CLIENT, document.id, ["b"], "billing")
    resolution = resolved(clinic, ANN)
    assert resolution is not None
    assert (resolution.by, resolution.missed, resolution.surplus) == (
        DecidedBy.OUTCOME, ("b",), ("a",),
    )  # fmt: skip


def test_a_later_review_decides_and_the_first_reviewer_learns_no_name(clinic: Clinic) -> None:
    document = reviewed(clinic, "a")
    clinic.now.advance(minutes=1)
    clinic.answers.reopen(LEAD, document.id, "page two", ["b"])
    own = clinic.answers.own(ANN, document.id)
    assert own.resolution is not None
    assert own.resolution.by is DecidedBy.REVIEWER
    assert own.obstacle == "Another person decided on this document."


def test_a_reviewer_who_would_correct_a_blind_answer_is_not_told_who_reads_it(
    clinic: Clinic,
) -> None:
    document = queued(clinic, "audit")
    clinic.answer(ANN, ["c"], seconds=60)
    with pytest.raises(errors.ReviewOpen) as error:
        clinic.answers.reopen(ANN, document.id, "late", ["a"])
    assert str(error.value) == "Wait for the open review. This document is not decided yet."
