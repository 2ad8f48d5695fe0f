"""Column types that mean the same on SQLite and PostgreSQL."""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import to_json
from sqlalchemy import JSON, DateTime, Dialect, String, Text
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.types import TypeDecorator

from setwise.service.domain.errors import StorageUnavailable


def stored_json(value: object) -> str:
    """Return ``value`` as JSON without whitespace.

    Raises `ValueError` if a number has no JSON form.
    """
    text = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in text or "Infinity" in text:  # an invalid number, or the word in a text
        json.dumps(value, allow_nan=False)
    return text


KEY_BYTES = 32
_NONCE_BYTES = 12
"""Drawn at random. NIST SP 800-38D, section 8.3, allows 2**32 nonces per key: rotate before."""

SEALED = "sw1:"
"""Prefix of sealed text; then follow the key's id, the binding, the nonce and the ciphertext."""

BOUND = "2:"
"""Marks a sealed text that is bound to its row; release 0.1.0 bound to table and column only."""


REENCRYPT = "run setwise db reencrypt --transition"

Row = tuple[str, ...]
"""Identifies a row: its primary key, and its owner where it has one."""


class TextCipher:
    """Encrypts and decrypts texts.

    A sealed text is bound to its table, column and row, so an attacker who can write to the
    database cannot move it to a place where others would see it.

    ``keys``: 32 bytes each. The first one seals; all of them open.
    ``transition``: Also read plain values, and those of release 0.1.0, until all are encrypted
    again.
    """

    def __init__(self, keys: Sequence[bytes], *, transition: bool = False) -> None:
        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self.key_ids = tuple(self._ciphers)
        self.transition = transition

    @property
    def sealing_id(self) -> str:
        """The id of the key that encrypts."""
        return self.key_ids[0]

    def in_transition(self) -> "TextCipher":
        """Return this cipher, reading plain values and those of release 0.1.0 too."""
        other = TextCipher((), transition=True)
        other._ciphers, other.key_ids = self._ciphers, self.key_ids
        return other

    def seal(self, text: str, place: str, row: Row = ()) -> str:
        """Return ``text`` encrypted, as ASCII text."""
        nonce = os.urandom(_NONCE_BYTES)
        bound_to = _associated(place, row)
        sealed = self._ciphers[self.sealing_id].encrypt(nonce, text.encode(), bound_to)
        body = base64.urlsafe_b64encode(nonce + sealed).decode()
        return f"{SEALED}{self.sealing_id}:{BOUND}{body}"

    def open(self, sealed: str, place: str, row: Row = ()) -> str:
        """Return the decrypted text.

        Raises `StorageUnavailable` if the key is missing, or the text was changed or moved.
        """
        name, _, body = sealed.removeprefix(SEALED).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise missing(name)
        bound_to = _associated(place, row) if body.startswith(BOUND) else place.encode()
        if not body.startswith(BOUND) and not self.transition:
            raise StorageUnavailable(
                f"A stored text ({place}) is encrypted as release 0.1.0 did; {REENCRYPT}."
            )
        try:
            content = base64.urlsafe_b64decode(body.removeprefix(BOUND))
            opened = cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], bound_to)
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise StorageUnavailable(
                f"A stored text ({place}) is damaged or belongs to another row: it does not fit "
                f"its key {name}."
            ) from error
        return opened.decode()

    def __repr__(self) -> str:
        return f"TextCipher({', '.join(self.key_ids)})"


def _associated(place: str, row: Row) -> bytes:
    # No id contains NUL, so no two rows share these bytes.
    return "\0".join((place, *row)).encode()


def key_of(sealed: str) -> str | None:
    """Return the id of the key that sealed a text, or None.

    None means that the text is plain.

    >>> key_of("sw1:0a1b2c3d:AAAA"), key_of("fever")
    ('0a1b2c3d', None)
    """
    return sealed.removeprefix(SEALED).partition(":")[0] if sealed.startswith(SEALED) else None


def missing(name: str) -> StorageUnavailable:
    """Return the error for a text whose key is not configured."""
    return StorageUnavailable(
        f"Stored texts are encrypted under key {name}, which SETWISE_ENCRYPTION_KEYS lacks."
    )


def key_id(key: bytes) -> str:
    """Return the id of a key, which reveals nothing about the key."""
    return hashlib.sha256(b"setwise key id\0" + key).hexdigest()[:8]


def read_keys(written: str) -> list[bytes]:
    """Return the keys in the setting: base64, separated by commas.

    Raises `ValueError` if a key is malformed. The message names its position but quotes no key.
    """
    keys = []
    for place, part in enumerate(filter(None, (p.strip() for p in written.split(","))), start=1):
        try:
            key = base64.b64decode(part, altchars=b"-_" if set(part) & set("-_") else None)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError(
                f"key {place} is not 32 bytes in base64, such as the output of "
                "`openssl rand -base64 32`"
            )
        keys.append(key)
    return keys


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

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- the method of a type
        """Return the text of a member, or a text as it is."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002 -- as above
        """Return the member of a stored text."""
        return None if value is None else self.kind(value)


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
    found: TextCipher | None = getattr(dialect, CIPHER, None)
    return found


class InRow(NamedTuple):
    """A value for a sealed column, and the row to which it is bound."""

    value: Any  # text or JSON
    row: Row


class Stored:
    """The value of a sealed column as stored; `opened` decrypts it."""

    __slots__ = ("_cipher", "_place", "_raw")

    def __init__(self, raw: object, place: str, cipher: TextCipher | None) -> None:
        self._raw, self._place, self._cipher = raw, place, cipher

    def open(self, row: Row) -> object:
        raw, cipher = self._raw, self._cipher
        name = key_of(raw) if isinstance(raw, str) else None
        if name is None:
            if cipher is not None and not cipher.transition:
                raise StorageUnavailable(
                    f"A stored text ({self._place}) is not encrypted, but the service has a key; "
                    "if it is from before you turned encryption on, "
                    f"{REENCRYPT}."
                )
            return raw.removeprefix(_PLAIN) if isinstance(raw, str) else raw
        if cipher is None:
            raise missing(name)
        return cipher.open(cast("str", raw), self._place, row)

    def __repr__(self) -> str:
        return repr(self._raw)


class StoredJson(Stored):
    """The value of a sealed column of JSON; only sealed values are strings there."""

    __slots__ = ()

    def open(self, row: Row) -> object:
        opened = super().open(row)
        return json.loads(opened) if isinstance(opened, str) else opened


def opened(stored: Stored | None, *row: str) -> Any:  # noqa: ANN401 -- text or JSON
    """Return the value of a sealed column.

    Raises `StorageUnavailable` if its key is missing, it was changed or moved, or it is plain
    beside sealed ones.

    ``stored``: As selected from the database.
    ``row``: The row's `Sealed.row`.
    """
    return None if stored is None else stored.open(row)


class Sealed(TypeDecorator[Any]):  # Any: written as `InRow`, read as `Stored`
    """Text, encrypted in the database if the engine has a cipher.

    Write `InRow`, and read with `opened`: a sealed text opens only in its own column and row.

    ``place``: Table and column.
    ``row``: The columns that identify the row: the primary key, and the owner where there is one.
    """

    impl = Text
    cache_ok = True

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
            return plain(value.value)
        return cipher.seal(value.value, self.place, value.row)

    def process_result_value(self, value: object, dialect: Dialect) -> Stored | None:
        """Return the text with the means to decrypt it."""
        return None if value is None else Stored(value, self.place, cipher_of(dialect))


class SealedJson(TypeDecorator[Any]):  # Any: as above
    """JSON, encrypted as one JSON string if the engine has a cipher."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, place: str, *row: str) -> None:
        super().__init__()
        self.place = place
        self.row = row

    def process_bind_param(self, value: InRow | None, dialect: Dialect) -> object:
        """Encrypt the value."""
        if value is None or value.value is None:
            return None
        cipher = cipher_of(dialect)
        if cipher is None:
            return value.value
        return cipher.seal(stored_json(value.value), self.place, value.row)

    def process_result_value(self, value: object, dialect: Dialect) -> Stored | None:
        """Return the value with the means to decrypt it."""
        return None if value is None else StoredJson(value, self.place, cipher_of(dialect))


def plain(text: str) -> str:
    """Return the stored form of a text without a cipher."""
    return _PLAIN + text if text.startswith((SEALED, _PLAIN)) else text
