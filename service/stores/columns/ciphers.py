"""Keys that encrypt stored texts, and the form of an encrypted text."""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from setwise.service.domain.errors import StorageDamaged

KEY_BYTES = 32
_NONCE_BYTES = 12
"""Drawn at random. NIST SP 800-38D, section 8.3, allows 2**32 nonces per key: rotate before."""

SEALED = "sw1:"
"""Prefix of sealed text; then follow the key's id, the nonce and the ciphertext."""

KEY_ID_LENGTH = 8

Row = tuple[str, ...]
"""Identifies a row: its primary key, and its owner where it has one."""


class TextCipher:
    """Encrypts and decrypts texts.

    A sealed text is bound to its table, column and row, so an attacker who can write to the
    database cannot move it to a place where others would see it.

    ``keys``: 32 bytes each. The first one seals; all of them open.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self.key_ids = tuple(self._ciphers)

    @property
    def sealing_id(self) -> str:
        """The id of the key that encrypts."""
        return self.key_ids[0]

    def seal(self, text: str, place: str, row: Row = ()) -> str:
        """Return ``text`` encrypted, as ASCII text."""
        nonce = os.urandom(_NONCE_BYTES)
        bound_to = _associated(place, row)
        sealed = self._ciphers[self.sealing_id].encrypt(nonce, text.encode(), bound_to)
        body = base64.urlsafe_b64encode(nonce + sealed).decode()
        return f"{SEALED}{self.sealing_id}:{body}"

    def open(self, sealed: str, place: str, row: Row = ()) -> str:
        """Return the decrypted text.

        Raises `StorageDamaged` if the key is missing, or the text was changed or moved.
        """
        name, _, body = sealed.removeprefix(SEALED).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise missing(name)
        try:
            content = base64.urlsafe_b64decode(body)
            bound_to = _associated(place, row)
            opened = cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], bound_to)
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise StorageDamaged(
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
    """Return the id of the key that sealed a text; None if it is plain.

    >>> key_of("sw1:0a1b2c3d:AAAA"), key_of("fever")
    ('0a1b2c3d', None)
    """
    return sealed.removeprefix(SEALED).partition(":")[0] if sealed.startswith(SEALED) else None


def missing(name: str) -> StorageDamaged:
    """Return the error for a text whose key is not configured."""
    return StorageDamaged(
        f"Stored texts are encrypted under key {name}, which SETWISE_ENCRYPTION_KEYS lacks."
    )


def key_id(key: bytes) -> str:
    """Return the id of a key, which reveals nothing about the key."""
    return hashlib.sha256(b"setwise key id\0" + key).hexdigest()[:KEY_ID_LENGTH]


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
