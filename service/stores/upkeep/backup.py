"""Dumps a whole database, loads it again, and moves it to another database.

A dump is one snapshot of all rows and blocks no writer. What is loaded or moved arrives in one
transaction, whole or not at all.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from setwise.service.domain.errors import StorageDamaged
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import migrate, revisions, rows
from setwise.service.stores.upkeep.migrate import NotEmpty
from setwise.service.stores.upkeep.rows import RowsHeader, TableDigest

Report = Callable[[float, str], None]

_FULL = "the other database is not empty; name a new one"


def dump(engine: Engine, file: Path) -> str:
    """Write the database to a new file, and return its revision.

    Raises `ValueError` if it is empty, or at a revision that no restore of this release knows.
    """
    revision = revisions.current(engine)
    if revision is None:
        raise ValueError("the database is empty: there is nothing to back up")
    revisions.refuse_unknown(revision)
    rows.dump(engine, file)
    return revision


def load(engine: Engine, file: Path, *, force: bool, app_user: str = "") -> None:
    """Replace the database by a dump, upgraded to this release as by `migrate.upgrade`.

    Nothing that was written into the dump is executed: its rows go into tables that the migrations
    make. A damaged SQLite file is put aside as ``<name>.damaged``.

    Raises `ValueError` if the dump is damaged or not of this service, and `NotEmpty` if the
    database holds something and ``force`` does not allow to replace it; it is then as it was.
    """
    try:
        with ZipFile(file) as archive:
            header = rows.read_header(archive)
            if force:
                _put_damage_aside(engine)
            lines = partial(_lines, archive)
            _fill(engine, header, lines, only_empty=not force, app_user=app_user)
    except BadZipFile as error:
        raise ValueError(f"its database is damaged: {error}") from error


def refuse_move(source: Engine, target: Engine) -> None:
    """Raise `ValueError` if nothing can be moved from one database to the other."""
    if not revisions.is_empty(target):
        raise NotEmpty(_FULL)
    status = revisions.check(source)
    revisions.refuse_unknown(status.current)
    if not status.ok:
        raise ValueError(f"the database is not at {status.head}: run setwise db upgrade")


def move(source: Engine, target: Engine, report: Report, *, app_user: str = "") -> int:
    """Copy everything into an empty database, and return the number of rows.

    Nobody can write to the source meanwhile. The rows that the target then has are counted and
    hashed before they are committed; if they differ, or the process dies, both are as they were.

    Raises `ValueError` if the source is not at this release's revision, the target is not empty,
    or a row arrives changed.
    """
    refuse_move(source, target)
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

        try:
            _fill(target, header, sent, verify, only_empty=True, app_user=app_user)
        except NotEmpty as error:
            raise NotEmpty(_FULL) from error
    return sum(digest.rows for digest in digests.values())


def _fill(
    engine: Engine,
    header: RowsHeader,
    lines: rows.Lines,
    verify: Callable[[Connection], None] = lambda _: None,
    *,
    only_empty: bool,
    app_user: str,
) -> None:
    def fill(connection: Connection) -> None:
        rows.load(connection, header, lines)
        verify(connection)

    try:
        migrate.rebuild(
            engine,
            header.revision,
            fill,
            rows.await_words,
            only_empty=only_empty,
            app_user=app_user,
        )
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
