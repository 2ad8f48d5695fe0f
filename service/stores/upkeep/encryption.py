"""Which keys encrypted the stored values, and re-encryption under a new key."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Table,
    Text,
    and_,
    cast,
    delete,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.stores.column_types import Sealed, SealedJson, cipher_of, key_of, unseal
from setwise.service.stores.database import READ_ONLY
from setwise.service.stores.tables import encryption_keys, metadata

_ROWS_AT_ONCE = 200

Report = Callable[[float, str], None]


@dataclass(frozen=True)
class Place:
    """A column with sealed content."""

    table: Table
    column: Column[object]

    @property
    def is_json(self) -> bool:
        """The column holds JSON; its sealed values are JSON strings."""
        return isinstance(self.column.type, SealedJson)

    @property
    def name(self) -> str:
        """The table and the column."""
        return f"{self.table.name}.{self.column.name}"

    def key_of(self, stored: str) -> str | None:
        """Return the id of a value's key; None for plain values."""
        if not self.is_json:
            return key_of(stored)
        value = json.loads(stored)
        return key_of(value) if isinstance(value, str) else None


def places() -> list[Place]:
    """Return all columns with sealed content."""
    return [
        Place(table, column)
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, Sealed | SealedJson)
    ]


def missing_keys(engine: Engine) -> str | None:
    """Return a message that names missing keys; None if none is missing."""
    cipher = cipher_of(engine.dialect)
    known = cipher.key_ids if cipher else ()
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        used = connection.execute(select(encryption_keys.c.id)).scalars().all()
    lacking = sorted(set(used) - set(known))
    if not lacking:
        return None
    return (
        f"What is stored is encrypted under key {', '.join(lacking)}, which "
        "SETWISE_ENCRYPTION_KEYS lacks; add it, after the new key if there is one."
    )


def note_key(engine: Engine, now: datetime) -> None:
    """Store the id of the encrypting key; call this before encrypting."""
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        return
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        used = connection.execute(select(encryption_keys.c.id)).scalars().all()
    if cipher.sealing_id in used:
        return
    dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
    with engine.begin() as connection:
        connection.execute(
            dialect.insert(encryption_keys).on_conflict_do_nothing(),
            {"id": cipher.sealing_id, "first_used_at": now},
        )


def reseal(engine: Engine, report: Report) -> int:
    """Encrypt everything under the first key; return how many values changed.

    It can run beside the service and resumes after an interruption. When it ends, no value needs
    another key, so the other keys can be removed.
    """
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        raise ValueError("no key to encrypt with; set SETWISE_ENCRYPTION_KEYS")
    sealed = 0
    everywhere = places()
    for number, place in enumerate(everywhere):
        report(number / len(everywhere), place.name)
        after: tuple[object, ...] | None = None
        while True:
            with engine.begin() as connection:
                last, changed = _reseal_some(connection, place, after, cipher.sealing_id)
            sealed += changed
            if last is None:
                break
            after = last
    with engine.begin() as connection:
        connection.execute(delete(encryption_keys).where(encryption_keys.c.id != cipher.sealing_id))
    report(1.0, "done")
    return sealed


def _reseal_some(
    connection: Connection, place: Place, after: tuple[object, ...] | None, sealing_id: str
) -> tuple[tuple[object, ...] | None, int]:
    """Re-encrypt a batch; return its last key and a count.

    The key is None at the end.
    """
    keys = list(place.table.primary_key.columns)
    # As text, also for JSON: the update below must compare exactly the bytes that were read.
    raw = cast(place.column, Text)
    query = select(*keys, raw.label("raw")).where(place.column.is_not(None)).order_by(*keys)
    if after is not None:
        last_key = [literal(value, key.type) for key, value in zip(keys, after, strict=True)]
        query = query.where(tuple_(*keys) > tuple_(*last_key))
    rows = connection.execute(query.limit(_ROWS_AT_ONCE)).all()
    changed = 0
    for row in rows:
        stored: str = row.raw
        if place.key_of(stored) == sealing_id:
            continue
        own = and_(*(key == value for key, value in zip(keys, row, strict=False)))
        done = connection.execute(
            update(place.table)
            .where(own, raw == stored)  # unless it has changed since
            .values({place.column.name: _opened(connection, place, stored)})
        )
        changed += done.rowcount
    last = tuple(rows[-1][: len(keys)]) if len(rows) == _ROWS_AT_ONCE else None
    return last, changed


def _opened(connection: Connection, place: Place, stored: str) -> object:
    cipher = cipher_of(connection.dialect)
    if not place.is_json:
        return unseal(stored, place.name, cipher)
    value = json.loads(stored)
    return json.loads(unseal(value, place.name, cipher)) if isinstance(value, str) else value
