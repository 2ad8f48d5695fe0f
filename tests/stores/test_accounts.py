"""Keys, people, sessions and counts of attempts."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.accounts import Person, Session
from setwise.service.domain.accounts.callers import Permission, Role
from setwise.service.domain.errors import LoginTaken
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakeIds
from tests.samples import key

_ids = FakeIds(0x2000_0000)


def person(login: str = "ann", **fields: object) -> Person:
    plain = Person(_ids(), login, "Ann ✓", Role.REVIEWER, START, password="$argon2id$x")
    return replace(plain, **fields)


def session(of: Person, digest: bytes = bytes(32), **fields: object) -> Session:
    ends = START + timedelta(hours=12)
    plain = Session(_ids(), of.id, digest, START, START, ends, "192.0.2.1")
    return replace(plain, **fields)


def stored(begin: Transactions, *people: Person) -> None:
    with begin() as transaction:
        for one in people:
            transaction.people.add(one)


def test_a_key_comes_back_as_it_was_until_it_is_revoked_for_good(begin: Transactions) -> None:
    first = replace(
        key(Role.LEAD, digest=bytes(range(32))),
        scopes=frozenset({Permission.REVIEW, Permission.READ_QUEUE}),
        expires_at=START,
        per_minute=0,
    )
    second = key(Role.ADMIN, digest=bytes(32), name="נפיחות")
    with begin() as transaction:
        transaction.keys.add(first)
        transaction.keys.add(second)
        assert transaction.keys.get(first.id) == first
        assert transaction.keys.by_digest(bytes(32)) == second
        assert transaction.keys.by_digest(b"\xff" * 32) is None
        assert transaction.keys.all() == transaction.keys.all(for_update=True) == [second, first]
        transaction.keys.revoke(first.id, START)
        transaction.keys.revoke(first.id, START.replace(year=2030))
    with begin(read_only=True) as transaction:
        assert transaction.keys.get(first.id) == replace(first, revoked_at=START)


def test_an_account_is_found_by_id_login_and_provider_and_changed(begin: Transactions) -> None:
    ann = person()
    bob = person("bob", password=None, external_id="https://id.example subject-7")
    stored(begin, bob, ann)
    with begin() as transaction:
        assert transaction.people.get(ann.id) == ann
        assert transaction.people.get(ann.id, for_update=True) == ann
        assert transaction.people.by_login("bob") == bob
        assert transaction.people.by_login("ann", for_update=True) == ann
        assert transaction.people.by_login("a\x00") is None
        assert transaction.people.by_external_id("https://id.example subject-7") == bob
        assert transaction.people.by_external_id("other") is None
        assert transaction.people.all() == transaction.people.all(for_update=True) == [ann, bob]
        changed_person = replace(ann, name="A", role=Role.AUDITOR, password=None, disabled_at=START)
        transaction.people.save(changed_person)
        assert transaction.people.get(ann.id) == changed_person


def test_a_login_name_belongs_to_one_person(begin: Transactions) -> None:
    stored(begin, person())
    with pytest.raises(LoginTaken), begin() as transaction:
        transaction.people.add(person())


def test_a_session_is_found_with_its_person(begin: Transactions) -> None:
    ann = person()
    stored(begin, ann)
    one, other = session(ann), session(ann, b"\x01" * 32, address=None)
    with begin() as transaction:
        transaction.sessions.add(one)
        transaction.sessions.add(other)
        later = START + timedelta(minutes=5)
        transaction.sessions.see(one.id, later)
        transaction.sessions.see(one.id, START)  # from a slower process
        assert transaction.sessions.by_digest(bytes(32)) == (replace(one, seen_at=later), ann)
        assert transaction.sessions.by_digest(b"\x01" * 32) == (other, ann)
        assert transaction.sessions.by_digest(b"\x02" * 32) is None
        transaction.sessions.delete(one.id)
        assert transaction.sessions.by_digest(bytes(32)) is None


def test_sessions_end_together(begin: Transactions) -> None:
    ann, bob = person(), person("bob")
    stored(begin, ann, bob)
    mine = [session(ann, bytes([n]) * 32) for n in range(3)]
    with begin() as transaction:
        for one in (*mine, session(bob, b"\xff" * 32)):
            transaction.sessions.add(one)
        assert transaction.sessions.delete_of(ann.id, but=mine[1].id) == 2
        assert transaction.sessions.by_digest(mine[1].digest) is not None
        assert transaction.sessions.delete_of(ann.id) == 1
        assert transaction.sessions.by_digest(b"\xff" * 32) is not None


def test_ended_sessions_are_forgotten(begin: Transactions) -> None:
    ann = person()
    stored(begin, ann)
    minute = timedelta(minutes=1)
    with begin() as transaction:
        transaction.sessions.add(session(ann, bytes([1]) * 32, expires_at=START))
        transaction.sessions.add(session(ann, bytes([2]) * 32, seen_at=START - 10 * minute))
        transaction.sessions.add(session(ann, bytes([3]) * 32))
        assert transaction.sessions.delete_ended(START, START - 5 * minute) == 2
        assert transaction.sessions.by_digest(bytes([3]) * 32) is not None


def test_attempts_are_counted_and_forgotten(begin: Transactions) -> None:
    day = timedelta(days=1)
    with begin() as transaction:
        first = transaction.attempts.lock(b"one", START)
        assert (first.count, first.last_at) == (0, START)
        transaction.attempts.save(replace(first, count=2, last_at=START + day))
        transaction.attempts.lock(b"two", START)
        transaction.attempts.lock(b"three", START + day)
    with begin() as transaction:
        assert transaction.attempts.lock(b"one", START).count == 2
        transaction.attempts.uncount(b"one")
        transaction.attempts.uncount(b"two")
        assert transaction.attempts.lock(b"one", START).count == 1
        assert transaction.attempts.lock(b"two", START).count == 0
        transaction.attempts.forget(b"one", before=START + day)
        later = START + 2 * day
        assert transaction.attempts.lock(b"one", later).last_at == later
        assert transaction.attempts.lock(b"two", later).last_at == later
        assert transaction.attempts.lock(b"three", later).last_at == START + day
