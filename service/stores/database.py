"""Engines for the two databases, set up so that what was committed stays."""

import sqlite3
from pathlib import Path
from urllib.parse import quote

from pydantic_core import from_json
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from setwise.service.stores.ciphers import TextCipher
from setwise.service.stores.column_types import CIPHER
from setwise.service.stores.faults import translate
from setwise.service.stores.stored_json import stored_json

READ_ONLY = "setwise_read_only"
"""Execution option of a connection whose transactions do not write."""

MOST_CONNECTIONS = 40
"""As many as the HTTP server has threads, so that a thread never waits for a connection."""


def create(url: str, *, patience_s: float = 5.0, cipher: TextCipher | None = None) -> Engine:
    """Return an engine for ``url``; nothing is opened before it is used.

    Parameters
    ----------
    url : str
        ``sqlite:///path/to/file.db`` or ``postgresql+psycopg://user:password@host/database``.
    patience_s : float
        How long to wait for a connection, or for SQLite's write lock, in seconds.
    cipher : TextCipher or None
        Encrypts texts, metadata and secrets in the database; None keeps them as they are.

    Raises
    ------
    ValueError
        If the address is of another kind. Its text holds no password.
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
            engine = _sqlite(address, patience_s)
        case "postgresql":
            engine = _postgres(address, patience_s)
        case other:
            raise ValueError(f"databases of kind {other!r} are not supported: sqlite or postgresql")
    setattr(engine.dialect, CIPHER, cipher)
    translate(engine)
    return engine


def hurry(engine: Engine) -> None:
    """Do not wait for the disk at commits to a throwaway SQLite file.

    Call it before the engine is used.
    """

    @event.listens_for(engine, "connect")
    def _volatile(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")


def sqlite_path(engine: Engine) -> Path:
    """Return the file behind an SQLite engine."""
    if engine.dialect.name != "sqlite" or engine.url.database is None:
        raise ValueError(f"{engine.url!r} is not an SQLite file")
    return Path(engine.url.database)


def _sqlite(address: URL, patience_s: float) -> Engine:
    name = address.database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ValueError("SQLite needs a plain file: sqlite:///path/to/file.db")
    path = Path(name).absolute()

    def connect() -> sqlite3.Connection:
        # mode=rw: a file that vanished is an error, not an empty database to go on with.
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=patience_s,
            isolation_level=None,  # transactions begin where we say so, see below
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
            connection.execute("PRAGMA foreign_keys = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine(
        address.set(database=str(path)),
        creator=connect,
        poolclass=QueuePool,
        pool_size=MOST_CONNECTIONS,
        max_overflow=0,
        # The connection that has written last: what it keeps in memory still holds, while those
        # of others is read again once anybody else has written.
        pool_use_lifo=True,
        pool_timeout=patience_s,
        json_serializer=stored_json,
        json_deserializer=from_json,  # twice as fast as the standard library
        hide_parameters=True,  # errors are logged, and parameters hold documents
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at once, where a DEFERRED transaction that reads and then
        # writes fails as "locked" without waiting.
        options = connection.get_execution_options()
        begin = "BEGIN" if options.get(READ_ONLY) else "BEGIN IMMEDIATE"
        connection.exec_driver_sql(begin)

    return engine


def _postgres(address: URL, patience_s: float) -> Engine:
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    if address.get_driver_name() != "psycopg":
        raise ValueError(
            f"the PostgreSQL driver is psycopg, not {address.get_driver_name()!r}: "
            "postgresql+psycopg://…"
        )
    return create_engine(
        address,
        pool_pre_ping=True,  # a server that was restarted costs a reconnect, not a failed request
        pool_size=MOST_CONNECTIONS // 2,
        max_overflow=MOST_CONNECTIONS // 2,
        pool_timeout=patience_s,
        json_serializer=stored_json,
        json_deserializer=from_json,
        hide_parameters=True,  # as above
        connect_args={
            "connect_timeout": max(2, round(patience_s)),
            # A server that vanished without a word is noticed in seconds, not hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "options": "-c timezone=UTC -c statement_timeout=30s"
            " -c idle_in_transaction_session_timeout=60s",
            "application_name": "setwise",
        },
    )
