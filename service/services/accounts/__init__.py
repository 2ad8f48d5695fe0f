"""People, API keys, sessions and signing in."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts import (
    LONGEST_NAME,
    MOST_DAYS_INVITED,
    MOST_PER_MINUTE,
    PREFIX_LENGTH,
    SEEN_EVERY,
    ApiKey,
    Device,
    ExternalIdentity,
    Person,
    Session,
    SessionRule,
    SignedIn,
    login_faults,
    login_of,
    password_faults,
    person_changes,
    readable_password,
    role_faults,
    scope_faults,
    secret_for,
)
from setwise.service.domain.callers import ANONYMOUS, SYSTEM, Caller, Permission, Role
from setwise.service.domain.text import is_id, text_faults
from setwise.service.services.accounts.throttle import Counted, Throttle
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import Passwords
from setwise.service.stores.transaction import Transaction

Digest = Callable[[str], bytes]


@dataclass(frozen=True)
class Accounts(Recorded):
    """People and API keys, and the sessions of signed-in people."""

    passwords: Passwords
    key_digest: Digest
    session_digest: Digest
    """Keyed hashes that protect the stored secrets of keys and sessions."""
    new_secret: Callable[[], str]
    """Returns at least 256 random bits as URL-safe text, such as ``secrets.token_urlsafe``."""
    session_rule: SessionRule
    """How long sessions last."""

    @property
    def throttle(self) -> Throttle:
        """What slows guesses down."""
        return Throttle(self.begin, self.now, self.session_digest)

    # Keys

    def create_key(
        self,
        caller: Caller,
        name: str,
        role: Role,
        *,
        scopes: frozenset[Permission] | None = None,
        expires_at: datetime | None = None,
        per_minute: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its secret, which is not stored.

        ``scopes``: The permissions of ``role`` that the key has; None for all of them.
        ``expires_at``: When the key stops working.
        ``per_minute``: Allowed requests a minute, 0 for no limit; None for the default limit.
        """
        caller.require(Permission.ADMINISTER)
        faults: list[errors.FieldFault] = [
            *text_faults(name, "/name", longest=LONGEST_NAME),
            *scope_faults(role, scopes, "/scopes"),
        ]
        if expires_at is not None and expires_at <= self.now():
            faults.append(errors.FieldFault("/expires_at", "is in the past"))
        if per_minute is not None and not 0 <= per_minute <= MOST_PER_MINUTE:
            faults.append(
                errors.FieldFault("/per_minute", f"must lie between 0 and {MOST_PER_MINUTE}")
            )
        if faults:
            raise errors.InvalidRequest("The key cannot be created.", faults)
        secret = secret_for(role, self.new_secret())
        key = ApiKey(
            id=self.new_id(),
            name=name,
            role=role,
            prefix=secret[:PREFIX_LENGTH],
            digest=self.key_digest(secret),
            created_at=self.now(),
            scopes=scopes,
            expires_at=expires_at,
            per_minute=per_minute,
        )
        with self.begin() as transaction:
            transaction.keys.add(key)
            self._note(
                transaction,
                caller,
                "key.created",
                key.id,
                name=name,
                role=role.value,
                scopes=None if scopes is None else sorted(scopes),
                expires_at=None if expires_at is None else expires_at.isoformat(),
            )
        return key, secret

    def keys(self, caller: Caller) -> list[ApiKey]:
        """Return all keys, newest first, including revoked ones."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.keys.all()

    def revoke_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Revoke a key permanently; a revoked key stays unchanged.

        Raises `LastAdmin` if no other key or person could administer the service.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            keys = {key.id: key for key in transaction.keys.all(for_update=True)}
            key = keys.get(key_id)
            if key is None:
                raise errors.KeyNotFound(f"No key has the id {key_id!r}.")
            if key.revoked:
                return key
            now = self.now()
            if key.administers():
                _refuse_last_admin(transaction, leaving=key.id)
            transaction.keys.revoke(key.id, now)
            self._note(transaction, caller, "key.revoked", key.id, name=key.name)
        return replace(key, revoked_at=now)

    def rotate_key(self, caller: Caller, key_id: str) -> tuple[ApiKey, str]:
        """Replace a key's secret; return the key with the new secret, which is not stored.

        The old secret works for `ROTATION` longer; one that was replaced before stops at once.

        Raises `KeyNotFound` if there is no such key, or it no longer works.
        """
        caller.require(Permission.ADMINISTER)
        now = self.now()
        with self.begin() as transaction:
            keys = {key.id: key for key in transaction.keys.all(for_update=True)}
            key = keys.get(key_id)
            if key is None or key.revoked or key.expired(now):
                raise errors.KeyNotFound(f"No working key has the id {key_id!r}.")
            secret = secret_for(key.role, self.new_secret())
            key = key.rotated(secret, self.key_digest(secret), now)
            transaction.keys.rotate(key)
            self._note(transaction, caller, "key.rotated", key.id, name=key.name)
        return key, secret

    def authenticate(self, secret: str) -> Caller:
        """Return the caller of a key; raises `Unauthenticated`.

        The lookup is by keyed hash, so its timing reveals nothing about stored secrets.
        """
        digest = self.key_digest(secret)
        with self.begin(read_only=True) as transaction:
            key = transaction.keys.by_digest(digest)
        if key is None:
            raise errors.Unauthenticated("No key has this secret; ask an administrator for one.")
        now = self.now()
        if key.revoked:
            raise errors.Unauthenticated("This key is revoked; ask an administrator for a new one.")
        if digest == key.old_digest and (key.old_expires_at is None or key.old_expires_at <= now):
            raise errors.Unauthenticated("This secret was replaced; use the key's new one.")
        if key.expired(now):
            raise errors.KeyExpired(
                f"This key expired at {key.expires_at:%Y-%m-%d %H:%M} UTC; ask an administrator "
                "for a new one."
            )
        if key.unused_since(now):
            with suppress(errors.StorageUnavailable), self.begin() as transaction:
                transaction.keys.use(key.id, now)
        return key.calling()

    # People

    def create_person(
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
            raise errors.InvalidRequest("The account cannot be created.", faults)
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
            self._add_person(transaction, caller, person)
        return person

    def _add_person(self, transaction: Transaction, caller: Caller, person: Person) -> None:
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

    def people(self, caller: Caller) -> list[Person]:
        """Return all people, ordered by login name, including disabled ones."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.people.all()

    def change_person(
        self,
        caller: Caller,
        who: str,
        *,
        name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
    ) -> Person:
        """Change an account; None keeps the value.

        A new role, disabling and enabling end the person's sessions and assignments.

        Raises `LastAdmin` if no other key or person could administer the service.

        ``who``: Id or login name.
        """
        caller.require(Permission.ADMINISTER)
        faults: list[errors.FieldFault] = []
        if name is not None:
            faults += text_faults(name, "/name", longest=LONGEST_NAME)
        if role is not None:
            faults += role_faults(role, "/role")
        if faults:
            raise errors.InvalidRequest("The account cannot be changed.", faults)
        with self.begin() as transaction:
            old = _known(transaction, who, for_update=True)
            new = old.changed(name=name, role=role, disabled=disabled, now=self.now())
            if new == old:
                return old
            if old.administers() and not new.administers():
                _refuse_last_admin(transaction, leaving=old.id)
            transaction.people.save(new)
            if (new.role, new.disabled) != (old.role, old.disabled):
                _dismiss(transaction, new.id)
            for action, detail in person_changes(old, new):
                self._note(transaction, caller, action, new.id, **detail)
        return new

    def erase_person(self, caller: Caller, who: str) -> Person:
        """Erase a person's login name, name and password, and disable the account.

        The person's decisions remain under their id. The immutable audit trail keeps the name.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            person = _known(transaction, who, for_update=True)
            if person.administers():
                _refuse_last_admin(transaction, leaving=person.id)
            erased = person.erased(self.now())
            transaction.people.save(erased)
            _dismiss(transaction, person.id)
            transaction.documents.forget_search(person.id)
            self._note(transaction, caller, "person.erased", person.id)
        return erased

    # Invitations

    def invite(self, caller: Caller, who: str, days: int) -> tuple[Person, str]:
        """Return a person with the secret of a new invitation, which replaces an earlier one.

        Raises `PersonNotFound`; `InvalidRequest` if the account is disabled, or for too many days.
        """
        caller.require(Permission.ADMINISTER)
        if not 1 <= days <= MOST_DAYS_INVITED:
            fault = errors.FieldFault("/days", f"must be from 1 to {MOST_DAYS_INVITED}")
            raise errors.InvalidRequest("Nobody can be invited for so long.", [fault])
        secret, until = self.new_secret(), self.now() + timedelta(days=days)
        with self.begin() as transaction:
            person = _known(transaction, who, for_update=True)
            if person.disabled:
                raise errors.InvalidRequest("The account is disabled; enable it first.")
            digest = self.session_digest(secret)
            person = replace(person, invitation=digest, invited_until=until)
            transaction.people.save(person)
            self._note(transaction, caller, "person.invited", person.id, until=until.isoformat())
        return person, secret

    def invited(self, secret: str) -> Person:
        """Return whom an invitation is for; raises `InvitationOver`."""
        with self.begin(read_only=True) as transaction:
            return self._invited(transaction, secret)

    def accept(
        self, secret: str, password: str, *, visitor: Caller = ANONYMOUS
    ) -> tuple[SignedIn, str]:
        """Set the password of who was invited; start a session, and return it with its token.

        Raises `InvitationOver` if the invitation was used or replaced, or has expired;
        `InvalidRequest` if the password is weak.
        """
        person = self.invited(secret)
        with self.passwords.place():
            hashed = self._hashed(person, password)
        with self.begin() as transaction:
            person = self._invited(transaction, secret, for_update=True)
            self._join(transaction, person.joined(password=hashed), visitor)
            self.throttle.reset(transaction, person.login)
            return self._begin_session(transaction, person, visitor)

    def accept_externally(
        self, secret: str, identity: ExternalIdentity, *, visitor: Caller = ANONYMOUS
    ) -> None:
        """Let the identity provider sign in who was invited, from now on.

        Raises `InvitationOver` as `accept` does; `Forbidden` if the identity has no role, or an
        account already.
        """
        if identity.role is None:
            raise errors.Forbidden("None of your groups has a role here; ask an administrator.")
        with self.begin() as transaction:
            person = self._invited(transaction, secret, for_update=True)
            if transaction.people.by_external_id(identity.id) is not None:
                raise errors.Forbidden("You have an account already; sign in with it.")
            self._join(transaction, person.joined(external_id=identity.id), visitor)

    def _invited(
        self, transaction: Transaction, secret: str, *, for_update: bool = False
    ) -> Person:
        digest = self.session_digest(secret)
        person = transaction.people.by_invitation(digest, for_update=for_update)
        if person is None or not person.invited(self.now()):
            raise errors.InvitationOver(
                "This invitation was used or replaced, or has expired. Ask for a new one."
            )
        return person

    def _join(self, transaction: Transaction, person: Person, visitor: Caller) -> None:
        transaction.people.save(person)
        transaction.sessions.delete_of(person.id)
        caller = person.calling().calling_from(visitor.address, visitor.request_id)
        self._note(transaction, caller, "person.joined", person.id)

    # Passwords

    def set_password(self, caller: Caller, who: str, password: str) -> Person:
        """Replace a person's password, end their sessions and forget failed sign-ins."""
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            person = _known(transaction, who)
        hashed = self._hashed(person, password)
        with self.begin() as transaction:
            # Hashing is slow, so the account may have changed.
            new = _known(transaction, person.id, for_update=True).joined(password=hashed)
            transaction.people.save(new)
            transaction.sessions.delete_of(new.id)
            self.throttle.reset(transaction, new.login)
            self._note(transaction, caller, "person.password_set", new.id)
        return new

    def change_own_password(self, caller: Caller, session: Session, old: str, new: str) -> None:
        """Replace the caller's password and end their other sessions.

        Raises `WrongPassword` if ``old`` is not the current password; the audit trail keeps this;
        `TooManyRequests` if too many attempts have failed; the password is not checked;
        `InvalidRequest` if ``new`` is too weak.
        """
        with self.passwords.place():
            self._change_own_password(caller, session, old, new)

    def _change_own_password(self, caller: Caller, session: Session, old: str, new: str) -> None:
        with self.begin(read_only=True) as transaction:
            person = _known(transaction, session.person_id)
        counted = self.throttle.change(session.id)
        if not self._verified(counted, person.password, readable_password(old)):
            with self.begin() as transaction:
                self._note(transaction, caller, "person.password_refused", person.id)
            raise errors.WrongPassword("The present password is wrong.")
        self.throttle.unchecked(counted)  # right, even if the new one is refused
        hashed = self._hashed(person, new)
        with self.begin() as transaction:
            changed = replace(_known(transaction, person.id, for_update=True), password=hashed)
            transaction.people.save(changed)
            transaction.sessions.delete_of(person.id, but=session.id)
            self.throttle.succeeded(transaction, counted)
            self.throttle.reset(transaction, changed.login)
            self._note(transaction, caller, "person.password_changed", person.id)

    def _hashed(self, person: Person, password: str) -> str:
        """Return the hash of a new password; raises `InvalidRequest` if weak."""
        password = readable_password(password)
        faults = list(password_faults(password, "/password", login=person.login))
        if faults:
            raise errors.InvalidRequest("The password is not allowed.", faults)
        return self.passwords.hash(password)

    # Sessions

    def sign_in(
        self,
        login: str,
        password: str,
        *,
        visitor: Caller = ANONYMOUS,
        device: Device | None = None,
    ) -> tuple[SignedIn, str]:
        """Start a session with a password; return it with its token.

        An unknown name takes as long as a wrong password and leaves the same traces.

        Raises `WrongPassword` if the name or the password is wrong, or the account is disabled;
        `TooManyRequests` if too many attempts have failed; the password is not checked.

        ``device``: The browser, if it was used to sign in before.
        """
        with self.passwords.place():
            return self._sign_in(login_of(login), password, visitor, device)

    def _sign_in(
        self, login: str, password: str, visitor: Caller, device: Device | None
    ) -> tuple[SignedIn, str]:
        password = readable_password(password)
        counted = self.throttle.sign_in(login, visitor.address, device)
        with self.begin(read_only=True) as transaction:
            person = transaction.people.by_login(login)
        stored = person.password if person is not None and not person.disabled else None
        if not self._verified(counted, stored, password) or person is None or stored is None:
            # An unknown login name is not stored: people type passwords into the wrong field.
            subject = "unknown" if person is None else person.id
            with self.begin() as transaction:
                self._note(transaction, visitor, "session.refused", subject)
            raise errors.WrongPassword("The name or the password is wrong.")
        better = self.passwords.hash(password) if self.passwords.outdated(stored) else stored
        with self.begin() as transaction:
            # Hashing is slow, so the account may have changed.
            person = _known(transaction, person.id, for_update=True)
            kept = person.password == stored
            # A parallel sign-in may have stored another hash of the same password.
            if person.disabled or not (kept or self.passwords.verify(person.password, password)):
                raise errors.WrongPassword("The name or the password is wrong.")
            if kept and better != stored:
                person = replace(person, password=better)
                transaction.people.save(person)
            self.throttle.succeeded(transaction, counted)
            return self._begin_session(transaction, person, visitor)

    def _verified(self, counted: Counted, stored: str | None, password: str) -> bool:
        try:
            return self.passwords.verify(stored, password)
        except errors.TooManyRequests:
            self.throttle.unchecked(counted)
            raise

    def sign_in_externally(
        self, identity: ExternalIdentity, *, visitor: Caller = ANONYMOUS
    ) -> tuple[SignedIn, str]:
        """Start a session for an external identity; return it with its token.

        The provider decides name and role at each sign-in, and the first sign-in creates the
        account. An administrator can still disable it. Raises `Forbidden` if the identity has no
        role or the account is disabled.
        """
        if identity.role is None:
            raise errors.Forbidden("None of your groups has a role here; ask an administrator.")
        service = SYSTEM.calling_from(None, visitor.request_id)
        name = identity.name.replace("\x00", "").strip()[:LONGEST_NAME] or "unnamed"
        with self.begin() as transaction:
            person = transaction.people.by_external_id(identity.id)
            if person is None:
                person = self._newcomer(transaction, identity, name, identity.role)
                self._add_person(transaction, service, person)
            elif person.disabled:
                raise errors.Forbidden("This account is disabled; ask an administrator.")
            elif (person.name, person.role) != (name, identity.role):
                if person.role is not identity.role:
                    _dismiss(transaction, person.id)
                person = replace(person, name=name, role=identity.role)
                transaction.people.save(person)
                detail = {"name": name, "role": identity.role.value}
                self._note(transaction, service, "person.changed", person.id, **detail)
            return self._begin_session(transaction, person, visitor)

    def _newcomer(
        self, transaction: Transaction, identity: ExternalIdentity, name: str, role: Role
    ) -> Person:
        person_id = self.new_id()
        login = login_of(identity.login)
        # The login name may belong to a person who signs in with a password.
        if list(login_faults(login, "")) or transaction.people.by_login(login) is not None:
            login = f"external-{person_id}"
        return Person(person_id, login, name, role, created_at=self.now(), external_id=identity.id)

    def _begin_session(
        self, transaction: Transaction, person: Person, visitor: Caller
    ) -> tuple[SignedIn, str]:
        now, token = self.now(), self.new_secret()
        session = Session(
            id=self.new_id(),
            person_id=person.id,
            digest=self.session_digest(token),
            created_at=now,
            seen_at=now,
            expires_at=now + self.session_rule.longest,
            address=visitor.address,
        )
        transaction.sessions.delete_ended(now, self.session_rule.last_seen_by(now))
        transaction.sessions.add(session)
        caller = person.calling().calling_from(visitor.address, visitor.request_id)
        self._note(transaction, caller, "session.begun", person.id)
        return SignedIn(session, person, caller), token

    def open_session(self, token: str, visitor: Caller = ANONYMOUS) -> SignedIn:
        """Return the session of a token with its person; raises `Unauthenticated`."""
        digest = self.session_digest(token)
        now = self.now()
        with self.begin(read_only=True) as transaction:
            stored = transaction.sessions.by_digest(digest)
        if stored is None or not self.session_rule.live(stored[0], now) or stored[1].disabled:
            raise errors.Unauthenticated("You are signed out; sign in again.")
        session, person = stored
        if now - session.seen_at >= SEEN_EVERY:
            with self.begin() as transaction:
                transaction.sessions.see(session.id, now)
        caller = person.calling().calling_from(visitor.address, visitor.request_id)
        return SignedIn(session, person, caller)

    def sign_out(self, token: str, visitor: Caller = ANONYMOUS) -> None:
        """End a session, if it has not ended yet."""
        with self.begin() as transaction:
            stored = transaction.sessions.by_digest(self.session_digest(token))
            if stored is None:
                return
            session, person = stored
            transaction.sessions.delete(session.id)
            caller = person.calling().calling_from(visitor.address, visitor.request_id)
            self._note(transaction, caller, "session.ended", person.id)


def _known(transaction: Transaction, who: str, *, for_update: bool = False) -> Person:
    """Return the person with this id or login name; raises `PersonNotFound`."""
    person = (
        transaction.people.get(who, for_update=for_update)
        if is_id(who)
        else transaction.people.by_login(login_of(who), for_update=for_update)
    )
    if person is None:
        raise errors.PersonNotFound(f"No person has the id or login name {who!r}.")
    return person


def _dismiss(transaction: Transaction, person_id: str) -> None:
    """End a person's sessions, and let anybody have what is assigned to them."""
    transaction.sessions.delete_of(person_id)
    transaction.reviews.unassign(person_id)


def _refuse_last_admin(transaction: Transaction, *, leaving: str) -> None:
    """Raise `LastAdmin` unless another key or person can administer."""
    keys = transaction.keys.all(for_update=True)
    people = transaction.people.all(for_update=True)
    if any(key.administers() and key.id != leaving for key in keys) or any(
        person.administers() and person.id != leaving for person in people
    ):
        return
    raise errors.LastAdmin(
        "This is the last admin; create another admin key, or make another person an admin, first."
    )
