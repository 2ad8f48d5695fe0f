"""People, API keys, sessions, and counts of failed sign-ins."""

from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.accounts import ApiKey, Attempts, Person, Session
from setwise.service.domain.callers import Permission, Role
from setwise.service.domain.errors import LoginTaken
from setwise.service.domain.text import is_id
from setwise.service.stores.tables import api_keys, people, sessions, sign_in_attempts

_KNOWN_PERMISSIONS = frozenset(Permission)
_PERSON = people.c
_SESSION = sessions.c
_ATTEMPTS = sign_in_attempts.c


class PersonStore:
    """People who sign in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, person: Person) -> None:
        """Store an account; raises `LoginTaken` if the login name is taken."""
        if self.by_login(person.login) is not None:
            raise LoginTaken(f"The login name {person.login!r} is taken.")
        try:
            self._connection.execute(
                insert(people),
                {"id": person.id, "created_at": person.created_at, **_changing(person)},
            )
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

    def all(self, *, for_update: bool = False) -> list[Person]:
        """Return all people by login name; ``for_update`` locks them."""
        query = select(people).order_by(_PERSON.login)
        if for_update:
            query = query.with_for_update()
        return [_to_person(row) for row in self._connection.execute(query).mappings()]

    def save(self, person: Person) -> None:
        """Store a changed account."""
        self._connection.execute(
            update(people).where(_PERSON.id == person.id).values(_changing(person))
        )

    def _one(self, condition: ColumnElement[bool], for_update: bool) -> Person | None:
        query: Select[tuple[object, ...]] = select(people).where(condition)
        if for_update:
            query = query.with_for_update()
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_person(row)


class SessionStore:
    """Browser sessions of people."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, session: Session) -> None:
        self._connection.execute(insert(sessions), vars(session))

    def by_digest(self, digest: bytes) -> tuple[Session, Person] | None:
        row = (
            self._connection.execute(
                select(sessions, people)
                .join(people, _PERSON.id == _SESSION.person_id)
                .where(_SESSION.digest == digest)
            )
            .mappings()
            .one_or_none()
        )
        return None if row is None else (_to_session(row), _to_person(row))

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


class SignInAttemptStore:
    """Counts of failed sign-ins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self, key: bytes, now: datetime) -> Attempts:
        """Return and lock the count of a key; create it if missing."""
        # Only an existing row can be locked.
        dialect = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        self._connection.execute(
            dialect.insert(sign_in_attempts).on_conflict_do_nothing(),
            {"key": key, "count": 0, "last_at": now},
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


class KeyStore:
    """API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, key: ApiKey) -> None:
        self._connection.execute(
            insert(api_keys),
            {
                "id": key.id,
                "name": key.name,
                "role": key.role.value,
                "prefix": key.prefix,
                "digest": key.digest,
                "created_at": key.created_at,
                "revoked_at": key.revoked_at,
                "scopes": None if key.scopes is None else sorted(key.scopes),
                "expires_at": key.expires_at,
                "per_minute": key.per_minute,
            },
        )

    def get(self, key_id: str) -> ApiKey | None:
        return self._one(api_keys.c.id == key_id) if is_id(key_id) else None

    def by_digest(self, digest: bytes) -> ApiKey | None:
        return self._one(api_keys.c.digest == digest)

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        """Return all keys, newest first; ``for_update`` locks them."""
        query = select(api_keys).order_by(api_keys.c.id.desc())
        if for_update:
            query = query.with_for_update()
        return [_to_key(row) for row in self._connection.execute(query).mappings()]

    def revoke(self, key_id: str, now: datetime) -> None:
        self._connection.execute(
            update(api_keys)
            .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )

    def _one(self, condition: ColumnElement[bool]) -> ApiKey | None:
        row = self._connection.execute(select(api_keys).where(condition)).mappings().one_or_none()
        return None if row is None else _to_key(row)


def _changing(person: Person) -> dict[str, object]:
    return {
        "login": person.login,
        "name": person.name,
        "role": person.role.value,
        "password": person.password,
        "external_id": person.external_id,
        "disabled_at": person.disabled_at,
    }


def _to_person(row: RowMapping) -> Person:
    return Person(
        id=row[_PERSON.id],
        login=row[_PERSON.login],
        name=row[_PERSON.name],
        role=Role(row[_PERSON.role]),
        created_at=row[_PERSON.created_at],
        password=row[_PERSON.password],
        external_id=row[_PERSON.external_id],
        disabled_at=row[_PERSON.disabled_at],
    )


def _to_session(row: RowMapping) -> Session:
    return Session(
        id=row[_SESSION.id],
        person_id=row[_SESSION.person_id],
        digest=row[_SESSION.digest],
        created_at=row[_SESSION.created_at],
        seen_at=row[_SESSION.seen_at],
        expires_at=row[_SESSION.expires_at],
        address=row[_SESSION.address],
    )


def _to_key(row: RowMapping) -> ApiKey:
    scopes = row["scopes"]
    return ApiKey(
        **{
            **row,
            "role": Role(row["role"]),
            # A newer release may have stored scopes that this one does not know.
            "scopes": None
            if scopes is None
            else frozenset(_KNOWN_PERMISSIONS.intersection(scopes)),
        }
    )
