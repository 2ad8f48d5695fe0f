"""People, API keys, sessions, and the backoff after failed sign-ins."""

import hashlib
import hmac
import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission, Role
from setwise.service.domain.errors import FieldFault

_LOGIN = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")

LONGEST_NAME = 100
"""Characters in the name of a person or a key."""

SHORTEST_PASSWORD = 12
"""Characters; only length counts (NIST SP 800-63B-4, section 3.1.1.2)."""

LONGEST_PASSWORD = 1_000

MOST_DAYS_INVITED = 30
FEWEST_CHARACTERS = 5
"""Fewest different characters in a password."""


@dataclass(frozen=True)
class Person:
    """A person who signs in."""

    id: str
    login: str
    """Unique name to sign in with, in lower case."""
    name: str
    """Name that others see, also in the audit trail."""
    role: Role
    created_at: datetime
    password: str | None = field(default=None, repr=False)
    """Slow hash of the password; None if an identity provider signs the person in."""
    external_id: str | None = None
    """Issuer and subject of that identity provider."""
    disabled_at: datetime | None = None
    """When the person was disabled."""
    invitation: bytes | None = field(default=None, repr=False)
    """Keyed hash of the secret with which the person signs in once, without a password."""
    invited_until: datetime | None = None
    """When an invitation that was not accepted ends."""

    def invited(self, now: datetime) -> bool:
        """Return whether an invitation can still be accepted."""
        return self.invited_until is not None and now < self.invited_until and not self.disabled

    def joined(self, *, password: str | None = None, external_id: str | None = None) -> "Person":
        """Return the person without an invitation, and with another way to sign in."""
        return replace(
            self,
            invitation=None,
            invited_until=None,
            password=password or self.password,
            external_id=external_id or self.external_id,
        )

    @property
    def disabled(self) -> bool:
        """Whether the person is disabled and cannot sign in."""
        return self.disabled_at is not None

    def calling(self) -> Caller:
        """Return the person as a caller."""
        return Caller(self.id, self.name, self.role)

    def administers(self) -> bool:
        """Return whether the person can administer the service."""
        return self.role is Role.ADMIN and not self.disabled

    def changed(
        self, *, name: str | None, role: Role | None, disabled: bool | None, now: datetime
    ) -> "Person":
        """Return the person with new values; None keeps the old one.

        Disabling ends an invitation, for good.
        """
        disabled_at = self.disabled_at
        if disabled is not None and disabled != self.disabled:
            disabled_at = now if disabled else None
        return replace(
            self,
            invitation=self.invitation if disabled_at is None else None,
            invited_until=self.invited_until if disabled_at is None else None,
            name=self.name if name is None else name,
            role=self.role if role is None else role,
            disabled_at=disabled_at,
        )

    def erased(self, now: datetime) -> "Person":
        """Return the person disabled, without login, name and password."""
        return replace(
            self,
            login=f"erased-{self.id}",
            name="erased person",
            password=None,
            external_id=None,
            invitation=None,
            invited_until=None,
            disabled_at=self.disabled_at or now,
        )


def person_changes(old: Person, new: Person) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the action and detail of each audit event of a change."""
    if (old.name, old.role) != (new.name, new.role):
        yield "person.changed", {"name": new.name, "role": new.role.value, "was": old.role.value}
    if old.disabled != new.disabled:
        action = "person.disabled" if new.disabled else "person.enabled"
        yield action, {"login": new.login}


@dataclass(frozen=True)
class ExternalIdentity:
    """A person as an identity provider describes them."""

    id: str
    """Issuer and subject, which never change."""
    login: str
    name: str
    role: Role | None
    """Role that the person's groups give them; None for no access."""


def login_of(typed: str) -> str:
    """Return the normal form of a login name.

    >>> login_of(" Ann.Lee ")
    'ann.lee'
    """
    return unicodedata.normalize("NFKC", typed).strip().casefold()


def login_faults(login: str, pointer: str) -> Iterator[FieldFault]:
    """Yield the faults of a new login name."""
    if not _LOGIN.fullmatch(login):
        yield FieldFault(
            pointer,
            "must have 1 to 100 of the characters a-z 0-9 . _ @ + - and begin with a letter or "
            "digit",
        )


def role_faults(role: Role) -> Iterator[FieldFault]:
    """Yield the faults of a person's role."""
    if role is Role.CLIENT:
        yield FieldFault(
            "/role", "is for programs, which use keys; choose another role for a person"
        )


def readable_password(typed: str) -> str:
    """Return a password in Unicode normal form.

    Keyboards compose the same character in different ways.

    >>> readable_password("re\u0301sume\u0301") == "résumé"
    True
    """
    return unicodedata.normalize("NFKC", typed)


def password_faults(password: str, login: str) -> Iterator[FieldFault]:
    """Yield the faults of a new password, without quoting it."""
    if len(password) < SHORTEST_PASSWORD:
        yield FieldFault("/password", f"is too short; use at least {SHORTEST_PASSWORD} characters")
    elif len(password) > LONGEST_PASSWORD:
        yield FieldFault("/password", f"is too long; use at most {LONGEST_PASSWORD} characters")
    elif len(set(password)) < FEWEST_CHARACTERS:
        yield FieldFault("/password", "repeats too few characters; use a sentence, for example")
    elif login in password.casefold() and len(password) < len(login) + SHORTEST_PASSWORD:
        yield FieldFault(
            "/password", "is little more than the login name; use a sentence, for example"
        )


@dataclass(frozen=True)
class Session:
    """A signed-in browser session; only that browser knows the token."""

    id: str
    person_id: str
    digest: bytes = field(repr=False)
    """Keyed hash (HMAC-SHA-256) of the token."""
    created_at: datetime
    seen_at: datetime
    """Last use, accurate to `SEEN_EVERY`."""
    expires_at: datetime
    """When it ends, even if it is in use."""
    address: str | None = None
    """Network address at the sign-in."""


SEEN_EVERY = timedelta(minutes=1)
"""Uses closer together are not stored: page views rarely need a write."""


@dataclass(frozen=True)
class SignedIn:
    """A session with its person, and the person as a caller."""

    session: Session
    person: Person
    caller: Caller


@dataclass(frozen=True)
class Device:
    """A browser in which a person signed in before, by its signed cookie."""

    login: str
    """Login name of that person."""
    id: str
    """Random, new at each sign-in."""


@dataclass(frozen=True)
class SessionRule:
    """How long a session lasts."""

    idle: timedelta = timedelta(hours=2)
    """A session ends after this long without use."""
    longest: timedelta = timedelta(hours=12)
    """A session ends this long after its start, even if it is in use."""

    def live(self, session: Session, now: datetime) -> bool:
        """Return whether a session is still valid."""
        return now < session.expires_at and now < session.seen_at + self.idle

    def last_seen_by(self, now: datetime) -> datetime:
        """Return the latest last use of a session that has timed out."""
        return now - self.idle


@dataclass(frozen=True)
class Attempts:
    """Recent failed attempts of one account, device, session or network."""

    key: bytes
    """Keyed hash of what is counted, which is not stored."""
    count: int
    last_at: datetime


@dataclass(frozen=True)
class Backoff:
    """How long to wait after failed attempts, and after how many none are left."""

    free: int
    """Failures without a wait."""
    first: timedelta = timedelta(seconds=2)
    """The wait after the next failure; it doubles with each further one."""
    longest: timedelta = timedelta(minutes=15)
    """The longest wait."""
    forgotten: timedelta = timedelta(hours=24)
    """After a pause this long, the count restarts."""
    most: int | None = None
    """Failures after which waiting does not help; None for any number."""

    def wait(self, attempts: Attempts, now: datetime) -> timedelta:
        """Return the wait before the next attempt; zero or negative for none.

        >>> from datetime import UTC
        >>> now = datetime(2026, 1, 1, tzinfo=UTC)
        >>> [Backoff(free=3).wait(Attempts(b"", n, now), now).seconds for n in (2, 3, 5, 99)]
        [0, 2, 8, 900]
        """
        if attempts.count < self.free:
            return timedelta(0)
        doublings = min(attempts.count - self.free, 20)  # beyond any wait, short of an overflow
        pause: timedelta = min(self.first * 2**doublings, self.longest)
        return attempts.last_at + pause - now

    def exhausted(self, attempts: Attempts, now: datetime) -> bool:
        """Return whether no attempt is left."""
        stale = attempts.last_at + self.forgotten < now
        return self.most is not None and attempts.count >= self.most and not stale

    def counted(self, attempts: Attempts, now: datetime) -> Attempts:
        """Return the count after one more attempt."""
        stale = attempts.last_at + self.forgotten < now
        return replace(attempts, count=1 if stale else attempts.count + 1, last_at=now)


REMEMBERED = timedelta(days=365)
"""How long the failures of accounts, devices and sessions are kept; success clears them."""

ACCOUNT_BACKOFF = Backoff(free=5, forgotten=REMEMBERED, most=100)
"""For one login name from anywhere (NIST SP 800-63B, section 5.2.2: at most 100 failures)."""

DEVICE_BACKOFF = Backoff(free=5, forgotten=REMEMBERED, most=10)
"""For one login name in a browser in which it signed in before."""

CHANGE_BACKOFF = Backoff(free=5, forgotten=REMEMBERED, most=20)
"""For the present password, asked in one session before it is changed."""

NETWORK_BACKOFF = Backoff(free=50)
"""For all login names from one network; an office may share it."""


def network_of(address: str | None) -> str:
    """Return the part of an address that one subscriber holds.

    This is a whole IPv4 address, or an IPv6 /48, the most that one site gets. Whatever is no
    address, such as a malformed ``X-Forwarded-For``, is one network.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6"), network_of("x")
    ('192.0.2.7', '2001:db8:1::/48', 'unknown')
    """
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), 48), strict=False))


ROTATION = timedelta(days=1)
"""How long a replaced secret goes on working."""

USE_RESOLUTION = timedelta(hours=1)
"""Uses of a key are stored at most this often, so that most requests only read."""


@dataclass(frozen=True)
class ApiKey:
    """An API key, without its secret, which only the holder knows."""

    id: str
    name: str
    role: Role
    prefix: str
    """First characters of the secret, to recognise a key in a list."""
    digest: bytes = field(repr=False)
    """Keyed hash (HMAC-SHA-256) of the secret."""
    created_at: datetime
    revoked_at: datetime | None = None
    scopes: frozenset[Permission] | None = None
    """The only permissions of its role that the key has; None for all of them."""
    expires_at: datetime | None = None
    """When it stops working; None if never."""
    per_minute: int | None = None
    """Requests a minute that it may send, 0 for any number; None for the usual limit."""
    last_used_at: datetime | None = None
    """To within an hour; None before its first use."""
    old_digest: bytes | None = field(default=None, repr=False)
    """Keyed hash of the secret that a rotation replaced."""
    old_expires_at: datetime | None = None
    """When the secret that the last rotation replaced stops working."""

    def rotated(self, secret: str, digest: bytes, now: datetime) -> "ApiKey":
        """Return the key with a new secret; the present one works for `ROTATION` longer."""
        return replace(
            self,
            prefix=secret[:PREFIX_LENGTH],
            digest=digest,
            old_digest=self.digest,
            old_expires_at=now + ROTATION,
        )

    def unused_since(self, now: datetime) -> bool:
        """Return whether a use now is worth storing."""
        return self.last_used_at is None or now - self.last_used_at >= USE_RESOLUTION

    @property
    def revoked(self) -> bool:
        """Whether the key has been revoked."""
        return self.revoked_at is not None

    def expired(self, now: datetime) -> bool:
        """Return whether the key has expired."""
        return self.expires_at is not None and self.expires_at <= now

    def administers(self) -> bool:
        """Return whether the key administers the service and never expires."""
        return (
            not self.revoked
            and self.expires_at is None
            and self.calling().may(Permission.ADMINISTER)
        )

    def calling(self) -> Caller:
        """Return the key's holder as a caller."""
        return Caller(self.id, self.name, self.role, scopes=self.scopes, per_minute=self.per_minute)


def scope_faults(role: Role, scopes: frozenset[Permission] | None) -> Iterator[FieldFault]:
    """Yield the faults of the scopes of a key with ``role``."""
    if scopes is None:
        return
    for scope in sorted(scopes - PERMISSIONS[role]):
        known = ", ".join(sorted(PERMISSIONS[role]))
        yield FieldFault("/scopes", f"{scope} goes beyond the role {role}, which has {known}")
    if not scopes:
        yield FieldFault("/scopes", "is empty; the key could do nothing")


MOST_PER_MINUTE = 1_000_000
"""Largest number of requests a minute of a key."""

PREFIX_LENGTH = 14
"""Characters of a secret stored in clear text.

They hold the role and a few random characters.
"""


def secret_for(role: Role, random_part: str) -> str:
    """Return a key's secret; ``random_part`` has at least 256 random bits.

    >>> secret_for(Role.CLIENT, "dQw4w9WgXcQ")
    'sw_client_dQw4w9WgXcQ'
    """
    return f"sw_{role}_{random_part}"


@dataclass(frozen=True)
class KeyDigest:
    """Keyed hash of secrets, so a stolen table is useless.

    Secrets are random, so a fast hash is enough; passwords need a slow one.
    """

    pepper: bytes
    """Known to the server only and kept outside the database."""

    def __call__(self, secret: str) -> bytes:
        """Return the HMAC-SHA-256 of ``secret``, 32 bytes."""
        return hmac.digest(self.pepper, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def __repr__(self) -> str:
        return "KeyDigest()"
