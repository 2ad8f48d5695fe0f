"""How commands get at the service: directly, on its own database, as the service itself."""

# ruff: noqa: PLC0415 - the service's libraries take a second to import: only where needed

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from setwise.service.cli.console import CommandError, note

if TYPE_CHECKING:
    from setwise.service.build import Application
    from setwise.service.settings import Settings


def read_settings() -> "Settings":
    """Read the environment, and warn of variables that look like settings and are none.

    Raises
    ------
    BadSetting
        If a setting cannot work.
    """
    from setwise.service.settings import Settings, misspelt

    settings = Settings.read()
    for fault in misspelt(os.environ):
        note(f"setwise: warning: {fault}")
    return settings


@contextmanager
def application(*, migrated: bool = True) -> Iterator["Application"]:
    """Put the service together from the environment, and close it afterwards.

    Parameters
    ----------
    migrated : bool
        Refuse a database that the code cannot work with.

    Raises
    ------
    CommandError
        If the database is not migrated.
    BadSetting
        If a setting cannot work, or a key is missing under which the database is encrypted.
    """
    from setwise.service.build import build, unmigrated
    from setwise.service.stores.upkeep import migrate
    from setwise.service.telemetry import configure_logging

    settings = read_settings()
    configure_logging(settings.log_level, settings.log_format)
    built = build(settings)
    try:
        if migrated:
            status = migrate.check(built.engine)
            if not status.ok:
                raise CommandError(unmigrated(status))
            built.unseal()
        yield built
    finally:
        built.close()
