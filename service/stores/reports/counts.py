"""Counts of each day, stored with what they count, so that reports do not count again.

A transaction collects what it adds, and stores that last and in one order. So two transactions
never wait for each other's rows, and others wait only while one commits.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from operator import add
from typing import Any, NamedTuple

from pydantic_core import to_json
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    Integer,
    Select,
    Table,
    and_,
    case,
    cast,
    delete,
    func,
    literal,
    literal_column,
    null,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.domain.effort import reading_of
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reports import LONGEST_READING_S, STEPS, step_of
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewTask
from setwise.service.domain.truth import Check, CheckedPrediction
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.tables import (
    annotations,
    checks,
    prediction_counts,
    predictions,
    review_counts,
    review_tasks,
    step_counts,
)

COUNTS = (prediction_counts, step_counts, review_counts)

_Kind = tuple[object, ...]
"""What is alike in the things that a row counts, besides the day."""

_MADE, _CHECK, _TASK, _SAID = predictions.c, checks.c, review_tasks.c, annotations.c


def _names(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of a kind, and the sums over what is of that kind."""
    sums = [each.name for each in table.c if each.info.get("sum")]
    return [each.name for each in table.c if not each.primary_key and each.name not in sums], sums


_NAMES = {table: _names(table) for table in COUNTS}


def _adding(make: Any, table: Table) -> Insert:  # noqa: ANN401 -- a dialect's insert
    statement = make(table)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=[each.name for each in table.primary_key],
        set_={name: table.c[name] + statement.excluded[name] for name in _NAMES[table][1]},
    )


_ADD = {
    kind: {table: _adding(make, table) for table in COUNTS}
    for kind, make in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}


class Evident(NamedTuple):
    """What the counts of predictions tell apart in what is known about them."""

    reviewer_agreed: bool | None = None
    outcome_agreed: bool | None = None
    reread: bool | None = None
    reread_rate: float | None = None
    first_shown: bool | None = None


UNKNOWN = Evident()
_READING = case(
    # Of reopened documents a round is stored.
    (_SAID.round > 0, reading_of(ReviewKind.REOPENED, shown=True).value),
    *(
        (
            and_(_SAID.kind == kind, _SAID.suggestion_shown.is_(shown)),
            reading_of(kind, shown=shown).value,
        )
        for kind in ReviewKind
        if kind is not ReviewKind.REOPENED
        for shown in (True, False)
    ),
)
_EVIDENT = tuple(_CHECK[name] for name in Evident._fields)


def evident(of: Check) -> Evident:
    """Return what counts tell apart in a check."""
    return Evident(*(getattr(of, name) for name in Evident._fields))


class CountStore(Store):
    """Counts of predictions, of their confidences, and of reviews, by day in UTC."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._added: dict[Table, dict[tuple[str, _Kind], list[float]]]
        self.forget()

    def forget(self) -> None:
        """Forget what was not stored yet."""
        self._added = {table: {} for table in COUNTS}

    def predicted(self, new: Iterable[Prediction]) -> None:
        """Count new predictions."""
        for each in new:
            confidence = each.scored.confidence
            drawn = each.selection.inclusion_probability, each.selection.in_rest
            kind = each.segment, each.decision, each.reason
            self._add(
                prediction_counts, each.created_at, (*kind, *drawn, *UNKNOWN), 1, confidence or 0.0
            )
            if confidence is not None:
                self._add(step_counts, each.created_at, (*kind, step_of(confidence)), 1)

    def learnt(self, of: CheckedPrediction, before: Evident, now: Evident) -> None:
        """Count a prediction by what is known about it now."""
        if before == now:
            return
        drawn = of.inclusion_probability, of.in_rest
        kind = of.segment, of.decision, of.reason, *drawn
        confidence = of.confidence or 0.0
        self._add(prediction_counts, of.created_at, (*kind, *before), -1, -confidence)
        self._add(prediction_counts, of.created_at, (*kind, *now), 1, confidence)

    def arrived(self, tasks: Iterable[ReviewTask]) -> None:
        """Count new review tasks."""
        for task in tasks:
            self._add(review_counts, task.created_at, (task.prediction.segment, None), 1, 0, 0.0)

    def completed(self, answer: Annotation, segment: str | None) -> None:
        """Count a completed review of a document of a segment."""
        seconds = min(answer.seconds, LONGEST_READING_S)
        reading = reading_of(answer.kind, shown=answer.suggestion_shown)
        self._add(review_counts, answer.created_at, (segment, reading), 0, 1, seconds)

    def store(self) -> None:
        """Store what was counted; call it last in a transaction."""
        for table in COUNTS:  # in one order, as the rows of each
            self._store(table)
        self.forget()

    def evident(self, ids: Sequence[str]) -> dict[str, Evident]:
        """Return what is known about predictions, as stored."""
        query = select(_CHECK.prediction_id, *_EVIDENT).where(_CHECK.prediction_id.in_(ids))
        return {id_: Evident(*known) for id_, *known in self._connection.execute(query)}

    def rebuild(self, after: date | None) -> date | None:
        """Count the first day after ``after`` again; return that day, or None at the end.

        Others that count wait until this transaction ends.
        """
        if self._connection.dialect.name == "postgresql":
            names = ", ".join(table.name for table in COUNTS)
            self._connection.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))
        self.store()
        day = self._next_day(after)
        if day is None:
            return None
        start = datetime.combine(day, time(), UTC)
        for table, queries in self._tallies(start, start + timedelta(days=1)).items():
            self._connection.execute(delete(table).where(table.c.day == day.isoformat()))
            kinds = len(_NAMES[table][0])
            for row in (row for query in queries for row in self._connection.execute(query)):
                self._add(table, start, tuple(row[:kinds]), *row[kinds:])
        self.store()
        return day

    def _tallies(self, since: datetime, before: datetime) -> dict[Table, list[Select[Any]]]:
        """Return queries that count what came in between: a kind's columns, then its sums."""

        def within(at: Column[datetime]) -> ColumnElement[bool]:
            return and_(at >= since, at < before)

        kind = _MADE.segment, _MADE.decision, _MADE.reason
        known = (*kind, _MADE.inclusion_probability, _MADE.in_rest, *_EVIDENT)
        work = case((_SAID.seconds > LONGEST_READING_S, LONGEST_READING_S), else_=_SAID.seconds)
        made, step = within(_MADE.created_at), self._step(_MADE.confidence)
        return {
            prediction_counts: [
                select(*known, func.count(), func.coalesce(func.sum(_MADE.confidence), 0.0))
                .select_from(predictions)
                .outerjoin(checks, _CHECK.prediction_id == _MADE.id)
                .where(made)
                .group_by(*_places(len(known)))
            ],
            step_counts: [
                select(*kind, step, func.count())
                .where(made, _MADE.confidence.is_not(None))
                .group_by(*_places(4))
            ],
            review_counts: [
                select(_MADE.segment, null(), func.count(), literal(0), literal(0.0))
                .join(review_tasks, _TASK.prediction_id == _MADE.id)
                .where(within(_TASK.created_at))
                .group_by(_MADE.segment),
                select(_MADE.segment, _READING, literal(0), func.count(), func.sum(work))
                .join(annotations, _SAID.prediction_id == _MADE.id)
                .where(within(_SAID.created_at))
                .group_by(*_places(2)),
            ],
        }

    def _step(self, confidence: Column[float]) -> ColumnElement[int]:
        """Return `step_of` of a confidence."""
        nearest: ColumnElement[float] = confidence * STEPS + 0.5
        if self._connection.dialect.name == "postgresql":
            nearest = func.floor(nearest)  # where a cast rounds; SQLite's truncates
        whole = cast(nearest, Integer)
        return whole - case((confidence < whole / float(STEPS), 1), else_=0)

    def _next_day(self, after: date | None) -> date | None:
        """Return the first day after another of which anything is stored or counted."""
        later = date.min if after is None else after + timedelta(days=1)
        start = datetime.combine(later, time(), UTC)
        times = (_MADE.created_at, _TASK.created_at, _SAID.created_at)
        first = [
            *(self._connection.execute(select(func.min(at)).where(at >= start)) for at in times),
            *(
                self._connection.execute(
                    select(func.min(table.c.day)).where(table.c.day >= later.isoformat())
                )
                for table in COUNTS
            ),
        ]
        stored = [found for row in first if (found := row.scalar_one()) is not None]
        return min(
            (
                date.fromisoformat(found) if isinstance(found, str) else day_of(found)
                for found in stored
            ),
            default=None,
        )

    def _add(self, table: Table, at: datetime, kind: _Kind, *sums: float) -> None:
        key = day_of(at).isoformat(), kind
        before = self._added[table].get(key)
        self._added[table][key] = list(map(add, before, sums)) if before else list(sums)

    def _store(self, table: Table) -> None:
        names, sums = _NAMES[table]
        rows = [
            {
                "day": day,
                "kind": to_json(kind).decode(),
                **dict(zip(names, kind, strict=True)),
                **dict(zip(sums, total, strict=True)),
            }
            for (day, kind), total in self._added[table].items()
            if any(total)
        ]
        if rows:
            rows.sort(key=lambda row: (row["day"], row["kind"]))
            self._connection.execute(_ADD[self._connection.dialect.name][table], rows)


def day_of(at: datetime) -> date:
    """Return the day of an instant, in UTC."""
    return at.astimezone(UTC).date()


def _places(number: int) -> Iterator[ColumnElement[int]]:
    """Return the places of the first columns of a query, to group by."""
    return (literal_column(str(place + 1)) for place in range(number))
