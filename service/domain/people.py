"""Who calls: API keys, roles and what each role may do."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.errors import Forbidden


class Role(StrEnum):
    """What a key is for."""

    CLIENT = "client"
    REVIEWER = "reviewer"
    LEAD = "lead"
    ADMIN = "admin"


class Permission(StrEnum):
    """A group of calls that go together."""

    PREDICT = "predict"
    READ_ALL_PREDICTIONS = "read all predictions"
    REVIEW = "review"
    REPORT = "report"
    ADMINISTER = "administer"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.CLIENT: frozenset({Permission.PREDICT}),
    Role.REVIEWER: frozenset({Permission.REVIEW}),
    Role.LEAD: frozenset({Permission.REVIEW, Permission.REPORT, Permission.READ_ALL_PREDICTIONS}),
    Role.ADMIN: frozenset(Permission),
}


@dataclass(frozen=True)
class Caller:
    """The authenticated holder of a key, or the service itself."""

    id: str
    name: str
    role: Role

    def require(self, permission: Permission) -> None:
        """Raise `Forbidden` unless the caller's role grants ``permission``."""
        if not self.may(permission):
            allowed = ", ".join(role for role in Role if permission in PERMISSIONS[role])
            raise Forbidden(f"A {self.role} key may not do this; it takes one of: {allowed}.")

    def may(self, permission: Permission) -> bool:
        """Tell whether the caller's role grants ``permission``."""
        return permission in PERMISSIONS[self.role]


SYSTEM = Caller(id="system", name="system", role=Role.ADMIN)
"""The service itself: start-up, schedules and the command line on the server's own machine."""


@dataclass(frozen=True)
class ApiKey:
    """A stored key; the secret itself is known only to its holder.

    Attributes
    ----------
    prefix : str
        First characters of the secret, for people who look for a key in a list.
    digest : bytes
        Keyed hash (HMAC-SHA-256) of the secret.
    """

    id: str
    name: str
    role: Role
    prefix: str
    digest: bytes
    created_at: datetime
    revoked_at: datetime | None = None
