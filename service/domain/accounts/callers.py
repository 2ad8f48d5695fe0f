"""Callers, their roles, and the permissions of each role."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from setwise.service.domain.errors import Forbidden


class Role(StrEnum):
    """Role of a key or a person."""

    __hash__ = str.__hash__  # Enum.__hash__ hashes the name, in Python

    CLIENT = "client"
    REVIEWER = "reviewer"
    LEAD = "lead"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Permission(StrEnum):
    """A group of calls; the scopes of a key are permissions."""

    __hash__ = str.__hash__  # as above

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
    # Reads everything and changes nothing.
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
    """A key's holder, a signed-in person, or the service itself."""

    id: str
    name: str
    role: Role
    address: str | None = None
    """Network address of the request, for the audit trail."""
    scopes: frozenset[Permission] | None = None
    """The permissions of its role that a key is limited to; None for all of them."""
    per_minute: int | None = None
    """Requests a minute that a key may send, 0 for any number; None for the usual limit."""
    request_id: str | None = None
    """Id of the request in the log, for the audit trail."""

    def require(self, *sufficient: Permission) -> None:
        """Raise `Forbidden` unless the caller has one of these permissions."""
        if not self.may_one(sufficient):
            lacking = [
                permission for permission in sufficient if permission in PERMISSIONS[self.role]
            ]
            if lacking:
                raise Forbidden(f"This key lacks the scope {' or '.join(lacking)}.")
            allowed = [role for role in Role if not PERMISSIONS[role].isdisjoint(sufficient)]
            raise Forbidden(
                f"The role {self.role} may not do this; it takes one of: {', '.join(allowed)}."
            )

    def may_one(self, sufficient: Iterable[Permission]) -> bool:
        """Return whether the caller has one of these permissions."""
        return any(map(self.may, sufficient))

    def may(self, permission: Permission) -> bool:
        """Return whether the caller has the permission."""
        return permission in PERMISSIONS[self.role] and (
            self.scopes is None or permission in self.scopes
        )

    def calling_from(self, address: str | None, request_id: str | None = None) -> "Caller":
        """Return the same caller with the address and the id of a request."""
        return replace(self, address=address, request_id=request_id)


ANONYMOUS = Caller(id="anonymous", name="anonymous", role=Role.CLIENT)
"""Someone who is not signed in."""

SYSTEM = Caller(id="system", name="system", role=Role.ADMIN)
"""The service itself: start-up, schedules, and the command line on the server."""
