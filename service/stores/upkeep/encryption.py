"""Which keys encrypted the stored values, and re-encryption under a new key."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    select,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.domain.errors import StorageDamaged, StorageUnavailable
from setwise.service.stores.columns.ciphers import KEY_ID_LENGTH, SEALED, TextCipher
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

NEWEST = 1_000
"""Rows of each table that a server looks at when it starts, where the latest mistake shows."""

PASSES = 5
"""How often to look for values that servers wrote under another key in the meantime."""

CURE = (
    "add their key after the new one, if you still have it, and run setwise db reencrypt; "
    "otherwise erase those documents, rotate those webhooks' secrets or delete those webhooks "
    "again, or restore a backup"
)
"""What to do about values that cannot be opened."""

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

    @property
    def head(self) -> ColumnElement[str]:
        """What a value begins with, up to the id of its key.

        PostgreSQL reads no more of a long text for it.
        """
        return func.substr(self.raw, 1, len(f"{self._quote}{SEALED}:") + KEY_ID_LENGTH)

    @property
    def key_id(self) -> ColumnElement[str]:
        """The id of the key of a sealed value; null for a plain one."""
        before = len(f"{self._quote}{SEALED}")
        return case((self._sealed, func.substr(self.raw, before + 1, KEY_ID_LENGTH)))

    def outdated(self, *key_ids: str) -> ColumnElement[bool]:
        """Return the condition that a value is not sealed under one of these keys."""
        heads = [f"{self._quote}{SEALED}{name}:" for name in key_ids]
        return and_(self.column.is_not(None), self.head.not_in(heads))

    def strange(self, cipher: TextCipher | None) -> ColumnElement[bool]:
        """Return the condition that no key of this process opens a value."""
        return self._sealed if cipher is None else self.outdated(*cipher.key_ids)

    @property
    def _sealed(self) -> ColumnElement[bool]:
        start = f"{self._quote}{SEALED}"
        return func.substr(self.raw, 1, len(start)) == start

    @property
    def _quote(self) -> str:
        return '"' if isinstance(self.type, SealedJson) else ""

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
    return _lacking(_noted(engine) - set(cipher.key_ids if cipher else ()))


def _lacking(names: set[str]) -> str | None:
    if not names:
        return None
    return (
        f"What is stored is encrypted under key {', '.join(sorted(names))}, which "
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


_OWN, _OTHER = encryption_keys.alias("own"), encryption_keys.alias("other")
_NOTED_BESIDE = (
    select(_OTHER.c.id)
    .select_from(_OWN.join(_OTHER, true()))
    .where(_OWN.c.id == bindparam("own_id"))
    .with_for_update(read=True, key_share=True, of=_OWN)
)


def refuse_foreign(connection: Connection) -> None:
    """Refuse to write unless this process encrypts under a key in use, and has all the others.

    Call it in each transaction that writes: `retire` waits until the transaction ends, and then
    sees what it wrote.

    Raises `StorageUnavailable`.
    """
    cipher = cipher_of(connection.dialect)
    if cipher is None:
        return
    noted = connection.scalars(_NOTED_BESIDE, {"own_id": cipher.sealing_id})
    fault = _foreign(cipher, set(noted))
    if fault is not None:
        raise StorageUnavailable(fault)


@contextmanager
def writing(engine: Engine) -> Iterator[None]:
    """Hold the key in use while the block completes what is stored outside the database."""
    with engine.begin() as connection:
        refuse_foreign(connection)
        yield


def foreign(engine: Engine) -> str | None:
    """Return why this process must not write: the keys have changed while it ran."""
    cipher = cipher_of(engine.dialect)
    return None if cipher is None else _foreign(cipher, _noted(engine))


def _foreign(cipher: TextCipher, noted: set[str]) -> str | None:
    if cipher.sealing_id not in noted:
        return (
            f"Key {cipher.sealing_id}, under which this server encrypts, was retired by setwise db "
            "reencrypt: restart the server with the new key first in SETWISE_ENCRYPTION_KEYS."
        )
    return _lacking(noted - set(cipher.key_ids))


def unreadable(engine: Engine, newest: int | None = NEWEST) -> str | None:
    """Return a message if no key of this process opens some of the stored values.

    A server that went on under a retired key has left them, or they were planted.

    ``newest``: How many rows of each table to look at; None for all of them, in a pass of the
    database over the table for each column.
    """
    cipher = cipher_of(engine.dialect)
    counts: dict[tuple[str, str | None], int] = {}
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        _take_time(connection)
        for place in sealed_columns():
            rows = select(place.key_id.label("key_id"), place.strange(cipher).label("strange"))
            if newest is not None:  # of the table: few rows may have a value in the column
                order = (key.desc() for key in place.table.primary_key.columns)
                rows = rows.order_by(*order).limit(newest)
            value = rows.subquery().c
            query = select(value.key_id, func.count()).where(value.strange).group_by(value.key_id)
            for key_id, count in connection.execute(query):
                counts[place.name, key_id] = count
    if not counts:
        return None
    named = ", ".join(
        f"{count} of {place} ({'not encrypted' if name is None else f'key {name}'})"
        for (place, name), count in counts.items()
    )
    return f"SETWISE_ENCRYPTION_KEYS cannot open some stored values: {named}."


def _take_time(connection: Connection) -> None:
    """Let statements of the transaction read whole tables, however long that takes."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))


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
                f"planted, or their key is not in SETWISE_ENCRYPTION_KEYS: {CURE}."
            )
        if sealed == before:
            report(1.0, "done")
            return sealed
    raise NotDone(still_written(cipher))


def retire(engine: Engine, files_outdated: Callable[[], bool] = lambda: False) -> None:
    """Forget every key but the first; raises `NotDone` while something needs another.

    ``files_outdated``: Whether a file outside the database needs another key.
    """
    cipher = cipher_of(engine.dialect)
    if cipher is None:
        return
    with engine.begin() as connection:
        _take_time(connection)
        # First, which waits for those who write under the old key and refuses later ones.
        connection.execute(delete(encryption_keys).where(encryption_keys.c.id != cipher.sealing_id))
        for place in sealed_columns():
            outdated = select(literal(1)).where(place.outdated(cipher.sealing_id)).limit(1)
            if connection.execute(outdated).first() is not None:
                raise NotDone(still_written(cipher))
        if files_outdated():
            raise NotDone(still_written(cipher))


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
            _take_time(connection)
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
        except (StorageDamaged, ValueError):
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
