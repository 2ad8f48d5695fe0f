"""The clock that leases are measured with."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores import database as clock
from setwise.service.stores.database import LeaseClock, ServerClock, create, database_clock, utc_now


def test_time_is_aware_and_in_utc(engine: Engine) -> None:
    for now in (utc_now, database_clock(engine)):
        assert now().tzinfo is UTC
        assert abs(now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_sqlite_needs_no_clock_but_this_machines(sqlite_url: str) -> None:
    assert type(database_clock(create(sqlite_url))) is LeaseClock


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
    assert timedelta(0) <= now() - before < timedelta(days=1)
    engine.dispose()


def test_the_server_is_asked_now_and_then_and_missed_when_it_is_silent(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create(postgres_url)
    now = ServerClock(engine)
    offset = 0.0
    # No time passes by this machine's counter but what is added to it.
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0 + offset)
    first = now()
    offset = 10.0  # not long enough to ask again: counted on
    assert now() - first == timedelta(seconds=10)
    offset = 10_000.0  # long enough: the server, whose time has hardly moved, is believed
    assert now() - first < timedelta(seconds=1_000)
    silent = now()

    def no_answer() -> None:
        raise StorageUnavailable("gone")

    monkeypatch.setattr(engine, "connect", no_answer)
    offset = 10_100.0
    assert now() - silent == timedelta(seconds=100)
    with pytest.raises(StorageUnavailable):
        ServerClock(engine)()
    monkeypatch.undo()
    engine.dispose()
