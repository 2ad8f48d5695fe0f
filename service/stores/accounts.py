"""People, API keys, sessions, and counts of failed sign-ins."""

from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.accounts import ApiKey, Attempts, Person, Session
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import LoginTaken
from setwise.service.domain.text import is_id
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.tables import api_keys, people, sessions, sign_in_attempts

_KNOWN_PERMISSIONS = frozenset(Permission)
_PERSON = people.c
_SESSION = sessions.c
_ATTEMPTS = sign_in_attempts.c


class PersonStore(Store):
    """People who sign in."""

    def add(self, person: Person) -> None:
        """Store an account; raises `LoginTaken` if the login name is taken."""
        if self.by_login(person.login) is not None:
            raise LoginTaken(f"The login name {person.login!r} is taken.")
        try:
            self._connection.execute(insert(people), row_of(person, people))
        except IntegrityError as error:
            if "login" in str(error.orig):  # taken by a concurrent transaction
                raise LoginTaken("This login name is taken.") from error
            raise

    def get(self, person_id: str, *, for_update: bool = False) -> Person | None:
        return self._one(_PERSON.id == person_id, for_update) if is_id(person_id) else None

    def by_login(self, login: str, *, for_update: bool = False) -> Person | None:
        if "\x00" in login:  # PostgreSQL rejects it
            return None
        return self._one(_PERSON.login == login, for_update)

    def by_external_id(self, external_id: str) -> Person | None:
        return self._one(_PERSON.external_id == external_id, for_update=False)

    def by_invitation(self, digest: bytes, *, for_update: bool = False) -> Person | None:
        return self._one(_PERSON.invitation == digest, for_update)

    def all(self, *, for_update: bool = False) -> list[Person]:
        """Return all people by login name; ``for_update`` locks them."""
        query = select(people).order_by(_PERSON.login)
        if for_update:
            query = query.with_for_update()
        return self._every(query, _to_person)

    def save(self, person: Person) -> None:
        """Store a changed account."""
        self._connection.execute(
            update(people).where(_PERSON.id == person.id).values(row_of(person, people))
        )

    def _one(self, condition: ColumnElement[bool], for_update: bool) -> Person | None:
        query = select(people).where(condition)
        return self._first(query.with_for_update() if for_update else query, _to_person)


class SessionStore(Store):
    """Browser sessions of people."""

    def add(self, session: Session) -> None:
        self._connection.execute(insert(sessions), vars(session))

    def by_digest(self, digest: bytes) -> tuple[Session, Person] | None:
        query = select(sessions, people).join(people, _PERSON.id == _SESSION.person_id)
        return self._first(
            query.where(_SESSION.digest == digest),
            lambda row: (of_row(Session, sessions, row), _to_person(row)),
        )

    def see(self, session_id: str, now: datetime) -> None:
        """Store the time of the session's latest use."""
        self._connection.execute(
            update(sessions)
            .where(_SESSION.id == session_id, _SESSION.seen_at < now)
            .values(seen_at=now)
        )

    def delete(self, session_id: str) -> None:
        self._connection.execute(delete(sessions).where(_SESSION.id == session_id))

    def delete_of(self, person_id: str, *, but: str | None = None) -> int:
        """Delete a person's sessions, except ``but``; return their number."""
        query = delete(sessions).where(_SESSION.person_id == person_id)
        if but is not None:
            query = query.where(_SESSION.id != but)
        return self._connection.execute(query).rowcount

    def delete_ended(self, now: datetime, last_seen_before: datetime) -> int:
        """Delete expired and idle sessions; return their number."""
        ended = or_(_SESSION.expires_at <= now, _SESSION.seen_at <= last_seen_before)
        return self._connection.execute(delete(sessions).where(ended)).rowcount


class SignInAttemptStore(Store):
    """Counts of failed sign-ins."""

    def lock(self, key: bytes, now: datetime) -> Attempts:
        """Return and lock the count of a key; create it if missing."""
        # Only an existing row can be locked.
        self._connection.execute(
            self._missing(sign_in_attempts), {"key": key, "count": 0, "last_at": now}
        )
        row = self._connection.execute(
            select(sign_in_attempts).where(_ATTEMPTS.key == key).with_for_update()
        ).mappings()
        return Attempts(**row.one())

    def save(self, attempts: Attempts) -> None:
        self._connection.execute(
            update(sign_in_attempts)
            .where(_ATTEMPTS.key == attempts.key)
            .values(count=attempts.count, last_at=attempts.last_at)
        )

    def uncount(self, key: bytes) -> None:
        """Subtract a successful attempt."""
        self._connection.execute(
            update(sign_in_attempts)
            .where(_ATTEMPTS.key == key, _ATTEMPTS.count > 0)
            .values(count=_ATTEMPTS.count - 1)
        )

    def forget(self, key: bytes, *, before: datetime) -> None:
        """Delete a count, and all counts unchanged since ``before``."""
        self._connection.execute(
            delete(sign_in_attempts).where(or_(_ATTEMPTS.key == key, _ATTEMPTS.last_at < before))
        )


class KeyStore(Store):
    """API keys."""

    def add(self, key: ApiKey) -> None:
        self._connection.execute(
            insert(api_keys),
            {**vars(key), "scopes": None if key.scopes is None else sorted(key.scopes)},
        )

    def get(self, key_id: str) -> ApiKey | None:
        return self._one(api_keys.c.id == key_id) if is_id(key_id) else None

    def by_digest(self, digest: bytes) -> ApiKey | None:
        """Return the key with this secret, or with this secret before its rotation."""
        return self._one(or_(api_keys.c.digest == digest, api_keys.c.old_digest == digest))

    def rotate(self, key: ApiKey) -> None:
        """Store the secrets of a key."""
        column = api_keys.c
        secrets = (column.prefix, column.digest, column.old_digest, column.old_expires_at)
        values = {column.name: getattr(key, column.name) for column in secrets}
        self._connection.execute(update(api_keys).where(column.id == key.id).values(values))

    def use(self, key_id: str, now: datetime) -> None:
        """Store the time of the key's latest use."""
        self._connection.execute(
            update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=now)
        )

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        """Return all keys, newest first; ``for_update`` locks them."""
        query = select(api_keys).order_by(api_keys.c.id.desc())
        if for_update:
            query = query.with_for_update()
        return self._every(query, _to_key)

    def revoke(self, key_id: str, now: datetime) -> None:
        self._connection.execute(
            update(api_keys)
            .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )

    def _one(self, condition: ColumnElement[bool]) -> ApiKey | None:
        return self._first(select(api_keys).where(condition), _to_key)


def _to_person(row: RowMapping) -> Person:
    return of_row(Person, people, row)


def _to_key(row: RowMapping) -> ApiKey:
    scopes = row["scopes"]
    # A newer release may have stored scopes that this one does not know.
    permissions = None if scopes is None else frozenset(_KNOWN_PERMISSIONS.intersection(scopes))
    return ApiKey(**{**row, "scopes": permissions})
