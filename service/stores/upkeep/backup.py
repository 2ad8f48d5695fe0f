"""Dumps a whole database, and loads it again.

A dump is one snapshot and blocks no writer: a copy of an SQLite file by ``VACUUM INTO``, or the
rows of a PostgreSQL database.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import migrate, revisions, rows, structure


def dump(engine: Engine, file: Path) -> str:
    """Write the database to a new file, and return its revision.

    Raises `ValueError` if it is empty.
    """
    revision = revisions.current(engine)
    if revision is None:
        raise ValueError("the database is empty: there is nothing to back up")
    if engine.dialect.name == "postgresql":
        rows.dump(engine, file)
    else:
        with closing(sqlite3.connect(sqlite_path(engine))) as connection:
            connection.execute("VACUUM INTO ?", (str(file),))
    return revision


def load(engine: Engine, file: Path, *, app_user: str = "") -> None:
    """Replace the database by a dump, upgraded to this release as by `migrate.upgrade`.

    Nothing that was written into the dump is executed: its SQLite file is compared with what the
    migrations make before it is used, and rows go into tables that the migrations make.

    Raises `ValueError` if the dump is damaged or not of this service; the database is then as it
    was.
    """
    if engine.dialect.name == "postgresql":
        _load_rows(engine, file, app_user)
        return
    structure.refuse_foreign_file(file)
    path = migrate.make_file(engine)
    # Into the existing file, so that a process that has it open sees the change.
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(path)) as target:
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            raise StorageUnavailable(f"Stop servers and workers first: {error}.") from error
    migrate.upgrade(engine, app_user=app_user)


def _load_rows(engine: Engine, file: Path, app_user: str) -> None:
    try:
        with ZipFile(file) as archive:
            header = rows.read_header(archive)
            migrate.rebuild(
                engine,
                header.revision,
                lambda connection: rows.load(connection, archive, header),
                app_user=app_user,
            )
    except BadZipFile as error:
        raise ValueError(f"its database is damaged: {error}") from error
    except DBAPIError as error:
        raise ValueError(
            f"the database there cannot be emptied ({error.orig}); drop it, and create it again"
        ) from error
