"""Which keys encrypted the stored values, and re-encryption under a new key."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Column,
    ColumnElement,
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

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.columns.ciphers import SEALED, TextCipher
from setwise.service.stores.columns.types import (
    InRow,
    Sealed,
    SealedJson,
    Stored,
    cipher_of,
)
from setwise.service.stores.database import READ_ONLY
from setwise.service.stores.tables import encryption_keys, metadata

_ROWS_AT_ONCE = 200

PASSES = 5
"""How often to look for values that servers wrote under another key in the meantime."""

_SHOWN = 3
"""Damaged values that a message names."""

Report = Callable[[float, str], None]


@dataclass(frozen=True)
class SealedColumn:
    """A column with sealed content."""

    table: Table
    column: Column[object]

    @property
    def type(self) -> Sealed:
        """The column's type."""
        type_ = self.column.type
        if not isinstance(type_, Sealed):
            raise TypeError(f"{self.name} is not sealed")
        return type_

    @property
    def name(self) -> str:
        """The table and the column."""
        return f"{self.table.name}.{self.column.name}"

    @property
    def raw(self) -> ColumnElement[str]:
        """The value as stored, also of JSON."""
        return cast(self.column, Text)

    def outdated(self, sealing_id: str) -> ColumnElement[bool]:
        """Return the condition that a value is not sealed under this key."""
        quote = '"' if isinstance(self.type, SealedJson) else ""
        sealed = self.raw.startswith(f"{quote}{SEALED}{sealing_id}:", autoescape=True)
        return and_(self.column.is_not(None), ~sealed)

    def stored(self, raw: str, cipher: TextCipher) -> Stored:
        """Return the value of its text in the database."""
        value = json.loads(raw) if isinstance(self.type, SealedJson) else raw
        return self.type.stored(value, self.name, cipher)


def sealed_columns() -> list[SealedColumn]:
    """Return all columns with sealed content."""
    return [
        SealedColumn(table, column)
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, Sealed)
    ]


def missing_keys(engine: Engine) -> str | None:
    """Return a message that names missing keys; None if none is missing."""
    cipher = cipher_of(engine.dialect)
    lacking = sorted(_noted(engine) - set(cipher.key_ids if cipher else ()))
    if not lacking:
        return None
    return (
        f"What is stored is encrypted under key {', '.join(lacking)}, which "
        "SETWISE_ENCRYPTION_KEYS lacks; add it, after the new key if there is one."
    )


def unsealed(engine: Engine) -> str | None:
    """Return a message if there is a key but the content was stored without one."""
    if cipher_of(engine.dialect) is None or _noted(engine) or not _has_content(engine):
        return None
    return (
        "This database holds content that was stored without encryption; keys are for a new "
        "database. Unset SETWISE_ENCRYPTION_KEYS, or start with an empty database."
    )


def retired(engine: Engine) -> str | None:
    """Return a message if the encrypting key was retired while this process ran."""
    cipher = cipher_of(engine.dialect)
    if cipher is None or cipher.sealing_id in _noted(engine):
        return None
    return (
        f"Key {cipher.sealing_id}, under which this server encrypts, was retired by setwise db "
        "reencrypt: restart the server with the new key first in SETWISE_ENCRYPTION_KEYS."
    )


def note_key(engine: Engine, now: datetime) -> None:
    """Store the id of the encrypting key; call this before encrypting."""
    cipher = cipher_of(engine.dialect)
    if cipher is None or cipher.sealing_id in _noted(engine):
        return
    dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
    with engine.begin() as connection:
        connection.execute(
            dialect.insert(encryption_keys).on_conflict_do_nothing(),
            {"id": cipher.sealing_id, "first_used_at": now},
        )


def _noted(engine: Engine) -> set[str]:
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        return set(connection.execute(select(encryption_keys.c.id)).scalars())


def _has_content(engine: Engine) -> bool:
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        return any(
            connection.execute(select(literal(1)).where(place.column.is_not(None)).limit(1)).first()
            for place in sealed_columns()
        )


class NotDone(Exception):
    """Some values could not be re-encrypted; the message says which, and what to do."""


def reseal(engine: Engine, report: Report) -> int:
    """Encrypt everything under the first key; return how many values changed.

    It runs beside the service and resumes after an interruption. When it returns, no value needs
    another key; `retire` then forgets the other keys.

    Raises `ValueError` if there is no key; `NotDone` if values are damaged, or servers keep writing
    under another key.
    """
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        raise ValueError("no key to encrypt with; set SETWISE_ENCRYPTION_KEYS")
    sealed = 0
    for _ in range(PASSES):
        damaged: list[str] = []
        before = sealed
        everywhere = sealed_columns()
        for number, place in enumerate(everywhere):
            report(number / len(everywhere), place.name)
            sealed += _reseal_place(engine, place, cipher, damaged)
        if damaged:
            named = ", ".join(damaged[:_SHOWN])
            more = ", …" if len(damaged) > _SHOWN else ""
            raise NotDone(
                f"{len(damaged)} stored values cannot be opened and stay as they are: "
                f"{named}{more}; everything else is re-encrypted. They were damaged, moved or "
                "planted, or their key is not in SETWISE_ENCRYPTION_KEYS: erase those documents, "
                "or restore a backup."
            )
        if sealed == before:
            report(1.0, "done")
            return sealed
    raise NotDone(still_written(cipher))


def retire(engine: Engine) -> None:
    """Forget every key but the first; raises `NotDone` while a value needs another."""
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        return
    with engine.begin() as connection:
        for place in sealed_columns():
            outdated = select(literal(1)).where(place.outdated(cipher.sealing_id)).limit(1)
            if connection.execute(outdated).first() is not None:
                raise NotDone(still_written(cipher))
        connection.execute(delete(encryption_keys).where(encryption_keys.c.id != cipher.sealing_id))


def still_written(cipher: TextCipher) -> str:
    """Return the message for values that appear under other keys again and again."""
    return (
        f"A server still writes without key {cipher.sealing_id}: restart every server and worker "
        "with that key first in SETWISE_ENCRYPTION_KEYS, then run setwise db reencrypt again."
    )


def _reseal_place(
    engine: Engine, place: SealedColumn, cipher: TextCipher, damaged: list[str]
) -> int:
    changed = 0
    after: Sequence[object] | None = None
    while True:
        with engine.begin() as connection:
            after, done = _reseal_some(connection, place, after, cipher, damaged)
        changed += done
        if after is None:
            return changed


def _reseal_some(
    connection: Connection,
    place: SealedColumn,
    after: Sequence[object] | None,
    cipher: TextCipher,
    damaged: list[str],
) -> tuple[Sequence[object] | None, int]:
    """Re-encrypt a batch; return its last key, None at the end, and a count."""
    keys = list(place.table.primary_key.columns)
    bound_to = [place.table.c[name] for name in place.type.row]
    # As text, also for JSON: the update below must compare exactly the bytes that were read.
    query = select(*keys, *bound_to, place.raw).where(place.outdated(cipher.sealing_id))
    if after is not None:
        last_key = [literal(value, key.type) for key, value in zip(keys, after, strict=True)]
        query = query.where(tuple_(*keys) > tuple_(*last_key))
    rows = connection.execute(query.order_by(*keys).limit(_ROWS_AT_ONCE)).all()
    changed = 0
    for fields in rows:
        key, row, raw = fields[: len(keys)], tuple(fields[len(keys) : -1]), fields[-1]
        try:
            value = place.stored(raw, cipher).open(row)
        except (StorageUnavailable, ValueError):
            damaged.append(f"{place.name} of {'/'.join(map(str, key))}")
            continue
        done = connection.execute(
            update(place.table)
            .where(
                *(column == value for column, value in zip(keys, key, strict=True)),
                place.raw == raw,  # unless it has changed since
            )
            .values({place.column.name: InRow(value, row)})
        )
        changed += done.rowcount
    return (rows[-1][: len(keys)] if len(rows) == _ROWS_AT_ONCE else None), changed
