"""Who calls: roles, what each role may do, and API keys."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from setwise.service.domain.errors import FieldFault, Forbidden


class Role(StrEnum):
    """What a key or a person is for."""

    __hash__ = str.__hash__  # an enumeration's own hashes the name, in Python

    CLIENT = "client"
    REVIEWER = "reviewer"
    LEAD = "lead"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Permission(StrEnum):
    """A group of calls that go together; also what the scopes of a key name."""

    __hash__ = str.__hash__  # as that of roles

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
    scopes : frozenset of Permission or None
        All that a key may do of what its role may; None for everything.
    per_minute : int or None
        Requests that a key may send, 0 for any number; None for as many as is usual.
    """

    id: str
    name: str
    role: Role
    address: str | None = None
    scopes: frozenset[Permission] | None = None
    per_minute: int | None = None

    def require(self, permission: Permission) -> None:
        """Raise `Forbidden` unless the caller may do what ``permission`` stands for."""
        if not self.may(permission):
            if permission in PERMISSIONS[self.role]:
                raise Forbidden(f"This key lacks the scope {permission}.")
            allowed = ", ".join(role for role in Role if permission in PERMISSIONS[role])
            raise Forbidden(f"The role {self.role} may not do this; it takes one of: {allowed}.")

    def may(self, permission: Permission) -> bool:
        """Tell whether the caller may do what ``permission`` stands for."""
        return permission in PERMISSIONS[self.role] and (
            self.scopes is None or permission in self.scopes
        )

    def calling_from(self, address: str | None) -> "Caller":
        """Return the same caller at a network address."""
        return Caller(self.id, self.name, self.role, address, self.scopes, self.per_minute)


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
    scopes : frozenset of Permission or None
        All that the key may do of what its role may; None for everything.
    expires_at : datetime or None
        When it stops working by itself.
    per_minute : int or None
        Requests that it may send, 0 for any number; None for as many as is usual.
    """

    id: str
    name: str
    role: Role
    prefix: str
    digest: bytes
    created_at: datetime
    revoked_at: datetime | None = None
    scopes: frozenset[Permission] | None = None
    expires_at: datetime | None = None
    per_minute: int | None = None

    @property
    def revoked(self) -> bool:
        """The key opens nothing any more."""
        return self.revoked_at is not None

    def expired(self, now: datetime) -> bool:
        """Tell whether the key's time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def administers(self) -> bool:
        """Tell whether the key can administer the service, for good."""
        return (
            not self.revoked
            and self.expires_at is None
            and self.calling().may(Permission.ADMINISTER)
        )

    def calling(self) -> Caller:
        """Return the key's holder as whoever calls a verb."""
        return Caller(self.id, self.name, self.role, scopes=self.scopes, per_minute=self.per_minute)


def scope_faults(
    role: Role, scopes: frozenset[Permission] | None, pointer: str
) -> Iterator[FieldFault]:
    """Yield which scopes a key of ``role`` cannot have."""
    if scopes is None:
        return
    for scope in sorted(scopes - PERMISSIONS[role]):
        known = ", ".join(sorted(PERMISSIONS[role]))
        yield FieldFault(pointer, f"{scope} goes beyond the role {role}, which has {known}")
    if not scopes:
        yield FieldFault(pointer, "is empty; such a key could do nothing")


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
