"""Dumps a whole database, loads it again, and moves it to another database.

A dump is one snapshot of all rows and blocks no writer. What is loaded or moved arrives in one
transaction, whole or not at all.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from setwise.service.domain.errors import StorageDamaged
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import migrate, revisions, rows
from setwise.service.stores.upkeep.rows import RowsHeader, TableDigest

Report = Callable[[float, str], None]


def dump(engine: Engine, file: Path) -> str:
    """Write the database to a new file, and return its revision.

    Raises `ValueError` if it is empty.
    """
    revision = revisions.current(engine)
    if revision is None:
        raise ValueError("the database is empty: there is nothing to back up")
    rows.dump(engine, file)
    return revision


def load(engine: Engine, file: Path, *, app_user: str = "") -> None:
    """Replace the database by a dump, upgraded to this release as by `migrate.upgrade`.

    Nothing that was written into the dump is executed: its rows go into tables that the migrations
    make. A damaged SQLite file is put aside as ``<name>.damaged``.

    Raises `ValueError` if the dump is damaged or not of this service; the database is then as it
    was.
    """
    try:
        with ZipFile(file) as archive:
            header = rows.read_header(archive)
            _put_damage_aside(engine)
            _fill(engine, header, lambda name: _lines(archive, name), app_user)
    except BadZipFile as error:
        raise ValueError(f"its database is damaged: {error}") from error


def move(source: Engine, target: Engine, report: Report, *, app_user: str = "") -> int:
    """Copy everything into an empty database, and return the number of rows.

    Nobody can write to the source meanwhile. The rows that the target then has are counted and
    hashed before they are committed; if they differ, or the process dies, both are as they were.

    Raises `ValueError` if the source is not at this release's revision, the target is not empty,
    or a row arrives changed.
    """
    if revisions.current(target) is not None:
        raise ValueError("the other database is not empty; name a new one")
    status = revisions.check(source)
    if not status.ok:
        raise ValueError(f"the database is not at {status.head}: run setwise db upgrade")
    digests: dict[str, TableDigest] = {}
    with rows.snapshot(source, alone=True) as connection:
        header = rows.describe(connection)
        total = len(header.tables)

        def sent(name: str) -> Iterator[bytes]:
            report(len(digests) / total / 2, f"copy {name}")
            digest = TableDigest()
            for line in rows.lines(connection, name, header.tables[name]):
                digest = digest.with_row(line)
                yield line
            digests[name] = digest

        def verify(arrived: Connection) -> None:
            for number, (name, columns) in enumerate(header.tables.items()):
                report((1 + number / total) / 2, f"verify {name}")
                digest = TableDigest()
                for line in rows.lines(arrived, name, columns):
                    digest = digest.with_row(line)
                if digest != digests[name]:
                    raise ValueError(
                        f"{name} arrived changed: {digests[name].rows:,} rows were sent, "
                        f"{digest.rows:,} arrived; nothing was moved"
                    )

        _fill(target, header, sent, app_user, verify)
    return sum(digest.rows for digest in digests.values())


def _fill(
    engine: Engine,
    header: RowsHeader,
    lines: rows.Lines,
    app_user: str,
    verify: Callable[[Connection], None] = lambda _: None,
) -> None:
    def fill(connection: Connection) -> None:
        rows.load(connection, header, lines)
        verify(connection)

    try:
        migrate.rebuild(engine, header.revision, fill, rows.await_words, app_user=app_user)
    except DBAPIError as error:
        raise ValueError(
            f"the database there cannot be emptied ({error.orig}); drop it, and create it again"
        ) from error


def _lines(archive: ZipFile, name: str) -> Iterator[bytes]:
    with archive.open(name) as member:
        yield from member


def _put_damage_aside(engine: Engine) -> None:
    try:
        revisions.current(engine)
    except StorageDamaged:
        engine.dispose()
        path = sqlite_path(engine)
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        path.replace(path.with_name(f"{path.name}.damaged"))
