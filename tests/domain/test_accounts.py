"""Accounts, sessions and how guessing is slowed down."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from setwise.service.domain.accounts import (
    SHORTEST_PASSWORD,
    Attempts,
    Backoff,
    Person,
    Session,
    SessionRule,
    login_faults,
    login_of,
    network_of,
    password_faults,
)
from setwise.service.domain.accounts.callers import Role

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LOGIN = "somebody"


@pytest.mark.parametrize("typed", ["Ann", " ann ", "\uff21\uff2e\uff2e", "aNN\t"])
def test_one_person_has_one_login_name_however_it_is_typed(typed: str) -> None:
    assert login_of(typed) == "ann"


@pytest.mark.parametrize("login", ["", "-ann", "ann lee", "ann\n", "anné", "a" * 101, "a\x00"])
def test_a_login_name_is_plain(login: str) -> None:
    assert list(login_faults(login, "/login"))


@pytest.mark.parametrize("login", ["a", "ann.lee+desk@ward-3.example", "7"])
def test_an_address_is_a_login_name(login: str) -> None:
    assert not list(login_faults(login, "/login"))


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("short pass", "too short"),
        ("", "too short"),
        ("a" * 20, "too few characters"),
        ("x" * 1_001, "too long"),
        ("annabelle-lee-12", "login name"),
    ],
)
def test_a_weak_password_is_refused_without_being_quoted(password: str, why: str) -> None:
    (fault,) = password_faults(password, "annabelle-lee")
    assert why in fault.detail
    assert not password or password not in fault.detail


@given(st.text(min_size=SHORTEST_PASSWORD, max_size=200).filter(lambda text: len(set(text)) >= 5))
def test_any_long_password_will_do(password: str) -> None:
    assume(LOGIN not in password.casefold())
    assert not list(password_faults(password, LOGIN))


def test_neither_a_password_nor_a_session_shows_its_secret() -> None:
    person = Person("1", "ann", "Ann", Role.REVIEWER, NOW, password="$argon2id$hush")
    assert "hush" not in repr(person)
    assert "digest" not in repr(Session("1", "2", b"hush", NOW, NOW, NOW))


def session(*, seen: timedelta, ends: timedelta) -> Session:
    return Session("1", "2", bytes(32), NOW, NOW + seen, NOW + ends)


def test_a_session_ends_when_unused_and_when_its_time_is_over() -> None:
    rule = SessionRule(idle=timedelta(hours=1), longest=timedelta(hours=8))
    lasting = session(seen=timedelta(0), ends=timedelta(hours=8))
    assert rule.live(lasting, NOW + timedelta(minutes=59))
    assert not rule.live(lasting, NOW + timedelta(minutes=60))
    busy = session(seen=timedelta(hours=7, minutes=59), ends=timedelta(hours=8))
    assert rule.live(busy, NOW + timedelta(hours=7, minutes=59))
    assert not rule.live(busy, NOW + timedelta(hours=8))


def test_what_is_deleted_as_unused_is_what_does_not_count_any_more() -> None:
    rule = SessionRule()
    for minutes in (0, 119, 120, 121):
        one = session(seen=timedelta(0), ends=timedelta(days=9))
        now = NOW + timedelta(minutes=minutes)
        assert rule.live(one, now) == (one.seen_at > rule.last_seen_by(now))


@given(st.integers(0, 10_000), st.floats(0, 1e6))
def test_a_wait_is_never_longer_than_the_longest(count: int, seconds: float) -> None:
    rule = Backoff(free=5)
    now = NOW + timedelta(seconds=seconds)
    assert rule.wait(Attempts(b"k", count, NOW), now) <= rule.longest


def test_waits_grow_and_a_day_of_peace_forgives_all() -> None:
    rule = Backoff(free=2)
    attempts, waits = Attempts(b"k", 0, NOW), []
    for _ in range(6):
        attempts = rule.counted(attempts, NOW)
        waits.append(rule.wait(attempts, NOW).total_seconds())
    assert waits == [0, 2, 4, 8, 16, 32]
    assert rule.counted(attempts, NOW + timedelta(hours=25)).count == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8:0:ffff::2"),
        ("for=_hidden", "10.0.0.1, 10.0.0.2"),
        ("", None),
        ("::ffff:192.0.2.7", "192.0.2.7"),
    ],
)
def test_addresses_of_one_subscriber_are_one_network(one: str, other: str) -> None:
    assert network_of(one) == network_of(other)


def test_other_addresses_are_other_networks() -> None:
    others = ("192.0.2.7", "192.0.2.8", "2001:db8::", "2001:db8:1::", None)
    assert len({network_of(address) for address in others}) == 5
