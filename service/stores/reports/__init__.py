"""Aggregates for reports, from covering indexes.

Every query starts at an instant, so its cost does not grow with the history. Rows of predictions
are wide, so queries read only those whose labels are shown.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Date,
    Integer,
    String,
    case,
    cast,
    func,
    literal_column,
    select,
    true,
    union,
)

from setwise.service.domain.reports import (
    CONFIDENT,
    STEPS,
    Cell,
    CheckedSet,
    ReviewDay,
    StepCount,
)
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.columns.rows import in_segment
from setwise.service.stores.columns.types import opened
from setwise.service.stores.tables import (
    AUDIT_READ,
    annotations,
    checks,
    predictions,
    review_tasks,
)
from setwise.service.stores.truth import SECOND_READING, to_second_reading

LONGEST_READING_S = 900.0
"""Longer gaps count as breaks, not as work."""

SLACK = timedelta(days=1)
"""Bound on clock skew: no check is older than its prediction by more than this."""

_CHECKED = (
    "labels",
    "confidence",
    "reason",
    "inclusion_probability",
    "reviewer_agreed",
    "outcome_agreed",
)


class ReportStore:
    """Aggregates of predictions and reviews by day in UTC, of the documents of a segment."""

    def __init__(self, connection: Connection, segment: Segment) -> None:
        self._connection = connection
        self._segment = segment
        column: ColumnElement[str] = predictions.c.segment
        if connection.dialect.name == "sqlite":
            # Without statistics SQLite would read every row of a segment by its index. An
            # expression cannot use that index.
            column = column.concat("")
        self._meant = in_segment(column, segment)

    def tally(self, since: datetime, *, before: datetime | None = None) -> list[Cell]:
        """Return counts of the predictions made since ``since``, of each day and kind."""
        column, check = predictions.c, checks.c
        kinds = (
            *SECOND_READING,
            self._day(column.created_at),
            column.decision,
            column.reason,
            column.inclusion_probability,
            check.reviewer_agreed,
            check.outcome_agreed,
        )
        query = (
            select(*kinds, func.count(), func.sum(column.confidence))
            .select_from(predictions)
            .outerjoin(checks, check.prediction_id == column.id)
            .where(column.created_at >= since, self._meant, *_until(before))
            .group_by(*_first(len(kinds)))
        )
        return [
            Cell(_date(day), *kind)._replace(agreement=to_second_reading(rate, done))
            for rate, done, day, *kind in self._connection.execute(query)
        ]

    def steps(self, since: datetime, *, before: datetime | None = None) -> list[StepCount]:
        """Return counts of the same predictions, of each step of confidence."""
        column = predictions.c
        # ``step / STEPS`` begins a step, although times `STEPS` it may be less than ``step``.
        nearest = cast(self._whole(column.confidence * STEPS + 0.5), Integer)
        step = nearest - case((column.confidence < nearest / float(STEPS), 1), else_=0)
        query = select(step, column.decision, column.reason, func.count()).where(
            column.created_at >= since, self._meant, *_until(before)
        )
        return [StepCount(*row) for row in self._connection.execute(query.group_by(*_first(3)))]

    def review_days(self, since: datetime) -> list[ReviewDay]:
        """Return arrived and completed reviews, one row per day, oldest first."""
        at, seconds = annotations.c.created_at, annotations.c.seconds
        work = case((seconds > LONGEST_READING_S, LONGEST_READING_S), else_=seconds)
        about = about_segment(annotations.c.prediction_id, self._segment)
        recent = select(self._day(at).label("day"), work.label("work")).where(at >= since, about)
        done = recent.subquery()
        completed = {
            day: (n, total)
            for day, n, total in self._connection.execute(
                select(done.c.day, func.count(), func.sum(done.c.work)).group_by(done.c.day)
            )
        }
        at = review_tasks.c.created_at
        about = about_segment(review_tasks.c.prediction_id, self._segment)
        came = select(self._day(at).label("day")).where(at >= since, about).subquery()
        counts = select(came.c.day, func.count()).group_by(came.c.day)
        arrived = {row[0]: int(row[1]) for row in self._connection.execute(counts)}
        return [
            ReviewDay(_date(day), arrived.get(day, 0), *completed.get(day, (0, 0.0)))
            for day in sorted({*arrived, *completed})
        ]

    def checked(
        self, since: datetime, limit: int, *, before: datetime | None = None
    ) -> list[CheckedSet]:
        """Return the most recently checked predictions made since ``since``.

        At most ``limit`` that people have reviewed, and at most ``limit`` with an outcome.
        """
        column, check = predictions.c, checks.c
        ids = union(
            *(
                select(
                    select(check.prediction_id)
                    .where(at >= since - SLACK, in_segment(check.segment, self._segment))
                    .where(*([] if before is None else [check.predicted_at < before]))
                    .order_by(at.desc())
                    .limit(limit)
                    .subquery()
                    .c.prediction_id
                )
                for at in (check.decided_at, check.reported_at)
            )
        )
        query = (
            select(
                column.id,
                column.client_id,
                column.metadata,
                # Only the first candidate, because the others make up most of the row.
                column.candidates[0].label("first"),
                *(check[name] for name in _CHECKED),
                *SECOND_READING,
            )
            .join(checks, check.prediction_id == column.id)
            .where(column.id.in_(ids), column.created_at >= since)
        )
        return [
            CheckedSet(
                prediction_id=row["id"],
                client_id=row["client_id"],
                metadata=opened(row["metadata"], row["id"], row["client_id"], otherwise={}),
                labels=tuple(row["first"]["labels"]),
                truth=tuple(row["labels"]),
                agreement=to_second_reading(*(row[each] for each in SECOND_READING)),
                **{name: row[name] for name in _CHECKED if name != "labels"},
            )
            for row in self._connection.execute(query.order_by(column.id)).mappings()
        ]

    def undecided(self, since: datetime, *, before: datetime | None = None) -> int:
        """Count confident documents whose auditor's contradiction waits for a lead."""
        check = checks.c
        query = select(func.count()).where(
            AUDIT_READ,
            ~check.audit_agreed,
            check.waits,
            check.reason.in_([reason.value for reason in CONFIDENT]),
            check.predicted_at >= since,
            in_segment(check.segment, self._segment),
            *([] if before is None else [check.predicted_at < before]),
        )
        return int(self._connection.execute(query).scalar_one())

    def _day(self, at: Column[datetime]) -> ColumnElement[Any]:  # Any: a date, or text
        if self._connection.dialect.name == "sqlite":
            # SQLite stores instants as UTC text of fixed width.
            return func.substr(at, 1, 10, type_=String)
        return cast(func.timezone("UTC", at), Date)

    def _whole(self, number: ColumnElement[float]) -> ColumnElement[float]:
        # A cast truncates on SQLite and rounds on PostgreSQL.
        return number if self._connection.dialect.name == "sqlite" else func.floor(number)


def about_segment(prediction_id: Column[str], segment: Segment) -> ColumnElement[bool]:
    """Return the condition that a prediction is meant; None means all."""
    if segment == ALL_DOCUMENTS:
        return true()
    of = predictions.alias("meant")
    return (
        select(of.c.id).where(of.c.id == prediction_id, in_segment(of.c.segment, segment)).exists()
    )


def _until(before: datetime | None) -> list[ColumnElement[bool]]:
    return [] if before is None else [predictions.c.created_at < before]


def _first(number: int) -> Iterator[ColumnElement[int]]:
    """Return the places of the first columns of a query, to group by."""
    return (literal_column(str(place + 1)) for place in range(number))


def _date(day: date | str) -> date:
    return date.fromisoformat(day) if isinstance(day, str) else day
