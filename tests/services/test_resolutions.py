"""Reviewers see what was decided after them, once that reveals nothing."""

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.outcomes import DecidedBy, Resolution
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import Selection
from setwise.service.services.outcomes import Outcomes
from tests.samples import ANN, BEN, CLIENT, LEAD, add_predictions, prediction
from tests.services.test_reopening import Office


@pytest.fixture
def office() -> Office:
    return Office()


def queued(office: Office, kind: str, *, of: Prediction | None = None) -> Prediction:
    """Store a document, unless it is stored, with a review of a kind."""
    document = of or prediction(document=Document(id=f"note {office.new_id()}", text="fever"))
    task = ReviewTask(
        office.new_id(), document, ReviewKind(kind), ReviewState.WAITING, 1, office.now()
    )
    with office.database() as transaction:
        if of is None:
            add_predictions(transaction, document)
        transaction.reviews.add(task)
    return document


def resolved(office: Office, caller: Caller) -> Resolution | None:
    """Return what was decided on the document that the caller answered last."""
    newest, *_ = office.reviews.recent(caller).items
    own = office.reviews.own(caller, newest.prediction.id)
    assert own.resolution == newest.resolution
    return newest.resolution


def test_an_answer_that_counts_is_the_decision(office: Office) -> None:
    office.reviewed("a")
    resolution = resolved(office, ANN)
    assert resolution is not None
    assert (resolution.labels, resolution.by, resolution.agreed) == (("a",), DecidedBy.YOU, True)


@pytest.mark.parametrize("kind", ["audit", "overlap"])
def test_a_blind_answer_is_compared_with_what_the_lead_decided_but_not_before(
    office: Office, kind: str
) -> None:
    document = office.reviewed("c", kind="review", by=BEN) if kind == "overlap" else None
    queued(office, kind, of=document)
    office.answer(ANN, "a", "d")
    assert resolved(office, ANN) is None, "a lead has not read it"
    office.answer(LEAD, "a", "b")
    resolution = resolved(office, ANN)
    assert resolution is not None
    assert resolution.by is DecidedBy.LEAD
    assert (resolution.missed, resolution.surplus) == (("b",), ("d",))


def test_nothing_tells_which_check_a_confirmed_answer_was(office: Office) -> None:
    """An audit, one that a lead read again, and a second answer to a review look alike."""
    queued(office, "audit")
    office.answer(ANN, "a", "b")
    audit = resolved(office, ANN)
    queued(office, "overlap", of=office.reviewed("a", "b", by=BEN))
    office.answer(ANN, "a", "b")
    overlap = resolved(office, ANN)
    queued(office, "audit", of=(reread := queued(office, "adjudication")))
    with office.database(read_only=True) as transaction:
        lead_reads, _ = transaction.reviews.tasks_of(reread.id)
    task = office.reviews.claim(ANN)
    assert task is not None
    office.reviews.complete(ANN, task.id, ["a", "b"], None, task.version)
    assert resolved(office, ANN) is None
    obstacle = office.reviews.own(ANN, reread.id).obstacle
    assert obstacle == "This document is not decided yet."
    claimed = office.reviews.claim(LEAD, only=lead_reads.id)
    assert claimed is not None
    office.now.advance(minutes=1)
    office.reviews.complete(LEAD, claimed.id, ["a", "b"], None, claimed.version)
    newest_first = [own.annotation for own in office.reviews.recent(ANN).items]
    for shown, answer in zip((resolved(office, ANN), overlap, audit), newest_first, strict=True):
        assert shown == Resolution(("a", "b"), DecidedBy.YOU, answer.created_at, (), ())


@pytest.mark.parametrize("copied", ["name", "content"])
def test_nothing_is_shown_while_a_copy_is_read_blindly(office: Office, copied: str) -> None:
    drawn = Selection(draw=0.25)
    first = prediction(document=Document(id="note-1", text="fever"))._replace(selection=drawn)
    copy = prediction(
        document=Document(id="note-1" if copied == "name" else "note-2", text="fever")
    )._replace(selection=drawn if copied == "content" else Selection(draw=0.5))
    with office.database() as transaction:
        add_predictions(transaction, first, copy)
    queued(office, "review", of=first)
    office.answer(ANN, "a")
    assert resolved(office, ANN) is not None
    queued(office, "audit", of=copy)
    assert resolved(office, ANN) is None
    office.answer(BEN, "a", "b")
    assert resolved(office, ANN) is not None


def test_an_outcome_decides_without_a_name(office: Office) -> None:
    document = office.reviewed("a")
    office.now.advance(minutes=1)
    outcomes = Outcomes(office.database, office.now, office.new_id, office.reviews.predictors)
    outcomes.report(CLIENT, document.id, ["b"], "billing")
    resolution = resolved(office, ANN)
    assert resolution is not None
    assert (resolution.by, resolution.missed, resolution.surplus) == (
        DecidedBy.OUTCOME, ("b",), ("a",),
    )  # fmt: skip


def test_a_later_review_decides_and_the_first_reviewer_learns_no_name(office: Office) -> None:
    document = office.reviewed("a")
    office.now.advance(minutes=1)
    office.reviews.reopen(LEAD, document.id, "page two", ["b"])
    own = office.reviews.own(ANN, document.id)
    assert own.resolution is not None
    assert own.resolution.by is DecidedBy.REVIEWER
    assert own.obstacle == "Another person decided on this document."


def test_a_reviewer_who_would_correct_a_blind_answer_is_not_told_who_reads_it(
    office: Office,
) -> None:
    document = queued(office, "audit")
    office.answer(ANN, "c")
    with pytest.raises(errors.ReviewOpen) as refused:
        office.reviews.reopen(ANN, document.id, "late", ["a"])
    assert str(refused.value) == "Wait for the open review. This document is not decided yet."
