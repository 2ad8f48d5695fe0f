"""Counts for the start page."""

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.services.reports import Counts
from tests import building
from tests.fakes import START
from tests.kit.databases import Database
from tests.samples import ANN, LEAD, add_predictions, leased, prediction, task


def test_an_empty_service_counts_nothing() -> None:
    counts = building.reports(Database()).summary(SYSTEM)
    assert counts == Counts(0, 0, 0, 0, 0, dict.fromkeys(Reason, 0))
    assert counts.predictions == 0


def test_predictions_are_counted_by_reason_and_tasks_by_state() -> None:
    database = Database()
    sent_prediction = prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD)
    unknown = prediction(reason=Reason.OUT_OF_DOMAIN)
    completed_task = leased().completed(ANN.id, 2)
    escalated_task = task()
    for reviewer in ("x", "y"):
        held_task = escalated_task.claimed(reviewer, START, START - START)
        escalated_task = held_task.skipped(reviewer, "why", START)
    tasks = [task(), task(unknown), leased(), completed_task, escalated_task]
    with database() as transaction:
        add_predictions(transaction, sent_prediction)
        for one in tasks:
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
    counts = building.reports(database).summary(LEAD)
    assert (counts.auto_sent, counts.predictions) == (1, 6)
    assert (counts.waiting, counts.leased, counts.completed, counts.skipped) == (2, 1, 1, 1)
    assert counts.reasons == {
        Reason.ABOVE_THRESHOLD: 1,
        Reason.BELOW_THRESHOLD: 4,
        Reason.AUDIT: 0,
        Reason.RULE: 0,
        Reason.BREAKER: 0,
        Reason.NO_THRESHOLD: 0,
        Reason.OUT_OF_DOMAIN: 1,
        Reason.NO_MODEL: 0,
    }
