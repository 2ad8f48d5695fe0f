"""What stores share: a connection, rows, pages, and values with columns of a table."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    and_,
    func,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.domain.certification import Scorer
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, OTHER, Segment
from setwise.service.domain.text import Page, is_id

Value = TypeVar("Value")


class _Listed(Protocol):
    @property
    def id(self) -> str: ...


_Item = TypeVar("_Item", bound=_Listed)


class Store:
    """Base of the stores, which share the connection of a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _first(self, query: Select[Any], make: Callable[[RowMapping], Value]) -> Value | None:
        """Return what ``make`` makes of the only row, or None."""
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else make(row)

    def _named(
        self,
        query: Select[Any],
        column: Column[Any],
        name: str,
        make: Callable[[RowMapping], Value],
    ) -> Value | None:
        """Return what ``make`` makes of the row with an id, or None."""
        return self._first(query.where(column == name), make) if is_id(name) else None

    def _every(self, query: Select[Any], make: Callable[[RowMapping], Value]) -> list[Value]:
        """Return what ``make`` makes of each row."""
        return [make(row) for row in self._connection.execute(query).mappings()]

    def _page(
        self,
        query: Select[Any],
        column: Column[Any],
        make: Callable[[RowMapping], _Item],
        *,
        after: str | None,
        limit: int,
    ) -> Page[_Item]:
        """Return a page of what ``make`` makes of the rows, the greatest ids first."""
        query = query.order_by(column.desc()).limit(limit + 1)
        if after is not None:
            query = query.where(column < after)
        return page_of(self._every(query, make), limit)

    def _missing(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """Return an insert that leaves existing rows unchanged."""
        if self._connection.dialect.name == "postgresql":
            return postgresql.insert(table).on_conflict_do_nothing()
        return sqlite.insert(table).on_conflict_do_nothing()


def in_segment(column: ColumnElement[str], segment: Segment) -> ColumnElement[bool]:
    """Return the condition that a row's key is of a segment."""
    if segment == ALL_DOCUMENTS:
        return true()
    if segment.value != OTHER:
        return column == segment.key
    prefix = f"{segment.field}="
    listed = [f"{prefix}{value}" for value in sorted(segment.listed)]
    # That it is not null lets the databases use the index of segments.
    return and_(
        column.is_not(None),
        func.substr(column, 1, len(prefix)) == prefix,
        column.not_in(listed),
    )


def by_scorer(table: Table, scorer: Scorer) -> ColumnElement[bool]:
    """Return the condition that a row names this model and calibrator."""
    return and_(
        table.c.model_version == scorer.model_version,
        table.c.calibrator_version == scorer.calibrator_version,
    )


def page_of(rows: Sequence[_Item], limit: int) -> Page[_Item]:
    """Return a page of items; one item beyond the limit shows that more follow."""
    items = tuple(rows[:limit])
    return Page(items, items[-1].id if len(rows) > limit else None)


def of_row(kind: type[Value], table: Table, row: RowMapping, /, **rest: object) -> Value:
    """Return a dataclass or named tuple from the columns of its table and from ``rest``."""
    shared = _shared(cast("Hashable", kind), table)
    return kind(**{name: row[column] for name, column in shared.items()} | rest)


def row_of(value: object, table: Table) -> dict[str, object]:
    """Return the columns of a table that a dataclass or named tuple has."""
    return {name: getattr(value, name) for name in _shared(cast("Hashable", type(value)), table)}


@cache
def _shared(kind: Any, table: Table) -> dict[str, Column[Any]]:  # noqa: ANN401 -- a class, to be hashed
    named = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    return {name: table.c[name] for name in named if name in table.c}
