"""Calibrators, and the reviews that they are learnt from."""

from dataclasses import replace

import pytest

from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import Calibration, Serving
from setwise.service.domain.truth import check
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakeIds, scored_set
from tests.samples import add_predictions, annotation, calibration, model, outcome, prediction, task

OTHER = "sha256:other"


IDS = FakeIds(0x7500_0000_0000)


@pytest.fixture
def stored_model(begin: Transactions) -> ModelVersion:
    registered_model = model("sha256:model")
    with begin() as transaction:
        transaction.models.add(registered_model)
    return registered_model


def add(begin: Transactions, *made: Calibration) -> None:
    with begin() as transaction:
        for one in made:
            transaction.calibrations.add(one)


def activate(begin: Transactions, of: ModelVersion, wanted: Calibration | None) -> None:
    with begin() as transaction:
        wanted_id = None if wanted is None else wanted.id
        transaction.calibrations.activate(of.id, wanted_id, START, IDS())


def served(begin: Transactions, of: ModelVersion) -> tuple[Calibration | None, Serving | None]:
    with begin(read_only=True) as transaction:
        return transaction.calibrations.active(of.id), transaction.calibrations.previous(of.id)


def test_a_calibrator_is_read_back_whole(begin: Transactions, stored_model: ModelVersion) -> None:
    new_calibration = calibration(stored_model)
    add(begin, new_calibration)
    with begin(read_only=True) as transaction:
        assert transaction.calibrations.get(new_calibration.id) == new_calibration
        assert transaction.calibrations.get(stored_model.id) is None


def test_calibrators_are_listed_newest_first(
    begin: Transactions, stored_model: ModelVersion
) -> None:
    calibrations = [calibration(stored_model, f"sha256:{number}") for number in range(3)]
    add(begin, *calibrations)
    with begin(read_only=True) as transaction:
        first = transaction.calibrations.page(after=None, limit=2)
        rest = transaction.calibrations.page(after=first.next_after, limit=2)
    assert [*first.items, *rest.items] == calibrations[::-1]
    assert rest.next_after is None


def test_the_same_content_compared_with_the_same_is_found(
    begin: Transactions, stored_model: ModelVersion
) -> None:
    new_calibration = calibration(stored_model)
    add(begin, new_calibration)
    with begin(read_only=True) as transaction:
        same = transaction.calibrations.same
        assert (
            same(stored_model.id, new_calibration.version, new_calibration.replaces)
            == new_calibration
        )
        assert same(stored_model.id, new_calibration.version, "another") is None
        assert same(stored_model.id, "another", new_calibration.replaces) is None


def test_a_model_begins_with_its_own_calibrator_and_returns_to_it(
    begin: Transactions, stored_model: ModelVersion
) -> None:
    first, second = calibration(stored_model, "sha256:1"), calibration(stored_model, "sha256:2")
    add(begin, first, second)
    assert served(begin, stored_model) == (None, None)
    activate(begin, stored_model, first)
    assert served(begin, stored_model) == (replace(first, active=True), Serving(None))
    activate(begin, stored_model, second)
    assert served(begin, stored_model) == (replace(second, active=True), Serving(first))
    activate(begin, stored_model, None)
    assert served(begin, stored_model) == (None, Serving(second))
    activate(begin, stored_model, None)
    assert served(begin, stored_model) == (None, Serving(second))


def test_models_have_calibrators_of_their_own(
    begin: Transactions, stored_model: ModelVersion
) -> None:
    another = model(OTHER)
    with begin() as transaction:
        transaction.models.add(another)
    mine, theirs = calibration(stored_model), calibration(another)
    add(begin, mine, theirs)
    activate(begin, stored_model, mine)
    activate(begin, another, theirs)
    assert served(begin, stored_model)[0] == replace(mine, active=True)
    assert served(begin, another)[0] == replace(theirs, active=True)


def store(begin: Transactions, *made: Prediction) -> None:
    with begin() as transaction:
        add_predictions(transaction, *made)


def test_what_somebody_spoke_of_is_found_with_all_that_was_said(begin: Transactions) -> None:
    silent, reviewed_prediction, reported_prediction, both = (prediction() for _ in range(4))
    foreign = prediction()._replace(scored=scored_set()._replace(model_version=OTHER))
    store(begin, silent, reviewed_prediction, reported_prediction, both, foreign)
    tasks = {one.id: task(one) for one in (reviewed_prediction, both, foreign)}
    said = {id_: annotation(of, "a") for id_, of in tasks.items()}
    first, last = outcome(both, "a"), outcome(both, "a", "b", number=2)
    alone = outcome(reported_prediction, "b")
    with begin() as transaction:
        transaction.reviews.add_all([*tasks.values()])
        for one in said.values():
            transaction.reviews.annotate(one)
        for one in (first, last, alone):
            transaction.outcomes.add(one)
    with begin(read_only=True) as transaction:
        checks = transaction.evidence.of_model("sha256:model", limit=9)
        newest = transaction.evidence.of_model("sha256:model", limit=1)
    assert [each.id for each in checks] == [both.id, reported_prediction.id, reviewed_prediction.id]
    assert newest == checks[:1]
    assert checks[0].check == check(both.id, [said[both.id]], [first, last])
    assert checks[1].check == check(reported_prediction.id, [], [alone])
    assert checks[0].check.answered_at == min(said[both.id].created_at, last.created_at)
