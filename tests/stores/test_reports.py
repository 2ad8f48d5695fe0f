"""Aggregates for reports, and the work that waits."""

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from setwise.service.domain.evidence import Cell
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reports import STEPS, BacklogLine, ReviewDay
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.domain.routing.segments import Segment
from setwise.service.domain.truth import deciding
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakeIds
from tests.samples import add_predictions, annotation, job, outcome, prediction, sent_message, task

DAY = START.date()


LONG_AGO = START - timedelta(days=40)
FIRST_DAY = LONG_AGO.date()
FIRST_DAY = LONG_AGO.date()


def stored(begin: Transactions, *made: Prediction) -> list[ReviewTask]:
    """Store predictions, each with a task that waits."""
    tasks = [replace(task(one), created_at=one.created_at) for one in made]
    with begin() as transaction:
        for one in tasks:
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
    return tasks


def say(
    begin: Transactions, of: ReviewTask, agreed: bool, kind: ReviewKind, *, settles: bool
) -> None:
    labels = of.prediction.scored.labels if agreed else ("c",)
    # One task takes one answer; several kinds mean several tasks.
    round_ = int(kind is ReviewKind.REOPENED)
    other = replace(of, id=task(of.prediction).id, kind=kind, round=round_)
    said = replace(annotation(other, *labels), kind=kind, round=round_, settles=settles)
    with begin() as transaction:
        if kind is not ReviewKind.REVIEW:
            transaction.reviews.add(other)
        transaction.reviews.annotate(
            said if kind is not ReviewKind.REVIEW else replace(said, task_id=of.id)
        )


def read(begin: Transactions, since: date = FIRST_DAY) -> list[Cell]:
    """Return the cells, having seen that steps count the same documents."""
    with begin(read_only=True) as transaction:
        cells, steps = transaction.reports().tally(since), transaction.reports().steps(since)
    counts: list[Counter[Reason]] = [Counter(), Counter()]
    for found_counts, counted in zip(counts, (cells, steps), strict=True):
        for one in counted:
            found_counts[one.reason] += one.documents
    assert counts[0] == counts[1]
    return cells


def test_open_reviews_past_their_due_time_are_overdue(begin: Transactions) -> None:
    def due(hours: float | None, segment: str = "site=north") -> Prediction:
        due_at = None if hours is None else START + timedelta(hours=hours)
        return prediction(document=Document(text="x", due_at=due_at))._replace(segment=segment)

    tasks = stored(begin, due(-1), due(-2, "site=south"), due(1), due(None))
    reopened_task = replace(task(due(-1)), kind=ReviewKind.REOPENED, round=1)
    with begin() as transaction:
        add_predictions(transaction, reopened_task.prediction)
        transaction.reviews.add(reopened_task)
    with begin(read_only=True) as transaction:
        assert transaction.backlog.overdue(START) == 2
        assert transaction.backlog.overdue(START, Segment("site", "south")) == 1
        assert transaction.backlog.overdue(START + timedelta(hours=2)) == 3
    with begin() as transaction:
        transaction.reviews.save(tasks[0].finished())
    with begin(read_only=True) as transaction:
        assert transaction.backlog.overdue(START) == 1


def test_an_empty_database_has_nothing_to_report(begin: Transactions) -> None:
    with begin(read_only=True) as transaction:
        reports = transaction.reports()
        assert reports.tally(FIRST_DAY) == []
        assert reports.steps(FIRST_DAY) == []
        assert reports.review_days(FIRST_DAY) == []
        assert transaction.evidence.checked(LONG_AGO, 10) == []
        backlog = transaction.backlog.read()
    lines = [*backlog.reviews.values(), *backlog.deliveries.values(), *backlog.jobs.values()]
    assert set(lines) == {NOTHING}


def test_what_is_alike_is_counted_together(begin: Transactions) -> None:
    selection = Selection(AuditRole.CERTIFICATION, 0.01, 0.06)
    sent = {"decision": Decision.AUTO, "reason": Reason.ABOVE_THRESHOLD}
    stored(
        begin,
        *(prediction(confidence=0.9012, **sent)._replace(selection=selection) for _ in range(3)),
        prediction(confidence=0.9012, **sent),
        prediction(confidence=1.0, **sent),
        prediction(confidence=0.4999),
        prediction(confidence=0.4, created_at=START + timedelta(days=1)),
        prediction(confidence=0.4, created_at=START - timedelta(days=50)),
    )
    by_day = Counter[tuple[date | None, float | None]]()
    cells = read(begin)
    for cell in cells:
        by_day[cell.day, cell.inclusion_probability] += cell.documents
    tomorrow = DAY + timedelta(days=1)
    assert by_day == {(DAY, 0.06): 3, (DAY, None): 3, (tomorrow, None): 1}
    with begin(read_only=True) as transaction:
        steps = transaction.reports().steps(FIRST_DAY)
    assert {(each.step, each.decision): each.documents for each in steps} == {
        (36, Decision.AUTO): 4,
        (40, Decision.AUTO): 1,
        (19, Decision.REVIEW): 1,
        (16, Decision.REVIEW): 1,
    }
    (cell,) = (each for each in cells if each.inclusion_probability == 0.06)
    assert (cell.decision, cell.reason) == (Decision.AUTO, Reason.ABOVE_THRESHOLD)
    assert cell.confidence == pytest.approx(3 * 0.9012)
    assert (cell.reviewer_agreed, cell.outcome_agreed) == (None, None)


def test_each_step_begins_at_its_own_number(begin: Transactions) -> None:
    """Not a rounding below it."""
    grid = [step / STEPS for step in range(STEPS + 1)]
    near = [math.nextafter(one, side) for one in grid for side in (0.0, 1.0)]
    confidences = [*grid, *near]
    stored(begin, *(prediction(confidence=one) for one in confidences))
    with begin(read_only=True) as transaction:
        steps = transaction.reports().steps(FIRST_DAY)
    counts = Counter[int]()
    for count in steps:
        counts[count.step] += count.documents
    assert counts == Counter(bisect_right(grid, one) - 1 for one in confidences)


def test_days_end_at_midnight_in_utc(begin: Transactions) -> None:
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    just_before = midnight - timedelta(microseconds=1)
    for one in stored(begin, *(prediction(created_at=at) for at in (just_before, midnight))):
        say(begin, one, True, ReviewKind.REVIEW, settles=True)
    assert {cell.day for cell in read(begin)} == {date(2026, 2, 28), date(2026, 3, 1)}
    with begin(read_only=True) as transaction:
        days = transaction.reports().review_days(FIRST_DAY)
    assert {one.day for one in days if one.arrived} == {date(2026, 2, 28), date(2026, 3, 1)}


LEAD, AUDIT = ReviewKind.ADJUDICATION, ReviewKind.AUDIT


SAID = {
    "nobody": ([], None),
    "a reviewer agrees": ([(ReviewKind.REVIEW, True, True)], True),
    "a reviewer disagrees": ([(ReviewKind.REVIEW, False, True)], False),
    "a second reading settles nothing": ([(ReviewKind.OVERLAP, False, False)], None),
    "a lead overrules a reviewer": (
        [(ReviewKind.REVIEW, False, True), (ReviewKind.OVERLAP, True, False), (LEAD, True, True)],
        True,
    ),
    "a reopened document is no evidence": (
        [(ReviewKind.REVIEW, True, True), (ReviewKind.REOPENED, False, True)],
        True,
    ),
    "an audit agrees": ([(AUDIT, True, True)], True),
    "an audit that agrees is to be read again": ([(AUDIT, True, False)], True),
    "an audit contradicts, the lead is to come": ([(AUDIT, False, False)], False),
    "a lead overrules an audit": ([(AUDIT, False, False), (LEAD, True, True)], True),
    "a lead finds what an audit missed": ([(AUDIT, True, False), (LEAD, False, True)], False),
}


@pytest.mark.parametrize(("given", "expected"), SAID.values(), ids=SAID)
def test_people_have_a_last_word(begin: Transactions, given, expected) -> None:
    (one,) = stored(begin, prediction())
    for kind, agreed, settles in given:
        say(begin, one, agreed, kind, settles=settles)
    (cell,) = read(begin)
    assert (cell.reviewer_agreed, cell.outcome_agreed) == (expected, None)
    with begin(read_only=True) as transaction:
        checks = transaction.evidence.checked(LONG_AGO, 10)
        annotation = deciding(transaction.reviews.annotations_of(one.prediction.id))
    assert (None if annotation is None else annotation.agreed) == expected
    assert [found.reviewer_agreed for found in checks] == ([] if expected is None else [expected])
    if annotation is not None:
        assert checks[0].truth == annotation.labels


def test_the_last_outcome_counts_before_what_people_said(begin: Transactions) -> None:
    (one,) = stored(begin, prediction())
    say(begin, one, True, ReviewKind.REVIEW, settles=True)
    with begin() as transaction:
        transaction.outcomes.add(outcome(one.prediction, "a", "b"))
        transaction.outcomes.add(outcome(one.prediction, "d", number=2))
    (cell,) = read(begin)
    assert (cell.reviewer_agreed, cell.outcome_agreed, cell.right) == (True, False, False)
    with begin(read_only=True) as transaction:
        (check,) = transaction.evidence.checked(LONG_AGO, 10)
    assert (check.labels, check.truth, check.right) == (("a", "b"), ("d",), False)
    assert check.metadata == {"ward": 3}


def test_checked_documents_are_the_last_ones_and_of_the_period(begin: Transactions) -> None:
    tasks = stored(
        begin,
        *(
            prediction(document=Document(text="x"), created_at=START + timedelta(hours=n))
            for n in range(4)
        ),
    )
    for one in tasks:
        say(begin, one, False, ReviewKind.REVIEW, settles=True)

    def ids(since: datetime, limit: int) -> list[str]:
        with begin(read_only=True) as transaction:
            return [one.id for one in transaction.evidence.checked(since, limit)]

    assert ids(LONG_AGO, 2) == [one.prediction.id for one in tasks[2:]]
    assert ids(START + timedelta(hours=1), 10) == [one.prediction.id for one in tasks[1:]]


def test_reviews_are_counted_by_the_day_they_come_and_the_day_they_are_done(
    begin: Transactions,
) -> None:
    tasks = stored(begin, *(prediction() for _ in range(3)))
    with begin() as transaction:
        for one, minutes, seconds in zip(tasks, (5, 5, 60 * 24), (20.0, 40.0, 5000.0), strict=True):
            said = replace(annotation(one, "a", minutes=minutes), seconds=seconds)
            transaction.reviews.annotate(said)
    with begin(read_only=True) as transaction:
        assert transaction.reports().review_days(FIRST_DAY) == [
            ReviewDay(DAY, 3, 2, 60.0),
            ReviewDay(DAY + timedelta(days=1), 0, 1, 900.0),
        ]


def test_every_task_is_counted_on_the_day_it_comes(begin: Transactions) -> None:
    """Those that come with a prediction as such, those that are second readings for themselves."""
    sent = {"decision": Decision.AUTO, "reason": Reason.ABOVE_THRESHOLD}
    with begin() as transaction:
        add_predictions(transaction, prediction()._replace(**sent))  # nobody reads it
    checked_prediction = prediction()._replace(decision=Decision.AUTO, reason=Reason.AUDIT)
    (first, *_) = stored(begin, prediction(), prediction(), checked_prediction)
    with begin() as transaction:
        for kind in (ReviewKind.OVERLAP, LEAD):
            later = START + timedelta(days=1) * (kind is LEAD)
            transaction.reviews.add(replace(task(first.prediction), kind=kind, created_at=later))
    with begin(read_only=True) as transaction:
        by_day = {one.day: one.arrived for one in transaction.reports().review_days(FIRST_DAY)}
        assert by_day == {DAY: 4, DAY + timedelta(days=1): 1}
        by_day = {one.day: one.arrived for one in transaction.reports().review_days(later.date())}
        assert by_day == {DAY + timedelta(days=1): 1}


NOTHING = BacklogLine(0, None)


MINUTE = timedelta(minutes=1)


def test_what_waits_is_counted_with_the_age_of_its_oldest(begin: Transactions) -> None:
    waiting = [task(prediction(created_at=START + n * MINUTE)) for n in range(3)]
    leased_task = waiting[1].claimed("reviewer", START + 5 * MINUTE, MINUTE)
    ids = FakeIds(1_000_000)
    with begin() as transaction:
        add_predictions(transaction, *(one.prediction for one in waiting))
        transaction.reviews.add_all(waiting)
        transaction.reviews.save(leased_task)
        transaction.outbox.add(sent_message(waiting[2].prediction, ids()))
        for minute in (2, 1):
            transaction.jobs.enqueue(job("fit", due_at=START + minute * MINUTE))
        running = transaction.jobs.claim(["fit"], START + MINUTE, MINUTE)
        backlog = transaction.backlog.read()
    assert running is not None
    assert backlog.reviews == {
        "waiting": BacklogLine(2, waiting[0].created_at),
        "leased": BacklogLine(1, START + 5 * MINUTE),
        "skipped": NOTHING,
    }
    assert backlog.deliveries == {
        "unrouted": BacklogLine(1, waiting[2].prediction.created_at),
        "pending": NOTHING,
        "failing": NOTHING,
        "dead": NOTHING,
    }
    assert backlog.jobs == {
        "queued": BacklogLine(1, START + 2 * MINUTE),
        "running": BacklogLine(1, START + MINUTE),
    }
