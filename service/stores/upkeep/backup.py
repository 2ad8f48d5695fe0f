"""Dumps a whole database with its own tools, and loads it again.

They see one snapshot and block no writer: ``VACUUM INTO``, and ``pg_dump`` and ``pg_restore``.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine, text

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import migrate, revisions, structure


def dump(engine: Engine, file: Path) -> str:
    """Write the database to a new file, and return its revision.

    Raises `ValueError` if it is empty, or its tool is missing or fails.
    """
    revision = revisions.current(engine)
    if revision is None:
        raise ValueError("the database is empty: there is nothing to back up")
    if engine.dialect.name == "postgresql":
        _run(engine, "pg_dump", "--format=custom", "--compress=0", f"--file={file}")
    else:
        with closing(sqlite3.connect(sqlite_path(engine))) as connection:
            connection.execute("VACUUM INTO ?", (str(file),))
    return revision


def load(engine: Engine, file: Path, *, app_user: str = "") -> None:
    """Replace the database by a dump, upgraded to this release as by `migrate.upgrade`.

    Raises as `dump` does, and if the dump holds other tables or triggers than Setwise's; the
    database is then as it was, or cannot be used.
    """
    if engine.dialect.name == "postgresql":
        structure.check_role(engine)
        if revisions.current(engine) is not None:
            migrate.downgrade(engine, "base")
        _run(engine, "pg_restore", "-1", "--clean", "--if-exists", str(file))
        _refuse_foreign(engine)
    else:
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


def _refuse_foreign(engine: Engine) -> None:
    try:
        structure.refuse_foreign(engine)
    except ValueError as error:
        with engine.begin() as connection:  # no server starts without a revision
            connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
        raise ValueError(
            f"{error}; it was loaded but no server uses it: drop the database, and create it anew"
        ) from error


def _run(engine: Engine, tool: str, *arguments: str) -> None:
    program = shutil.which(tool)
    if program is None:
        raise ValueError(f"{tool} is missing: install postgresql-client, as new as the server")
    # Without the password: everybody on the machine can read arguments.
    address = engine.url._replace(drivername="postgresql", password=None).render_as_string()
    done = subprocess.run(  # noqa: S603 -- no shell, and a tool of the database
        [program, "--dbname", address, "--no-owner", "--no-privileges", *arguments],
        env=os.environ | ({"PGPASSWORD": engine.url.password} if engine.url.password else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(f"{tool} failed: {' '.join(done.stderr.split())}")
