"""Rows that are added together arrive as SQLAlchemy would have added them."""

from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine, delete, insert, select
from sqlalchemy.exc import IntegrityError

from service.db.bulk import RowInsert
from service.db.tables import jobs
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


def _add(connection: Connection, rows: list[dict[str, object]]) -> None:
    RowInsert(jobs)(connection, {name: [row[name] for row in rows] for name in rows[0]})


@pytest.mark.parametrize("count", [1, 2, 15, 16, 47, 64, 131, 256, 530])
def test_rows_are_stored_as_sqlalchemy_stores_them(module_engine: Engine, count: int) -> None:
    rows = [_row(number) for number in range(count)]
    everything = select(*(jobs.c[name] for name in rows[0])).order_by(jobs.c.id)
    stored = []
    for add in (_add, lambda connection, rows: connection.execute(insert(jobs), rows)):
        with module_engine.begin() as connection:
            add(connection, [dict(row) for row in rows])
            stored.append(connection.execute(everything).all())
            connection.execute(delete(jobs))
    assert stored[0] == stored[1]
    assert [row.payload["n"] for row in stored[0]] == list(range(count))


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
