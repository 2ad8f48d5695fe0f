"""Who reads comments on a document, who is told of them, and that they go with the text."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.documents import CommentKind, DocumentFilter, DocumentState, Order
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import ReviewKind
from setwise.service.services.documents.texts import Texts
from tests.fake_files import FakeFiles
from tests.fakes import FakeIds
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
from tests.samples import ADMIN, ANN, BEN, LEAD, task

AUDITOR = Caller("019b7a0b-0000-7000-9000-000000000041", "Otto", Role.AUDITOR)
FLAG, RESOLVED = CommentKind.FLAGGED, CommentKind.RESOLVED


def answered(clinic: Clinic) -> Prediction:
    """Return a document that Ann has answered."""
    clinic.store()
    task, _ = clinic.answer(ANN, ["a"])
    return task.prediction


def write(clinic: Clinic, who: Caller, of: Prediction, text: str, *more: object) -> str:
    clinic.now.advance(minutes=1)
    return clinic.comments.write(who, of.id, text, *more).thread


def said(clinic: Clinic, who: Caller, of: Prediction) -> list[str]:
    return [x.text for one in clinic.comments.of(who, of.id) for x in one.comments]


def unread(clinic: Clinic, who: Caller) -> list[tuple[str, int]]:
    return [(one.prediction_id, one.new) for one in clinic.comments.unread(who)]


def flagged(clinic: Clinic) -> list[str]:
    with clinic.begin(read_only=True) as transaction:
        wanted_filter = DocumentFilter(state=DocumentState.FLAGGED)
        page = transaction.documents.page(wanted_filter, Order.NEWEST, after=None, limit=9)
        return [one.prediction.id for one in page.items]


def test_who_may_read_the_document_reads_its_comments(clinic: Clinic) -> None:
    prediction = answered(clinic)
    write(clinic, ANN, prediction, "is page two missing?")
    for who in (ANN, LEAD, ADMIN, AUDITOR):
        assert said(clinic, who, prediction) == ["is page two missing?"]
    with pytest.raises(errors.PredictionNotFound):
        clinic.comments.of(BEN, prediction.id)
    with pytest.raises(errors.PredictionNotFound):
        write(clinic, BEN, prediction, "me too")
    with pytest.raises(errors.PredictionNotFound):
        clinic.comments.of(LEAD, "no id")


def test_who_holds_a_blind_review_reads_none_and_who_reads_them_is_given_none(
    clinic: Clinic,
) -> None:
    prediction = answered(clinic)
    blind = replace(task(prediction), kind=ReviewKind.OVERLAP)
    with clinic.begin() as transaction:
        transaction.reviews.add(blind)
    write(clinic, ANN, prediction, "it is b")
    clinic.comments.of(ADMIN, prediction.id)
    with clinic.begin() as transaction:
        assert transaction.reviews.next_for(ADMIN.id, clinic.now(), escalated=True) is None
        transaction.reviews.save(blind.claimed(LEAD.id, clinic.now(), timedelta(minutes=15)))
    with pytest.raises(errors.BlindReviewHeld):
        clinic.comments.of(LEAD, prediction.id)
    with pytest.raises(errors.BlindReviewHeld):
        write(clinic, LEAD, prediction, "what is it?")


@ON_BOTH
def test_a_flag_is_found_until_its_thread_is_resolved(clinic: Clinic) -> None:
    prediction, other = answered(clinic), answered(clinic)
    write(clinic, ANN, other, "fine")
    thread = write(clinic, ANN, prediction, "whose note is this?", FLAG)
    write(clinic, LEAD, prediction, "I ask", CommentKind.COMMENT, thread)
    assert flagged(clinic) == [prediction.id]
    write(clinic, LEAD, prediction, "ward 3", RESOLVED, thread)
    assert flagged(clinic) == []
    with pytest.raises(errors.InvalidRequest):
        write(clinic, LEAD, prediction, "twice", RESOLVED, thread)
    write(clinic, ANN, prediction, "no, ward 4", FLAG, thread)
    assert flagged(clinic) == [prediction.id]


def test_whom_a_document_concerns_is_told_once_of_what_others_wrote(clinic: Clinic) -> None:
    prediction = answered(clinic)
    thread = write(clinic, LEAD, prediction, "why not b?")
    assert unread(clinic, ANN) == [(prediction.id, 1)]
    assert unread(clinic, BEN) == unread(clinic, LEAD) == []
    clinic.now.advance(minutes=1)
    said(clinic, ANN, prediction)
    assert unread(clinic, ANN) == []
    write(clinic, ANN, prediction, "no fever", CommentKind.COMMENT, thread)
    write(clinic, ADMIN, prediction, "indeed", CommentKind.COMMENT, thread)
    assert unread(clinic, LEAD) == [(prediction.id, 2)]
    assert unread(clinic, ANN) == [(prediction.id, 1)]


@pytest.mark.parametrize(
    ("text", "kind", "thread"),
    [(" ", FLAG, None), ("x", RESOLVED, None), ("x", FLAG, "none"), ("x", "reopened", None)],
)
def test_what_makes_no_sense_is_refused(
    clinic: Clinic, text: str, kind: str, thread: str | None
) -> None:
    with pytest.raises(errors.InvalidRequest):
        write(clinic, ANN, answered(clinic), text, CommentKind(kind), thread)


def test_who_may_no_longer_read_a_document_is_not_told_of_comments_on_it(clinic: Clinic) -> None:
    prediction = answered(clinic)
    write(clinic, LEAD, prediction, "please look")
    write(clinic, ANN, prediction, "I did")
    assert unread(clinic, LEAD) == [(prediction.id, 1)]
    assert unread(clinic, replace(LEAD, role=Role.REVIEWER)) == []


def test_what_was_written_while_somebody_read_is_told_later(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    prediction = answered(clinic)
    write(clinic, LEAD, prediction, "please look")

    def meanwhile(*_: object) -> None:
        monkeypatch.undo()
        write(clinic, LEAD, prediction, "never mind")
        clinic.now.advance(minutes=1)

    monkeypatch.setattr("setwise.service.services.documents.comments.disclose_one", meanwhile)
    assert said(clinic, ANN, prediction) == ["please look"]
    assert unread(clinic, ANN) == [(prediction.id, 1)]


def test_comments_on_an_erased_text_are_erased_after_its_time(clinic: Clinic) -> None:
    prediction = answered(clinic)
    clinic.now.advance(days=40)
    kept = {"retain_auto": timedelta(days=30), "retain_reviewed": timedelta(days=30)}
    texts = Texts(
        clinic.begin, clinic.now, FakeIds(0x3000_0000), FakeFiles(), lambda _: None, **kept
    )
    assert texts.purge() == 1
    write(clinic, ANN, prediction, "the patient called again")
    texts.purge()
    assert said(clinic, ANN, prediction) == []


def test_comments_are_erased_with_the_text(clinic: Clinic) -> None:
    prediction = answered(clinic)
    write(clinic, ANN, prediction, "Mrs Miller's note", FLAG)
    with clinic.begin() as transaction:
        transaction.texts.purge([prediction.id], clinic.now())
    assert said(clinic, LEAD, prediction) == []
    assert flagged(clinic) == []
