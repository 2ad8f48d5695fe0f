"""Many rows of one table in few statements, at the least cost in Python."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, Connection, Dialect, Table

from service.db.faults import as_sqlalchemy_raises
from service.db.types import Instant, cipher_of
from service.use_cases.written import compact_json

if TYPE_CHECKING:
    from service.security.ciphers import TextCipher

Row = dict[str, Any]  # Any: whatever the columns take
_Convert = Callable[[Any], Any]  # Any: as above

Write = Callable[[Connection], None]
"""Writes rows that are ready, in the transaction of a connection."""

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

    def __call__(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Add ``rows``, which this method may change."""
        self.ready(connection.dialect, rows)(connection)

    def ready(self, dialect: Dialect, rows: Sequence[Row]) -> Write:
        """Return what adds ``rows``, which this method may change.

        All that needs no connection is done by then, so that nobody waits for it who waits for the
        transaction.
        """
        if not rows:
            return _write_nothing
        names = tuple(rows[0])
        # Conversions may seal what they are given, each engine with its own cipher.
        key = dialect.name, cipher_of(dialect), names
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _Prepared(self._table, names, self._written, dialect)
        prepared.convert(rows)
        values = [prepared.in_order(row) for row in rows]
        if dialect.name == "postgresql":
            return partial(_copy, statement=prepared.copy, values=values)
        return partial(_insert, statements=prepared.statements(values))


def _write_nothing(_: Connection) -> None: ...


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
        self.in_order: Callable[[Row], tuple[Any, ...]] = itemgetter(*names)  # Any: as above
        self._conversions: list[tuple[str, _Convert, bool]] = [
            (column.name, convert, isinstance(column.type, Instant))
            for column in columns
            if column.name not in written and (convert := _conversion(column, dialect))
        ]

    def convert(self, rows: Sequence[Row]) -> None:
        """Turn values into what the driver takes, each as its column's type does.

        None is NULL whatever the type.
        """
        for name, convert, is_instant in self._conversions:
            before = after = None
            for row in rows:
                value = row[name]
                if value is None:
                    continue
                # What is stored together came about at one time, which need be converted only once.
                if value is not before or not is_instant:
                    before, after = value, convert(value)
                row[name] = after

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
