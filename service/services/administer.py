"""API keys."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from setwise.service.domain.callers import (
    PREFIX_LENGTH,
    ApiKey,
    Caller,
    Permission,
    Role,
    scope_faults,
    secret_for,
)
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
    KeyExpired,
    KeyNotFound,
    Unauthenticated,
)
from setwise.service.domain.text import text_faults
from setwise.service.services.accounts import refuse_last_admin
from setwise.service.services.recording import Recorded
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transactions

LONGEST_KEY_NAME = 100
MOST_PER_MINUTE = 1_000_000

Digest = Callable[[str], bytes]
"""What is stored of a secret; see `setwise.service.domain.callers.KeyDigest`."""


@dataclass(frozen=True)
class CreateKey(Recorded):
    """Make an API key; its secret is shown once and cannot be found again.

    Attributes
    ----------
    digest : callable
        Turns the secret into what is stored.
    random_part : callable
        Gives at least 256 random bits as URL-safe text, such as ``secrets.token_urlsafe``.
    """

    digest: Digest
    random_part: Callable[[], str]

    def __call__(
        self,
        caller: Caller,
        name: str,
        role: Role,
        *,
        scopes: frozenset[Permission] | None = None,
        expires_at: datetime | None = None,
        per_minute: int | None = None,
        request_id: str | None = None,
    ) -> tuple[ApiKey, str]:
        """Return the stored key and its secret.

        Parameters
        ----------
        scopes : frozenset of Permission or None
            All that the key may do of what ``role`` may; None for everything.
        expires_at : datetime or None
            When it stops working by itself.
        per_minute : int or None
            Requests that it may send, 0 for any number; None for as many as is usual.
        """
        caller.require(Permission.ADMINISTER)
        faults: list[FieldFault] = [
            *text_faults(name, "/name", longest=LONGEST_KEY_NAME),
            *scope_faults(role, scopes, "/scopes"),
        ]
        if expires_at is not None and expires_at <= self.now():
            faults.append(FieldFault("/expires_at", "is past; take a time to come"))
        if per_minute is not None and not 0 <= per_minute <= MOST_PER_MINUTE:
            faults.append(FieldFault("/per_minute", f"must lie between 0 and {MOST_PER_MINUTE}"))
        if faults:
            raise InvalidRequest("The key cannot be made like this.", faults)
        secret = secret_for(role, self.random_part())
        key = ApiKey(
            id=self.new_id(),
            name=name,
            role=role,
            prefix=secret[:PREFIX_LENGTH],
            digest=self.digest(secret),
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
                request_id,
                name=name,
                role=role.value,
                scopes=None if scopes is None else sorted(scopes),
                expires_at=None if expires_at is None else expires_at.isoformat(),
            )
            transaction.commit()
        return key, secret


@dataclass(frozen=True)
class ListKeys:
    """List API keys, newest first, without their secrets."""

    begin: Transactions

    def __call__(self, caller: Caller) -> list[ApiKey]:
        """Return them, the revoked ones included."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.keys.all()


@dataclass(frozen=True)
class RevokeKey(Recorded):
    """Take an API key out of use, for good."""

    def __call__(self, caller: Caller, key_id: str, *, request_id: str | None = None) -> ApiKey:
        """Return the key as revoked; a key that was revoked before stays as it is.

        Raises
        ------
        LastAdmin
            If no other key could administer the service afterwards.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            keys = {key.id: key for key in transaction.keys.all(for_update=True)}
            key = keys.get(key_id)
            if key is None:
                raise KeyNotFound(f"No key has the id {key_id!r}.")
            if key.revoked:
                return key
            now = self.now()
            if key.administers():
                refuse_last_admin(transaction, leaving=key.id)
            transaction.keys.revoke(key.id, now)
            self._note(transaction, caller, "key.revoked", key.id, request_id, name=key.name)
            transaction.commit()
        return replace(key, revoked_at=now)


@dataclass(frozen=True)
class Authenticate:
    """Find out who calls."""

    begin: Transactions
    digest: Digest
    now: Clock

    def __call__(self, secret: str) -> Caller:
        """Return the holder of ``secret``; raises `Unauthenticated` when it opens nothing.

        The lookup is by keyed hash, so its timing tells nothing of any stored secret.
        """
        digest = self.digest(secret)
        with self.begin(read_only=True) as transaction:
            key = transaction.keys.by_digest(digest)
        if key is None:
            raise Unauthenticated("No key has this secret; ask an administrator for one.")
        if key.revoked:
            raise Unauthenticated("This key is revoked; ask an administrator for a new one.")
        if key.expired(self.now()):
            raise KeyExpired(
                f"This key expired at {key.expires_at:%Y-%m-%d %H:%M} UTC; ask an administrator "
                "for a new one."
            )
        return key.calling()
