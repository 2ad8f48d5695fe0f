"""The clock that leases are measured with."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from service.db import clock
from service.db.clock import ServerClock, database_clock, utc_now
from service.db.engine import create
from service.domain.errors import StorageUnavailable


def test_time_is_aware_and_in_utc(engine: Engine) -> None:
    for now in (utc_now, database_clock(engine)):
        assert now().tzinfo is UTC
        assert abs(now() - datetime.now(UTC)) < timedelta(seconds=5)


def test_sqlite_needs_no_clock_but_this_machines(sqlite_url: str) -> None:
    assert database_clock(create(sqlite_url)) is utc_now


def test_the_servers_clock_does_not_jump_with_this_machines(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create(postgres_url)
    now = database_clock(engine)
    before = now()

    class Jumped(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=365)

    monkeypatch.setattr(clock, "datetime", Jumped)
    assert timedelta(0) <= now() - before < timedelta(seconds=5)
    engine.dispose()


def test_the_server_is_asked_now_and_then_and_missed_when_it_is_silent(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create(postgres_url)
    now = ServerClock(engine)
    offset = 0.0
    counter = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: counter() + offset)
    first = now()
    offset = 10.0  # not long enough to ask again: counted on
    assert timedelta(seconds=9) < now() - first < timedelta(seconds=15)
    offset = 100.0  # long enough: the server, whose time has not moved, is believed
    assert now() - first < timedelta(seconds=5)
    silent = now()

    def no_answer() -> None:
        raise StorageUnavailable("gone")

    monkeypatch.setattr(engine, "connect", no_answer)
    offset = 200.0
    assert timedelta(seconds=99) < now() - silent < timedelta(seconds=105)
    with pytest.raises(StorageUnavailable):
        ServerClock(engine)()
    monkeypatch.undo()
    engine.dispose()
