"""Decisions, undoing and settling at once, on real databases: each document is settled once."""

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import Engine

from setwise.service.domain.errors import LeaseLost, ReviewAlreadyDecided
from setwise.service.domain.reviews import ReviewState
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transactions
from tests.kit.clinic import Clinic
from tests.stores.test_concurrency import THREADS, at_once, begin, count, fill, reviewers

__all__ = ["begin"]  # a fixture

ROUNDS = 5


def on(begin: Transactions, window: timedelta) -> Clinic:
    """Return the services, with a time in which a decision may be undone."""
    return Clinic(begin, utc_now, new_id, reviewing={"undo_window": window})


def test_a_decision_sent_twenty_times_at_once_is_one(begin: Transactions, engine: Engine) -> None:
    fill(begin, 1)
    clinic = on(begin, timedelta(0))
    (who,) = reviewers(1)
    task = clinic.claim(who)
    assert task is not None
    send = partial(clinic.reviews.decide, who, task.id, ["a"], None, task.version)
    assert {decided.undo_s for decided in at_once([send] * THREADS)} == {0}
    assert count(engine, "annotations") == 1
    assert count(engine, "outbox_messages") == 1


def test_a_decision_is_either_settled_or_taken_back(begin: Transactions, engine: Engine) -> None:
    clinic = on(begin, timedelta(hours=1))
    (who,) = reviewers(1)
    outcomes: Counter[str] = Counter()
    for turn in range(ROUNDS):
        fill(begin, 1)
        task = clinic.claim(who)
        assert task is not None
        decided_task = clinic.reviews.decide(who, task.id, ["a"], None, task.version).task

        def undo(task_id: str = decided_task.id) -> str:
            try:
                clinic.reviews.undo(who, task_id)
            except (ReviewAlreadyDecided, LeaseLost):
                return "late"
            return "undone"

        def settle() -> str:
            return "settled" if clinic.reviews.submit_decisions_of(who.id) else "nothing"

        # The order in which threads start decides who is first; both orders shall happen.
        calls = [undo, *[settle] * 3] if turn % 2 else [*[settle] * 3, undo]
        counts = Counter(at_once(calls))
        assert (counts["undone"], counts["settled"]) in {(1, 0), (0, 1)}, counts
        with begin(read_only=True) as transaction:
            after = transaction.reviews.get(decided_task.id)
            annotation = transaction.reviews.annotation_of(decided_task.id)
        assert after is not None
        assert (after.state is ReviewState.COMPLETED) == bool(counts["settled"])
        assert (annotation is not None) == bool(counts["settled"])
        outcomes += counts
        if counts["undone"]:
            clinic.reviews.decide(who, after.id, ["b"], None, after.version)
            assert clinic.reviews.submit_decisions_of(who.id) == 1
    assert count(engine, "annotations") == ROUNDS
    assert outcomes["undone"] + outcomes["settled"] == ROUNDS


@pytest.mark.parametrize("workers", [4])
def test_workers_that_meet_settle_each_decision_once(
    begin: Transactions, engine: Engine, workers: int
) -> None:
    people = reviewers(8)
    fill(begin, len(people))
    clinic = on(begin, timedelta(0))
    for who in people:
        task = clinic.claim(who)
        assert task is not None
        # As if the process had died between storing the decision and settling it.
        with begin() as transaction:
            locked_task = transaction.reviews.get(task.id, for_update=True)
            assert locked_task is not None
            held_task = clinic.reviews._decided(locked_task, who, ["a"], None, task.version)
            transaction.reviews.save(held_task)
    assert sum(at_once([clinic.reviews.submit_decisions] * workers)) == len(people)
    assert count(engine, "annotations") == len(people)
