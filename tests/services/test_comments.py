"""Who reads comments on a document, who is told of them, and that they go with the text."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.documents import CommentKind, DocumentFilter, DocumentState, Order
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import ReviewKind
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.texts import Texts
from setwise.service.stores.transaction import Transactions
from tests.database import ON_BOTH
from tests.fake_files import FakeFiles
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, ANN, BEN, LEAD, add_predictions, annotation, task

AUDITOR = Caller("019b7a0b-0000-7000-9000-000000000041", "Otto", Role.AUDITOR)
FLAG, RESOLVED = CommentKind.FLAGGED, CommentKind.RESOLVED


class Office:
    def __init__(self, begin: Transactions) -> None:
        self.begin, self.now = begin, FakeClock()
        self.comments = Comments(begin, self.now, FakeIds())

    def answered(self) -> Prediction:
        """Store a document that Ann has answered."""
        of = task()
        with self.begin() as transaction:
            add_predictions(transaction, of.prediction)
            transaction.reviews.add(of)
            transaction.reviews.save(of.finished())
            transaction.reviews.annotate(annotation(of, "a"))
        return of.prediction

    def write(self, who: Caller, of: Prediction, text: str, *more: object) -> str:
        self.now.advance(minutes=1)
        return self.comments.write(who, of.id, text, *more).thread

    def said(self, who: Caller, of: Prediction) -> list[str]:
        return [x.text for one in self.comments.of(who, of.id) for x in one.comments]

    def unread(self, who: Caller) -> list[tuple[str, int]]:
        return [(one.prediction_id, one.new) for one in self.comments.unread(who)]

    def flagged(self) -> list[str]:
        with self.begin(read_only=True) as transaction:
            wanted = DocumentFilter(state=DocumentState.FLAGGED)
            found = transaction.documents.page(wanted, Order.NEWEST, after=None, limit=9)
            return [one.prediction.id for one in found.items]


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def test_who_may_read_the_document_reads_its_comments(office: Office) -> None:
    made = office.answered()
    office.write(ANN, made, "is page two missing?")
    for who in (ANN, LEAD, ADMIN, AUDITOR):
        assert office.said(who, made) == ["is page two missing?"]
    with pytest.raises(errors.PredictionNotFound):
        office.comments.of(BEN, made.id)
    with pytest.raises(errors.PredictionNotFound):
        office.write(BEN, made, "me too")
    with pytest.raises(errors.PredictionNotFound):
        office.comments.of(LEAD, "no id")


def test_who_holds_a_blind_review_reads_none_and_who_reads_them_is_given_none(
    office: Office,
) -> None:
    made = office.answered()
    blind = replace(task(made), kind=ReviewKind.OVERLAP)
    with office.begin() as transaction:
        transaction.reviews.add(blind)
    office.write(ANN, made, "it is b")
    office.comments.of(ADMIN, made.id)
    with office.begin() as transaction:
        assert transaction.reviews.next_for(ADMIN.id, office.now(), escalated=True) is None
        transaction.reviews.save(blind.claimed(LEAD.id, office.now(), timedelta(minutes=15)))
    with pytest.raises(errors.BlindReviewHeld):
        office.comments.of(LEAD, made.id)
    with pytest.raises(errors.BlindReviewHeld):
        office.write(LEAD, made, "what is it?")


@ON_BOTH
def test_a_flag_is_found_until_its_thread_is_resolved(office: Office) -> None:
    made, other = office.answered(), office.answered()
    office.write(ANN, other, "fine")
    thread = office.write(ANN, made, "whose note is this?", FLAG)
    office.write(LEAD, made, "I ask", CommentKind.COMMENT, thread)
    assert office.flagged() == [made.id]
    office.write(LEAD, made, "ward 3", RESOLVED, thread)
    assert office.flagged() == []
    with pytest.raises(errors.InvalidRequest):
        office.write(LEAD, made, "twice", RESOLVED, thread)
    office.write(ANN, made, "no, ward 4", FLAG, thread)
    assert office.flagged() == [made.id]


def test_whom_a_document_concerns_is_told_once_of_what_others_wrote(office: Office) -> None:
    made = office.answered()
    thread = office.write(LEAD, made, "why not b?")
    assert office.unread(ANN) == [(made.id, 1)]
    assert office.unread(BEN) == office.unread(LEAD) == []
    office.now.advance(minutes=1)
    office.said(ANN, made)
    assert office.unread(ANN) == []
    office.write(ANN, made, "no fever", CommentKind.COMMENT, thread)
    office.write(ADMIN, made, "indeed", CommentKind.COMMENT, thread)
    assert office.unread(LEAD) == [(made.id, 2)]
    assert office.unread(ANN) == [(made.id, 1)]


@pytest.mark.parametrize(
    ("text", "kind", "thread"),
    [(" ", FLAG, None), ("x", RESOLVED, None), ("x", FLAG, "none"), ("x", "reopened", None)],
)
def test_what_makes_no_sense_is_refused(
    office: Office, text: str, kind: str, thread: str | None
) -> None:
    with pytest.raises(errors.InvalidRequest):
        office.write(ANN, office.answered(), text, CommentKind(kind), thread)


def test_who_may_no_longer_read_a_document_is_not_told_of_comments_on_it(office: Office) -> None:
    made = office.answered()
    office.write(LEAD, made, "please look")
    office.write(ANN, made, "I did")
    assert office.unread(LEAD) == [(made.id, 1)]
    assert office.unread(replace(LEAD, role=Role.REVIEWER)) == []


def test_what_was_written_while_somebody_read_is_told_later(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = office.answered()
    office.write(LEAD, made, "please look")

    def meanwhile(*_: object) -> None:
        monkeypatch.undo()
        office.write(LEAD, made, "never mind")
        office.now.advance(minutes=1)

    monkeypatch.setattr("setwise.service.services.documents.comments.disclose_one", meanwhile)
    assert office.said(ANN, made) == ["please look"]
    assert office.unread(ANN) == [(made.id, 1)]


def test_comments_on_an_erased_text_are_erased_after_its_time(office: Office) -> None:
    made = office.answered()
    office.now.advance(days=40)
    kept = {"retain_auto": timedelta(days=30), "retain_reviewed": timedelta(days=30)}
    texts = Texts(office.begin, office.now, FakeIds(0x3000_0000), FakeFiles(), **kept)
    assert texts.purge() == 1
    office.write(ANN, made, "the patient called again")
    texts.purge()
    assert office.said(ANN, made) == []


def test_comments_are_erased_with_the_text(office: Office) -> None:
    made = office.answered()
    office.write(ANN, made, "Mrs Miller's note", FLAG)
    with office.begin() as transaction:
        transaction.texts.purge([made.id], office.now())
    assert office.said(LEAD, made) == []
    assert office.flagged() == []
