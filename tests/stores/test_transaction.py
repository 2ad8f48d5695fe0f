"""What a transaction hands out, and what it undoes."""

import pytest
from sqlalchemy import Engine

from setwise.service.stores.transaction import Transactions
from tests.samples import add_predictions, message, prediction

MISSING = "019b7a0b-0000-7000-8000-ffffffffffff"


def test_what_is_rolled_back_is_not_there(module_engine: Engine) -> None:
    begin, undone = Transactions(module_engine), prediction()
    with begin() as transaction:
        add_predictions(transaction, undone)
        transaction.outbox.add(message())
        transaction.roll_back()
    with begin(read_only=True) as transaction:
        assert transaction.predictions.get(undone.id) is None
        assert transaction.outbox.unrouted(1) == []


@pytest.mark.parametrize("missing", ["nonsense", "", MISSING, "x" * 500, "\x00"], ids=repr)
def test_nothing_is_found_by_an_id_that_nothing_has(module_engine: Engine, missing: str) -> None:
    with Transactions(module_engine)() as transaction:
        getters = {
            name: store.get
            for name, store in vars(transaction).items()
            if hasattr(store, "get") and name not in {"policies", "idempotency"}  # stored ids only
        }
        found = {name: get(missing) for name, get in getters.items()}
        assert transaction.reviews.get(missing, for_update=True) is None
        assert transaction.reviews.annotation_of(missing) is None
    assert len(found) >= 9
    assert set(found.values()) == {None}
