"""Registered models, and which of them serves."""

from dataclasses import replace

from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import model


def test_models_are_listed_newest_first_and_none_is_active_at_first(begin: Transactions) -> None:
    first, second = model("sha256:aa"), model("sha256:bb")
    with begin() as transaction:
        transaction.models.add(first)
        transaction.models.add(second)
    with begin(read_only=True) as transaction:
        assert transaction.models.all() == [second, first]
        assert transaction.models.active() is None
        assert transaction.models.get(first.id) == first


def test_the_model_activated_last_is_the_active_one(begin: Transactions) -> None:
    first, second = model("sha256:aa"), model("sha256:bb")
    with begin() as transaction:
        transaction.models.add(first)
        transaction.models.add(second)
        # The ids of activations fall, as they may when two machines' clocks differ.
        for number, chosen_model in ((3, first), (2, second), (1, first)):
            activation = f"019b7a0b-0000-7000-8000-{number:012x}"
            transaction.models.activate(chosen_model.id, START, activation)
            assert transaction.models.active() == replace(chosen_model, active=True)
    with begin(read_only=True) as transaction:
        assert transaction.models.all() == [second, replace(first, active=True)]
        assert transaction.models.get(second.id) == second
