"""The people of ``setwise demo``: an account for each role, with a password that it can show."""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setwise.service.cli.secrets_file import SecretsFile

if TYPE_CHECKING:
    from setwise.service.services.verbs import Verbs

LOGINS = {"reviewer": "Rosa (demo)", "lead": "Lena (demo)", "admin": "Ada (demo)"}
"""Login name, which is the role too, and what others see."""


@dataclass(frozen=True)
class DemoPeople:
    """Makes the accounts, once, and remembers their passwords."""

    file: SecretsFile
    verbs: "Verbs"

    def opened(self) -> dict[str, str]:
        """Return a password for each login name, and see to it that it opens the door."""
        from setwise.service.domain.callers import SYSTEM, Role  # noqa: PLC0415 - as above
        from setwise.service.domain.errors import LoginTaken  # noqa: PLC0415 - only where needed

        kept = self.file.read()
        passwords = {login: kept.get(login) or _password() for login in LOGINS}
        self.file.write(passwords)
        for login, name in LOGINS.items():
            try:
                self.verbs.create_person(
                    SYSTEM, login=login, name=name, role=Role(login), password=passwords[login]
                )
            except LoginTaken:
                if login not in kept:  # the account outlived the file
                    self.verbs.set_password(SYSTEM, login, passwords[login])
        return passwords


def _password() -> str:
    """Return about 80 random bits that can be typed."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(4)) for _ in range(4))
