"""Copies an SQLite file's log into the file beside those who write, so that they need not."""

import sqlite3
import threading

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from setwise.service.domain.errors import StorageUnavailable

EVERY_S = 0.25

log = structlog.get_logger(__name__)


class Checkpoints:
    """Copies every moment what is new in the log, in a thread of its own.

    Left alone, the commit that finds the log long copies all of it while others wait: under load
    one of every hundred did, for tens of milliseconds. A checkpoint of the kind `PASSIVE` waits for
    nobody and nobody for it, and leaves such a commit the few pages that came since the last one.

    Parameters
    ----------
    engine : Engine
        PostgreSQL does all that by itself: there is nothing to do then.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Copy until `stop`."""
        if self._engine.dialect.name == "sqlite":
            self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Return when nothing is being copied any more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                connection = self._engine.raw_connection()  # any other would begin a transaction
                try:
                    connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                finally:
                    connection.close()
            except (SQLAlchemyError, sqlite3.Error, StorageUnavailable) as error:
                # Nothing is lost by that; whoever writes next will be told what is wrong.
                log.debug("checkpoint.failed", error=type(error).__name__)
