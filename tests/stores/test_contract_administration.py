"""Policies, models and keys: the fake and both databases behave alike."""

from dataclasses import replace

import pytest

from setwise.service.domain.callers import Permission, Role
from setwise.service.domain.errors import DuplicateModel, StaleVersion
from setwise.service.domain.policy import FIRST_POLICY_VERSION, RoutingPolicy, first_policy
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import change, key, model


def policy(number: int, **fields: object) -> RoutingPolicy:
    version = f"019b7a0b-0000-7000-8000-{number:012x}"
    return change(**fields).as_policy(version, START, "system")


def current(begin: Transactions) -> RoutingPolicy:
    with begin(read_only=True) as transaction:
        return transaction.policies.current()


def replace_policy(begin: Transactions, new: RoutingPolicy, replacing: str) -> None:
    with begin() as transaction:
        transaction.policies.add(new, replacing=replacing)


def test_a_new_database_holds_the_first_policy(begin: Transactions) -> None:
    found = current(begin)
    assert found == first_policy(found.created_at)


def test_the_policy_added_last_is_in_force_whatever_its_id(begin: Transactions) -> None:
    # Its id may be smaller than the one before: another machine's clock may be behind.
    newer, newest = policy(9), policy(3, threshold=0.1 + 0.2)
    replace_policy(begin, newer, FIRST_POLICY_VERSION)
    replace_policy(begin, newest, newer.version)
    assert current(begin) == newest


def test_a_policy_that_was_rolled_back_is_not_in_force(begin: Transactions) -> None:
    before = current(begin)
    with begin() as transaction:
        transaction.policies.add(policy(5), replacing=before.version)
        assert transaction.policies.current() == policy(5)
        transaction.roll_back()
    assert current(begin) == before


def test_only_the_policy_in_force_can_be_replaced(begin: Transactions) -> None:
    first = policy(1)
    replace_policy(begin, first, FIRST_POLICY_VERSION)
    for stale in (FIRST_POLICY_VERSION, policy(7).version):
        with pytest.raises(StaleVersion):
            replace_policy(begin, policy(2), stale)
    assert current(begin) == first


def test_models_are_listed_newest_first_and_none_is_active_at_first(begin: Transactions) -> None:
    first, second = model("sha256:aa"), model("sha256:bb")
    with begin() as transaction:
        transaction.models.add(first)
        transaction.models.add(second)
    with begin(read_only=True) as transaction:
        assert transaction.models.all() == [second, first]
        assert transaction.models.active() is None
        assert transaction.models.get(first.id) == first
        assert transaction.models.get("nonsense") is None


def test_the_model_activated_last_is_the_active_one(begin: Transactions) -> None:
    first, second = model("sha256:aa"), model("sha256:bb")
    with begin() as transaction:
        transaction.models.add(first)
        transaction.models.add(second)
        # The ids of activations fall, as they may when two machines' clocks differ.
        for number, chosen in ((3, first), (2, second), (1, first)):
            activation = policy(number).version
            transaction.models.activate(chosen.id, START, activation)
            assert transaction.models.active() == replace(chosen, active=True)
    with begin(read_only=True) as transaction:
        assert transaction.models.all() == [second, replace(first, active=True)]
        assert transaction.models.get(second.id) == second


def test_the_same_content_is_registered_once(begin: Transactions) -> None:
    first = model("sha256:aa")
    with begin() as transaction:
        transaction.models.add(first)
    with pytest.raises(DuplicateModel), begin() as transaction:
        transaction.models.add(model("sha256:aa"))
    with begin(read_only=True) as transaction:
        assert transaction.models.all() == [first]


def test_keys_are_found_by_id_and_by_digest(begin: Transactions) -> None:
    first = key(Role.CLIENT, digest=bytes(range(32)))
    second = key(Role.ADMIN, digest=bytes(32), name="נפיחות")
    with begin() as transaction:
        transaction.keys.add(first)
        transaction.keys.add(second)
    with begin() as transaction:
        assert transaction.keys.get(first.id) == first
        assert transaction.keys.by_digest(bytes(32)) == second
        assert transaction.keys.by_digest(b"\xff" * 32) is None
        assert transaction.keys.get("nonsense") is None
        assert transaction.keys.all() == [second, first]
        assert transaction.keys.all(for_update=True) == [second, first]


def test_the_limits_of_a_key_are_kept(begin: Transactions) -> None:
    limited = replace(
        key(Role.LEAD),
        scopes=frozenset({Permission.REVIEW, Permission.READ_QUEUE}),
        expires_at=START,
        per_minute=0,
    )
    with begin() as transaction:
        transaction.keys.add(limited)
        assert transaction.keys.get(limited.id) == limited


def test_a_key_is_revoked_for_good(begin: Transactions) -> None:
    first = key()
    with begin() as transaction:
        transaction.keys.add(first)
        transaction.keys.revoke(first.id, START)
        transaction.keys.revoke(first.id, START.replace(year=2030))
    with begin(read_only=True) as transaction:
        assert transaction.keys.get(first.id) == replace(first, revoked_at=START)
