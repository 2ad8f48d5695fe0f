"""Engines for SQLite and PostgreSQL, configured so that commits are durable."""

import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import psycopg
import uuid_utils
from pydantic_core import from_json
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    PoolProxiedConnection,
    QueuePool,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from setwise.service.domain.errors import (
    ServiceError,
    StorageDamaged,
    StorageSlow,
    StorageUnavailable,
)
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.columns.types import CIPHER, stored_json

Clock = Callable[[], datetime]
"""Either clock, or a function that tells the time."""


SYNC_EVERY_S = 30.0
"""Clocks of healthy machines drift by less than a millisecond in this time."""


def utc_now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


class _Told:
    """Tells the time as a function does."""

    def __init__(self, tell: Clock = utc_now) -> None:
        self._tell = tell

    def __call__(self) -> datetime:
        """Return the time now."""
        return self._tell()


class WallClock(_Told):
    """The time of this machine, with which things are recorded."""


class LeaseClock(_Told):
    """The time that all processes with a database share: of leases, and of what is due."""


class OneClock(WallClock, LeaseClock):
    """One time for both, in simulations."""


def database_clock(engine: Engine) -> LeaseClock:
    """Return the clock for leases.

    Processes on several machines share one PostgreSQL server and its clock; otherwise a machine
    whose clock is ahead would expire leases early. An SQLite file is on this machine, so the local
    clock serves.
    """
    return ServerClock(engine) if engine.dialect.name == "postgresql" else LeaseClock()


class ServerClock(LeaseClock):
    """The database server's time, read periodically and extrapolated in between.

    Extrapolation uses this machine's monotonic clock, so the time does not jump when the machine's
    clock is set.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._refreshing = threading.Lock()
        self._anchor: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        """Return the server's time; raises `StorageUnavailable` if it never answered."""
        anchor = self._anchor
        if anchor is None:
            with self._refreshing:
                anchor = self._anchor or self._ask()
        elif time.monotonic() - anchor[1] > SYNC_EVERY_S and self._refreshing.acquire(
            blocking=False
        ):
            # One thread asks while the others keep using the old anchor.
            try:
                anchor = self._ask()
            except StorageUnavailable:
                self._anchor = anchor = (self._since(anchor), time.monotonic())
            finally:
                self._refreshing.release()
        return self._since(anchor)

    def _ask(self) -> tuple[datetime, float]:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            before = time.monotonic()
            answer: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
            after = time.monotonic()
        self._anchor = answer.astimezone(UTC), (before + after) / 2
        return self._anchor

    @staticmethod
    def _since(anchor: tuple[datetime, float]) -> datetime:
        return anchor[0] + timedelta(seconds=time.monotonic() - anchor[1])


NewId = Callable[[], str]


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562) greater than this process's earlier ones.

    A counter orders ids within a millisecond, so sorting by id sorts by time even in a burst.
    """
    return str(uuid_utils.uuid7())


READ_ONLY = "setwise_read_only"
"""Execution option of a connection with read-only transactions."""

APPLICATION_NAME = "setwise"
"""Names the connections in PostgreSQL's ``pg_stat_activity``."""

POOL_SIZE = 40
"""The number of the HTTP server's threads, so that no thread waits for a connection."""


def create(
    url: str,
    *,
    patience_s: float = 5.0,
    cipher: TextCipher | None = None,
    pool_size: int = POOL_SIZE,
) -> Engine:
    """Return an engine for ``url``; it connects on first use.

    Raises `ValueError` if the address is of another kind. The message contains no password.

    ``url``: ``sqlite:///path/to/file.db`` or ``postgresql+psycopg://user:password@host/database``.
    ``patience_s``: How long to wait for a connection, or for SQLite's write lock, in seconds.
    ``cipher``: Encrypts texts, metadata and secrets in the database; None stores them in plain
    text.
    ``pool_size``: Most connections at a time.
    """
    try:
        address = make_url(url)
    except ArgumentError:
        raise ValueError(
            "the database address is not a URL; write sqlite:///path/to/file.db or "
            "postgresql+psycopg://user:password@host/database"
        ) from None
    match address.get_backend_name():
        case "sqlite":
            engine = _sqlite(address, patience_s, pool_size)
        case "postgresql":
            engine = _postgres(address, patience_s, pool_size)
        case other:
            raise ValueError(f"databases of kind {other!r} are not supported: sqlite or postgresql")
    setattr(engine.dialect, CIPHER, cipher)
    translate(engine)
    return engine


class _Pool(QueuePool):
    """Connections that raise `StorageUnavailable` if none is free in time."""

    __module__ = QueuePool.__module__  # names its logger; ours would log how pools open and close

    def connect(self) -> PoolProxiedConnection:
        try:
            return super().connect()
        except PoolExhausted as error:
            raise StorageUnavailable(
                "The database is not available: every connection is in use."
            ) from error


def fold_log(engine: Engine) -> bool:
    """Empty an SQLite file's write-ahead log into the file; False if it is in use."""
    pooled = engine.raw_connection()
    try:
        cursor = pooled.cursor()
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        answer = cursor.fetchone()
        return answer is not None and answer[0] == 0
    finally:
        pooled.close()


def sqlite_path(engine: Engine) -> Path:
    """Return the file of an SQLite engine."""
    if engine.dialect.name != "sqlite" or engine.url.database is None:
        raise ValueError(f"{engine.url!r} is not an SQLite file")
    return Path(engine.url.database)


def _write_ahead(connection: sqlite3.Connection, patience_s: float) -> None:
    """Have readers and the writer not block each other.

    SQLite does not wait for its timeout while another connection does the same to a new file.
    """
    ends = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(0.01)
        else:
            return


def _sqlite(address: URL, patience_s: float, pool_size: int) -> Engine:
    name = address.database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ValueError("SQLite needs a plain file: sqlite:///path/to/file.db")
    path = Path(name).absolute()

    def connect() -> sqlite3.Connection:
        # mode=rw: a missing file is an error, not a new empty database.
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=patience_s,
            isolation_level=None,  # `_begin` below begins transactions
            check_same_thread=False,
        )
        try:
            _write_ahead(connection, patience_s)
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # overwrite what is deleted
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine(
        address.set(database=str(path)),
        creator=connect,
        poolclass=_Pool,
        pool_size=pool_size,
        max_overflow=0,
        # Prefer the connection that wrote last: its page cache is still valid, while the caches of
        # the others are stale after a write.
        pool_use_lifo=True,
        pool_timeout=patience_s,
        json_serializer=stored_json,
        json_deserializer=from_json,
        hide_parameters=True,  # errors are logged, and parameters contain documents
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at once. A DEFERRED transaction that reads and then writes
        # fails as "locked" without waiting.
        options = connection.get_execution_options()
        begin = "BEGIN" if options.get(READ_ONLY) else "BEGIN IMMEDIATE"
        connection.exec_driver_sql(begin)

    return engine


def _postgres(address: URL, patience_s: float, pool_size: int) -> Engine:
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    if address.get_driver_name() != "psycopg":
        raise ValueError(
            f"the PostgreSQL driver is psycopg, not {address.get_driver_name()!r}: "
            "postgresql+psycopg://…"
        )
    return create_engine(
        address,
        poolclass=_Pool,
        pool_pre_ping=True,  # after a server restart, reconnect instead of failing a request
        pool_size=(pool_size + 1) // 2,  # the others are closed when idle
        max_overflow=pool_size // 2,
        pool_timeout=patience_s,
        json_serializer=stored_json,
        json_deserializer=from_json,
        hide_parameters=True,  # as above
        connect_args={
            "connect_timeout": max(2, round(patience_s)),
            # Notice a server that vanished within seconds, not hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "options": "-c timezone=UTC -c statement_timeout=30s"
            " -c idle_in_transaction_session_timeout=60s",
            "application_name": APPLICATION_NAME,
        },
    )


# SQLite result codes for problems that pass or can be resolved; see
# https://sqlite.org/rescode.html. SQLITE_ERROR (1), such as a missing table, is our own fault.
_SQLITE_REASONS = {
    sqlite3.SQLITE_PERM: "its file may not be opened",
    sqlite3.SQLITE_BUSY: "another process kept it locked for too long",
    sqlite3.SQLITE_LOCKED: "another connection kept a table locked",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_READONLY: "its file may not be written",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted",
    sqlite3.SQLITE_IOERR: "its disk reported an error",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened; does it exist? (setwise db upgrade)",
    sqlite3.SQLITE_PROTOCOL: "its locks are contended",
}

_SQLITE_DAMAGES = {
    sqlite3.SQLITE_CORRUPT: "its file is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
}

# Classes of SQLSTATE (PostgreSQL, appendix A) with the same meaning.
_POSTGRES_REASONS = {
    "08": "the connection failed",
    "25006": "the server accepts no writes; it may be a standby",
    "28": "the server refused the login",
    "3D": "the database does not exist",
    "40": "concurrent transactions got in each other's way",
    "53": "the server ran out of disk, memory or connections",
    "55P03": "a lock was not free in time",
    "57": "the server is stopping or starting",
    "58": "the server's system reported an error",
}

_CANCELLED = "57014"
"""SQLSTATE of a statement that took longer than ``statement_timeout``."""


def translate(engine: Engine) -> None:
    """Make errors on ``engine`` safe to raise and log.

    If the database does not answer, they become `StorageUnavailable`, and `StorageDamaged` if its
    file is damaged. No message quotes rows.
    """

    @event.listens_for(engine, "handle_error")
    def _on_error(context: ExceptionContext) -> None:
        error = context.original_exception
        # A pooled connection that fails its ping is replaced, so there is nothing to report.
        fault = None if context.is_pre_ping else unavailable(error)
        if fault is not None:
            raise fault from error
        forgotten = isinstance(error, psycopg.Error) and _forget_row(error)
        if forgotten and context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.args = error.args


def _forget_row(error: psycopg.Error) -> bool:
    """Remove PostgreSQL's detail, which quotes the row and its document."""
    quotes = error.diag.message_detail is not None or error.diag.context is not None
    if quotes:
        error.args = (error.diag.message_primary,)
    return quotes


def unavailable(error: BaseException) -> ServiceError | None:
    """Return the error to raise if the database did not answer; None if it did."""
    reason = None
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _SQLITE_DAMAGES:
            return StorageDamaged(f"The database cannot be used: {_SQLITE_DAMAGES[code]}.")
        reason = _SQLITE_REASONS.get(code)
    elif isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state == _CANCELLED:
            return StorageSlow("The database took too long for a statement, and cancelled it.")
        if state is not None:
            reason = _POSTGRES_REASONS.get(state) or _POSTGRES_REASONS.get(state[:2])
        elif isinstance(error, psycopg.OperationalError):
            reason = "the server does not answer"
    if reason is None:
        return None
    return StorageUnavailable(f"The database is not available: {reason}.")
