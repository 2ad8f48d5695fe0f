"""Which driver errors mean that the database does not answer, and which are our own mistakes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Dialect, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from setwise.service.domain.errors import StorageUnavailable

# Result codes of SQLite that pass by themselves or once there is room again; see
# https://sqlite.org/rescode.html. SQLITE_ERROR (1), such as a missing table, is a fault of ours.
_SQLITE_REASONS = {
    sqlite3.SQLITE_PERM: "its file may not be opened",
    sqlite3.SQLITE_BUSY: "another process kept it locked for too long",
    sqlite3.SQLITE_LOCKED: "another connection kept a table locked",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_READONLY: "its file may not be written",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted",
    sqlite3.SQLITE_IOERR: "its disk reported an error",
    sqlite3.SQLITE_CORRUPT: "its file is damaged; restore a backup",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened; does it exist? (setwise db upgrade)",
    sqlite3.SQLITE_PROTOCOL: "its locks are contended",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
}

# Classes of SQLSTATE (PostgreSQL, appendix A) that say the same.
_POSTGRES_REASONS = {
    "08": "the connection failed",
    "25006": "the server accepts no writes; it may be a standby",
    "28": "the server refused the login",
    "3D": "the database does not exist",
    "40": "concurrent transactions got in each other's way",
    "53": "the server ran out of disk, memory or connections",
    "55P03": "a lock was not free in time",
    "57": "the server is stopping, starting or cancelled the statement",
    "58": "the server's system reported an error",
}


def translate(engine: Engine) -> None:
    """Make errors on ``engine`` fit to be raised and logged.

    Where the database does not answer they become `StorageUnavailable`, and no message quotes rows.
    """

    @event.listens_for(engine, "handle_error")
    def _on_error(context: ExceptionContext) -> None:
        error = context.original_exception
        # A pooled connection that fails its ping is replaced; there is nothing to report yet.
        reason = None if context.is_pre_ping else why_unavailable(error)
        if reason is not None:
            raise StorageUnavailable(f"The database is not available: {reason}.") from error
        forgotten = isinstance(error, psycopg.Error) and _forget_row(error)
        if forgotten and context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.args = error.args


@contextmanager
def as_sqlalchemy_raises(statement: str, dialect: Dialect) -> Iterator[None]:
    """Raise what the driver raises in the block as if SQLAlchemy had run the statement."""
    try:
        yield
    except (psycopg.Error, sqlite3.Error) as error:
        reason = why_unavailable(error)
        if reason is not None:
            raise StorageUnavailable(f"The database is not available: {reason}.") from error
        if isinstance(error, psycopg.Error):
            _forget_row(error)
        raise DBAPIError.instance(
            statement,
            None,
            error,
            dialect.loaded_dbapi.Error,
            hide_parameters=True,
            dialect=dialect,
        ) from error


def _forget_row(error: psycopg.Error) -> bool:
    """Take PostgreSQL's detail away, which quotes the row, with the document in it."""
    quotes = error.diag.message_detail is not None or error.diag.context is not None
    if quotes:
        error.args = (error.diag.message_primary,)
    return quotes


def why_unavailable(error: BaseException) -> str | None:
    """Say why the database did not answer; None when it did and the statement was wrong."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        return None if code is None else _SQLITE_REASONS.get(code & 0xFF)
    if isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state is not None:
            return _POSTGRES_REASONS.get(state) or _POSTGRES_REASONS.get(state[:2])
        if isinstance(error, psycopg.OperationalError):
            return "the server does not answer"
    return None
