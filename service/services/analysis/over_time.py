"""Documents and reviews by day or week; state of the queue."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

from setwise.service.domain.effort import Effort, ReadingCount
from setwise.service.domain.errors import FieldFault
from setwise.service.domain.evidence import Cell, confident
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import (
    ReviewDay,
    Share,
    Standing,
    promised,
)
from setwise.service.services.analysis.accuracy import shares


class Granularity(StrEnum):
    """Period that a row covers."""

    DAY = "day"
    WEEK = "week"

    def start(self, day: date) -> date:
        """Return the first day of the row with ``day``; weeks start on Mondays.

        >>> Granularity.WEEK.start(date(2026, 11, 21))
        datetime.date(2026, 11, 16)
        """
        return day if self is Granularity.DAY else day - timedelta(days=day.weekday())

    @property
    def days(self) -> int:
        """Number of days in a row of the report."""
        return 1 if self is Granularity.DAY else 7


MOST_DAYS = 400
USUAL_DAYS = 35
EARLIEST = date(2000, 1, 1)


@dataclass(frozen=True)
class Period:
    """The days that a report covers, in UTC."""

    days: int = USUAL_DAYS
    """Number of days up to today; ignored if ``first`` is given."""
    pace: Granularity = Granularity.DAY
    first: date | None = None
    last: date | None = None
    """Both included; None or a day to come means up to today."""

    def until(self, today: date) -> date:
        """Return the last day."""
        return min(self.last or today, today)

    def since(self, today: date) -> date:
        """Return the first day; the first of its row."""
        return self.pace.start(self.first or today - timedelta(days=self.days - 1))

    def before(self) -> datetime | None:
        """Return when it ends; None if it has no last day."""
        if self.last is None or self.last == date.max:
            return None
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)

    def faults(self, today: date) -> list[FieldFault]:
        """Return why a report cannot cover it.

        >>> [one.detail for one in Period(first=date(2026, 2, 1)).faults(date(2026, 1, 31))]
        ['must not lie after the last day']
        """
        first, last = self.first, self.until(today)
        if first is None and self.last is not None:
            return [FieldFault("/query/first", "must be given with last")]
        if first is None:
            wrong = not 1 <= self.days <= MOST_DAYS
            return [FieldFault("/query/days", f"must lie between 1 and {MOST_DAYS}")] * wrong
        checks = {
            "must not lie after the last day": first > last,
            f"must not lie before {EARLIEST}": first < EARLIEST,
            f"and last must span at most {MOST_DAYS} days": (last - first).days >= MOST_DAYS,
        }
        return [FieldFault("/query/first", why) for why, wrong in checks.items() if wrong][:1]


@dataclass(frozen=True)
class PeriodCounts:
    """Counts of one day or week."""

    start: date
    sent: int
    audited: int
    reviewed: int
    """Documents sent automatically, confident documents held for an audit, and all others."""
    accuracy: Share
    """Accuracy of confident documents, from audits; without audits, from outcomes."""
    promised: float | None
    """Mean confidence of the same documents; None without any."""
    arrived: int
    completed: int
    """New and completed review tasks."""
    backlog: int
    """Tasks waiting at the end of the period."""
    effort: Effort

    @property
    def documents(self) -> int:
        """Number of received documents."""
        return self.sent + self.audited + self.reviewed


def over_time(
    cells: Sequence[Cell],
    reviews: Sequence[ReviewDay],
    readings: Sequence[ReadingCount],
    *,
    first: date,
    last: date,
    pace: Granularity,
    waiting: int,
    known: Standing,
    risk: float,
) -> list[PeriodCounts]:
    """Return a row per day or week from ``first`` to ``last``, oldest first.

    ``waiting``: Tasks waiting now.
    ``known``: Weights of checked predictions.
    ``risk``: Risk of each bound.
    """
    inside: defaultdict[date, list[Cell]] = defaultdict(list)
    arrived: defaultdict[date, int] = defaultdict(int)
    completed: defaultdict[date, int] = defaultdict(int)
    for cell in cells:
        if cell.day is not None:
            inside[pace.start(cell.day)].append(cell)
    read: defaultdict[date, list[ReadingCount]] = defaultdict(list)
    for count in readings:
        read[pace.start(count.day)].append(count)
    for day in reviews:
        arrived[pace.start(day.day)] += day.arrived
        completed[pace.start(day.day)] += day.completed
    starts: list[date] = []
    start = pace.start(last)
    while start >= pace.start(first):
        starts.append(start)
        start -= timedelta(days=pace.days)
    accuracy = shares(
        [[(cell, known.of(cell)) for cell in inside[start] if confident(cell)] for start in starts],
        risk,
    )
    rows: list[PeriodCounts] = []
    backlog = waiting
    for start, right in zip(starts, accuracy, strict=True):
        checks = inside[start]
        sent = _count(cell for cell in checks if cell.decision is Decision.AUTO)
        audited = _count(
            cell
            for cell in checks
            if cell.reason is Reason.AUDIT and cell.decision is not Decision.AUTO
        )
        rows.append(
            PeriodCounts(
                start=start,
                sent=sent,
                audited=audited,
                reviewed=_count(checks) - sent - audited,
                accuracy=right,
                promised=promised(checks),
                arrived=arrived[start],
                completed=completed[start],
                backlog=max(0, backlog),
                effort=effort(checks, read[start]),
            )
        )
        backlog -= arrived[start] - completed[start]
    return rows[::-1]


def effort(cells: Iterable[Cell], readings: Iterable[ReadingCount]) -> Effort:
    """Return what people read of some predictions.

    A sent document that is audited as well is read.
    """
    unread = _count(
        cell for cell in cells if cell.decision is Decision.AUTO and cell.reason is not Reason.AUDIT
    )
    return Effort.of(unread, readings)


def _count(cells: Iterable[Cell]) -> int:
    return sum(cell.documents for cell in cells)


@dataclass(frozen=True)
class Queue:
    """State of the queue, and its pace over recent days."""

    waiting: int
    """Tasks waiting now."""
    oldest_s: float
    """Age of the oldest task, in seconds."""
    arriving: float
    completing: float
    """Tasks per day."""
    over: int
    """Number of days behind these means."""
    overdue: int = 0
    """Tasks whose due time has passed."""

    @property
    def empty_in_days(self) -> float | None:
        """Days until the queue is empty; None if it does not shrink."""
        shrinking = self.completing - self.arriving
        if not self.waiting:
            return 0.0
        return self.waiting / shrinking if shrinking > 0 else None


LAST_DAYS = 7


def queue(
    reviews: Sequence[ReviewDay], *, today: date, waiting: int, oldest_s: float, overdue: int = 0
) -> Queue:
    """Return the queue's state and its pace over the last full days."""
    recent = [day for day in reviews if today - timedelta(days=LAST_DAYS) <= day.day < today]
    return Queue(
        waiting,
        oldest_s,
        sum(day.arrived for day in recent) / LAST_DAYS,
        sum(day.completed for day in recent) / LAST_DAYS,
        LAST_DAYS,
        overdue,
    )


def mean_seconds(days: Sequence[ReviewDay]) -> float | None:
    """Return the mean time per completed review; None if there was none."""
    completed = sum(day.completed for day in days)
    return sum(day.seconds for day in days) / completed if completed else None
