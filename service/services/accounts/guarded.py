"""What the services of people and sessions share."""

from collections.abc import Callable
from dataclasses import dataclass

from setwise.service.domain import errors
from setwise.service.domain.accounts import (
    Person,
    login_of,
    password_faults,
    readable_password,
)
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.text import is_id
from setwise.service.services.accounts.throttle import Throttle
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import Passwords
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction

Digest = Callable[[str], bytes]
NewSecret = Callable[[], str]
"""Returns at least 256 random bits as URL-safe text, such as ``secrets.token_urlsafe``."""


@dataclass(frozen=True)
class Guarded(Recorded):
    """A service that checks or sets passwords, and hands out secrets."""

    now: WallClock
    passwords: Passwords
    session_digest: Digest
    """Keyed hash that protects the stored secrets of sessions and invitations."""
    new_secret: NewSecret

    @property
    def throttle(self) -> Throttle:
        """What slows guesses down."""
        return Throttle(self.begin, self.now, self.session_digest)

    def _hashed(self, person: Person, password: str) -> str:
        """Return the hash of a new password; raises `InvalidRequest` if weak."""
        password = readable_password(password)
        faults = list(password_faults(password, person.login))
        if faults:
            raise errors.InvalidRequest("The password is not allowed.", faults)
        return self.passwords.hash(password)

    def _add(self, transaction: Transaction, caller: Caller, person: Person) -> None:
        transaction.people.add(person)
        self._note(
            transaction,
            caller,
            "person.created",
            person.id,
            login=person.login,
            name=person.name,
            role=person.role.value,
        )


def known_person(transaction: Transaction, who: str, *, for_update: bool = False) -> Person:
    """Return the person with this id or login name; raises `PersonNotFound`."""
    person = (
        transaction.people.get(who, for_update=for_update)
        if is_id(who)
        else transaction.people.by_login(login_of(who), for_update=for_update)
    )
    if person is None:
        raise errors.PersonNotFound(f"No person has the id or login name {who!r}.")
    return person


def dismiss(transaction: Transaction, person_id: str) -> None:
    """End a person's sessions, and unassign their reviews."""
    transaction.sessions.delete_of(person_id)
    transaction.reviews.unassign(person_id)
