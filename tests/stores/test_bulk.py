"""Rows that are added together arrive as SQLAlchemy would have added them."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, Row, Text, cast, delete, insert, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from setwise.service.stores.bulk import RowInsert
from setwise.service.stores.ciphers import TextCipher
from setwise.service.stores.database import create
from setwise.service.stores.tables import jobs, webhook_endpoints
from tests.fakes import START, FakeIds

NEW_ID = FakeIds()


def _row(number: int) -> dict[str, object]:
    return {
        "id": NEW_ID(),
        "kind": "kind's",
        "key": None if number % 2 else f"key {number} %s ? :key",
        "payload": {"n": number, "word": "NaN", "deep": [1e300, None]},
        "state": "queued",
        "progress": number / 1_000,
        "message": "",
        "attempt": 0,
        "token": 0,
        "due_at": START + timedelta(microseconds=number),
        "created_at": START,
        "result": None,
    }


_ALIKE = [("kind", "created_at"), ("payload", "message"), ("result", "attempt", "state")]


def _add(connection: Connection, rows: list[dict[str, object]]) -> None:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    RowInsert(jobs, alike=_ALIKE)(connection, columns)


def _stored(engine: Engine, add: Callable[[Connection], object]) -> Sequence[Row[Any]]:
    """Return what is in the table after ``add``, and empty it."""
    names = [jobs.c[name] for name in _row(0)]
    exact = [cast(jobs.c[name], Text) for name in ("payload", "result")]
    with engine.begin() as connection:
        add(connection)
        found = connection.execute(select(*names, *exact).order_by(jobs.c.id)).all()
        connection.execute(delete(jobs))
    return found


@pytest.mark.parametrize("count", [1, 2, 15, 16, 47, 64, 131, 256, 530])
def test_rows_are_stored_as_sqlalchemy_stores_them(module_engine: Engine, count: int) -> None:
    rows = [_row(number) for number in range(count)]
    stored = _stored(module_engine, lambda connection: _add(connection, rows))
    assert stored == _stored(
        module_engine, lambda connection: connection.execute(insert(jobs), rows)
    )
    assert [row.payload["n"] for row in stored] == list(range(count))


_ROWS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["a", "b"]),
        "key": st.none(),
        "payload": st.sampled_from([{}, {"n": 1}, {"n": True}, {"n": 1.0}, {"n": -0.0}]),
        "state": st.just("queued"),
        "progress": st.sampled_from([0.0, 1.0]),
        "message": st.sampled_from(["", "?1 ? %s"]),
        "attempt": st.sampled_from([0, 1]),
        "token": st.just(0),
        "due_at": st.sampled_from([START, START + timedelta(microseconds=1)]),
        "created_at": st.sampled_from([START, START.astimezone(timezone(timedelta(hours=5)))]),
        "result": st.sampled_from([None, {}, [1], [True]]),
    }
)


@given(data=st.data(), count=st.sampled_from([15, 16, 17, 40, 272]))
@settings(max_examples=30)
def test_rows_that_agree_in_some_columns_are_stored_as_sqlalchemy_stores_them(
    module_engine: Engine, data: st.DataObject, count: int
) -> None:
    agreed = data.draw(st.sets(st.sampled_from([name for group in _ALIKE for name in group])))
    kinds = data.draw(st.lists(_ROWS, min_size=3, max_size=3))
    kinds = [kind | {name: kinds[0][name] for name in agreed} for kind in kinds]
    rows = [{"id": NEW_ID(), **kinds[number * number % 3]} for number in range(count)]
    assert _stored(module_engine, lambda connection: _add(connection, rows)) == _stored(
        module_engine, lambda connection: connection.execute(insert(jobs), rows)
    )


@pytest.mark.parametrize(
    ("differing", "taken"), [("progress", 7 + 16 * 5 + 1), ("message", 5 + 16 * 7 + 1)]
)
def test_sqlite_takes_values_in_which_rows_agree_once(
    sqlite_url: str, differing: str, taken: int
) -> None:
    engine = create(sqlite_url)
    rows = [_row(0) | {"id": NEW_ID(), "key": None} for _ in range(16)]
    rows[-1] |= {differing: "other" if differing == "message" else 0.5}
    with engine.begin() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, taken - 1)
        with pytest.raises(OperationalError, match="too many SQL variables"):
            _add(connection, rows)
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, taken)
        _add(connection, rows)
    engine.dispose()


def test_columns_of_several_lengths_are_refused(module_engine: Engine) -> None:
    columns = {"id": [NEW_ID(), NEW_ID()], "kind": ["a", "a", "a"]}
    with module_engine.begin() as connection, pytest.raises(ValueError, match="one length"):
        RowInsert(jobs)(connection, columns)


def test_each_value_is_sealed_by_itself(database_url: str) -> None:
    engine = create(database_url, cipher=TextCipher([bytes(range(32))]))
    columns = {
        "id": [NEW_ID() for _ in range(16)],
        "url": ["https://example.org"] * 16,
        "description": [""] * 16,
        "events": [["a"]] * 16,
        "secrets": [["equal"]] * 16,
        "version": [1] * 16,
        "created_at": [START] * 16,
    }
    with engine.begin() as connection:
        RowInsert(webhook_endpoints, alike=[("secrets",), ("url", "events")])(connection, columns)
        secrets = connection.execute(text("SELECT secrets FROM webhook_endpoints")).scalars().all()
        opened = connection.execute(select(webhook_endpoints.c.secrets)).scalars().all()
    assert len(set(secrets)) == 16
    assert opened == [["equal"]] * 16
    engine.dispose()


@pytest.mark.parametrize("fault", [{"id": None}, {"progress": 2.0}, {"state": "lost"}])
def test_a_row_that_breaks_a_rule_is_refused_without_being_quoted(
    module_engine: Engine, fault: dict[str, object]
) -> None:
    rows = [_row(0) | {"message": "secret"}, _row(1) | {"message": "secret"} | fault]
    with pytest.raises(IntegrityError) as refused, module_engine.begin() as connection:
        _add(connection, rows)
    assert "secret" not in f"{refused.value} {refused.value.orig!r}"
    with module_engine.connect() as connection:
        assert connection.execute(select(jobs)).all() == []


def test_a_row_that_is_there_is_refused(module_engine: Engine) -> None:
    row = _row(0)
    with pytest.raises(IntegrityError), module_engine.begin() as connection:
        _add(connection, [row, dict(row)])
