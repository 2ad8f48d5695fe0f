"""API keys."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from setwise.service.domain import errors
from setwise.service.domain.accounts import (
    LONGEST_NAME,
    MOST_PER_MINUTE,
    PREFIX_LENGTH,
    ApiKey,
    scope_faults,
    secret_for,
)
from setwise.service.domain.accounts.callers import Caller, Permission, Role
from setwise.service.domain.text import name_faults
from setwise.service.services.accounts.guarded import Digest, NewSecret
from setwise.service.services.audit_trail import Recorded
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction


@dataclass(frozen=True)
class Keys(Recorded):
    """API keys, and who calls with them."""

    now: WallClock
    digest: Digest
    """Keyed hash that protects the stored secrets."""
    new_secret: NewSecret

    def create(
        self,
        caller: Caller,
        name: str,
        role: Role,
        *,
        scopes: frozenset[Permission] | None = None,
        expires_at: datetime | None = None,
        per_minute: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its secret, which is not stored."""
        caller.require(Permission.ADMINISTER)
        faults: list[errors.FieldFault] = [
            *name_faults(name, "/name", longest=LONGEST_NAME),
            *scope_faults(role, scopes),
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
                name=name,
                role=role.value,
                scopes=None if scopes is None else sorted(scopes),
                expires_at=None if expires_at is None else expires_at.isoformat(),
            )
            transaction.show(key, secret)
        return key, secret

    def all(self, caller: Caller) -> list[ApiKey]:
        """Return all keys, newest first, including revoked ones."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.keys.all()

    def revoke(self, caller: Caller, key_id: str) -> ApiKey:
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
                refuse_last_admin(transaction, leaving=key.id)
            transaction.keys.revoke(key.id, now)
            self._note(transaction, caller, "key.revoked", key.id, name=key.name)
        return replace(key, revoked_at=now)

    def rotate(self, caller: Caller, key_id: str) -> tuple[ApiKey, str]:
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
            key = key.rotated(secret, self.digest(secret), now)
            transaction.keys.rotate(key)
            self._note(transaction, caller, "key.rotated", key.id, name=key.name)
            transaction.show(key, secret)
        return key, secret

    def authenticate(self, secret: str) -> Caller:
        """Return the caller of a key; raises `Unauthenticated`.

        The lookup is by keyed hash, so its timing reveals nothing about stored secrets.
        """
        digest = self.digest(secret)
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


def refuse_last_admin(transaction: Transaction, *, leaving: str) -> None:
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
