"""What time it is: here, and where the database runs."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import uuid_utils
from sqlalchemy import Engine, func, select

from setwise.service.domain.errors import StorageUnavailable

Clock = Callable[[], datetime]


SYNC_EVERY_S = 30.0
"""Clocks of sound machines drift by less than a millisecond in this time."""


def utc_now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


def database_clock(engine: Engine) -> Clock:
    """Return the clock that leases are measured with.

    Processes on several machines share one PostgreSQL server, and its clock; otherwise a machine
    whose clock is ahead would take leases away before their time. An SQLite file is on this
    machine, so the local clock serves.
    """
    return ServerClock(engine) if engine.dialect.name == "postgresql" else utc_now


class ServerClock:
    """The database server's time, read now and then and extrapolated in between.

    In between it follows this machine's monotonic counter, so it does not jump when the machine's
    clock is set.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._refreshing = threading.Lock()
        self._anchor: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        """Return the server's time; raises `StorageUnavailable` if it has never answered."""
        anchor = self._anchor
        if anchor is None:
            with self._refreshing:
                anchor = self._anchor or self._ask()
        elif time.monotonic() - anchor[1] > SYNC_EVERY_S and self._refreshing.acquire(
            blocking=False
        ):
            # One thread asks while the others go on with the anchor that they have.
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
    """Return a UUIDv7 (RFC 9562, section 5.7) greater than any that this process made before.

    A counter orders ids of one millisecond, so lists by id are lists by time even in a burst.
    """
    return str(uuid_utils.uuid7())
