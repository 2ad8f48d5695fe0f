"""Many rows of one table in few statements, at the least cost in Python."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, Connection, Dialect, Table

from service.db.faults import as_sqlalchemy_raises
from service.db.types import Instant, cipher_of
from service.use_cases.written import compact_json

if TYPE_CHECKING:
    from service.security.ciphers import TextCipher

Columns = dict[str, list[Any]]  # Any: whatever the columns take
"""Of each column its values, one for each row. None is NULL whatever the type."""

_Convert = Callable[[Any], Any]  # Any: as above

Write = Callable[[Connection], None]
"""Writes rows that are ready, in the transaction of a connection."""


def nothing(_: Connection) -> None:
    """Write no rows."""


_LARGEST, _STEP = 256, 16
"""Rows of one statement. Each number up to a step has a statement of its own, and so has each
multiple of a step: any number of rows takes two, and connections keep few enough to stay parsed."""


class RowInsert:
    """The statements that add rows to a table.

    Does what executing ``sqlalchemy.insert(table)`` does for rows that name the same columns, in a
    fraction of the time. SQLAlchemy builds each row's parameters anew. And SQLite's driver lets
    another thread run at each row, after which this one has to wait for its turn again: on a busy
    server that took longer than all that the database did. PostgreSQL has `COPY` for many rows.

    Parameters
    ----------
    table : Table
        Values are converted by the types of its columns.
    written : collection of str
        Names of columns whose values are finished JSON already.
    """

    def __init__(self, table: Table, *, written: Collection[str] = ()) -> None:
        self._table = table
        self._written = written
        self._prepared: dict[tuple[str, TextCipher | None, tuple[str, ...]], _Prepared] = {}

    def __call__(self, connection: Connection, columns: Columns) -> None:
        """Add the rows that ``columns`` make, all of one length."""
        self.ready(connection.dialect, columns)(connection)

    def ready(self, dialect: Dialect, columns: Columns) -> Write:
        """Return what adds the rows.

        All that needs no connection is done by then, so that nobody waits for it who waits for the
        transaction.
        """
        names = tuple(columns)
        # Conversions may seal what they are given, each engine with its own cipher.
        key = dialect.name, cipher_of(dialect), names
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _Prepared(self._table, names, self._written, dialect)
        values = prepared.rows(columns)
        if dialect.name == "postgresql":
            return partial(_copy, statement=prepared.copy, values=values)
        return partial(_insert, statements=prepared.statements(values))


_Statements = list[tuple[str, tuple[Any, ...]]]  # Any: as above


def _insert(connection: Connection, *, statements: _Statements) -> None:
    for statement, values in statements:
        connection.exec_driver_sql(statement, values)


def _copy(connection: Connection, *, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
    """Send rows by the protocol that PostgreSQL has for many.

    Its driver reads a statement with thousands of places for values in Python, each time anew.
    """
    driver = connection.connection.driver_connection
    if driver is None:
        raise RuntimeError("the connection is closed")
    with (
        as_sqlalchemy_raises(statement, connection.dialect),
        driver.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for row in values:
            copy.write_row(row)


def _conversion(column: Column[Any], dialect: Dialect) -> _Convert | None:  # Any: as above
    """Return what the column's type does to a value; None for nothing."""
    if isinstance(column.type, JSON):
        return compact_json  # as SQLAlchemy does, by way of several calls
    convert: _Convert | None = column.type.dialect_impl(dialect).bind_processor(dialect)
    return convert


def _each(convert: _Convert, values: list[Any]) -> list[Any]:  # Any: as above
    return [None if value is None else convert(value) for value in values]


def _each_instant(convert: _Convert, values: list[Any]) -> list[Any]:  # Any: as above
    """Convert what is stored together and came about at one time only once."""
    converted, before, after = [], None, None
    for value in values:
        if value is not before:
            before, after = value, None if value is None else convert(value)
        converted.append(after)
    return converted


class _Prepared:
    """The statements for one set of columns on one database."""

    def __init__(
        self, table: Table, names: tuple[str, ...], written: Collection[str], dialect: Dialect
    ) -> None:
        quote = dialect.identifier_preparer
        columns = [table.c[name] for name in names]
        place = f"{quote.format_table(table)} ({', '.join(map(quote.format_column, columns))})"
        self.copy = f"COPY {place} FROM STDIN"
        self._start = f"INSERT INTO {place} VALUES "  # noqa: S608 -- names of `tables` alone
        self._row = f"({', '.join(['?'] * len(names))})"
        self._of_size: dict[int, str] = {}
        self._conversions = {
            column.name: partial(
                _each_instant if isinstance(column.type, Instant) else _each, convert
            )
            for column in columns
            if column.name not in written and (convert := _conversion(column, dialect))
        }

    def rows(self, columns: Columns) -> list[tuple[Any, ...]]:  # Any: as above
        """Return the rows as the driver takes them, each value as its column's type makes it."""
        converted = [
            self._conversions[name](values) if name in self._conversions else values
            for name, values in columns.items()
        ]
        return list(zip(*converted, strict=True))

    def statements(self, values: Sequence[tuple[Any, ...]]) -> _Statements:
        """Return the statements that add rows of ``values``, each with what it takes."""
        made, done = [], 0
        while done < len(values):
            left = len(values) - done
            size = left if left <= _STEP else min(_LARGEST, left // _STEP * _STEP)
            together = tuple(chain.from_iterable(values[done : done + size]))
            made.append((self._statement(size), together))
            done += size
        return made

    def _statement(self, size: int) -> str:
        """Return the statement for ``size`` rows; always the same text, so it is parsed once."""
        found = self._of_size.get(size)
        if found is None:
            found = self._of_size[size] = self._start + ", ".join([self._row] * size)
        return found
