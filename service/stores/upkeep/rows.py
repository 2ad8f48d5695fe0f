"""Rows of a PostgreSQL database in one file, without any statement.

The migrations make the tables that the rows are loaded into, and `COPY` reads them as data: nothing
that somebody wrote into the file is ever executed.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, inspect, text

from setwise.service.stores.database import READ_ONLY
from setwise.service.stores.tables import metadata, searched_texts
from setwise.service.stores.upkeep import revisions

HEADER = "header.json"

_BLOCK_BYTES = 1 << 20

_COLUMNS = """
    SELECT c.table_name::text, c.column_name::text,
           pg_get_serial_sequence(quote_ident(c.table_name), c.column_name)
    FROM information_schema.columns c JOIN information_schema.tables t
      USING (table_schema, table_name)
    WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
      AND c.table_name <> 'alembic_version'
    ORDER BY c.table_name, c.ordinal_position
"""


@dataclass(frozen=True)
class RowsHeader:
    """What a file of rows holds."""

    revision: str
    tables: Mapping[str, Sequence[str]]
    """The columns of each table, whose rows stand in the member of its name."""
    positions: Mapping[str, int]
    """The last number that each table's sequence gave, by the table's name."""


def dump(engine: Engine, file: Path) -> None:
    """Write the rows of a snapshot of the database into a new file."""
    options = {"isolation_level": "REPEATABLE READ", READ_ONLY: True, "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        revision = revisions.revision_of(connection)
        columns, sequences = _columns(connection), _sequences(connection)
        if revision == revisions.newest():  # a table beside Setwise's stays where it is
            ours = {*metadata.tables, searched_texts.name}
            columns = {name: names for name, names in columns.items() if name in ours}
        last = text("SELECT pg_sequence_last_value(to_regclass(:name))")
        positions = {
            table: connection.execute(last, {"name": name}).scalar_one()
            for table, name in sequences.items()
            if table in columns
        }
        positions = {table: number for table, number in positions.items() if number is not None}
        with ZipFile(file, "w", ZIP_STORED) as archive, closing(_cursor(connection)) as cursor:
            header = RowsHeader(str(revision), columns, positions)
            archive.writestr(HEADER, json.dumps(asdict(header)))
            for table, names in columns.items():
                query = sql.SQL("COPY {} ({}) TO STDOUT").format(*_identifiers(table, names))
                with (
                    archive.open(table, "w", force_zip64=True) as member,
                    cursor.copy(query) as blocks,
                ):
                    for block in blocks:
                        member.write(block)


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


def load(connection: Connection, archive: ZipFile, header: RowsHeader) -> None:
    """Replace the rows of all tables, in the transaction of the connection.

    Raises `ValueError` if the rows do not fit the tables.
    """
    columns, sequences = _columns(connection), _sequences(connection)
    differing = [
        name
        for name in sorted({*columns, *header.tables})
        if sorted(columns.get(name, ())) != sorted(header.tables.get(name, ()))
    ]
    if differing or not sequences.keys() >= header.positions.keys():
        named = ", ".join(differing) or "a sequence"
        raise ValueError(f"its tables are not those that the migrations make: {named}")
    everything = sql.SQL(", ").join(map(sql.Identifier, columns))
    with closing(_cursor(connection)) as cursor:
        for name in columns:  # the first rows of an installation, which are history too
            cursor.execute(_switch("DISABLE").format(sql.Identifier(name)))
        cursor.execute(sql.SQL("TRUNCATE {}").format(everything))
        for name in columns:
            cursor.execute(_switch("ENABLE").format(sql.Identifier(name)))
        for name in columns:
            parts = _identifiers(name, header.tables[name])
            query = sql.SQL("COPY {} ({}) FROM STDIN").format(*parts)
            try:
                with archive.open(name) as member, cursor.copy(query) as copy:
                    while block := member.read(_BLOCK_BYTES):
                        copy.write(block)
            except (psycopg.DataError, psycopg.IntegrityError, KeyError) as error:
                reason = getattr(getattr(error, "diag", None), "message_primary", error)
                raise ValueError(f"the rows of its table {name} do not fit: {reason}") from error
        for table, number in header.positions.items():
            cursor.execute("SELECT setval(%s::regclass, %s)", (sequences[table], number))


def _columns(connection: Connection) -> dict[str, list[str]]:
    """Return the columns of each table, after the tables that it refers to."""
    columns: dict[str, list[str]] = {}
    for table, column, _ in connection.execute(text(_COLUMNS)):
        columns.setdefault(table, []).append(column)
    order = inspect(connection).get_sorted_table_and_fkc_names("public")
    return {name: columns[name] for name, _ in order if name in columns}


def _sequences(connection: Connection) -> dict[str, str]:
    """Return the sequence of each table that has one."""
    rows = connection.execute(text(_COLUMNS))
    return {table: sequence for table, _, sequence in rows if sequence is not None}


def _cursor(connection: Connection) -> "psycopg.Cursor[tuple[object, ...]]":
    cursor: psycopg.Cursor[tuple[object, ...]] = connection.connection.cursor()  # type: ignore[assignment]  # the driver's
    return cursor


def _identifiers(table: str, columns: Sequence[str]) -> tuple[sql.Composable, sql.Composable]:
    return sql.Identifier("public", table), sql.SQL(", ").join(map(sql.Identifier, columns))


def _switch(how: str) -> sql.SQL:
    return sql.SQL(f"ALTER TABLE {{}} {how} TRIGGER USER")
