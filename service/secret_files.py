"""Secrets in files: ``SETWISE_PEPPER_FILE=/run/secrets/pepper`` in place of ``SETWISE_PEPPER``."""

import os
from collections.abc import Mapping
from pathlib import Path

SUFFIX = "_FILE"

LARGEST_BYTES = 65_536
"""No secret is larger; a larger file is another one."""


class BadSecretFile(ValueError):
    """A file that should hold a secret does not; the message names the variable."""


def read_secrets(
    prefix: str, names: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the secrets that are given as files, by the setting's name.

    Raises `BadSecretFile` if a file cannot be read, is empty, or the secret is given in both ways.
    """
    secrets = {}
    for name in names:
        variable = f"{prefix}{name.upper()}"
        path = environment.get(variable + SUFFIX, "")
        if not path:
            continue
        if environment.get(variable):
            raise BadSecretFile(f"{variable}{SUFFIX}: {variable} is set too; unset one of them")
        secrets[name] = _read(variable + SUFFIX, Path(path))
    return secrets


def _read(variable: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        secret = content.decode().strip()
    except OSError as error:
        raise BadSecretFile(f"{variable}: {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise BadSecretFile(f"{variable}: {path} is not text") from error
    if not secret:
        raise BadSecretFile(f"{variable}: {path} is empty")
    if len(content) > LARGEST_BYTES:
        raise BadSecretFile(f"{variable}: {path} is too large for a secret")
    return secret
