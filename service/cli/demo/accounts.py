"""Keys and people of `setwise demo`, and files with their secrets."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.service.cli.targets import write_private
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role

if TYPE_CHECKING:
    from setwise.service.services.all import Services

LOGINS = {"reviewer": "Rosa (demo)", "lead": "Lena (demo)", "admin": "Ada (demo)"}
"""Display names by login name; the login names are also the roles."""


@dataclass(frozen=True)
class SecretsFile:
    """Names and secrets in a private file, which may not exist yet."""

    path: Path

    def read(self) -> dict[str, str]:
        """Return the secrets by name; empty without a readable file."""
        try:
            secrets = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(secrets, dict):
            return {}
        return {str(name): str(secret) for name, secret in secrets.items()}

    def write(self, secrets: Mapping[str, str]) -> None:
        """Replace the contents of the file."""
        write_private(self.path, json.dumps(dict(secrets), indent=2).encode())


@dataclass(frozen=True)
class Keyring:
    """The demo's API keys, stored in a file to show them again."""

    file: SecretsFile
    services: "Services"

    def opened(self) -> dict[str, str]:
        """Return a working key for each role; create missing ones."""
        from setwise.service.domain.errors import Unauthenticated

        stored = self.file.read()
        secrets = {}
        for role in Role:
            secret = stored.get(role.value, "")
            try:
                works = self.services.keys.authenticate(secret).role is role
            except Unauthenticated:
                works = False
            if not works:
                _, secret = self.services.keys.create(SYSTEM, f"demo {role.value}", role)
            secrets[role.value] = secret
        if secrets != stored:
            self.file.write(secrets)
        return secrets

    def annotator(self, name: str, leads: bool) -> "Caller":
        """Return the caller of a generated reviewer or lead; discard their key."""
        name = f"{name} (generated)"
        keys = {key.name: key for key in self.services.keys.all(SYSTEM) if not key.revoked}
        role = Role.LEAD if leads else Role.REVIEWER
        key = keys.get(name) or self.services.keys.create(SYSTEM, name, role)[0]
        return Caller(id=key.id, name=key.name, role=key.role)


@dataclass(frozen=True)
class DemoPeople:
    """The demo's accounts, with passwords kept in a file."""

    file: SecretsFile
    services: "Services"

    def opened(self) -> dict[str, str]:
        """Return a working password for each login name; create missing accounts."""
        from setwise.service.domain.errors import LoginTaken

        secrets = self.file.read()
        passwords = {login: secrets.get(login) or _password() for login in LOGINS}
        self.file.write(passwords)
        for login, name in LOGINS.items():
            try:
                self.services.people.create(
                    SYSTEM, login=login, name=name, role=Role(login), password=passwords[login]
                )
            except LoginTaken:
                if login not in secrets:  # the file was deleted, the account was not
                    self.services.people.change(SYSTEM, login, password=passwords[login])
        return passwords


def _password() -> str:
    """Return about 80 random bits that are easy to type."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(4)) for _ in range(4))
