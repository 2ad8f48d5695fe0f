"""People who sign in."""

from dataclasses import dataclass, replace
from datetime import timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts import (
    LONGEST_NAME,
    MOST_DAYS_INVITED,
    Person,
    login_faults,
    login_of,
    password_faults,
    person_changes,
    readable_password,
    role_faults,
)
from setwise.service.domain.accounts.callers import Caller, Permission, Role
from setwise.service.domain.text import name_faults
from setwise.service.services.accounts.guarded import Guarded, dismiss, known_person
from setwise.service.services.accounts.keys import refuse_last_admin
from setwise.service.stores.transaction import Transaction


@dataclass(frozen=True)
class People(Guarded):
    """Accounts of people, their invitations and passwords."""

    def create(
        self,
        caller: Caller,
        *,
        login: str,
        name: str,
        role: Role,
        password: str | None,
        external_id: str | None = None,
    ) -> Person:
        """Create an account.

        Raises `InvalidRequest` if the login name, the name, the role or the password is not
        allowed; `LoginTaken` if another person has the login name.

        ``password``: None for a person who signs in only with an identity provider.
        """
        caller.require(Permission.ADMINISTER)
        person = self._new(login, name, role, password, external_id)
        with self.begin() as transaction:
            self._add(transaction, caller, person)
        return person

    def create_invited(
        self, caller: Caller, *, login: str, name: str, role: Role, days: int
    ) -> tuple[Person, str]:
        """Create an account; return it with the secret of its invitation.

        Raises the errors of `create` and `invite`.
        """
        caller.require(Permission.ADMINISTER)
        _check_days(days)
        person = self._new(login, name, role)
        with self.begin() as transaction:
            self._add(transaction, caller, person)
            return self._invited(transaction, caller, person, days)

    def _new(
        self,
        login: str,
        name: str,
        role: Role,
        password: str | None = None,
        external_id: str | None = None,
    ) -> Person:
        login = login_of(login)
        faults = [
            *login_faults(login, "/login"),
            *name_faults(name, "/name", longest=LONGEST_NAME),
            *role_faults(role),
        ]
        if password is not None:
            password = readable_password(password)
            faults += password_faults(password, login)
        if faults:
            raise errors.InvalidRequest("The account cannot be created.", faults)
        return Person(
            id=self.new_id(),
            login=login,
            name=name,
            role=role,
            created_at=self.now(),
            password=None if password is None else self.passwords.hash(password),
            external_id=external_id,
        )

    def all(self, caller: Caller) -> list[Person]:
        """Return all people, ordered by login name, including disabled ones."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.people.all()

    def change(
        self,
        caller: Caller,
        who: str,
        *,
        name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        password: str | None = None,
    ) -> Person:
        """Change an account at once; None keeps the value.

        A new role, disabling and enabling end the person's sessions and assignments. A new password
        ends the sessions and forgets failed sign-ins.

        Raises `InvalidRequest` if a value is not allowed; `LastAdmin` if no other key or person
        could administer the service.

        ``who``: Id or login name.
        """
        caller.require(Permission.ADMINISTER)
        faults = [] if name is None else name_faults(name, "/name", longest=LONGEST_NAME)
        faults += [] if role is None else role_faults(role)
        if faults:
            raise errors.InvalidRequest("The account cannot be changed.", faults)
        hashed = None if password is None else self._hashed_for(who, password)
        with self.begin() as transaction:
            old = known_person(transaction, who, for_update=True)
            new = old.changed(name=name, role=role, disabled=disabled, now=self.now())
            if hashed is not None:
                new = new.joined(password=hashed)
            if hashed is None and new == old:
                return old
            if old.administers() and not new.administers():
                refuse_last_admin(transaction, leaving=old.id)
            transaction.people.save(new)
            if (new.role, new.disabled) != (old.role, old.disabled):
                dismiss(transaction, new.id)
            if hashed is not None:
                transaction.sessions.delete_of(new.id)
                self.throttle.reset(transaction, new.login)
                self._note(transaction, caller, "person.password_set", new.id)
            for action, detail in person_changes(old, new):
                self._note(transaction, caller, action, new.id, **detail)
        return new

    def _hashed_for(self, who: str, password: str) -> str:
        # Outside the transaction of the change, because hashing is slow.
        with self.begin(read_only=True) as transaction:
            person = known_person(transaction, who)
        return self._hashed(person, password)

    def erase(self, caller: Caller, who: str) -> Person:
        """Erase a person's login name, name and password, and disable the account.

        The person's decisions remain under their id. The immutable audit trail keeps the name.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            person = known_person(transaction, who, for_update=True)
            if person.administers():
                refuse_last_admin(transaction, leaving=person.id)
            erased = person.erased(self.now())
            transaction.people.save(erased)
            dismiss(transaction, person.id)
            self._note(transaction, caller, "person.erased", person.id)
        return erased

    def invite(self, caller: Caller, who: str, days: int) -> tuple[Person, str]:
        """Return a person with a new invitation and its secret.

        Raises `PersonNotFound`; `InvalidRequest` if the account is disabled, or for too many days.
        """
        caller.require(Permission.ADMINISTER)
        _check_days(days)
        with self.begin() as transaction:
            person = known_person(transaction, who, for_update=True)
            if person.disabled:
                raise errors.InvalidRequest("The account is disabled; enable it first.")
            return self._invited(transaction, caller, person, days)

    def _invited(
        self, transaction: Transaction, caller: Caller, person: Person, days: int
    ) -> tuple[Person, str]:
        secret, until = self.new_secret(), self.now() + timedelta(days=days)
        person = replace(person, invitation=self.session_digest(secret), invited_until=until)
        transaction.people.save(person)
        self._note(transaction, caller, "person.invited", person.id, until=until.isoformat())
        transaction.show(person, secret)
        return person, secret


def _check_days(days: int) -> None:
    if not 1 <= days <= MOST_DAYS_INVITED:
        fault = errors.FieldFault("/days", f"must be from 1 to {MOST_DAYS_INVITED}")
        raise errors.InvalidRequest("An invitation cannot last that long.", [fault])
