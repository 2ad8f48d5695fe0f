"""Migrates a database to a revision, in one transaction.

Both databases can roll back changes of tables, so a migration succeeds or fails as a whole.
Concurrent migrations run one after the other, and the second finds nothing left to do.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import grants, revisions
from setwise.service.stores.upkeep.revisions import (
    Status,
    check,
    holds_tables,
    newest,
    refuse_unknown,
    revision_of,
)

_LOCK = 0x5E7_0015E
"""PostgreSQL's advisory lock for migrations. The number is arbitrary."""

_PATIENCE_S = 60
"""How long a second process waits for the first one, in seconds."""


class NotEmpty(ValueError):
    """The database holds tables already."""


def upgrade(engine: Engine, revision: str = "head", *, app_user: str = "") -> Status:
    """Upgrade the database to ``revision``; create a missing SQLite file.

    An SQLite file that is not empty is first copied beside itself, as ``<name>.at-<revision>``.

    Raises `ValueError` if ``revision`` is unknown or older, the database is newer than this
    release, or the role does not exist; `StorageUnavailable` if the database does not answer or
    another process is still migrating it.

    ``app_user``: PostgreSQL role of the service, if another role migrates. It gets the rights that
    it needs on the newest tables, and loses all others.
    """
    if engine.dialect.name == "sqlite":
        make_file(engine)
    with _alone(engine) as connection:
        before = revision_of(connection)
        refuse_unknown(before)
        if before not in {None, newest()}:
            _copy(connection)
        _run(connection, command.upgrade, revision)
        if app_user and revision_of(connection) == newest():
            grants.grant(connection, app_user)
    return check(engine)


def downgrade(engine: Engine, revision: str) -> Status:
    """Downgrade the database to ``revision``; ``base`` empties it.

    Data that the older tables cannot hold is lost. An SQLite file is first copied as in `upgrade`.
    """
    if engine.dialect.name == "sqlite" and not sqlite_path(engine).exists():
        raise StorageUnavailable(f"There is no database at {sqlite_path(engine)}.")
    with _alone(engine) as connection:
        refuse_unknown(revision_of(connection))
        _copy(connection)
        _run(connection, command.downgrade, revision)
    return check(engine)


def rebuild(
    engine: Engine,
    revision: str,
    fill: Callable[[Connection], None],
    finish: Callable[[Connection], None],
    *,
    only_empty: bool,
    app_user: str = "",
) -> None:
    """Replace all tables by those of ``revision``, filled and then upgraded as by `upgrade`.

    It is one transaction: if something fails, the database is as it was.

    Raises `NotEmpty` if it holds tables and may not.

    ``finish``: Called with the tables of this release.
    """
    if engine.dialect.name == "sqlite":
        make_file(engine)
    with _alone(engine) as connection:
        before = revision_of(connection)
        if only_empty and holds_tables(connection):  # asked here, where no other can fill it
            raise NotEmpty
        refuse_unknown(before)
        refuse_unknown(revision)
        if before is not None:
            _run(connection, command.downgrade, "base")
        _run(connection, command.upgrade, revision)
        fill(connection)
        _run(connection, command.upgrade, "head")
        finish(connection)
        if app_user:
            grants.grant(connection, app_user)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """Open and commit a transaction that excludes other migrations."""
    # Detached and then closed, so that the settings below do not reach the pool.
    with engine.connect() as connection:
        connection.detach()
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(connection)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE_S}s'"))
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            yield connection
            if engine.dialect.name == "sqlite":
                _refuse_orphans(connection)


def _prepare_sqlite(connection: Connection) -> None:
    # SQLite accepts this only outside a transaction. Rebuilding a table drops it, which would
    # delete the rows that refer to it. `_refuse_orphans` checks the references afterwards.
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    cursor.execute(f"PRAGMA busy_timeout = {_PATIENCE_S * 1000}")


def _refuse_orphans(connection: Connection) -> None:
    orphan = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if orphan is not None:
        raise ValueError(
            f"the migration would leave a row of {orphan[0]} that refers to a missing row of "
            f"{orphan[2]}; nothing was changed"
        )


def upgrade_in(connection: Connection, revision: str) -> None:
    """Upgrade what an open transaction finds on its search path."""
    _run(connection, command.upgrade, revision)


def _run(connection: Connection, step: Callable[[Config, str], None], revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    try:
        step(config, revision)
    except CommandError as error:
        raise ValueError(f"cannot migrate to {revision!r}: {error}") from error


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(revisions.FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def make_file(engine: Engine) -> Path:
    """Create a missing SQLite file, and return its path."""
    path = sqlite_path(engine)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # documents are confidential
    except OSError as error:
        raise StorageUnavailable(f"The database file cannot be created: {error}.") from error
    return path


def _copy(connection: Connection) -> None:
    """Copy the committed SQLite file; our transaction blocks other writers."""
    revision = revision_of(connection)
    if connection.dialect.name != "sqlite" or revision is None:
        return
    path = sqlite_path(connection.engine)
    copy = path.with_name(f"{path.name}.at-{revision}")
    copy.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
