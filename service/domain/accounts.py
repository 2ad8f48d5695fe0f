"""People who sign in: their accounts, their sessions, and how guessing passwords is slowed down."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from setwise.service.domain.callers import Caller, Role
from setwise.service.domain.errors import FieldFault

_LOGIN = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")

SHORTEST_PASSWORD = 12
"""Characters; length is what counts (NIST SP 800-63B-4, section 3.1.1.2), so no other rule."""

LONGEST_PASSWORD = 1_000

FEWEST_CHARACTERS = 5
"""Different ones in a password; fewer are a key held down."""


@dataclass(frozen=True)
class Person:
    """Somebody who signs in.

    Attributes
    ----------
    login : str
        What they type, in lower case; unique.
    name : str
        What others see; the audit trail names it.
    password : str or None
        Slow hash of the password; None for people whom an identity provider vouches for.
    external_id : str or None
        Issuer and subject of that identity provider.
    """

    id: str
    login: str
    name: str
    role: Role
    created_at: datetime
    password: str | None = field(default=None, repr=False)
    external_id: str | None = None
    disabled_at: datetime | None = None

    @property
    def disabled(self) -> bool:
        """The person may not sign in any more."""
        return self.disabled_at is not None

    def calling(self, address: str | None = None) -> Caller:
        """Return the person as whoever calls a verb."""
        return Caller(self.id, self.name, self.role, address)


def login_of(typed: str) -> str:
    """Return the login name that somebody means.

    >>> login_of(" Ann.Lee ")
    'ann.lee'
    """
    return unicodedata.normalize("NFKC", typed).strip().casefold()


def login_faults(login: str, pointer: str) -> Iterator[FieldFault]:
    """Yield what is wrong with a new login name."""
    if not _LOGIN.fullmatch(login):
        yield FieldFault(
            pointer,
            "must have 1 to 100 of the characters a-z 0-9 . _ @ + - and begin with a letter or "
            "digit",
        )


def role_faults(role: Role, pointer: str) -> Iterator[FieldFault]:
    """Yield why a person cannot have a role."""
    if role is Role.CLIENT:
        yield FieldFault(pointer, "is for programs, which use keys; a person takes another role")


def readable_password(typed: str) -> str:
    """Return the characters of a password in one form, however a keyboard composes them.

    >>> readable_password("re\u0301sume\u0301") == "résumé"
    True
    """
    return unicodedata.normalize("NFKC", typed)


def password_faults(password: str, pointer: str, *, login: str = "") -> Iterator[FieldFault]:
    """Yield what is wrong with a new password; no fault quotes it."""
    if len(password) < SHORTEST_PASSWORD:
        yield FieldFault(pointer, f"is too short; take at least {SHORTEST_PASSWORD} characters")
    elif len(password) > LONGEST_PASSWORD:
        yield FieldFault(pointer, f"is too long; take at most {LONGEST_PASSWORD} characters")
    elif len(set(password)) < FEWEST_CHARACTERS:
        yield FieldFault(pointer, "repeats too few characters; take a sentence, for example")
    elif login and login in password.casefold() and len(password) < len(login) + SHORTEST_PASSWORD:
        yield FieldFault(pointer, "is little more than the login name; take a sentence, say")


@dataclass(frozen=True)
class Session:
    """A browser in which somebody signed in; the token itself is known only to that browser.

    Attributes
    ----------
    digest : bytes
        Keyed hash (HMAC-SHA-256) of the token.
    seen_at : datetime
        Last use, give or take `SEEN_EVERY`.
    expires_at : datetime
        When it ends however busy it is.
    address : str or None
        Where it was begun.
    """

    id: str
    person_id: str
    digest: bytes = field(repr=False)
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str | None = None


SEEN_EVERY = timedelta(minutes=1)
"""A session's use is noted this often, so that reading a page rarely writes."""


@dataclass(frozen=True)
class SessionRule:
    """How long a session lasts.

    Attributes
    ----------
    idle : timedelta
        It ends when unused for so long.
    longest : timedelta
        It ends so long after it began in any case.
    """

    idle: timedelta = timedelta(hours=2)
    longest: timedelta = timedelta(hours=12)

    def live(self, session: Session, now: datetime) -> bool:
        """Tell whether the session still counts."""
        return now < session.expires_at and now < session.seen_at + self.idle

    def last_seen_by(self, now: datetime) -> datetime:
        """Return the instant before which a session unused since then is over."""
        return now - self.idle


@dataclass(frozen=True)
class Attempts:
    """How often a sign-in went wrong lately, for one login name from one network.

    Attributes
    ----------
    key : bytes
        Keyed hash of what the attempts have in common; neither names nor addresses are kept.
    """

    key: bytes
    count: int
    last_at: datetime


@dataclass(frozen=True)
class Backoff:
    """How long to wait between sign-ins that go wrong.

    The wait belongs to the pair of a login name and the network it is tried from, and to a network
    as a whole. So whoever guesses slows down only themselves; nobody can lock somebody else out.

    Attributes
    ----------
    free : int
        Failures that cost no wait.
    first : timedelta
        The wait after the next one; it doubles with each that follows.
    longest : timedelta
        No wait is longer.
    forgotten : timedelta
        After so long a pause the count starts anew.
    """

    free: int
    first: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=15)
    forgotten: timedelta = timedelta(hours=24)

    def wait(self, attempts: Attempts, now: datetime) -> timedelta:
        """Return how long the next attempt has to wait; nothing or less when it need not.

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

    def counted(self, attempts: Attempts, now: datetime) -> Attempts:
        """Return the count with one attempt more."""
        stale = attempts.last_at + self.forgotten < now
        return replace(attempts, count=1 if stale else attempts.count + 1, last_at=now)


def network_of(address: str | None) -> str:
    """Return the part of an address that one household or office shares.

    An IPv6 subscriber has 2**64 addresses to come from, so the first half of one counts.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6"), network_of(None)
    ('192.0.2.7', '2001:db8:1:2::/64', 'unknown')
    """
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "unknown"
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
