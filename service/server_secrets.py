"""Secrets of the installation: what they are derived from, and the keys of stored texts."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.stores.columns.ciphers import TextCipher, read_keys
from setwise.service.stores.database import new_id


def find_pepper(settings: Settings) -> bytes:
    """Return the secret behind stored keys and cursors, created at first start."""
    if settings.pepper is not None:
        return settings.pepper.get_secret_value().encode()
    path = settings.data_dir / "pepper"
    try:
        if not path.exists():
            _write_once(path, secrets.token_hex(32))
        return path.read_bytes().strip()
    except OSError as error:
        raise BadSetting(
            f"{PREFIX}DATA_DIR: the key file {path} cannot be used: {error.strerror}"
        ) from error


def _write_once(path: Path, content: str) -> None:
    """Write a private file atomically; of two concurrent processes, the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{new_id()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def derived(pepper: bytes, purpose: str) -> bytes:
    """Return a secret for one purpose, which reveals nothing about the others."""
    return hmac.digest(pepper, purpose.encode(), hashlib.sha256)


def find_cipher(settings: Settings) -> TextCipher | None:
    """Return the cipher for texts; None to store plain text."""
    keys = settings.encryption_keys
    known = read_keys(keys.get_secret_value()) if keys else []
    return TextCipher(known) if known else None


def new_secret() -> str:
    """Return a secret that cannot be guessed, for keys, sessions and invitations."""
    return secrets.token_urlsafe(32)
