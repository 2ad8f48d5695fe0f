"""The policy in force, and those before it."""

from setwise.service.domain.policy import FIRST_POLICY_VERSION, Policy, first_policy
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import change


def policy(number: int, **fields: object) -> Policy:
    version = f"019b7a0b-0000-7000-8000-{number:012x}"
    return change(**fields).as_policy(version, START, "system")


def current(begin: Transactions) -> Policy:
    with begin(read_only=True) as transaction:
        return transaction.policies.current()


def replace_policy(begin: Transactions, new: Policy, replacing: str) -> None:
    with begin() as transaction:
        transaction.policies.add(new, replacing=replacing)


def test_a_new_database_holds_the_first_policy(begin: Transactions) -> None:
    policy = current(begin)
    assert policy == first_policy(policy.created_at)


def test_the_policy_added_last_is_in_force_whatever_its_id(begin: Transactions) -> None:
    # Its id may be smaller than the one before: another machine's clock may be behind.
    newer, newest = policy(9), policy(3, threshold=0.1 + 0.2)
    replace_policy(begin, newer, FIRST_POLICY_VERSION)
    replace_policy(begin, newest, newer.version)
    assert current(begin) == newest


def test_a_rule_on_parents_keeps_those_that_it_was_made_of(begin: Transactions) -> None:
    tree = policy(4, rules=[{"kind": "parents", "parents": {"J18.9": "J18"}}])
    replace_policy(begin, tree, FIRST_POLICY_VERSION)
    with begin(read_only=True) as transaction:
        (rule,) = transaction.policies.get(tree.version).rules
    assert rule.holds_back(frozenset({"J18.9"}), {})


def test_a_policy_that_was_rolled_back_is_not_in_force(begin: Transactions) -> None:
    before = current(begin)
    with begin() as transaction:
        transaction.policies.add(policy(5), replacing=before.version)
        assert transaction.policies.current() == policy(5)
        transaction.roll_back()
    assert current(begin) == before
