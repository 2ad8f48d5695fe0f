"""What is needed from the world outside to know people and programs, and what they did."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from setwise.service.domain.accounts import Attempts, Person, Session
from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import ApiKey
from setwise.service.domain.paging import Page


class Keys(Protocol):
    """Stored API keys."""

    def add(self, key: ApiKey) -> None: ...

    def get(self, key_id: str) -> ApiKey | None: ...

    def by_digest(self, digest: bytes) -> ApiKey | None: ...

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        """List newest first; ``for_update`` keeps others from changing them until the commit."""

    def revoke(self, key_id: str, now: datetime) -> None: ...


class Passwords(Protocol):
    """Slow hashes of passwords."""

    def hash(self, password: str) -> str:
        """Return what to store of a password."""

    def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether a password is the stored one; without one, take as long and say no."""

    def outdated(self, stored: str) -> bool:
        """Tell whether what is stored was made with other parameters than today's."""


class People(Protocol):
    """Those who sign in."""

    def add(self, person: Person) -> None:
        """Store an account; raises `LoginTaken`."""

    def get(self, person_id: str, *, for_update: bool = False) -> Person | None: ...

    def by_login(self, login: str, *, for_update: bool = False) -> Person | None: ...

    def by_external_id(self, external_id: str) -> Person | None: ...

    def all(self, *, for_update: bool = False) -> list[Person]:
        """List by login name; ``for_update`` keeps others from changing them until the commit."""

    def save(self, person: Person) -> None:
        """Store a changed account."""


class Sessions(Protocol):
    """Browsers in which somebody signed in."""

    def add(self, session: Session) -> None: ...

    def by_digest(self, digest: bytes) -> tuple[Session, Person] | None: ...

    def see(self, session_id: str, now: datetime) -> None:
        """Note that the session was used."""

    def delete(self, session_id: str) -> None: ...

    def delete_of(self, person_id: str, *, but: str | None = None) -> int:
        """End every session of a person, except ``but``; returns how many there were."""

    def delete_ended(self, now: datetime, last_seen_before: datetime) -> int:
        """Forget sessions that have expired or were not used since; returns how many."""


class SignInAttempts(Protocol):
    """Counts of sign-ins that went wrong."""

    def lock(self, key: bytes, now: datetime) -> Attempts:
        """Return the count under a key, made where there is none; others wait for the commit."""

    def save(self, attempts: Attempts) -> None: ...

    def uncount(self, key: bytes) -> None:
        """Take one attempt back: it went well."""

    def forget(self, key: bytes, *, before: datetime) -> None:
        """Forget a count, and all that have not changed since ``before``."""


@dataclass(frozen=True)
class EventFilter:
    """Which events to list; None does not restrict.

    Attributes
    ----------
    action : str or None
        A whole action or, with a dot at the end, the beginning of several: ``review.``.
    """

    actor_id: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    before: datetime | None = None


class AuditTrail(Protocol):
    """Append-only record of what was done."""

    def add(self, event: Event) -> None: ...

    def add_all(self, events: Sequence[Event]) -> None: ...

    def page(
        self, wanted: EventFilter | None = None, *, after: str | None, limit: int
    ) -> Page[Event]:
        """List newest first."""
