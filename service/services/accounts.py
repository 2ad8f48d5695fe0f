"""People: their accounts, how they sign in and out, and who a session stands for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from setwise.service.domain.accounts import (
    SEEN_EVERY,
    Backoff,
    Person,
    Session,
    SessionRule,
    login_faults,
    login_of,
    network_of,
    password_faults,
    readable_password,
    role_faults,
)
from setwise.service.domain.callers import SYSTEM, Caller, Permission, Role
from setwise.service.domain.errors import (
    FieldFault,
    Forbidden,
    InvalidRequest,
    LastAdmin,
    PersonNotFound,
    TooManyRequests,
    Unauthenticated,
    WrongPassword,
)
from setwise.service.domain.identity import is_id
from setwise.service.domain.text import text_faults
from setwise.service.services.ports import Passwords
from setwise.service.services.recording import Recorded
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transaction, Transactions

LONGEST_NAME = 100

SIGN_IN_BACKOFF = Backoff(free=5)
"""For one login name from one network."""

NETWORK_BACKOFF = Backoff(free=50)
"""For all login names from one network, behind which a whole office may sit."""

Digest = Callable[[str], bytes]


@dataclass(frozen=True)
class SignedIn:
    """What a session's token opens."""

    session: Session
    person: Person
    caller: Caller


@dataclass(frozen=True)
class CreatePerson(Recorded):
    """Let somebody sign in."""

    passwords: Passwords

    def __call__(
        self,
        caller: Caller,
        *,
        login: str,
        name: str,
        role: Role,
        password: str | None,
        external_id: str | None = None,
        request_id: str | None = None,
    ) -> Person:
        """Return the stored account.

        Parameters
        ----------
        password : str or None
            None for somebody who signs in with an identity provider only.

        Raises
        ------
        InvalidRequest
            If the login name, the name, the role or the password cannot be taken.
        LoginTaken
            If somebody else has the login name.
        """
        caller.require(Permission.ADMINISTER)
        login = login_of(login)
        faults = [
            *login_faults(login, "/login"),
            *text_faults(name, "/name", longest=LONGEST_NAME),
            *role_faults(role, "/role"),
        ]
        if password is not None:
            password = readable_password(password)
            faults += password_faults(password, "/password", login=login)
        if faults:
            raise InvalidRequest("The account cannot be made like this.", faults)
        person = Person(
            id=self.new_id(),
            login=login,
            name=name,
            role=role,
            created_at=self.now(),
            password=None if password is None else self.passwords.hash(password),
            external_id=external_id,
        )
        with self.begin() as transaction:
            transaction.people.add(person)
            self._note(
                transaction,
                caller,
                "person.created",
                person.id,
                request_id,
                login=login,
                name=name,
                role=role.value,
            )
            transaction.commit()
        return person


@dataclass(frozen=True)
class ListPeople:
    """List everybody who can or could sign in, by login name."""

    begin: Transactions

    def __call__(self, caller: Caller) -> list[Person]:
        """Return them, the disabled ones included."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.people.all()


@dataclass(frozen=True)
class ChangePerson(Recorded):
    """Change somebody's name or role, or whether they may sign in. Sessions end with it."""

    def __call__(
        self,
        caller: Caller,
        who: str,
        *,
        name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        request_id: str | None = None,
    ) -> Person:
        """Return the account as stored; None leaves something as it is.

        Parameters
        ----------
        who : str
            Id or login name.

        Raises
        ------
        LastAdmin
            If nobody could administer the service afterwards.
        """
        caller.require(Permission.ADMINISTER)
        faults: list[FieldFault] = []
        if name is not None:
            faults += text_faults(name, "/name", longest=LONGEST_NAME)
        if role is not None:
            faults += role_faults(role, "/role")
        if faults:
            raise InvalidRequest("The account cannot be changed like this.", faults)
        with self.begin() as transaction:
            old = found(transaction, who, for_update=True)
            new = replace(
                old,
                name=old.name if name is None else name,
                role=old.role if role is None else role,
                disabled_at=_disabled_at(old, disabled, self.now()),
            )
            if new == old:
                return old
            if administers(old) and not administers(new):
                refuse_last_admin(transaction, leaving=old.id)
            transaction.people.save(new)
            if (new.role, new.disabled) != (old.role, old.disabled):
                transaction.sessions.delete_of(new.id)
            for action, detail in _changes(old, new):
                self._note(transaction, caller, action, new.id, request_id, **detail)
            transaction.commit()
        return new


def _changes(old: Person, new: Person) -> Iterator[tuple[str, dict[str, object]]]:
    if (old.name, old.role) != (new.name, new.role):
        yield "person.changed", {"name": new.name, "role": new.role.value, "was": old.role.value}
    if old.disabled != new.disabled:
        action = "person.disabled" if new.disabled else "person.enabled"
        yield action, {"login": new.login}


def _disabled_at(person: Person, disabled: bool | None, now: datetime) -> datetime | None:
    if disabled is None or disabled == person.disabled:
        return person.disabled_at
    return now if disabled else None


def administers(person: Person) -> bool:
    """Tell whether somebody can administer the service."""
    return person.role is Role.ADMIN and not person.disabled


def refuse_last_admin(transaction: Transaction, *, leaving: str) -> None:
    """Raise `LastAdmin` unless a key or a person other than ``leaving`` administers."""
    keys = transaction.keys.all(for_update=True)
    people = transaction.people.all(for_update=True)
    if any(key.administers() and key.id != leaving for key in keys) or any(
        administers(person) and person.id != leaving for person in people
    ):
        return
    raise LastAdmin(
        "This is the last admin; make another admin key, or another person an admin, first."
    )


def found(transaction: Transaction, who: str, *, for_update: bool = False) -> Person:
    """Return the person with an id or login name; raises `PersonNotFound`."""
    person = (
        transaction.people.get(who, for_update=for_update)
        if is_id(who)
        else transaction.people.by_login(login_of(who), for_update=for_update)
    )
    if person is None:
        raise PersonNotFound(f"Nobody has the id or login name {who!r}.")
    return person


@dataclass(frozen=True)
class SetPassword(Recorded):
    """Give somebody another password; all their sessions end."""

    passwords: Passwords

    def __call__(
        self, caller: Caller, who: str, password: str, *, request_id: str | None = None
    ) -> Person:
        """Return the account as stored."""
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            person = found(transaction, who)
        hashed = accepted(self.passwords, person, password)
        with self.begin() as transaction:
            # Read again: hashing took its time.
            new = replace(found(transaction, person.id, for_update=True), password=hashed)
            transaction.people.save(new)
            transaction.sessions.delete_of(new.id)
            self._note(transaction, caller, "person.password_set", new.id, request_id)
            transaction.commit()
        return new


def accepted(passwords: Passwords, person: Person, password: str) -> str:
    """Return the hash of a new password; raises `InvalidRequest` when it is too easy to guess."""
    password = readable_password(password)
    faults = list(password_faults(password, "/password", login=person.login))
    if faults:
        raise InvalidRequest("The password cannot be taken.", faults)
    return passwords.hash(password)


@dataclass(frozen=True)
class ChangeOwnPassword(Recorded):
    """Let somebody who knows their password take another; their other sessions end."""

    passwords: Passwords

    def __call__(
        self,
        caller: Caller,
        session: Session,
        old: str,
        new: str,
        *,
        request_id: str | None = None,
    ) -> None:
        """Store the new password; raises `WrongPassword`, or `InvalidRequest` for a weak one."""
        with self.begin(read_only=True) as transaction:
            person = found(transaction, session.person_id)
        if not self.passwords.verify(person.password, readable_password(old)):
            raise WrongPassword("The present password is wrong.")
        hashed = accepted(self.passwords, person, new)
        with self.begin() as transaction:
            changed = replace(found(transaction, person.id, for_update=True), password=hashed)
            transaction.people.save(changed)
            transaction.sessions.delete_of(person.id, but=session.id)
            self._note(transaction, caller, "person.password_changed", person.id, request_id)
            transaction.commit()


@dataclass(frozen=True)
class Entrance(Recorded):
    """What every way in needs.

    Attributes
    ----------
    digest : callable
        Turns tokens into what is stored of them.
    new_token : callable
        Gives at least 256 random bits as URL-safe text.
    """

    digest: Digest
    new_token: Callable[[], str]
    rule: SessionRule

    def enter(
        self,
        transaction: Transaction,
        person: Person,
        *,
        address: str | None,
        request_id: str | None,
    ) -> tuple[SignedIn, str]:
        """Store a session and note it; returns it with its token. Ended sessions go."""
        now, token = self.now(), self.new_token()
        session = Session(
            id=self.new_id(),
            person_id=person.id,
            digest=self.digest(token),
            created_at=now,
            seen_at=now,
            expires_at=now + self.rule.longest,
            address=address,
        )
        transaction.sessions.delete_ended(now, self.rule.last_seen_by(now))
        transaction.sessions.add(session)
        caller = person.calling(address)
        self._note(transaction, caller, "session.begun", person.id, request_id)
        return SignedIn(session, person, caller), token


@dataclass(frozen=True)
class SignIn(Entrance):
    """Transactions a session for whoever knows a password.

    An attempt is counted before its password is looked at, so that guesses made side by side count
    as well. An unknown name takes as long as a wrong password and leaves the same traces.
    """

    passwords: Passwords

    def __call__(
        self,
        login: str,
        password: str,
        *,
        address: str | None = None,
        request_id: str | None = None,
    ) -> tuple[SignedIn, str]:
        """Return the session and its token.

        Raises
        ------
        WrongPassword
            If the name or the password is wrong, or the person is disabled.
        TooManyRequests
            If too many attempts went wrong; the password was not looked at.
        """
        login, password = login_of(login), readable_password(password)
        network = network_of(address)
        pair = self.digest(f"sign-in {login} {network}")
        whole = self.digest(f"sign-in {network}")
        self._count(pair, whole)
        with self.begin(read_only=True) as transaction:
            person = transaction.people.by_login(login)
        stored = person.password if person is not None and not person.disabled else None
        if not self.passwords.verify(stored, password) or person is None or stored is None:
            self._note_refusal(person, address, request_id)
            raise WrongPassword("The name or the password is wrong.")
        better = self.passwords.hash(password) if self.passwords.outdated(stored) else stored
        with self.begin() as transaction:
            # Hashing took its time, in which the account may have changed.
            person = found(transaction, person.id, for_update=True)
            kept = person.password == stored
            # Another hash may be of the same password: they sign in elsewhere at this moment.
            if person.disabled or not (kept or self.passwords.verify(person.password, password)):
                raise WrongPassword("The name or the password is wrong.")
            if kept and better != stored:
                person = replace(person, password=better)
                transaction.people.save(person)
            transaction.attempts.forget(pair, before=self.now() - SIGN_IN_BACKOFF.forgotten)
            transaction.attempts.uncount(whole)
            entered = self.enter(transaction, person, address=address, request_id=request_id)
            transaction.commit()
        return entered

    def _count(self, pair: bytes, network: bytes) -> None:
        with self.begin() as transaction:
            now = self.now()
            rules = ((pair, SIGN_IN_BACKOFF), (network, NETWORK_BACKOFF))
            counts = [(rule, transaction.attempts.lock(key, now)) for key, rule in rules]
            wait = max(rule.wait(count, now).total_seconds() for rule, count in counts)
            if wait > 0:
                raise TooManyRequests(
                    f"Too many attempts went wrong; wait {wait:.0f} seconds and try again.",
                    retry_after_s=wait,
                )
            for rule, count in counts:
                transaction.attempts.save(rule.counted(count, now))
            transaction.commit()

    def _note_refusal(
        self, person: Person | None, address: str | None, request_id: str | None
    ) -> None:
        stranger = Caller("anonymous", "anonymous", Role.CLIENT, address)
        # What was typed is not kept: people type passwords into the wrong field.
        subject = "unknown" if person is None else person.id
        with self.begin() as transaction:
            self._note(transaction, stranger, "session.refused", subject, request_id)
            transaction.commit()


@dataclass(frozen=True)
class ExternalIdentity:
    """Somebody for whom an identity provider vouches.

    Attributes
    ----------
    id : str
        Issuer and subject: who it is, whatever else changes.
    role : Role or None
        What the groups of the person give them here; None for nothing.
    """

    id: str
    login: str
    name: str
    role: Role | None


@dataclass(frozen=True)
class SignInExternally(Entrance):
    """Transactions a session for whoever an identity provider vouches for.

    The provider decides about name and role at each sign-in; an administrator here can still
    disable the account. Somebody who comes for the first time gets an account.
    """

    def __call__(
        self,
        identity: ExternalIdentity,
        *,
        address: str | None = None,
        request_id: str | None = None,
    ) -> tuple[SignedIn, str]:
        """Return the session and its token; raises `Forbidden` for whom there is no role."""
        if identity.role is None:
            raise Forbidden("No group of yours has a role here; ask an administrator.")
        name = identity.name.replace("\x00", "").strip()[:LONGEST_NAME] or "somebody"
        with self.begin() as transaction:
            person = transaction.people.by_external_id(identity.id)
            if person is None:
                person = self._newcomer(transaction, identity, name, identity.role, request_id)
            elif person.disabled:
                raise Forbidden("This account is disabled; ask an administrator.")
            elif (person.name, person.role) != (name, identity.role):
                if person.role is not identity.role:
                    transaction.sessions.delete_of(person.id)
                person = replace(person, name=name, role=identity.role)
                transaction.people.save(person)
                detail = {"name": name, "role": identity.role.value}
                self._note(transaction, SYSTEM, "person.changed", person.id, request_id, **detail)
            entered = self.enter(transaction, person, address=address, request_id=request_id)
            transaction.commit()
        return entered

    def _newcomer(
        self,
        transaction: Transaction,
        identity: ExternalIdentity,
        name: str,
        role: Role,
        request_id: str | None,
    ) -> Person:
        person_id = self.new_id()
        login = login_of(identity.login)
        # Somebody who signs in with a password may have the name; it is theirs.
        if list(login_faults(login, "")) or transaction.people.by_login(login) is not None:
            login = f"external-{person_id}"
        person = Person(
            person_id, login, name, role, created_at=self.now(), external_id=identity.id
        )
        transaction.people.add(person)
        detail = {"login": login, "name": name, "role": role.value}
        self._note(transaction, SYSTEM, "person.created", person.id, request_id, **detail)
        return person


@dataclass(frozen=True)
class OpenSession:
    """Find out whom a session stands for."""

    begin: Transactions
    now: Clock
    digest: Digest
    rule: SessionRule

    def __call__(self, token: str, *, address: str | None = None) -> SignedIn:
        """Return session and person; raises `Unauthenticated` when the session is over."""
        digest = self.digest(token)
        now = self.now()
        with self.begin(read_only=True) as transaction:
            stored = transaction.sessions.by_digest(digest)
        if stored is None or not self.rule.live(stored[0], now) or stored[1].disabled:
            raise Unauthenticated("You are signed out; sign in again.")
        session, person = stored
        if now - session.seen_at >= SEEN_EVERY:
            with self.begin() as transaction:
                transaction.sessions.see(session.id, now)
                transaction.commit()
        return SignedIn(session, person, person.calling(address))


@dataclass(frozen=True)
class SignOut(Recorded):
    """End a session."""

    digest: Digest

    def __call__(
        self, token: str, *, address: str | None = None, request_id: str | None = None
    ) -> None:
        """Forget the session; one that has ended already is no fault."""
        with self.begin() as transaction:
            stored = transaction.sessions.by_digest(self.digest(token))
            if stored is None:
                return
            session, person = stored
            transaction.sessions.delete(session.id)
            self._note(transaction, person.calling(address), "session.ended", person.id, request_id)
            transaction.commit()
