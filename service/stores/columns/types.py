"""Column types that mean the same on SQLite and PostgreSQL, plain and encrypted."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import structlog
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from sqlalchemy import JSON, DateTime, Dialect, String, Text
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.types import TypeDecorator, TypeEngine

from setwise.service.domain.errors import StorageDamaged
from setwise.service.stores.columns.ciphers import SEALED, Row, TextCipher, key_of, missing

log = structlog.get_logger(__name__)


def stored_json(value: object) -> str:
    """Return ``value`` as JSON without whitespace.

    Raises `ValueError` if a number has no JSON form.
    """
    text = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in text or "Infinity" in text:  # an invalid number, or the word in a text
        json.dumps(json.loads(text), allow_nan=False)
    return text


Id = String(36).with_variant(UUID(as_uuid=False), "postgresql")
"""A UUID: text in Python, 16 bytes on PostgreSQL. Both databases sort it like its text."""

Json = JSON(none_as_null=True)
"""JSON stored as written. PostgreSQL's ``jsonb`` would turn 1e300 into an integer of 301 digits and
lose the order of names, and is slower to write. Queries that need its operators can cast."""


class Choice(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind
        self._members = {member.value: member for member in kind}

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- the method of a type
        """Return the text of a member, or a text as it is."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002 -- as above
        """Return the member of a stored text."""
        return None if value is None else self._members.get(value) or self.kind(value)


class JsonOf(TypeDecorator[Any]):  # Any: of the class
    """A dataclass, stored as JSON with all its fields."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind

    def process_result_value(self, value: object, dialect: Dialect) -> object:  # noqa: ARG002 -- the method of a type
        """Return the stored value; raises `StorageDamaged` if it is no such value."""
        try:
            return _adapter(self.kind).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = "/".join(map(str, first["loc"]))
            raise StorageDamaged(
                f"Stored JSON is no {self.kind.__name__}: at {place or 'its top'}, {first['msg']}."
            ) from error


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Instant(TypeDecorator[datetime]):
    """A point in time, aware and in UTC in Python.

    PostgreSQL stores ``timestamptz``; SQLite stores UTC text of fixed width, which sorts by time.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC; raises `ValueError` without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the service keeps UTC only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the stored time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


CIPHER = "setwise_cipher"
"""Attribute of an engine's dialect: the cipher for its sealed columns, or None."""

_PLAIN = "sw0:"
"""Prefix for plain text that begins like sealed text."""


def cipher_of(dialect: Dialect) -> TextCipher | None:
    """Return the cipher of the engine with this dialect, or None."""
    cipher: TextCipher | None = getattr(dialect, CIPHER, None)
    return cipher


class InRow(NamedTuple):
    """A value for a sealed column, and the row to which it is bound."""

    value: Any  # text or JSON
    row: Row


class Stored:
    """The value of a sealed column as stored; `opened` decrypts it."""

    __slots__ = ("_cipher", "_raw", "place")

    def __init__(self, raw: object, place: str, cipher: TextCipher | None) -> None:
        self._raw, self.place, self._cipher = raw, place, cipher

    def open(self, row: Row) -> object:
        raw, cipher = self._raw, self._cipher
        name = key_of(raw) if isinstance(raw, str) else None
        if name is None:
            if cipher is not None:
                raise StorageDamaged(
                    f"A stored text ({self.place}) is not encrypted, but the service has a key."
                )
            return raw.removeprefix(_PLAIN) if isinstance(raw, str) else raw
        if cipher is None:
            raise missing(name)
        return cipher.open(cast("str", raw), self.place, row)

    def __repr__(self) -> str:
        return repr(self._raw)


class StoredJson(Stored):
    """The value of a sealed column of JSON; only sealed values are strings there."""

    __slots__ = ()

    def open(self, row: Row) -> object:
        opened = super().open(row)
        return json.loads(opened) if isinstance(opened, str) else opened


def opened(stored: Stored | None, *row: str, otherwise: object) -> Any:  # noqa: ANN401 -- text or JSON
    """Return the value of a sealed column, or ``otherwise`` if it cannot be read.

    It cannot if its key is missing, it was changed or moved, or it is plain beside sealed ones. The
    rows beside it can, so this is no error; it is logged.

    ``stored``: As selected from the database.
    ``row``: The row's `Sealed.row`.
    """
    if stored is None:
        return None
    try:
        return stored.open(row)
    except (StorageDamaged, ValueError) as error:
        _log_unreadable(stored.place, row, str(error))
        return otherwise


@lru_cache(maxsize=1_000)
def _log_unreadable(place: str, row: Row, reason: str) -> None:
    """Log once which value cannot be read, however often it is."""
    log.error("stored.unreadable", place=place, row="/".join(row), reason=reason)


class Sealed(TypeDecorator[Any]):  # Any: written as `InRow`, read as `Stored`
    """Text, encrypted in the database if the engine has a cipher.

    Write `InRow`, and read with `opened`: a sealed text opens only in its own column and row.

    ``place``: Table and column.
    ``row``: The columns that identify the row: the primary key, and the owner where there is one.
    """

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok = True
    stored = Stored

    def __init__(self, place: str, *row: str) -> None:
        super().__init__()
        self.place = place
        self.row = row

    def process_bind_param(self, value: InRow | None, dialect: Dialect) -> object:
        """Encrypt the text."""
        if value is None or value.value is None:
            return None
        cipher = cipher_of(dialect)
        if cipher is None:
            text: str = value.value
            return _PLAIN + text if text.startswith((SEALED, _PLAIN)) else text
        return cipher.seal(value.value, self.place, value.row)

    def process_result_value(self, value: object, dialect: Dialect) -> Stored | None:
        """Return the value with the means to decrypt it."""
        return None if value is None else self.stored(value, self.place, cipher_of(dialect))


class SealedJson(Sealed):
    """JSON, encrypted as one JSON string if the engine has a cipher."""

    impl = JSON(none_as_null=True)
    cache_ok = True
    stored = StoredJson

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], StoredJson | None]:
        """Return what reads a value, which may be no JSON on SQLite if it was damaged."""
        read = super().result_processor(dialect, coltype)

        def process(value: Any) -> StoredJson | None:  # noqa: ANN401 -- as the driver returns it
            try:
                return value if read is None else cast("StoredJson | None", read(value))
            except ValueError:
                return StoredJson(value, self.place, cipher_of(dialect))

        return process

    def process_bind_param(self, value: InRow | None, dialect: Dialect) -> object:
        """Encrypt the value."""
        if value is None or value.value is None:
            return None
        cipher = cipher_of(dialect)
        if cipher is None:
            return value.value
        return cipher.seal(stored_json(value.value), self.place, value.row)
