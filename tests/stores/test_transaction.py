"""What a transaction hands out, and for how long."""

import pytest
from sqlalchemy import Engine

from setwise.service.stores.transaction import Transactions
from tests.samples import add_predictions, prediction


def test_a_transaction_has_one_repository_of_each_kind(module_engine: Engine) -> None:
    with Transactions(module_engine)() as transaction:
        assert transaction.predictions is transaction.predictions
        assert transaction.predictions is not transaction.reviews


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
