"""What must hold before a server is ready."""

from collections.abc import Callable

from sqlalchemy import Engine

from setwise.service.domain.errors import ModelUnavailable, ServiceError
from setwise.service.runtime.model import ModelRegistry
from setwise.service.stores import encryption, migrate


def database_check(engine: Engine) -> Callable[[], str | None]:
    """Return what says why the database cannot be worked with; None if it can."""

    def check() -> str | None:
        try:
            status = migrate.check(engine)
        except ServiceError as error:
            return error.detail
        return None if status.ok else unmigrated(status)

    return check


def encryption_check(engine: Engine) -> Callable[[], str | None]:
    """Return what names keys that are missing to read what is stored; None if none is."""

    def check() -> str | None:
        try:
            if not migrate.check(engine).ok:
                return None  # which another check tells
            return encryption.missing_keys(engine)
        except ServiceError as error:
            return error.detail

    return check


def model_check(registry: ModelRegistry) -> Callable[[], str | None]:
    """Return what says why no model serves; None if one does."""

    def check() -> str | None:
        try:
            registry.active()
        except ModelUnavailable as error:
            return error.detail
        return None

    return check


def unmigrated(status: migrate.Status) -> str:
    """Say what to do about a database that the code cannot work with."""
    have = f"at revision {status.current}" if status.current else "empty"
    return f"The database is {have}, not at {status.head}: run setwise db upgrade."
