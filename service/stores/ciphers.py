"""Encryption of what is stored about documents: AES-256-GCM under keys that can be rotated."""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from setwise.service.domain.errors import StorageUnavailable

KEY_BYTES = 32
_NONCE_BYTES = 12
"""Drawn at random. NIST SP 800-38D, section 8.3, allows 2**32 of them a key: rotate before."""

SEALED = "sw1:"
"""How everything sealed begins: the form, then the key's id, then nonce and ciphertext."""


class TextCipher:
    """Seals and opens texts.

    A sealed text is bound to its table and column, so an attacker who can write to the database
    cannot move it to a place where others would see it.

    Parameters
    ----------
    keys : sequence of bytes
        32 bytes each. The first one seals; all of them open.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self.key_ids = tuple(self._ciphers)

    @property
    def sealing_id(self) -> str:
        """The id of the key that seals."""
        return self.key_ids[0]

    def seal(self, text: str, place: str) -> str:
        """Return ``text`` encrypted, as ASCII text."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.sealing_id].encrypt(nonce, text.encode(), place.encode())
        body = base64.urlsafe_b64encode(nonce + sealed).decode()
        return f"{SEALED}{self.sealing_id}:{body}"

    def open(self, sealed: str, place: str) -> str:
        """Return the text.

        Raises
        ------
        StorageUnavailable
            If the key is missing, or the text was changed or moved.
        """
        name, _, body = sealed.removeprefix(SEALED).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise missing(name)
        try:
            content = base64.urlsafe_b64decode(body)
            opened = cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], place.encode())
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise StorageUnavailable(
                f"A stored text ({place}) is damaged: it does not fit its key {name}."
            ) from error
        return opened.decode()

    def __repr__(self) -> str:
        return f"TextCipher({', '.join(self.key_ids)})"


def key_of(sealed: str) -> str | None:
    """Return the id of the key that sealed a text; None for a plain one.

    >>> key_of("sw1:0a1b2c3d:AAAA"), key_of("fever")
    ('0a1b2c3d', None)
    """
    return sealed.removeprefix(SEALED).partition(":")[0] if sealed.startswith(SEALED) else None


def missing(name: str) -> StorageUnavailable:
    """Return the refusal to open what was sealed under a key that is not there."""
    return StorageUnavailable(
        f"Stored texts are encrypted under key {name}, which SETWISE_ENCRYPTION_KEYS lacks."
    )


def key_id(key: bytes) -> str:
    """Return the name of a key, which says nothing of the key itself."""
    return hashlib.sha256(b"setwise key id\0" + key).hexdigest()[:8]


def read_keys(written: str) -> list[bytes]:
    """Read keys as the setting holds them: base64, separated by commas.

    Raises
    ------
    ValueError
        Saying which key is wrong; the text quotes none.
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
