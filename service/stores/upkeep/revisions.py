"""The revisions of a database and of this release, read without the library that migrates."""

import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import ProgrammingError

from setwise.service.stores.database import READ_ONLY, sqlite_path
from setwise.service.stores.upkeep import grants


def _folder() -> Path:
    """Return the migrations, in a checkout or in a wheel's data."""
    beside = Path(__file__).resolve().parents[3] / "migrations"
    if (beside / "env.py").is_file():
        return beside
    return Path(sysconfig.get_path("data")) / "share" / "setwise" / "migrations"


FOLDER = _folder()


@dataclass(frozen=True)
class Status:
    """The revisions of a database and of this release."""

    current: str | None
    """The database's revision; None if it is empty."""
    head: str
    """The revision that this release works with."""

    @property
    def ok(self) -> bool:
        """The database has the revision that the code needs."""
        return self.current == self.head


def current(engine: Engine) -> str | None:
    """Return the revision of the database; None if it is empty."""
    if engine.dialect.name == "sqlite" and not sqlite_path(engine).exists():
        return None
    try:
        with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
            return revision_of(connection)
    except ProgrammingError as error:
        raise grants.lacking(engine) from error


def is_empty(engine: Engine) -> bool:
    """Return whether a database has no tables, of this service or of another program."""
    if engine.dialect.name == "sqlite" and not sqlite_path(engine).exists():
        return True
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        return not holds_tables(connection)


def holds_tables(connection: Connection) -> bool:
    """Return whether there are tables, but for the one that a downgrade to `base` leaves."""
    return bool({*inspect(connection).get_table_names()} - {"alembic_version"})


def check(engine: Engine) -> Status:
    """Return the revisions of the database and of the code."""
    return Status(current=current(engine), head=newest())


def revision_of(connection: Connection) -> str | None:
    """Return the revision that the migrations noted; None in an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    query = text("SELECT version_num FROM alembic_version")
    return connection.execute(query).scalar_one_or_none()


def newest() -> str:
    """Return the revision that this release works with."""
    return _revisions()[-1]


def knows(revision: str) -> bool:
    """Return whether this release has the migration ``revision``."""
    return revision in _revisions()


def refuse_unknown(revision: str | None) -> None:
    """Raise `ValueError` if a database is at a revision that this release does not know."""
    if revision is not None and not knows(revision):
        raise ValueError(
            f"the database is at revision {revision}, which this release does not know; "
            "install the release that made it, or a newer one"
        )


@cache
def _revisions() -> tuple[str, ...]:
    """Return all revisions in order; a file is named ``<revision>_<words>.py``.

    Raises `ValueError` if the installation has no migrations.
    """
    files = sorted((FOLDER / "versions").glob("[0-9]*_*.py"))
    if not files or not (FOLDER / "env.py").is_file():
        raise ValueError(f"no migrations in {FOLDER}: install Setwise again, whole")
    return tuple(file.name.partition("_")[0] for file in files)
