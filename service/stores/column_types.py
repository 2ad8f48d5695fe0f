"""Column types that mean the same on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, String, Text
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.types import TypeDecorator

from setwise.service.stores.ciphers import SEALED, TextCipher, key_of, missing
from setwise.service.stores.stored_json import stored_json

Id = String(36).with_variant(UUID(as_uuid=False), "postgresql")
"""A UUID, as text in Python on both; 16 bytes on PostgreSQL. Both order as the text does."""

Json = JSON(none_as_null=True)
"""Kept as it was written: PostgreSQL's ``jsonb`` would turn 1e300 into an integer of 301 digits and
lose the order of names, and takes longer to write. A query that needs its operators may cast."""


class Instant(TypeDecorator[datetime]):
    """A point in time: aware and in UTC in Python.

    PostgreSQL stores ``timestamptz``; SQLite text of fixed width in UTC, which sorts by time.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the service keeps UTC only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the time back in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


CIPHER = "setwise_cipher"
"""Attribute of an engine's dialect: the cipher of its sealed columns, or None."""

_PLAIN = "sw0:"
"""Stands before a plain text that begins like a sealed one."""


def cipher_of(dialect: Dialect) -> TextCipher | None:
    """Return the cipher of the engine that has ``dialect``."""
    found: TextCipher | None = getattr(dialect, CIPHER, None)
    return found


class Sealed(TypeDecorator[str]):
    """Text that is encrypted in the database if the engine has a cipher.

    Parameters
    ----------
    place : str
        Table and column; a sealed text opens at its own place only.
    """

    impl = Text
    cache_ok = True

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Seal the text."""
        return None if value is None else seal(value, self.place, cipher_of(dialect))

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Open the text."""
        return None if value is None else unseal(value, self.place, cipher_of(dialect))


class SealedJson(TypeDecorator[Any]):  # Any: JSON values of every shape
    """JSON that is encrypted in the database, as one JSON string, if the engine has a cipher."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        """Seal the value."""
        cipher = cipher_of(dialect)
        if value is None or cipher is None:
            return value
        return cipher.seal(stored_json(value), self.place)

    def process_result_value(self, value: object, dialect: Dialect) -> object:
        """Open the value; what is sealed is a string, and nothing else that is kept here is."""
        if not isinstance(value, str):
            return value
        return json.loads(unseal(value, self.place, cipher_of(dialect)))


def seal(text: str, place: str, cipher: TextCipher | None) -> str:
    """Return what is stored of a text."""
    return plain(text) if cipher is None else cipher.seal(text, place)


def plain(text: str) -> str:
    """Return what is stored of a text without a cipher."""
    return _PLAIN + text if text.startswith((SEALED, _PLAIN)) else text


def unseal(stored: str, place: str, cipher: TextCipher | None) -> str:
    """Return the text behind what is stored; raises `StorageUnavailable` without its key."""
    name = key_of(stored)
    if name is None:
        return stored.removeprefix(_PLAIN)
    if cipher is None:
        raise missing(name)
    return cipher.open(stored, place)
