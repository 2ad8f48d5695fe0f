"""The part of the database in memory that knows people and their sessions; and quick passwords."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from setwise.service.domain.accounts import Attempts, Person, Session
from setwise.service.domain.errors import LoginTaken


class _Contents(Protocol):
    people: dict[str, Person]
    sessions: dict[str, Session]
    attempts: dict[bytes, Attempts]


@dataclass
class _Repository:
    contents: _Contents


class FakePeople(_Repository):
    """Those who sign in."""

    def add(self, person: Person) -> None:
        if self.by_login(person.login) is not None:
            raise LoginTaken("Somebody has this login name already.")
        self.contents.people[person.id] = person

    def get(self, person_id: str, *, for_update: bool = False) -> Person | None:
        return self.contents.people.get(person_id)

    def by_login(self, login: str, *, for_update: bool = False) -> Person | None:
        return next((p for p in self.contents.people.values() if p.login == login), None)

    def by_external_id(self, external_id: str) -> Person | None:
        people = self.contents.people.values()
        return next((p for p in people if p.external_id == external_id), None)

    def all(self, *, for_update: bool = False) -> list[Person]:
        return sorted(self.contents.people.values(), key=lambda person: person.login)

    def save(self, person: Person) -> None:
        self.contents.people[person.id] = person


class FakeSessions(_Repository):
    """Browsers in which somebody signed in."""

    def add(self, session: Session) -> None:
        self.contents.sessions[session.id] = session

    def by_digest(self, digest: bytes) -> tuple[Session, Person] | None:
        for session in self.contents.sessions.values():
            if session.digest == digest:
                return session, self.contents.people[session.person_id]
        return None

    def see(self, session_id: str, now: datetime) -> None:
        session = self.contents.sessions.get(session_id)
        if session is not None and session.seen_at < now:
            self.contents.sessions[session_id] = replace(session, seen_at=now)

    def delete(self, session_id: str) -> None:
        self.contents.sessions.pop(session_id, None)

    def delete_of(self, person_id: str, *, but: str | None = None) -> int:
        return self._drop(lambda one: one.person_id == person_id and one.id != but)

    def delete_ended(self, now: datetime, last_seen_before: datetime) -> int:
        return self._drop(lambda one: one.expires_at <= now or one.seen_at <= last_seen_before)

    def _drop(self, condition) -> int:
        ended = [one.id for one in self.contents.sessions.values() if condition(one)]
        for name in ended:
            del self.contents.sessions[name]
        return len(ended)


class FakeSignInAttempts(_Repository):
    """Counts of sign-ins that went wrong."""

    def lock(self, key: bytes, now: datetime) -> Attempts:
        return self.contents.attempts.setdefault(key, Attempts(key, 0, now))

    def save(self, attempts: Attempts) -> None:
        self.contents.attempts[attempts.key] = attempts

    def uncount(self, key: bytes) -> None:
        counted = self.contents.attempts.get(key)
        if counted is not None and counted.count > 0:
            self.contents.attempts[key] = replace(counted, count=counted.count - 1)

    def forget(self, key: bytes, *, before: datetime) -> None:
        for name, counted in list(self.contents.attempts.items()):
            if name == key or counted.last_at < before:
                del self.contents.attempts[name]


@dataclass
class FakePasswords:
    """Hashes that cost nothing, and a log of how many were checked."""

    version: int = 1
    checked: list[str | None] = field(default_factory=list)

    def hash(self, password: str) -> str:
        return f"{self.version}:{password[::-1]}"

    def verify(self, stored: str | None, password: str) -> bool:
        self.checked.append(stored)
        return stored is not None and stored.partition(":")[2] == password[::-1]

    def outdated(self, stored: str) -> bool:
        return not stored.startswith(f"{self.version}:")
