"""Commands for the database: ``db upgrade|downgrade|current|check|rebuild|move|reencrypt``."""

# ruff: noqa: PLC0415 - SQLAlchemy and Alembic import slowly: only where needed

from enum import StrEnum
from typing import Annotated

import typer

from setwise.service.cli.assembly import backend, opened
from setwise.service.cli.console import CommandError, note, progress, say

commands = typer.Typer(help="Create, upgrade and check the database.")

Revision = Annotated[
    str, typer.Argument(help="Target revision; `base` for no tables.", metavar="REVISION")
]


@commands.command()
def upgrade(revision: Revision = "head") -> None:
    """Upgrade the tables, by default to this release."""
    from setwise.service.stores.upkeep import migrate

    with opened() as (settings, engine):
        status = migrate.upgrade(engine, revision, app_user=settings.database_app_user)
        say(f"at {status.current}")


@commands.command()
def downgrade(revision: Revision) -> None:
    """Downgrade the tables; data that only newer tables hold is lost."""
    from setwise.service.stores.upkeep import migrate

    with opened() as (_, engine):
        say(f"at {migrate.downgrade(engine, revision).current or 'base'}")


@commands.command()
def current() -> None:
    """Print the revision of the database."""
    from setwise.service.stores.upkeep import revisions

    with opened() as (_, engine):
        say(revisions.current(engine) or "base")


@commands.command()
def check() -> None:
    """Fail unless the database fits this release."""
    from setwise.service.backend import unmigrated
    from setwise.service.stores.upkeep import revisions, structure

    with opened() as (_, engine):
        status = revisions.check(engine)
        if not status.ok:
            raise CommandError(unmigrated(status))
        try:
            structure.refuse_foreign(engine)
        except structure.Incomparable as error:
            note(f"setwise: warning: {error}")
        except ValueError as error:
            raise CommandError(
                f"the database may not be used: {error}; restore a backup of it"
            ) from error
        say(f"at {status.current}, as this release needs")


class Derived(StrEnum):
    """What follows from other tables."""

    CHECKS = "checks"
    COUNTS = "counts"


@commands.command()
def rebuild(
    table: Annotated[Derived, typer.Argument(help="What follows from stored rows.")],
) -> None:
    """Derive checks or counts again from stored rows."""
    from setwise.service.stores.upkeep import checks

    with backend() as opened, progress(f"rebuild {table}") as report:
        if table is Derived.COUNTS:
            days = checks.recount(opened.begin, report)
            say(f"counts rebuilt from what was stored on {days:,} days")
            return
        predictions = checks.rebuild(opened.begin, report)
    say(f"{table} rebuilt from what was answered to {predictions:,} predictions")


@commands.command()
def move(
    url: Annotated[
        str,
        typer.Argument(
            help="An empty database: sqlite:///… or postgresql+psycopg://….", metavar="URL"
        ),
    ],
) -> None:
    """Copy everything to another database, and verify it.

    Stop servers and workers first: what they write later stays in the old database.
    """
    from setwise.service.settings import PREFIX
    from setwise.service.stores import database as engines
    from setwise.service.stores.upkeep import backup

    target = engines.create(url)
    try:
        with opened() as (settings, engine), progress("move") as report:
            backup.refuse_move(engine, target)
            note("stop servers and workers first: what they write later stays in the old database")
            # SQLite has no roles.
            app_user = settings.database_app_user if target.dialect.name != "sqlite" else ""
            moved = backup.move(engine, target, report, app_user=app_user)
    finally:
        target.dispose()
    say(f"{moved:,} rows moved and verified; now set {PREFIX}DATABASE_URL, and start servers")


@commands.command()
def reencrypt() -> None:
    """Encrypt everything under the first encryption key."""
    from setwise.service.backend import job_files
    from setwise.service.runtime.files import SealedFiles
    from setwise.service.settings import PREFIX, BadSetting
    from setwise.service.stores.database import utc_now
    from setwise.service.stores.upkeep import encryption

    with backend(unsealed=False) as opened, progress("reencrypt") as report:
        fault = encryption.missing_keys(opened.engine) or encryption.unsealed(opened.engine)
        if fault is not None:
            raise BadSetting(f"{PREFIX}ENCRYPTION_KEYS: {fault}")
        encryption.note_key(opened.engine, utc_now())
        files = job_files(opened.settings, opened.engine)
        try:
            sealed = encryption.reseal(opened.engine, report)
            renewed = 0
            if isinstance(files, SealedFiles):
                renewed = files.reseal(report)
                encryption.retire(opened.engine, files.outdated)
        except encryption.NotDone as error:
            raise CommandError(str(error)) from error
    say(f"{sealed} values and {renewed} job files re-encrypted; no other key is needed any more")
