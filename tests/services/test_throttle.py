"""Guesses are slowed wherever they come from, and the right owner gets in all the same."""

from contextlib import suppress
from datetime import timedelta

import pytest

from setwise.service.domain.accounts import (
    ACCOUNT_BACKOFF,
    CHANGE_BACKOFF,
    DEVICE_BACKOFF,
    NETWORK_BACKOFF,
    Device,
)
from setwise.service.domain.accounts.callers import ANONYMOUS
from setwise.service.domain.errors import InvalidRequest, TooManyRequests, WrongPassword
from tests.kit.clinic import Clinic
from tests.samples import ADMIN
from tests.services.test_accounts import (
    FROM_HERE,
    HERE,
    PASSWORD,
    THERE,
    ann,
    enter,
    events,
)

KNOWN = Device("ann", "nonce")
MANY = 250
"""Attempts that are enough to be checked a hundred times and refused fifty times after that."""


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    ann(clinic)
    return clinic


def guess(clinic: Clinic, n: int, *, login: str = "ann", address: str = "198.51.{}.{}") -> int:
    """Guess as soon as it is allowed, each time from elsewhere; return how many were checked."""
    count = 0
    for number in range(n):
        where = address.format(number // 250, number % 250)
        try:
            clinic.sessions.sign_in(login, f"wrong {number}", visitor=ANONYMOUS.calling_from(where))
        except WrongPassword:
            count += 1
        except TooManyRequests as refused:
            if refused.retry_after_s <= 900:
                clinic.now.advance(seconds=refused.retry_after_s)
    return count


def test_guesses_are_slowed_and_then_stopped_without_a_look_at_the_password(clinic: Clinic) -> None:
    assert guess(clinic, ACCOUNT_BACKOFF.free) == ACCOUNT_BACKOFF.free
    count = len(clinic.passwords.checked)
    with pytest.raises(TooManyRequests) as error:
        enter(clinic)  # the right one, too early
    assert 0 < error.value.retry_after_s <= 2
    assert len(clinic.passwords.checked) == count
    clinic.now.advance(seconds=error.value.retry_after_s)
    enter(clinic)
    with pytest.raises(WrongPassword):  # the count starts over
        enter(clinic, "wrong")


@pytest.mark.parametrize(
    ("login", "address"),
    [
        ("ann", "198.51.{}.{}"),
        ("nobody", "198.51.{}.{}"),
        ("ann", "2001:db8:{}:{}::1"),
        ("ann", "not an address {} {}"),
    ],
)
def test_an_account_is_guessed_at_no_more_than_a_hundred_times(
    clinic: Clinic, login: str, address: str
) -> None:
    assert guess(clinic, MANY, login=login, address=address) == ACCOUNT_BACKOFF.most == 100
    clinic.now.advance(hours=24 * 30)
    with pytest.raises(TooManyRequests, match="ask an administrator"):
        clinic.sessions.sign_in(login, PASSWORD, visitor=FROM_HERE)


def test_a_hundred_failures_take_a_day(clinic: Clinic) -> None:
    began = clinic.now()
    guess(clinic, 200)
    assert clinic.now() - began > timedelta(hours=20)


def test_whoever_signed_in_before_gets_in_past_the_guesses_of_strangers(clinic: Clinic) -> None:
    guess(clinic, MANY)
    for number in range(NETWORK_BACKOFF.free + 1):
        with suppress(WrongPassword, TooManyRequests):
            clinic.sessions.sign_in(f"name{number}", "wrong", visitor=FROM_HERE)
    clinic.sessions.sign_in("Ann", PASSWORD, visitor=FROM_HERE, device=KNOWN)
    # Success there gives strangers no further guesses.
    assert guess(clinic, 5) == 0


def test_a_device_that_guesses_is_slowed_and_then_counts_as_a_stranger(clinic: Clinic) -> None:
    guess(clinic, MANY)
    count = 0
    for _ in range(200):
        try:
            clinic.sessions.sign_in("ann", "wrong", visitor=FROM_HERE, device=KNOWN)
        except WrongPassword:
            count += 1
        except TooManyRequests as refused:
            clinic.now.advance(seconds=min(refused.retry_after_s, 900))
    assert count == DEVICE_BACKOFF.most == 10


def test_the_device_of_one_person_opens_no_way_to_another(clinic: Clinic) -> None:
    guess(clinic, MANY)
    with pytest.raises(TooManyRequests):
        clinic.sessions.sign_in("ann", PASSWORD, visitor=FROM_HERE, device=Device("ben", "nonce"))


def test_a_new_password_from_an_administrator_lets_the_owner_in(clinic: Clinic) -> None:
    guess(clinic, MANY)
    clinic.people.change(ADMIN, "ann", password="another long password")
    enter(clinic, "another long password")


def test_a_network_that_tries_many_names_is_slowed_too(clinic: Clinic) -> None:
    assert guess(clinic, 0) == 0
    for number in range(NETWORK_BACKOFF.free):
        with pytest.raises(WrongPassword):
            clinic.sessions.sign_in(f"name{number}", "wrong", visitor=ANONYMOUS.calling_from(THERE))
    with pytest.raises(TooManyRequests):
        enter(clinic, address=THERE)
    enter(clinic, address=HERE)


def test_an_office_that_signs_in_rightly_is_never_slowed(clinic: Clinic) -> None:
    for _ in range(NETWORK_BACKOFF.free + 10):
        enter(clinic)


def test_guesses_of_the_present_password_are_slowed_and_leave_a_line(clinic: Clinic) -> None:
    stolen = clinic.sessions.open(enter(clinic))
    mine = clinic.sessions.open(enter(clinic))

    def change(opened: object, old: str, new: str = "another long password") -> None:
        clinic.sessions.change_password(opened.caller, opened.session, old, new)

    count = 0
    for _ in range(200):
        try:
            change(stolen, "wrong")
        except WrongPassword:
            count += 1
        except TooManyRequests as refused:
            clinic.now.advance(seconds=min(refused.retry_after_s, 900))
    assert count == CHANGE_BACKOFF.most
    refused = [event for event in events(clinic) if event[0] == "person.password_refused"]
    assert len(refused) == count
    for _ in range(CHANGE_BACKOFF.free + 1):  # the right password, a weak new one
        with pytest.raises(InvalidRequest):
            change(mine, PASSWORD, "short")
    change(mine, PASSWORD)


def test_an_attempt_whose_password_was_not_checked_does_not_count(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> bool:
        raise TooManyRequests("busy", retry_after_s=5)

    with monkeypatch.context() as patched:
        patched.setattr(clinic.passwords, "verify", busy)
        for _ in range(ACCOUNT_BACKOFF.free + 1):
            with pytest.raises(TooManyRequests, match="busy"):
                enter(clinic)
    enter(clinic)
