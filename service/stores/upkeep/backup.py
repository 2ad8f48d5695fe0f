"""Save a whole database in an archive, and load it again.

SQLite's online backup copies the file while others write. PostgreSQL's tables are read with COPY in
one snapshot, so only a connection is needed. The rest (triggers, constraints, indexes) comes from
the migrations of the same revision.
"""

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

from psycopg import Connection as PostgresConnection
from psycopg import sql
from sqlalchemy import Engine, MetaData, inspect

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import grants, migrate

_FILE = "database/sqlite.db"
_TABLE = "database/{}.copy"
_REVISIONS = "alembic_version"
_CHUNK = 1 << 20

Counts = Mapping[str, int]
"""Rows of each table."""


def save(engine: Engine, archive: ZipFile) -> Counts:
    """Save all rows in one snapshot, without blocking writers.

    Raises `ValueError` if the database is empty; `StorageUnavailable` if the database does not
    answer.
    """
    if migrate.current(engine) is None:
        raise ValueError("the database is empty: there is nothing to back up")
    if engine.dialect.name == "sqlite":
        return _save_sqlite(engine, archive)
    return _save_postgres(engine, archive)


def load(
    engine: Engine, archive: ZipFile, revision: str, counts: Counts, *, app_user: str = ""
) -> None:
    """Replace the content of the database with the rows of an archive.

    Raises `ValueError` if the archive is damaged; the database is then unchanged or empty.

    ``revision``: Revision of the tables when the archive was made.
    ``app_user``: As in `migrate.upgrade`. Roles that had the service's rights before keep them.
    """
    if engine.dialect.name == "sqlite":
        _load_sqlite(engine, archive, counts)
    else:
        _load_postgres(engine, archive, revision, counts, app_user)


def _save_sqlite(engine: Engine, archive: ZipFile) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        with (
            closing(sqlite3.connect(sqlite_path(engine))) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, no log beside it
            counts = _count_sqlite(target)
        archive.write(copy, _FILE)
    return counts


def _load_sqlite(engine: Engine, archive: ZipFile, counts: Counts) -> None:
    path = sqlite_path(engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(archive.extract(_FILE, folder))
        with closing(sqlite3.connect(copy)) as source:
            (state,) = source.execute("PRAGMA integrity_check").fetchone()
            if state != "ok" or _count_sqlite(source) != counts:
                raise ValueError("the archive is damaged: its database is not the one it names")
            path.touch(mode=0o600)
            # Into the existing file, so that a process that has it open sees the change.
            with closing(sqlite3.connect(path, timeout=10)) as target:
                try:
                    source.backup(target)
                    target.execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    raise StorageUnavailable(
                        f"The database is in use ({error}): stop servers and workers first."
                    ) from error


def _count_sqlite(connection: sqlite3.Connection) -> Counts:
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {
        # Quoted, and only names of our own tables.
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608
        for (name,) in sorted(names)
        if name != _REVISIONS
    }


def _save_postgres(engine: Engine, archive: ZipFile) -> Counts:
    counts: dict[str, int] = {}
    with _postgres(engine) as (connection, tables):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for table, columns in tables.items():
            statement = sql.SQL("COPY {} ({}) TO STDOUT").format(
                sql.Identifier(table), _names(columns)
            )
            with (
                archive.open(_TABLE.format(table), "w", force_zip64=True) as file,
                connection.cursor() as cursor,
            ):
                with cursor.copy(statement) as copy:
                    for block in copy:
                        file.write(block)
                counts[table] = cursor.rowcount
    return counts


def _load_postgres(
    engine: Engine, archive: ZipFile, revision: str, counts: Counts, app_user: str
) -> None:
    _make_tables(engine, revision, app_user)
    with _postgres(engine) as (connection, tables):
        if set(tables) != set(counts):
            raise ValueError("the archive is damaged: it holds other tables than its revision has")
        for table in tables:
            _alter(connection, table, "DISABLE TRIGGER USER")  # they guard append-only tables
        connection.execute(sql.SQL("TRUNCATE {}").format(_names(list(tables))))
        for table, columns in tables.items():
            with archive.open(_TABLE.format(table)) as file:
                stored = _copy_in(connection, table, columns, file)
            if stored != counts[table]:
                raise ValueError(f"the archive is damaged: {table} lacks rows")
            _go_on_counting(connection, table, columns)
        for table in tables:
            _alter(connection, table, "ENABLE TRIGGER USER")
        connection.commit()


def _make_tables(engine: Engine, revision: str, app_user: str) -> None:
    """Make the tables of a revision, with the rights of the roles that had them."""
    before = migrate.current(engine)
    users = {app_user} - {""}
    if before is not None:
        with engine.connect() as rights:
            users |= grants.users(rights)
    if before != revision:
        if before is not None:
            migrate.downgrade(engine, "base")
        migrate.upgrade(engine, revision)
    if revision == migrate.head():
        with engine.begin() as rights:
            for user in sorted(users):
                grants.grant(rights, user)


def _copy_in(
    connection: PostgresConnection[Any],  # Any: psycopg's rows
    table: str,
    columns: list[str],
    file: IO[bytes],
) -> int:
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), _names(columns))
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            while block := file.read(_CHUNK):
                copy.write(block)
        return cursor.rowcount


def _go_on_counting(connection: PostgresConnection[Any], table: str, columns: list[str]) -> None:
    """Advance the sequences of auto-incremented columns past the loaded rows."""
    for column in columns:
        row = connection.execute(
            "SELECT pg_get_serial_sequence(%s, %s)", (f'"{table}"', column)
        ).fetchone()
        if row is None or row[0] is None:
            continue
        connection.execute(
            sql.SQL("SELECT setval(%s, greatest(1, max({})), max({}) IS NOT NULL) FROM {}").format(
                sql.Identifier(column), sql.Identifier(column), sql.Identifier(table)
            ),
            (row[0],),
        )


def _alter(connection: PostgresConnection[Any], table: str, what: str) -> None:
    connection.execute(f'ALTER TABLE "{table}" {what}'.encode())


def _names(columns: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


@contextmanager
def _postgres(engine: Engine) -> Iterator[tuple[PostgresConnection[Any], dict[str, list[str]]]]:
    """Yield a driver connection and the tables, referenced tables first."""
    reflected = MetaData()
    reflected.reflect(engine)
    inspector = inspect(engine)
    tables = {
        table.name: [column["name"] for column in inspector.get_columns(table.name)]
        for table in reflected.sorted_tables
        if table.name != _REVISIONS
    }
    pooled = engine.raw_connection()
    connection: PostgresConnection[Any] = pooled.driver_connection  # type: ignore[assignment]  # of any driver
    pooled.detach()  # its settings must not reach the pool
    with closing(connection):
        connection.execute("SET statement_timeout = 0")
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        connection.commit()
        yield connection, tables
