"""Access to the service for commands: directly, on its own database."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from setwise.service.cli.console import CommandError, note

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from setwise.service.backend import Backend
    from setwise.service.build import Application
    from setwise.service.settings import Settings


def read_settings() -> "Settings":
    """Return the settings, with a warning for each variable that looks misspelt.

    Raises `BadSetting` if a setting is invalid.
    """
    from setwise.service.settings import Settings, misspelt

    settings = Settings.read()
    for fault in misspelt(os.environ):
        note(f"setwise: warning: {fault}")
    return settings


@contextmanager
def opened() -> Iterator[tuple["Settings", "Engine"]]:
    """Open the database of the settings, at any revision, and close it afterwards."""
    from setwise.service.stores import database as engines

    settings = _configured()
    engine = engines.create(settings.database_url)
    try:
        yield settings, engine
    finally:
        engine.dispose()


@contextmanager
def backend(*, migrated: bool = True, unsealed: bool = True) -> Iterator["Backend"]:
    """Open the services on the database of the environment, and close them afterwards.

    Raises `CommandError` if the database is not migrated; `BadSetting` if a setting is invalid, or
    a key of the encrypted database is missing.

    ``migrated``: Refuse a database at another revision.
    ``unsealed``: Refuse a database with values that this process could not decrypt.
    """
    from setwise.service.backend import open_backend

    with _closing(open_backend(_configured()), migrated=migrated, unsealed=unsealed) as opened:
        yield opened


@contextmanager
def application() -> Iterator["Application"]:
    """Build the whole service from the environment, like `backend`, and close it afterwards."""
    from setwise.service.build import build

    with _closing(build(_configured()), migrated=True, unsealed=True) as built:
        yield built


def _configured() -> "Settings":
    from setwise.service.logs import configure_logging

    settings = read_settings()
    configure_logging(settings.log_level, settings.log_format)
    return settings


_Opened = TypeVar("_Opened", bound="Backend")


@contextmanager
def _closing(opened: _Opened, *, migrated: bool, unsealed: bool) -> Iterator[_Opened]:
    from setwise.service.backend import unmigrated
    from setwise.service.stores.upkeep import revisions

    try:
        if migrated:
            status = revisions.check(opened.engine)
            if not status.ok:
                raise CommandError(unmigrated(status))
        if migrated and unsealed:
            opened.unseal()
        yield opened
    finally:
        opened.close()
