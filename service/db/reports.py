"""Aggregates for reports, from indexes that hold all that they ask for.

Everything starts from an instant, so that a long history costs nothing. Rows of predictions are
wide; only the few whose labels are shown are read.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    Column,
    ColumnElement,
    Connection,
    Date,
    Integer,
    Select,
    String,
    Table,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    union,
    union_all,
)

from service.db.tables import AUDITED, annotations, outcomes, predictions, review_tasks
from service.domain.audits import AuditRole
from service.domain.certification import Scorer
from service.domain.predictions import Decision, Reason
from service.domain.reviews import ReviewKind
from service.domain.verdicts import STEPS, Cell, CheckedSet, Counted, ReviewDay
from service.use_cases.written import labels_of_first

LONGEST_READING_S = 900.0
"""Whoever is silent for longer has gone for lunch; it is not counted as work."""

_SLACK = timedelta(days=1)
"""Clocks of two machines differ by less, so no check of a prediction is older than this."""


_REASONS = {reason.value: reason for reason in Reason}


class _Answer(NamedTuple):
    """Whether the prediction is right, and what is."""

    agreed: bool
    labels: tuple[str, ...]


class SqlReports:
    """Fills the port `service.use_cases.report_ports.Reports`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tally(self, since: datetime, splits: Sequence[float] = ()) -> Counted:
        splits = sorted(splits)
        alike = self._alike(since, splits).subquery()
        keys = [key for key in alike.c if key.name != "confidence"]
        # Counted once, and then put together in two ways from what is far less: a table expression
        # that is named twice is computed once.
        fine = (
            select(*keys, func.count().label("n"), func.sum(alike.c.confidence).label("total"))
            .group_by(*keys)
            .cte("fine")
        )
        kinds = [fine.c[key.name] for key in keys[3:]]
        sums = (func.sum(fine.c.n).label("n"), func.sum(fine.c.total).label("total"))
        no_day, no_step = cast(null(), Date), cast(null(), Integer)
        query = union_all(
            select(
                fine.c.day, no_step.label("step"), literal(0).label("reached"), *kinds, *sums
            ).group_by(fine.c.day, *kinds),
            select(no_day, fine.c.step, fine.c.reached, *kinds, *sums).group_by(
                fine.c.step, fine.c.reached, *kinds
            ),
        )
        tally = Counted([], [])
        for row in self._connection.execute(query):
            cell = Cell(
                day=None if row[0] is None else _date(row[0]),
                step=row[1],
                decision=Decision(row[3]),
                reason=_REASONS[row[4]],
                inclusion_probability=row[5],
                said=flag(row[6]),
                told=flag(row[7]),
                documents=int(row[8]),
                confidence=row[9],
                split=splits[row[2] - 1] if row[2] else None,
            )
            (tally.by_day if cell.step is None else tally.by_step).append(cell)
        return tally

    def _alike(
        self, since: datetime, splits: Sequence[float]
    ) -> Select[Any]:  # Any: of several columns
        """Return what predictions are counted by, a row for each."""
        column = predictions.c
        # What `service.domain.verdicts.step_of` says.
        nearest = cast(self._whole(column.confidence * STEPS + 0.5), Integer)
        step = nearest - case((column.confidence < nearest / float(STEPS), 1), else_=0)
        reached: ColumnElement[int] = literal(0)
        for split in splits:
            reached += case((column.confidence >= split, 1), else_=0)
        counted = [
            self._day(column.created_at).label("day"),
            step.label("step"),
            reached.label("reached"),
            column.decision,
            column.reason,
            column.inclusion_probability,
            column.confidence,
        ]
        if self._connection.dialect.name == "sqlite":
            # Looked up one by one in indexes that hold them: cheaper here than a join with what
            # was put into the order of predictions first.
            said, told = said_of(column.id), told_of(column.id)
            query = select(*counted, said.label("said"), told.label("told"))
        else:
            said_by, told_by = _said(since), _told(since)
            query = (
                select(*counted, said_by.c.said, told_by.c.told)
                .outerjoin(said_by, said_by.c.prediction_id == column.id)
                .outerjoin(told_by, told_by.c.prediction_id == column.id)
            )
        return query.where(column.created_at >= since)

    def review_days(self, since: datetime) -> list[ReviewDay]:
        at, seconds = annotations.c.created_at, annotations.c.seconds
        work = case((seconds > LONGEST_READING_S, LONGEST_READING_S), else_=seconds)
        done = select(self._day(at).label("day"), work.label("work")).where(at >= since).subquery()
        completed = {
            day: (n, total)
            for day, n, total in self._connection.execute(
                select(done.c.day, func.count(), func.sum(done.c.work)).group_by(done.c.day)
            )
        }
        at = review_tasks.c.created_at
        came = select(self._day(at).label("day")).where(at >= since).subquery()
        counts = select(came.c.day, func.count()).group_by(came.c.day)
        arrived = {row[0]: int(row[1]) for row in self._connection.execute(counts)}
        return [
            ReviewDay(_date(day), arrived.get(day, 0), *completed.get(day, (0, 0.0)))
            for day in sorted({*arrived, *completed})
        ]

    def checked(self, since: datetime, limit: int) -> list[CheckedSet]:
        column = predictions.c
        ids = select(
            union(*(_last(table, since, limit) for table in (annotations, outcomes)))
            .cte("chosen")
            .c.prediction_id
        )
        said, told = self._said_of(ids), self._told_of(ids)
        query = select(
            column.id,
            column.client_id,
            column.metadata,
            column.confidence,
            column.reason,
            column.inclusion_probability,
            # Only the first candidate: the others make up most of the row.
            column.candidates[0].label("first"),
        ).where(column.id.in_(ids), column.created_at >= since)
        found = []
        for (
            prediction_id,
            client_id,
            metadata,
            confidence,
            reason,
            probability,
            first,
        ) in self._connection.execute(query.order_by(column.id)):
            person, program = said.get(prediction_id), told.get(prediction_id)
            answer = program or person
            if answer is not None:
                found.append(
                    CheckedSet(
                        prediction_id,
                        client_id,
                        metadata,
                        confidence,
                        _REASONS[reason],
                        probability,
                        person.agreed if person else None,
                        program.agreed if program else None,
                        labels=labels_of_first(first),
                        truth=answer.labels,
                    )
                )
        return found

    def _said_of(self, ids: Select[tuple[str]]) -> dict[str, _Answer]:
        said = annotations.c
        query = (
            select(said.prediction_id, said.agreed, said.labels)
            .where(said.prediction_id.in_(ids), _COUNTS)
            .order_by(_ADJUDICATED.desc(), said.agreed, said.id)
        )
        return self._first(query)

    def _told_of(self, ids: Select[tuple[str]]) -> dict[str, _Answer]:
        told = outcomes.c
        query = select(told.prediction_id, told.agreed, told.labels)
        return self._first(query.where(told.prediction_id.in_(ids)).order_by(told.number.desc()))

    def _first(self, query: Select[Any]) -> dict[str, _Answer]:  # Any: of three columns
        found: dict[str, _Answer] = {}
        for prediction_id, agreed, labels in self._connection.execute(query):
            if prediction_id not in found:
                found[prediction_id] = _Answer(bool(agreed), tuple(labels))
        return found

    def certification_audits(self, scorer: Scorer) -> int:
        column, said = predictions.c, annotations.c
        read = select(said.id).where(
            said.prediction_id == column.id, said.kind == ReviewKind.AUDIT.value
        )
        query = select(func.count()).where(
            AUDITED,
            column.audit_role == AuditRole.CERTIFICATION.value,
            column.model_version == scorer.model_version,
            column.calibrator_version == scorer.calibrator_version,
            read.exists(),
        )
        return int(self._connection.execute(query).scalar_one())

    def _day(self, at: Column[datetime]) -> ColumnElement[Any]:  # Any: a date, or text
        if self._connection.dialect.name == "sqlite":
            # Instants are text of fixed width in UTC there.
            return func.substr(at, 1, 10, type_=String)
        return cast(func.timezone("UTC", at), Date)

    def _whole(self, number: ColumnElement[float]) -> ColumnElement[float]:
        # A cast cuts off on SQLite and rounds on PostgreSQL.
        return number if self._connection.dialect.name == "sqlite" else func.floor(number)


# What `service.domain.verdicts.deciding` says, for the database. Flags become numbers, of which
# PostgreSQL knows the least too.
_ADJUDICATED = case((annotations.c.kind == ReviewKind.ADJUDICATION.value, 1), else_=0)
_AGREED = case((annotations.c.agreed, 1), else_=0)
_COUNTS = or_(annotations.c.settles, annotations.c.kind == ReviewKind.AUDIT.value)
_LAST_WORD = func.coalesce(func.min(case((_ADJUDICATED == 1, _AGREED))), func.min(_AGREED))


def said_of(prediction_id: Column[str]) -> ColumnElement[int | None]:
    """Return what people say in the end of one prediction: 1, 0 or NULL."""
    word = select(_LAST_WORD).where(annotations.c.prediction_id == prediction_id, _COUNTS)
    return word.scalar_subquery()


def told_of(prediction_id: Column[str]) -> ColumnElement[bool | None]:
    """Return whether the last outcome of one prediction agrees with it; NULL without any."""
    last = select(outcomes.c.agreed).where(outcomes.c.prediction_id == prediction_id)
    return last.order_by(outcomes.c.number.desc()).limit(1).scalar_subquery()


def flag(number: int | bool | None) -> bool | None:
    """Return as a flag what a database may give as a number."""
    return None if number is None else bool(number)


def _said(since: datetime) -> CTE:
    """Return for each prediction what people say in the end."""
    of = annotations.c
    return (
        select(of.prediction_id, _LAST_WORD.label("said"))
        .where(of.created_at >= since - _SLACK, _COUNTS)
        .group_by(of.prediction_id)
        .cte("said")
    )


def _told(since: datetime) -> CTE:
    """Return for each prediction what the last outcome says."""
    of = outcomes.c
    # The greatest number carries its flag along in the last bit.
    last = func.max(of.number * 2 + case((of.agreed, 1), else_=0))
    return (
        select(of.prediction_id, (last % 2).label("told"))
        .where(of.created_at >= since - _SLACK)
        .group_by(of.prediction_id)
        .cte("told")
    )


def _last(table: Table, since: datetime, limit: int) -> Select[tuple[str]]:
    newest = (
        select(table.c.prediction_id)
        .where(table.c.created_at >= since - _SLACK)
        .order_by(table.c.created_at.desc())
        .limit(limit)
        .subquery()
    )
    return select(newest.c.prediction_id)


def _date(day: date | str) -> date:
    return date.fromisoformat(day) if isinstance(day, str) else day
