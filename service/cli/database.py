"""Commands for the database: ``db upgrade|downgrade|current|check|reencrypt``."""

# ruff: noqa: PLC0415 - SQLAlchemy and Alembic import slowly: only where needed

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import application, read_settings
from setwise.service.cli.console import CommandError, progress, say

if TYPE_CHECKING:
    from sqlalchemy import Engine

commands = typer.Typer(help="Create, upgrade and check the database.")

Revision = Annotated[
    str, typer.Argument(help="Target revision; `base` for no tables.", metavar="REVISION")
]


@commands.command()
def upgrade(revision: Revision = "head") -> None:
    """Upgrade the tables, by default to this release."""
    from setwise.service.settings import Settings
    from setwise.service.stores.upkeep import migrate

    app_user = Settings.read().database_app_user
    with _engine() as engine:
        say(f"at {migrate.upgrade(engine, revision, app_user=app_user).current}")


@commands.command()
def downgrade(revision: Revision) -> None:
    """Downgrade the tables; data that only newer tables hold is lost."""
    from setwise.service.stores.upkeep import migrate

    with _engine() as engine:
        say(f"at {migrate.downgrade(engine, revision).current or 'base'}")


@commands.command()
def current() -> None:
    """Print the revision of the database."""
    from setwise.service.stores.upkeep import migrate

    with _engine() as engine:
        say(migrate.current(engine) or "base")


@commands.command()
def check() -> None:
    """Fail unless the database fits this release."""
    from setwise.service.build import unmigrated
    from setwise.service.stores.upkeep import migrate

    with _engine() as engine:
        status = migrate.check(engine)
        if not status.ok:
            raise CommandError(unmigrated(status))
        say(f"at {status.current}, as this release needs")


@commands.command()
def reencrypt() -> None:
    """Encrypt everything under the first encryption key."""
    from setwise.service.stores.upkeep import encryption

    with application() as built, progress("reencrypt") as report:
        sealed = encryption.reseal(built.engine, report)
    say(
        f"{sealed} values re-encrypted; remove the other keys once the job files that were "
        "written under them are deleted (SETWISE_JOB_FILES_DAYS)"
    )


@contextmanager
def _engine() -> Iterator["Engine"]:
    from setwise.service.stores import database as engines

    engine = engines.create(read_settings().database_url)
    try:
        yield engine
    finally:
        engine.dispose()
