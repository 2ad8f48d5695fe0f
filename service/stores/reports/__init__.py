"""Aggregates for reports, from covering indexes.

Every query starts at an instant, so its cost does not grow with the history. Rows of predictions
are wide, so queries read only those whose labels are shown.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    Column,
    ColumnElement,
    Connection,
    Date,
    FromClause,
    Integer,
    Select,
    String,
    Table,
    case,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    type_coerce,
    union,
    union_all,
)

from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import (
    CONFIDENT,
    STEPS,
    Cell,
    CheckedSet,
    PredictionCounts,
    ReviewDay,
)
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.segments import Segment
from setwise.service.stores.columns.rows import in_segment
from setwise.service.stores.columns.types import opened
from setwise.service.stores.reports.verdicts import (
    ADJUDICATED,
    COUNTS,
    REREAD,
    SLACK,
    about_segment,
    outcome_agreed_of,
    outcome_agreed_since,
    reread_flag,
    reread_of,
    reread_rate_of,
    reviewer_agreed_of,
    reviewer_agreed_since,
)
from setwise.service.stores.tables import annotations, outcomes, predictions, review_tasks

LONGEST_READING_S = 900.0
"""Longer gaps count as breaks, not as work."""

_DECISIONS, _REASONS = tuple(Decision), tuple(Reason)
_FLAGS = (False, True, None)
_UNKNOWN: ColumnElement[int] = literal_column(str(_FLAGS.index(None)))
_KINDS = len(_DECISIONS) * len(_REASONS) * len(_FLAGS) ** 2 * len(REREAD)
"""Number of kinds of predictions in a `Cell`, apart from time and confidence."""


class _Answer(NamedTuple):
    """Whether a prediction is right, and the right labels."""

    agreed: bool
    labels: tuple[str, ...]


class ReportStore:
    """Aggregates of predictions and reviews by day in UTC, of all documents or of a segment."""

    def __init__(self, connection: Connection, segment: Segment | None = None) -> None:
        self._connection = connection
        self._segment = segment
        column: ColumnElement[str] = predictions.c.segment
        if connection.dialect.name == "sqlite":
            # Without statistics SQLite would read every row of a segment by its index. An
            # expression cannot use that index.
            column = column.concat("")
        self._meant = in_segment(column, segment)

    def within(self, segment: Segment | None) -> "ReportStore":
        """Return the same aggregates of the documents of a segment; None means all."""
        return ReportStore(self._connection, segment)

    def tally(self, since: datetime, *, before: datetime | None = None) -> PredictionCounts:
        """Return counts of the predictions made since ``since``, grouped by kind."""
        first = since.astimezone(UTC).date()
        alike = self._alike(since, first).where(*_until(before)).subquery()
        # Count once, then group the small result in two ways: the database computes a common
        # table expression that is named twice only once.
        fine = (
            select(
                alike.c.code,
                alike.c.inclusion_probability,
                alike.c.reread_rate,
                func.count().label("n"),
                func.sum(alike.c.confidence).label("total"),
            )
            .group_by(alike.c.code, alike.c.inclusion_probability, alike.c.reread_rate)
            .cte("fine")
        )
        of_a_day = _KINDS * (STEPS + 1)
        day = fine.c.code // literal_column(str(of_a_day)) * literal_column(str(_KINDS))
        by_day = _together(fine, day + fine.c.code % literal_column(str(_KINDS)), on_days=True)
        by_step = _together(fine, fine.c.code % literal_column(str(of_a_day)), on_days=False)
        tally = PredictionCounts([], [])
        for on_days, code, probability, rate, n, total in self._connection.execute(
            union_all(by_day, by_step)
        ):
            place, kind = divmod(int(code), _KINDS)
            kind, reread = divmod(kind, len(REREAD))
            kind, outcome = divmod(kind, len(_FLAGS))
            kind, review = divmod(kind, len(_FLAGS))
            decision, reason = divmod(kind, len(_REASONS))
            cell = Cell(
                day=first + timedelta(days=place) if on_days else None,
                step=None if on_days else place,
                decision=_DECISIONS[decision],
                reason=_REASONS[reason],
                inclusion_probability=probability,
                reviewer_agreed=_FLAGS[review],
                outcome_agreed=_FLAGS[outcome],
                documents=int(n),
                confidence=total,
                reread=REREAD[reread],
                reread_rate=rate,
            )
            (tally.by_day if on_days else tally.by_step).append(cell)
        return tally

    def _alike(self, since: datetime, first: date) -> Select[Any]:  # Any: of several columns
        """Return a query for each prediction's group, one row per prediction.

        One number encodes everything except probabilities, because databases sort and compare one
        number much faster than nine columns. Its digits, from the last: `_KINDS` for the second
        reading, the outcome, the review before it, the reason and the decision; then the step and
        the days since the first.
        """
        column = predictions.c
        # ``step / STEPS`` begins a step, although times `STEPS` it may be less than ``step``.
        nearest = cast(self._whole(column.confidence * STEPS + 0.5), Integer)
        step = nearest - case((column.confidence < nearest / float(STEPS), 1), else_=0)
        rows: FromClause = predictions
        review: ColumnElement[Any]  # Any: a number, or a flag
        outcome: ColumnElement[Any]
        reread: ColumnElement[Any]
        rate: ColumnElement[Any]
        if self._connection.dialect.name == "sqlite":
            # On SQLite, lookups in covering indexes are cheaper than a join that needs a sort.
            # Only predictions that were held or audited have reviews.
            read = or_(
                column.decision == Decision.REVIEW.value, column.reason == Reason.AUDIT.value
            )
            review = case((read, reviewer_agreed_of(column.id)))
            outcome = outcome_agreed_of(column.id)
            reread, rate = (
                case((read, expression))
                for expression in (reread_of(column.id), reread_rate_of(column.id))
            )
        else:
            reviewed, reported = reviewer_agreed_since(since), outcome_agreed_since(since)
            rows = rows.outerjoin(reviewed, reviewed.c.prediction_id == column.id)
            rows = rows.outerjoin(reported, reported.c.prediction_id == column.id)
            review, outcome = reviewed.c.agreed, reported.c.agreed
            reread, rate = reviewed.c.reread, reviewed.c.reread_rate
        code: ColumnElement[int] = self._days_since(first, column.created_at)
        for digit, of in (
            (step, STEPS + 1),
            (_place_of(column.decision, _DECISIONS), len(_DECISIONS)),
            (_place_of(column.reason, _REASONS), len(_REASONS)),
            (func.coalesce(type_coerce(review, Integer), _UNKNOWN), len(_FLAGS)),
            (func.coalesce(type_coerce(outcome, Integer), _UNKNOWN), len(_FLAGS)),
            (func.coalesce(type_coerce(reread, Integer), literal_column("0")), len(REREAD)),
        ):
            code = code * literal_column(str(of)) + digit
        return (
            select(
                code.label("code"),
                column.inclusion_probability,
                rate.label("reread_rate"),
                column.confidence,
            )
            .select_from(rows)
            .where(column.created_at >= since, self._meant)
        )

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
        column = predictions.c
        ids = select(
            union(*(self._last(table, since, before, limit) for table in (annotations, outcomes)))
            .cte("chosen")
            .c.prediction_id
        )
        reviewed, reported = self._reviews_of(ids), self._outcomes_of(ids)
        query = select(
            column.id,
            column.client_id,
            column.metadata,
            column.confidence,
            column.reason,
            column.inclusion_probability,
            # Only the first candidate, because the others make up most of the row.
            column.candidates[0].label("first"),
            reread_of(column.id).label("reread"),
            reread_rate_of(column.id).label("reread_rate"),
        ).where(column.id.in_(ids), column.created_at >= since)
        evidence = []
        for row in self._connection.execute(query.order_by(column.id)):
            review, outcome = reviewed.get(row.id), reported.get(row.id)
            answer = outcome or review
            if answer is not None:
                evidence.append(
                    CheckedSet(
                        row.id,
                        row.client_id,
                        opened(row.metadata, row.id, row.client_id, otherwise={}),
                        row.confidence,
                        row.reason,
                        row.inclusion_probability,
                        review.agreed if review else None,
                        outcome.agreed if outcome else None,
                        labels=tuple(row.first["labels"]),
                        truth=answer.labels,
                        reread=reread_flag(row.reread),
                        reread_rate=row.reread_rate,
                    )
                )
        return evidence

    def _reviews_of(self, ids: Select[tuple[str]]) -> dict[str, _Answer]:
        of = annotations.c
        query = (
            select(of.prediction_id, of.agreed, of.labels)
            .where(of.prediction_id.in_(ids), COUNTS)
            .order_by(ADJUDICATED.desc(), of.agreed, of.id)
        )
        return self._first(query)

    def _outcomes_of(self, ids: Select[tuple[str]]) -> dict[str, _Answer]:
        of = outcomes.c
        query = select(of.prediction_id, of.agreed, of.labels)
        return self._first(query.where(of.prediction_id.in_(ids)).order_by(of.number.desc()))

    def _first(self, query: Select[Any]) -> dict[str, _Answer]:  # Any: of three columns
        answers: dict[str, _Answer] = {}
        for prediction_id, agreed, labels in self._connection.execute(query):
            if prediction_id not in answers:
                answers[prediction_id] = _Answer(bool(agreed), tuple(labels))
        return answers

    def undecided(self, since: datetime, *, before: datetime | None = None) -> int:
        """Count confident documents whose auditor's contradiction waits for a lead."""
        column, annotation = predictions.c, annotations.c
        contradicted = select(annotation.id).where(
            annotation.prediction_id == column.id,
            annotation.kind == ReviewKind.AUDIT.value,
            ~annotation.settles,
            ~annotation.agreed,
        )
        decided = select(annotation.id).where(
            annotation.prediction_id == column.id, annotation.kind == ReviewKind.ADJUDICATION.value
        )
        query = select(func.count()).where(
            column.created_at >= since,
            self._meant,
            *_until(before),
            column.reason.in_([reason.value for reason in CONFIDENT]),
            contradicted.exists(),
            ~decided.exists(),
        )
        return int(self._connection.execute(query).scalar_one())

    def _last(
        self, table: Table, since: datetime, before: datetime | None, limit: int
    ) -> Select[tuple[str]]:
        about = about_segment(table.c.prediction_id, self._segment)
        of = select(predictions.c.id).where(predictions.c.id == table.c.prediction_id)
        earlier = [of.where(*_until(before)).exists()] if before else []
        newest = (
            select(table.c.prediction_id)
            .where(table.c.created_at >= since - SLACK, about, *earlier)
            .order_by(table.c.created_at.desc())
            .limit(limit)
            .subquery()
        )
        return select(newest.c.prediction_id)

    def _day(self, at: Column[datetime]) -> ColumnElement[Any]:  # Any: a date, or text
        if self._connection.dialect.name == "sqlite":
            # SQLite stores instants as UTC text of fixed width.
            return func.substr(at, 1, 10, type_=String)
        return cast(func.timezone("UTC", at), Date)

    def _days_since(self, first: date, at: Column[datetime]) -> ColumnElement[int]:
        if self._connection.dialect.name == "sqlite":
            # A Julian day starts at noon.
            julian: ColumnElement[float] = literal_column(str(first.toordinal() + _JULIAN))
            return cast(func.julianday(self._day(at)) - julian, Integer)
        return type_coerce(self._day(at) - literal(first, Date), Integer)

    def _whole(self, number: ColumnElement[float]) -> ColumnElement[float]:
        # A cast truncates on SQLite and rounds on PostgreSQL.
        return number if self._connection.dialect.name == "sqlite" else func.floor(number)


_JULIAN = 1_721_424.5
"""Julian day at the beginning of the day before the first day that Python supports."""


def _until(before: datetime | None) -> list[ColumnElement[bool]]:
    return [] if before is None else [predictions.c.created_at < before]


def _place_of(column: Column[str], values: Sequence[StrEnum]) -> ColumnElement[int]:
    """Return the index of the column's value in ``values``."""
    places: dict[str, ColumnElement[int]] = {
        each.value: literal_column(str(place)) for place, each in enumerate(values)
    }
    return case(places, value=column)


def _together(fine: CTE, code: ColumnElement[int], *, on_days: bool) -> Select[Any]:
    """Return the rows summed by ``code``; Any: of several columns."""
    coded = select(
        code.label("code"),
        fine.c.inclusion_probability,
        fine.c.reread_rate,
        fine.c.n,
        fine.c.total,
    ).subquery()
    keys = (coded.c.code, coded.c.inclusion_probability, coded.c.reread_rate)
    flag: ColumnElement[int] = literal_column(str(int(on_days)))
    return select(flag, *keys, func.sum(coded.c.n), func.sum(coded.c.total)).group_by(*keys)


def _date(day: date | str) -> date:
    return date.fromisoformat(day) if isinstance(day, str) else day
