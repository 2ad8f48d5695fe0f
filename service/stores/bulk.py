"""Many rows of one table in few statements, at the least cost in Python."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, Connection, Dialect, Table

from setwise.service.stores.column_types import Sealed, SealedJson, cipher_of, plain
from setwise.service.stores.faults import as_sqlalchemy_raises
from setwise.service.stores.written import compact_json

if TYPE_CHECKING:
    from setwise.service.stores.ciphers import TextCipher

Columns = dict[str, Sequence[Any]]  # Any: whatever the columns take
"""Of each column its values, one for each row. None is NULL whatever the type."""

_Convert = Callable[[Any], Any]  # Any: as above

Write = Callable[[Connection], None]
"""Writes rows that are ready, in the transaction of a connection."""


def nothing(_: Connection) -> None:
    """Write no rows."""


_SIZES = (2, 4, 8, *range(16, 257, 16))
"""Numbers of rows that there are statements for, besides one. Fewer leave the last places empty:
the statements are few enough that connections keep them parsed."""

_FEW = 16
"""Fewer rows share no values, for the same reason."""


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
    alike : sequence of collections of str
        Names of columns in which rows that are added together mostly agree. SQLite is handed the
        values of such columns once if the rows agree in all of them: handing over a value takes
        longer than many a row. Each further collection may double the number of statements that
        connections keep. At least one column is in none.
    """

    def __init__(
        self,
        table: Table,
        *,
        written: Collection[str] = (),
        alike: Sequence[Collection[str]] = (),
    ) -> None:
        self._table = table
        self._written = written
        self._alike = alike
        self._prepared: dict[tuple[str, TextCipher | None, tuple[str, ...]], _Prepared] = {}

    def __call__(self, connection: Connection, columns: Columns) -> None:
        """Add the rows that ``columns`` make, all of one length."""
        self.ready(connection.dialect, columns)(connection)

    def ready(self, dialect: Dialect, columns: Columns) -> Write:
        """Return what adds the rows.

        All that needs no connection is done by then, so that nobody waits for it who waits for the
        transaction.
        """
        if len(set(map(len, columns.values()))) != 1:
            raise ValueError("columns of rows that are added together have one length")
        names = tuple(columns)
        # Conversions may seal what they are given, each engine with its own cipher.
        key = dialect.name, cipher_of(dialect), names
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _Prepared(
                self._table, names, self._written, self._alike, dialect
            )
        converted = prepared.converted(columns)
        if dialect.name == "postgresql":
            values = list(zip(*converted, strict=True))
            return partial(_copy, statement=prepared.copy, values=values)
        return partial(_insert, statements=prepared.statements(converted))


_Values = Sequence[Any]  # Any: as above
_Statements = list[tuple[str, tuple[Any, ...]]]  # Any: as above


def _insert(connection: Connection, *, statements: _Statements) -> None:
    cursor = connection.connection.cursor()  # SQLAlchemy takes ten times as long to use one
    for statement, values in statements:
        with as_sqlalchemy_raises(statement, connection.dialect):
            cursor.execute(statement, values)


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
    # The first two as SQLAlchemy does, by way of several calls.
    sealing = cipher_of(dialect) is not None
    if isinstance(column.type, JSON if sealing else JSON | SealedJson):
        return compact_json
    if isinstance(column.type, Sealed) and not sealing:
        return plain
    convert: _Convert | None = column.type.dialect_impl(dialect).bind_processor(dialect)
    return convert


def _each(convert: _Convert, values: _Values) -> _Values:
    if values[0] is None and values.count(None) == len(values):
        return values
    return [None if value is None else convert(value) for value in values]


def _each_change(convert: _Convert, values: _Values) -> _Values:
    """Convert a value that several rows in turn have in common only once."""
    if values[0] is None and values.count(None) == len(values):
        return values
    converted, before, after = [], None, None
    for value in values:
        if value is not before:
            before, after = value, None if value is None else convert(value)
        converted.append(after)
    return converted


class _Prepared:
    """The statements for one set of columns on one database."""

    def __init__(
        self,
        table: Table,
        names: tuple[str, ...],
        written: Collection[str],
        alike: Sequence[Collection[str]],
        dialect: Dialect,
    ) -> None:
        quote = dialect.identifier_preparer
        columns = [table.c[name] for name in names]
        self._table = quote.format_table(table)
        self._columns = [quote.format_column(column) for column in columns]
        self.copy = f"COPY {self._table} ({', '.join(self._columns)}) FROM STDIN"
        places = f"({', '.join(self._columns)}) VALUES ({', '.join('?' * len(names))})"
        self._one = f"INSERT INTO {self._table} {places}"
        self._alike = [[names.index(name) for name in group] for group in alike]
        self._texts: dict[tuple[tuple[int, ...], int], str] = {}
        sealing = cipher_of(dialect) is not None
        self._conversions = {
            column.name: partial(
                _each if sealing and isinstance(column.type, Sealed | SealedJson) else _each_change,
                convert,
            )
            for column in columns
            if column.name not in written and (convert := _conversion(column, dialect))
        }

    def converted(self, columns: Columns) -> list[_Values]:
        """Return the columns as the driver takes them, each value as its column's type makes it."""
        return [
            self._conversions[name](values) if name in self._conversions else values
            for name, values in columns.items()
        ]

    def statements(self, converted: list[_Values]) -> _Statements:
        """Return the statements that add the rows, each with what it takes."""
        count, most = len(converted[0]), _SIZES[-1]
        if count == 1:
            return [(self._one, tuple([value for (value,) in converted]))]
        if count <= most:
            return [self._statement(converted, count)]
        return [
            self._statement([values[first : first + most] for values in converted], size)
            for first in range(0, count, most)
            for size in [min(most, count - first)]
        ]

    def _statement(self, converted: list[_Values], count: int) -> tuple[str, tuple[Any, ...]]:
        size = _SIZES[bisect_left(_SIZES, count)]
        once = self._once(converted, count)
        each = [values for place, values in enumerate(converted) if place not in once]
        text = self._texts.get((once, size))
        if text is None:
            text = self._texts[once, size] = self._text(once, size)
        shared, width = [converted[place][0] for place in once], len(each)
        places: list[Any] = [None] * (size * width)  # Any: as above
        for place, values in enumerate(each):
            places[place : count * width : width] = values
        return text, (*shared, *places, count)

    def _once(self, converted: list[_Values], count: int) -> tuple[int, ...]:
        """Return the places of the columns that are handed over once."""
        if count < _FEW:
            return ()
        return tuple(
            place
            for group in self._alike
            if all(converted[one].count(converted[one][0]) == count for one in group)
            for place in group
        )

    def _text(self, once: tuple[int, ...], size: int) -> str:
        """Return the statement for up to ``size`` rows; always the same, so it is parsed once."""
        each = [place for place in range(len(self._columns)) if place not in once]
        names = ", ".join(self._columns[place] for place in (*once, *each))
        # What has no number counts on from the highest so far.
        row = ", ".join([f"?{number}" for number, _ in enumerate(once, 1)] + ["?"] * len(each))
        rows = ", ".join([f"({row})"] * size)
        return f"INSERT INTO {self._table} ({names}) SELECT * FROM (VALUES {rows}) LIMIT ?"  # noqa: S608 -- names of `tables` alone
