"""What a model made is looked for since it first served, and all of it is found."""

from datetime import timedelta
from itertools import count

import pytest
from sqlalchemy import Engine

from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.text import first_id_at
from setwise.service.stores.recalibration import CLOCKS_DIFFER_BY
from setwise.service.stores.transaction import Transaction, Transactions
from tests.fakes import START, scored_set
from tests.samples import add_predictions, annotation, calibration, model, prediction, task

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MODEL, OTHER = model("sha256:model"), model("sha256:other")
LEARNT = calibration(MODEL)
OWN = Scorer(MODEL.version, scored_set().calibrator_version)
_places = count()


@pytest.fixture
def begin(engine: Engine) -> Transactions:
    begin = Transactions(engine)
    with begin() as transaction:
        for one in (MODEL, OTHER):
            transaction.models.add(one)
        transaction.calibrations.add(LEARNT)
    return begin


def id_at(since_start: timedelta) -> str:
    """Return an id made some time after the start, unlike all others."""
    return f"{first_id_at(START + since_start)[:-12]}{next(_places):012x}"


def made(since_start: timedelta, scorer: Scorer = OWN) -> Prediction:
    score = scored_set()._replace(**scorer._asdict())
    return prediction()._replace(id=id_at(since_start), scored=score)


def store(begin: Transactions, *found: Prediction) -> None:
    """Store predictions, each read by Ann."""
    tasks = [task(one) for one in found]
    with begin() as transaction:
        add_predictions(transaction, *found)
        transaction.reviews.add_all(tasks)
        for one in tasks:
            transaction.reviews.annotate(annotation(one, "a"))


def activate(begin: Transactions, *at: timedelta) -> None:
    with begin() as transaction:
        for one in at:
            transaction.models.activate(MODEL.id, START + one, id_at(one))
            transaction.models.activate(OTHER.id, START + one, id_at(one))


def recent(transaction: Transaction) -> list[str]:
    return [one.id for one in transaction.calibrations.recent(MODEL.version, limit=9)]


def reviewed(transaction: Transaction) -> list[str]:
    checks = transaction.evidence.of_model(MODEL.version, limit=9)
    return [one.id for one in checks]


def test_of_a_model_that_never_served_all_is_read(begin: Transactions) -> None:
    old, new = made(-1000 * HOUR), made(HOUR)
    store(begin, old, new)
    with begin(read_only=True) as transaction:
        assert recent(transaction) == reviewed(transaction) == [new.id, old.id]
        assert len(transaction.certifications.unaudited(OWN, limit=9)) == 2


def test_a_model_made_nothing_before_it_first_served(begin: Transactions) -> None:
    """Nothing could have; that such a row is not found proves that it is not looked for."""
    activate(begin, HOUR, 5 * HOUR)
    impossible = made(HOUR - CLOCKS_DIFFER_BY - SECOND)
    by_a_late_clock = made(HOUR - CLOCKS_DIFFER_BY + SECOND)
    between, last = made(2 * HOUR), made(6 * HOUR)
    foreign = made(3 * HOUR, OWN._replace(model_version=OTHER.version))
    store(begin, impossible, by_a_late_clock, between, foreign, last)
    matches = [last.id, between.id, by_a_late_clock.id]
    with begin(read_only=True) as transaction:
        assert recent(transaction) == matches
        assert len(transaction.certifications.unaudited(OWN, limit=9)) == 3


def test_a_calibrator_made_nothing_before_it_first_served(begin: Transactions) -> None:
    activate(begin, HOUR)
    with begin() as transaction:
        for at, wanted in ((3, LEARNT.id), (4, None), (5, LEARNT.id)):
            transaction.calibrations.activate(MODEL.id, wanted, START, id_at(at * HOUR))
    scorer = Scorer(MODEL.version, LEARNT.version)
    store(begin, *(made(at * HOUR, scorer) for at in (2, 3.5, 6)), made(4.5 * HOUR))
    with begin(read_only=True) as transaction:
        assert len(transaction.certifications.unaudited(scorer, limit=9)) == 2
        assert len(transaction.certifications.unaudited(OWN, limit=9)) == 1
