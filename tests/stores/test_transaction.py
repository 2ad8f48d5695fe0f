"""What a transaction hands out, and for how long."""

import pytest
from sqlalchemy import Engine

from setwise.service.stores.transaction import Transaction, Transactions
from tests.samples import add_predictions, message, prediction

MISSING = "019b7a0b-0000-7000-8000-ffffffffffff"


def test_a_transaction_has_one_repository_of_each_kind(module_engine: Engine) -> None:
    with Transactions(module_engine)() as transaction:
        assert transaction.predictions is transaction.predictions
        assert transaction.predictions is not transaction.reviews


def test_what_is_rolled_back_is_not_there(module_engine: Engine) -> None:
    begin, undone = Transactions(module_engine), prediction()
    with begin() as transaction:
        add_predictions(transaction, undone)
        transaction.outbox.add(message())
        transaction.roll_back()
    with begin(read_only=True) as transaction:
        assert transaction.predictions.get(undone.id) is None
        assert transaction.outbox.unrouted(1) == []


GETTERS = [
    name
    for name, store in vars(Transaction).items()
    if hasattr(getattr(store, "_make", None), "get")
    and name not in {"policies", "idempotency"}  # asked for what they have stored only
]


@pytest.mark.parametrize("missing", ["nonsense", "", MISSING, "x" * 500, "\x00"], ids=repr)
def test_nothing_is_found_by_an_id_that_nothing_has(module_engine: Engine, missing: str) -> None:
    with Transactions(module_engine)() as transaction:
        found = {name: getattr(transaction, name).get(missing) for name in GETTERS}
        assert transaction.reviews.get(missing, for_update=True) is None
        assert transaction.reviews.annotation_of(missing) is None
    assert len(found) >= 9
    assert set(found.values()) == {None}


def test_there_are_no_repositories_before_a_transaction_begins(module_engine: Engine) -> None:
    transaction = Transactions(module_engine)()
    with pytest.raises(RuntimeError, match="not open"):
        transaction.predictions.get(prediction().id)


def test_a_transaction_that_is_entered_again_writes_again(module_engine: Engine) -> None:
    transaction = Transactions(module_engine)()
    for _ in range(2):
        with transaction:
            kept = prediction()
            add_predictions(transaction, kept)
            assert transaction.predictions.get(kept.id) == kept
