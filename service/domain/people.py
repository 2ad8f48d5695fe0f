"""Who calls: roles, what each role may do, and API keys."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.errors import Forbidden


class Role(StrEnum):
    """What a key or a person is for."""

    CLIENT = "client"
    REVIEWER = "reviewer"
    LEAD = "lead"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Permission(StrEnum):
    """A group of calls that go together; also what the scopes of a key name."""

    PREDICT = "predict"
    READ_ALL_PREDICTIONS = "read-predictions"
    READ_QUEUE = "read-queue"
    REVIEW = "review"
    REPORT = "report"
    INSPECT = "inspect"  # reads what administrators change
    READ_AUDIT_TRAIL = "read-audit-trail"
    RUN_JOBS = "run-jobs"
    ADMINISTER = "administer"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.CLIENT: frozenset({Permission.PREDICT, Permission.RUN_JOBS}),
    Role.REVIEWER: frozenset({Permission.READ_QUEUE, Permission.REVIEW}),
    Role.LEAD: frozenset(
        {
            Permission.READ_QUEUE,
            Permission.REVIEW,
            Permission.REPORT,
            Permission.READ_ALL_PREDICTIONS,
            Permission.RUN_JOBS,
        }
    ),
    Role.ADMIN: frozenset(Permission),
    # Reads all, changes nothing.
    Role.AUDITOR: frozenset(
        {
            Permission.READ_QUEUE,
            Permission.REPORT,
            Permission.READ_ALL_PREDICTIONS,
            Permission.INSPECT,
            Permission.READ_AUDIT_TRAIL,
        }
    ),
}


@dataclass(frozen=True)
class Caller:
    """The authenticated holder of a key, a person who signed in, or the service itself.

    Attributes
    ----------
    address : str or None
        Network address that the request came from, for the audit trail.
    """

    id: str
    name: str
    role: Role
    address: str | None = None

    def require(self, permission: Permission) -> None:
        """Raise `Forbidden` unless the caller may do what ``permission`` stands for."""
        if not self.may(permission):
            allowed = ", ".join(role for role in Role if permission in PERMISSIONS[role])
            raise Forbidden(f"The role {self.role} may not do this; it takes one of: {allowed}.")

    def may(self, permission: Permission) -> bool:
        """Tell whether the caller may do what ``permission`` stands for."""
        return permission in PERMISSIONS[self.role]

    def calling_from(self, address: str | None) -> "Caller":
        """Return the same caller at a network address."""
        return Caller(self.id, self.name, self.role, address)


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

    @property
    def revoked(self) -> bool:
        """The key opens nothing any more."""
        return self.revoked_at is not None

    def usable(self, now: datetime) -> bool:  # noqa: ARG002 -- keys expire
        """Tell whether the key opens something."""
        return not self.revoked


PREFIX_LENGTH = 14
"""Characters of a secret that are kept in the clear: the role and a few random ones."""


def secret_for(role: Role, random_part: str) -> str:
    """Write a key's secret; ``random_part`` carries at least 256 random bits.

    >>> secret_for(Role.CLIENT, "dQw4w9WgXcQ")
    'sw_client_dQw4w9WgXcQ'
    """
    return f"sw_{role}_{random_part}"


@dataclass(frozen=True)
class KeyDigest:
    """Turns secrets into what is stored of them, so that a stolen table opens nothing.

    Secrets are random, so one keyed hash is enough; a slow hash is for passwords.

    Attributes
    ----------
    pepper : bytes
        Known to the server alone and kept outside the database.
    """

    pepper: bytes

    def __call__(self, secret: str) -> bytes:
        """Return the HMAC-SHA-256 of ``secret``, 32 bytes."""
        return hmac.digest(self.pepper, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def __repr__(self) -> str:
        return "KeyDigest()"
