"""Argon2id: what is stored opens for one password only, and unknown names cost as much."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from setwise.service.domain.errors import TooManyRequests
from setwise.service.sign_in import passwords
from setwise.service.sign_in.passwords import Argon2Passwords

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def quick() -> Argon2Passwords:
    return Argon2Passwords(time_cost=1, memory_kib=64)


def test_the_parameters_are_those_of_the_standard() -> None:
    stored = Argon2Passwords().hash(PASSWORD)
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_one_password_opens_and_no_other(quick: Argon2Passwords) -> None:
    stored = quick.hash(PASSWORD)
    assert PASSWORD not in stored
    assert quick.hash(PASSWORD) != stored
    assert quick.verify(stored, PASSWORD)
    for other in ("", PASSWORD + " ", PASSWORD.upper(), "\x00", "\udcff", "x" * 10_000):
        assert not quick.verify(stored, other)


def test_nothing_opens_where_nothing_or_rubbish_is_stored(quick: Argon2Passwords) -> None:
    assert not quick.verify(None, "not a password")
    assert not quick.verify("rubbish", PASSWORD)


def test_a_hash_of_other_parameters_is_outdated_but_opens(quick: Argon2Passwords) -> None:
    old = Argon2Passwords(time_cost=2, memory_kib=64).hash(PASSWORD)
    assert quick.verify(old, PASSWORD)
    assert quick.outdated(old)
    assert not quick.outdated(quick.hash(PASSWORD))


def test_an_unknown_name_takes_as_long_as_a_wrong_password() -> None:
    slow = Argon2Passwords(time_cost=2, memory_kib=8_192)
    stored = slow.hash(PASSWORD)
    slow.verify(None, PASSWORD)  # makes what unknown names are checked against

    def cost(what: str | None) -> float:
        started = time.process_time()
        slow.verify(what, "a wrong password")
        return time.process_time() - started

    # By turns, so that what else the machine does at a time slows both; the least is without it.
    costs = [(cost(stored), cost(None)) for _ in range(20)]
    known, unknown = map(min, zip(*costs, strict=True))
    assert unknown == pytest.approx(known, rel=0.6)


def test_a_crowd_waits_its_turn_and_then_is_sent_away(
    quick: Argon2Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "PATIENCE_S", 0.05)
    stored = quick.hash(PASSWORD)
    with ThreadPoolExecutor(1) as pool:
        with quick._turn(), quick._turn():
            crowded = pool.submit(quick.verify, stored, PASSWORD)
            with pytest.raises(TooManyRequests, match="signing in"):
                crowded.result()
        assert quick.verify(stored, PASSWORD)


def test_a_full_queue_refuses_at_once(quick: Argon2Passwords) -> None:
    with ExitStack() as stack:
        for _ in range(passwords.MOST_AT_ONCE + passwords.MOST_WAITING):
            stack.enter_context(quick.place())
        with pytest.raises(TooManyRequests, match="signing in") as error, quick.place():
            pass
        assert error.value.retry_after_s > 0
    with quick.place():
        pass
