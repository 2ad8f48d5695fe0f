"""Annotators, their groups, and statistics of their answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    RowMapping,
    Table,
    and_,
    case,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.annotators import (
    DEFAULT_GROUP,
    Annotator,
    AnnotatorGroup,
    AnswerCounts,
    Rates,
    ReviewPace,
)
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.reviews import ReviewKind
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.tables import (
    annotations,
    annotator_groups,
    annotators,
)

_BLIND = annotations.c.kind.in_([kind.value for kind in ReviewKind if kind.blind])

WITH_SUGGESTION = "_with_suggestion"
"""Ends the names of columns about answers given with the suggestion in view."""


class AnnotatorStore(Store):
    """Annotators, their groups, and statistics of their answers."""

    def group_of(self, annotator_id: str) -> str:
        """Return the id of the annotator's group, by default the default group."""
        query = select(annotators.c.group).where(annotators.c.id == annotator_id)
        return self._connection.execute(query).scalar_one_or_none() or DEFAULT_GROUP

    def placed(self) -> Mapping[str, Annotator]:
        """Return the annotators assigned to a group, by id."""
        rows = self._connection.execute(
            select(annotators.c.id, annotators.c.group, annotators.c.version)
        )
        return {row.id: Annotator(*row) for row in rows}

    def place(self, annotator: Annotator) -> None:
        """Store an annotator's group; raises `StaleVersion` unless it is the next version."""
        self._write(annotators, "annotator", vars(annotator))

    def group(self, group_id: str) -> AnnotatorGroup | None:
        """Return a group, or None."""
        query = select(annotator_groups).where(annotator_groups.c.id == group_id)
        return self._first(query, _to_group)

    def groups(self) -> list[AnnotatorGroup]:
        """Return all groups, ordered by id."""
        # Sorted here, because databases collate text differently.
        return sorted(self._every(select(annotator_groups), _to_group), key=lambda group: group.id)

    def save_group(self, group: AnnotatorGroup) -> None:
        """Store a group; raises `StaleVersion` unless its version is next, from 1."""
        values = vars(group).copy()
        for suffix in ("", WITH_SUGGESTION):
            rates = values.pop(f"fixed{suffix}") or (None, None)
            values |= zip((f"{name}{suffix}" for name in Rates._fields), rates, strict=True)
        self._write(annotator_groups, "group", values)

    def _write(self, table: Table, kind: str, values: Mapping[str, Any]) -> None:  # Any: a row
        """Insert version 1 or update the row from the previous version."""
        name, version = values["id"], values["version"]
        if version > 1:
            before = and_(table.c.id == name, table.c.version == version - 1)
            changed = self._connection.execute(update(table).where(before).values(values))
            if changed.rowcount != 1:
                raise _stale(kind, name)
            return
        try:
            self._connection.execute(insert(table), values)
        except IntegrityError as error:
            raise _stale(kind, name) from error

    def answers(self) -> Mapping[str, AnswerCounts]:
        """Return counts of each annotator's answers, by id."""
        column = annotations.c
        rows = self._connection.execute(
            select(
                column.reviewer,
                func.count(),
                func.sum(case((_BLIND, 1), else_=0)),
                func.avg(column.seconds),
                func.max(column.created_at),
            ).group_by(column.reviewer)
        )
        return {
            who: AnswerCounts(n, int(blind), float(mean), at) for who, n, blind, mean, at in rows
        }

    def pace(self, since: datetime, reviewer: str | None = None) -> Mapping[str, ReviewPace]:
        """Return annotators' decisions from then on, by id; of one if ``reviewer`` is given."""
        if "\x00" in (reviewer or ""):  # PostgreSQL rejects it
            return {}
        column, who = annotations.c, annotations.c.reviewer
        whose = true() if reviewer is None else who == reviewer
        ranked = (
            select(
                who,
                column.seconds,
                func.row_number().over(partition_by=who, order_by=column.seconds).label("rank"),
                func.count().over(partition_by=who).label("n"),
            )
            .where(column.created_at >= since, whose)
            .subquery()
        )
        query = (
            select(ranked.c.reviewer, func.max(ranked.c.n), func.avg(ranked.c.seconds))
            # The one or two in the middle: SQLite has no median.
            .where((2 * ranked.c.rank).between(ranked.c.n, ranked.c.n + 2))
            .group_by(ranked.c.reviewer)
        )
        return {who: ReviewPace(n, float(mid)) for who, n, mid in self._connection.execute(query)}


def _to_group(row: RowMapping) -> AnnotatorGroup:
    fields = dict(row)
    for suffix in ("", WITH_SUGGESTION):
        alpha, beta = (fields.pop(f"{name}{suffix}") for name in Rates._fields)
        fields[f"fixed{suffix}"] = None if alpha is None else Rates(alpha, beta)
    return AnnotatorGroup(**fields)


def _stale(kind: str, name: str) -> StaleVersion:
    return StaleVersion(f"The {kind} {name} has changed since it was read; read it again.")
