"""Every row of a database as lines of JSON, the same for SQLite and PostgreSQL.

Backups hold these lines, `restore` writes them into tables that the migrations make, and a move
carries them from one database to another. They are data: nothing in them is ever executed. Sealed
values stay sealed. Indexes of words follow from the texts, and differ between the databases, so
they are not carried; servers and workers make them again.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile

import psycopg
from psycopg import sql
from pydantic_core import from_json, to_json
from sqlalchemy import (
    Boolean,
    ColumnClause,
    Connection,
    DateTime,
    Double,
    Engine,
    Float,
    Integer,
    LargeBinary,
    TableClause,
    Text,
    cast,
    column,
    delete,
    func,
    insert,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.types import JSON, UUID, TypeEngine

from setwise.service.stores.columns.types import Instant
from setwise.service.stores.database import READ_ONLY
from setwise.service.stores.tables import WORDS, encryption_keys, metadata, predictions
from setwise.service.stores.tables import unindexed_texts as waiting
from setwise.service.stores.upkeep import revisions

HEADER = "header.json"

_SET_SEQUENCE = text("SELECT setval(to_regclass(:sequence), :last)")

AT_ONCE = 1_000
"""Rows in memory at a time."""

Lines = Callable[[str], Iterable[bytes]]
"""Gives the rows of a table by its name, a line each."""


@dataclass(frozen=True)
class RowsHeader:
    """What a database or a file of its rows holds."""

    revision: str
    tables: Mapping[str, Sequence[str]]
    """The columns of each table, in an order in which every table follows those that it names."""
    positions: Mapping[str, int]
    """The last number that each table's sequence gave, by the table's name; only on PostgreSQL."""


class TableDigest(NamedTuple):
    """How many rows a table has, and a sum of their hashes, whatever their order."""

    rows: int = 0
    digest: int = 0

    def with_row(self, line: bytes) -> "TableDigest":
        """Return the digest of a table with one more row."""
        number = int.from_bytes(hashlib.blake2b(line, digest_size=16).digest())
        return TableDigest(self.rows + 1, (self.digest + number) % (1 << 128))


class _Form(NamedTuple):
    """How a column's values stand in a line."""

    sql: TypeEngine[Any]
    """As a value comes from the driver."""
    python: tuple[type, ...] = (str,)
    """Of the value in the line."""
    as_text: bool = False
    """Whether the database has to say it as text."""
    shown: Callable[[Any], object] = lambda value: value
    read: Callable[[Any], object] = lambda value: value


def _json(value: str) -> str:
    from_json(value)
    return value


_FORMS: tuple[tuple[tuple[type[TypeEngine[Any]], ...], _Form], ...] = (
    ((DateTime,), _Form(Instant(), shown=datetime.isoformat, read=datetime.fromisoformat)),
    ((Boolean,), _Form(Boolean(), (bool,))),
    ((Integer,), _Form(Integer(), (int,))),
    # SQLite keeps no sign of zero.
    ((Float,), _Form(Double(), (float, int), shown=lambda value: value + 0.0, read=float)),
    (
        (LargeBinary,),
        _Form(
            LargeBinary(),
            shown=lambda value: base64.b64encode(value).decode(),
            read=lambda value: base64.b64decode(value, validate=True),
        ),
    ),
    ((JSON,), _Form(Text(), as_text=True, read=_json)),
    ((UUID,), _Form(Text(), as_text=True)),
)


def _form(kind: TypeEngine[Any]) -> _Form:
    return next((form for kinds, form in _FORMS if isinstance(kind, kinds)), _Form(Text()))


@contextmanager
def snapshot(engine: Engine, *, alone: bool = False) -> Iterator[Connection]:
    """Open a snapshot of the database that blocks no writer.

    Raises `ValueError` if this role of PostgreSQL may not lock the tables.

    ``alone``: Let nobody write to the tables of this release until the block ends, so that it holds
    all that was ever written.
    """
    options: dict[str, Any] = {} if alone else {READ_ONLY: True, "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection:
        if connection.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ")
            for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
                connection.execute(text(f"SET LOCAL {limit} = 0"))
            if alone:  # before the first query, at which the snapshot is taken
                names = ", ".join(map(_quoted(connection), metadata.tables))
                try:
                    connection.execute(text(f"LOCK TABLE {names} IN SHARE MODE"))
                except ProgrammingError as error:
                    raise ValueError("only the tables' owner can keep others out") from error
        yield connection
        connection.rollback()


def describe(connection: Connection) -> RowsHeader:
    """Return what the database holds; a table beside Setwise's stays where it is."""
    revision, forms = revisions.revision_of(connection), _forms(connection)
    if revision == revisions.newest():
        forms = {name: columns for name, columns in forms.items() if name in metadata.tables}
    positions = {
        name: connection.execute(
            text("SELECT pg_sequence_last_value(to_regclass(:name))"), {"name": sequence}
        ).scalar_one()
        for name, sequence in _sequences(connection).items()
        if name in forms
    }
    return RowsHeader(
        str(revision),
        {name: list(columns) for name, columns in forms.items()},
        {name: number for name, number in positions.items() if number is not None},
    )


def lines(connection: Connection, name: str, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield the rows of a table."""
    forms = _forms(connection, name)[name]
    chosen = [forms[each] for each in columns]
    fields = [
        cast(field, Text) if form.as_text else field
        for field, form in zip(_table(name, columns, chosen).columns, chosen, strict=True)
    ]
    query = select(*fields)
    for row in connection.execute(query, execution_options={"yield_per": AT_ONCE}):
        yield to_json(
            [
                None if value is None else form.shown(value)
                for value, form in zip(row, chosen, strict=True)
            ],
            inf_nan_mode="constants",
        )


def dump(engine: Engine, file: Path) -> None:
    """Write the rows of a snapshot of the database into a new file."""
    with snapshot(engine) as connection, ZipFile(file, "w", ZIP_STORED) as archive:
        header = describe(connection)
        archive.writestr(HEADER, json.dumps(asdict(header)))
        for name, columns in header.tables.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.writelines(line + b"\n" for line in lines(connection, name, columns))


def read_header(archive: ZipFile) -> RowsHeader:
    """Return the header of a file of rows; raises `ValueError` if it is none."""
    try:
        header = RowsHeader(**json.loads(archive.read(HEADER)))
        tables = {
            str(name): [str(column) for column in header.tables[name]] for name in header.tables
        }
        positions = {str(name): int(header.positions[name]) for name in header.positions}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError("it holds no rows of a database") from error
    return RowsHeader(str(header.revision), tables, positions)


def load(connection: Connection, header: RowsHeader, source: Lines) -> None:
    """Replace the rows of all tables, in the transaction of the connection.

    Raises `ValueError` if the rows do not fit the tables.
    """
    forms, sequences = _forms(connection), _sequences(connection)
    differing = [
        name
        for name in sorted({*forms, *header.tables})
        if sorted(forms.get(name, ())) != sorted(header.tables.get(name, ()))
    ]
    unknown = header.positions.keys() - {*forms}
    if differing or unknown:
        named = ", ".join(differing) or "a sequence"
        raise ValueError(f"its tables are not those that the migrations make: {named}")
    with _unguarded(connection):  # the first rows of an installation are history too
        for name in reversed(forms):
            connection.execute(delete(table(name)))
    for name, columns in forms.items():
        order = header.tables[name]
        chosen = [columns[each] for each in order]
        try:
            rows = (_read(line, chosen) for line in source(name))
            _write(connection, _table(name, order, chosen), rows)
        except (psycopg.DataError, psycopg.IntegrityError, DBAPIError, ValueError) as error:
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                raise
            raise _unfit(name, _reason(error)) from error
        except KeyError as error:
            raise _unfit(name, error) from error
    for name, sequence in sequences.items():
        (key,) = inspect(connection).get_pk_constraint(name)["constrained_columns"]
        query = select(func.max(column(key, Integer))).select_from(table(name))
        last = max(connection.execute(query).scalar_one() or 0, header.positions.get(name, 0))
        if last:
            connection.execute(_SET_SEQUENCE, {"sequence": sequence, "last": last})


def await_words(connection: Connection) -> None:
    """Have servers index the words of all plain texts again, in tables of this release."""
    if connection.execute(select(encryption_keys.c.id).limit(1)).first() is None:
        plain = select(predictions.c.id).where(predictions.c.text.is_not(None))
        connection.execute(insert(waiting).from_select([waiting.c.prediction_id], plain))


def _read(line: bytes, forms: Sequence[_Form]) -> list[object]:
    values = from_json(line)
    if not isinstance(values, list) or len(values) != len(forms):
        raise ValueError("a row has other columns")
    for value, form in zip(values, forms, strict=True):
        if value is not None and type(value) not in form.python:
            raise ValueError(f"{type(value).__name__} stands for {form.python[0].__name__}")
    return [
        None if value is None else form.read(value)
        for value, form in zip(values, forms, strict=True)
    ]


def _write(connection: Connection, into: TableClause, rows: Iterable[list[object]]) -> None:
    names = [each.name for each in into.columns]
    if connection.dialect.name == "postgresql":
        identifiers = sql.SQL(", ").join(map(sql.Identifier, names))
        copy = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(into.name), identifiers)
        cursor: Any = connection.connection.cursor()
        with closing(cursor), cursor.copy(copy) as sink:
            for row in rows:
                sink.write_row(row)
        return
    left = iter(rows)
    while block := list(islice(left, AT_ONCE)):
        connection.execute(insert(into), [dict(zip(names, row, strict=True)) for row in block])


def _unfit(name: str, reason: object) -> ValueError:
    return ValueError(f"the rows of its table {name} do not fit: {reason}")


def _reason(error: Exception) -> object:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(getattr(cause, "diag", None), "message_primary", None) or cause


def _table(name: str, columns: Sequence[str], forms: Sequence[_Form]) -> TableClause:
    fields: list[ColumnClause[Any]] = [
        column(each, form.sql) for each, form in zip(columns, forms, strict=True)
    ]
    return table(name, *fields)


def _forms(connection: Connection, *names: str) -> dict[str, dict[str, _Form]]:
    """Return the forms of the columns of tables, each after those that it refers to."""
    inspector = inspect(connection)
    return {
        name: {each["name"]: _form(each["type"]) for each in inspector.get_columns(name)}
        for name in names or _carried(inspector.get_sorted_table_and_fkc_names())
    }


def _carried(tables: Iterable[tuple[str | None, object]]) -> Iterator[str]:
    """Yield the tables that other tables do not follow from."""
    for name, _ in tables:
        derived = name is None or name == waiting.name or name.startswith(WORDS)
        if name is not None and not derived and name != "alembic_version":
            yield name


def _sequences(connection: Connection) -> dict[str, str]:
    """Return PostgreSQL's sequence of each table that has one."""
    if connection.dialect.name != "postgresql":
        return {}
    query = text(
        "SELECT table_name::text, pg_get_serial_sequence(quote_ident(table_name), column_name)"
        " FROM information_schema.columns WHERE table_schema = 'public'"
    )
    return {name: sequence for name, sequence in connection.execute(query) if sequence is not None}


def _quoted(connection: Connection) -> Callable[[str], str]:
    return connection.dialect.identifier_preparer.quote_identifier


@contextmanager
def _unguarded(connection: Connection) -> Iterator[None]:
    """Let rows of history be deleted inside the block."""
    if connection.dialect.name == "postgresql":
        names = [*map(_quoted(connection), _forms(connection))]
        for name in names:
            connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER USER"))
        yield
        for name in names:
            connection.execute(text(f"ALTER TABLE {name} ENABLE TRIGGER USER"))
        return
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = connection.exec_driver_sql(query).all()
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {_quoted(connection)(name)}")
    yield
    for _, statement in triggers:
        connection.exec_driver_sql(statement)  # as the migrations made it
