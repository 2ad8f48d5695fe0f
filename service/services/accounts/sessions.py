"""Sessions of people: signing in and out, accepting invitations, changing one's password."""

from dataclasses import dataclass, replace

from setwise.service.domain import errors
from setwise.service.domain.accounts import (
    LONGEST_NAME,
    SEEN_EVERY,
    Device,
    ExternalIdentity,
    Person,
    Session,
    SessionRule,
    SignedIn,
    login_faults,
    login_of,
    readable_password,
)
from setwise.service.domain.accounts.callers import ANONYMOUS, SYSTEM, Caller, Role
from setwise.service.services.accounts.guarded import Guarded, dismiss, known_person
from setwise.service.services.accounts.throttle import CountedAttempt
from setwise.service.stores.transaction import Transaction
from setwise.spelling import misnamed


@dataclass(frozen=True)
class Sessions(Guarded):
    """Sessions of people."""

    rule: SessionRule
    """How long sessions last."""

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
            person = known_person(transaction, person.id, for_update=True)
            unchanged = person.password == stored
            # A parallel sign-in may have stored another hash of the same password.
            if person.disabled or not (
                unchanged or self.passwords.verify(person.password, password)
            ):
                raise errors.WrongPassword("The name or the password is wrong.")
            if unchanged and better != stored:
                person = replace(person, password=better)
                transaction.people.save(person)
            self.throttle.succeeded(transaction, counted)
            return self._begin_session(transaction, person, visitor)

    def _verified(self, counted: CountedAttempt, stored: str | None, password: str) -> bool:
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
        role, which also ends its sessions, or the account is disabled.
        """
        if identity.role is None:
            with self.begin() as transaction:
                person = transaction.people.by_external_id(identity.id)
                if person is not None:
                    dismiss(transaction, person.id)
            raise errors.Forbidden("None of your groups has a role here; ask an administrator.")
        service = SYSTEM.calling_from(None, visitor.request_id)
        name = _shown_name(identity.name)
        with self.begin() as transaction:
            person = transaction.people.by_external_id(identity.id)
            if person is None:
                person = self._newcomer(transaction, identity, name, identity.role)
                self._add(transaction, service, person)
            elif person.disabled:
                raise errors.Forbidden("This account is disabled; ask an administrator.")
            elif (person.name, person.role) != (name, identity.role):
                if person.role is not identity.role:
                    dismiss(transaction, person.id)
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
            expires_at=now + self.rule.longest,
            address=visitor.address,
        )
        transaction.sessions.delete_ended(now, self.rule.last_seen_by(now))
        transaction.sessions.add(session)
        caller = person.calling().calling_from(visitor.address, visitor.request_id)
        self._note(transaction, caller, "session.begun", person.id)
        return SignedIn(session, person, caller), token

    def open(self, token: str, visitor: Caller = ANONYMOUS) -> SignedIn:
        """Return the session of a token with its person; raises `Unauthenticated`."""
        digest = self.session_digest(token)
        now = self.now()
        with self.begin(read_only=True) as transaction:
            stored = transaction.sessions.by_digest(digest)
        if stored is None or not self.rule.live(stored[0], now) or stored[1].disabled:
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

    # Invitations

    def invited(self, secret: str) -> Person:
        """Return whom an invitation is for; raises `InvitationOver`."""
        with self.begin(read_only=True) as transaction:
            return self._invited(transaction, secret)

    def accept(
        self, secret: str, password: str, *, visitor: Caller = ANONYMOUS
    ) -> tuple[SignedIn, str]:
        """Set an invited person's password; start a session, and return its token.

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

    # The password of one's own

    def change_password(self, caller: Caller, session: Session, old: str, new: str) -> None:
        """Replace the caller's password and end their other sessions.

        Raises `WrongPassword` if ``old`` is not the current password; the audit trail keeps this;
        `TooManyRequests` if too many attempts have failed; the password is not checked;
        `InvalidRequest` if ``new`` is too weak.
        """
        with self.passwords.place():
            self._change_password(caller, session, old, new)

    def _change_password(self, caller: Caller, session: Session, old: str, new: str) -> None:
        with self.begin(read_only=True) as transaction:
            person = known_person(transaction, session.person_id)
        counted = self.throttle.change(session.id)
        if not self._verified(counted, person.password, readable_password(old)):
            with self.begin() as transaction:
                self._note(transaction, caller, "person.password_refused", person.id)
            raise errors.WrongPassword("The present password is wrong.")
        self.throttle.unchecked(counted)  # right, even if the new one is refused
        hashed = self._hashed(person, new)
        with self.begin() as transaction:
            changed = replace(
                known_person(transaction, person.id, for_update=True), password=hashed
            )
            transaction.people.save(changed)
            transaction.sessions.delete_of(person.id, but=session.id)
            self.throttle.succeeded(transaction, counted)
            self.throttle.reset(transaction, changed.login)
            self._note(transaction, caller, "person.password_changed", person.id)


def _shown_name(name: str) -> str:
    """Return a name from a provider without what no name may hold; "unnamed" if nothing is left."""
    printable = "".join(filter(str.isprintable, name)).strip()[:LONGEST_NAME]
    return "unnamed" if not printable or misnamed(printable) else printable
