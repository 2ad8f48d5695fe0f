"""Outcomes: stored once, told where something was wrong."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from setwise.service.domain.errors import InvalidRequest, PredictionNotFound
from setwise.service.domain.outcomes import ECHO_WITHIN, ECHOES, Sampling
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.webhooks import Message, MessageType
from setwise.service.services.outcomes import Outcomes
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests.fakes import FakeClock, FakePredictors
from tests.kit.databases import ON_BOTH
from tests.samples import ADMIN, CLIENT, LEAD, OTHER_CLIENT, add_predictions, prediction


@pytest.fixture
def outcomes(begin: Transactions) -> Outcomes:
    return Outcomes(begin, FakeClock(), new_id, FakePredictors())


def stored(begin: Transactions, *, sent: bool) -> Prediction:
    new_prediction = (
        prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD) if sent else prediction()
    )
    with begin() as transaction:
        add_predictions(transaction, new_prediction)
    return new_prediction


def messages(begin: Transactions) -> list[Message]:
    with begin(read_only=True) as transaction:
        return list(transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=50).items)


def test_a_sent_set_found_wrong_is_corrected_once(begin: Transactions, outcomes: Outcomes) -> None:
    prediction = stored(begin, sent=True)
    outcome, new, unknown = outcomes.report(
        CLIENT.calling_from(None, "r-1"), prediction.id, ["c", "a"], "billing"
    )
    assert new
    assert unknown == []
    assert (outcome.labels, outcome.agreed, outcome.number) == (("a", "c"), False, 1)
    assert outcomes.report(CLIENT, prediction.id, ["a", "c"], "billing") == (outcome, False, [])
    (message,) = messages(begin)
    assert message.type is MessageType.DOCUMENT_CORRECTED
    assert message.data["labels"] == ["a", "c"]
    assert message.data["previous_labels"] == ["a", "b"]
    assert message.data["outcome_id"] == outcome.id
    with begin(read_only=True) as transaction:
        event, _ = transaction.audit_trail.page(after=None, limit=9).items  # newest first
    assert (event.action, event.subject, event.request_id) == (
        "outcome.reported",
        prediction.id,
        "r-1",
    )
    assert event.detail["corrects"] is True


def test_a_sent_set_found_right_is_left_alone(begin: Transactions, outcomes: Outcomes) -> None:
    prediction = stored(begin, sent=True)
    outcome = outcomes.report(CLIENT, prediction.id, ["b", "a"], "billing").outcome
    assert outcome.agreed
    assert messages(begin) == []


def test_nobody_is_told_of_a_correction_of_what_was_never_told(
    begin: Transactions, outcomes: Outcomes
) -> None:
    prediction = stored(begin, sent=False)
    outcomes.report(CLIENT, prediction.id, ["never seen"], "billing")
    assert messages(begin) == []


def test_a_source_may_change_its_mind_and_the_last_word_counts(
    begin: Transactions, outcomes: Outcomes
) -> None:
    prediction = stored(begin, sent=True)
    said = [
        outcomes.report(CLIENT, prediction.id, labels, "billing").outcome
        for labels in (["c"], ["a", "b"], [])
    ]
    assert outcomes.page(CLIENT, prediction.id) == said
    assert outcomes.page(LEAD, prediction.id) == said
    assert [one.number for one in said] == [1, 2, 3]
    assert [message.data["labels"] for message in messages(begin)] == [["c"], ["a", "b"], []]


def test_two_sources_may_say_the_same(begin: Transactions, outcomes: Outcomes) -> None:
    prediction = stored(begin, sent=True)
    outcomes.report(CLIENT, prediction.id, ["c"], "billing")
    new = outcomes.report(ADMIN, prediction.id, ["c"], "second reading").new
    assert new
    assert len(messages(begin)) == 1


def test_others_neither_report_nor_read(begin: Transactions, outcomes: Outcomes) -> None:
    prediction = stored(begin, sent=True)
    with pytest.raises(PredictionNotFound):
        outcomes.report(OTHER_CLIENT, prediction.id, ["c"], "billing")
    with pytest.raises(PredictionNotFound):
        outcomes.page(OTHER_CLIENT, prediction.id)
    with pytest.raises(InvalidRequest):
        outcomes.report(CLIENT, prediction.id, ["c", "c"], "billing")
    with pytest.raises(PredictionNotFound):
        outcomes.report(CLIENT, "nonsense", ["c"], "billing")
    assert outcomes.page(CLIENT, prediction.id) == []


@ON_BOTH
def test_reports_at_the_same_time_get_numbers_of_their_own(
    begin: Transactions, outcomes: Outcomes
) -> None:
    prediction = stored(begin, sent=True)

    def one(number: int) -> bool:
        return outcomes.report(
            CLIENT, prediction.id, [f"label {number % 4}"], f"source {number % 4}"
        ).new

    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(one, range(16)))
    found_outcomes = outcomes.page(CLIENT, prediction.id)
    assert [outcome.number for outcome in found_outcomes] == [1, 2, 3, 4]
    assert sum(new) == 4


def right(begin: Transactions, made: Prediction) -> bool | None:
    """Return what the evidence says of a prediction."""
    with begin(read_only=True) as transaction:
        (document,) = [
            each
            for each in transaction.evidence.recent(50, with_content=False)
            if each.id == made.id
        ]
    return document.right


@ON_BOTH
@pytest.mark.parametrize(
    ("sampling", "counts"),
    [
        (Sampling.ALL, True),
        (Sampling.RANDOM_SHARE, True),
        (Sampling.ONLY_FAILURES, False),
        (Sampling.ONLY_ON_REQUEST, False),
        (None, True),
    ],
)
def test_outcomes_of_chosen_documents_correct_and_are_no_evidence(
    begin: Transactions, outcomes: Outcomes, sampling: Sampling | None, counts: bool
) -> None:
    prediction = stored(begin, sent=True)
    report = outcomes.report(CLIENT, prediction.id, ["a", "c"], "billing", sampling=sampling)
    assert report.outcome.counts is counts
    assert right(begin, prediction) is (False if counts else None)
    (message,) = messages(begin)
    assert message.data["labels"] == ["a", "c"]
    assert outcomes.page(CLIENT, prediction.id) == [report.outcome]


@ON_BOTH
def test_a_source_states_once_on_which_documents_it_reports(
    begin: Transactions, outcomes: Outcomes
) -> None:
    first, second, third = (stored(begin, sent=True) for _ in range(3))
    outcomes.report(CLIENT, first.id, ["c"], "desk", sampling=Sampling.ONLY_FAILURES)
    later = outcomes.report(CLIENT, second.id, ["c"], "desk").outcome
    assert later.sampling is Sampling.ONLY_FAILURES
    assert outcomes.report(CLIENT, third.id, ["c"], "billing").outcome.sampling is Sampling.ALL
    assert outcomes.report(ADMIN, third.id, ["c"], "desk").outcome.sampling is Sampling.ALL
    report = outcomes.report(CLIENT, second.id, ["c"], "desk", sampling=Sampling.ALL)
    assert (report.new, report.outcome.counts) == (True, True)
    assert right(begin, second) is False


@ON_BOTH
def test_a_source_that_only_repeats_what_was_answered_is_no_evidence(begin: Transactions) -> None:
    clock = FakeClock()
    outcomes = Outcomes(begin, clock, new_id, FakePredictors())

    def report(*labels: str, waits: timedelta, source: str = "echo") -> tuple[Prediction, bool]:
        new_prediction = prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD)
        new_prediction = new_prediction._replace(created_at=clock() - waits)
        with begin() as transaction:
            add_predictions(transaction, new_prediction)
        return new_prediction, outcomes.report(
            CLIENT, new_prediction.id, labels, source
        ).outcome.counts

    at_once, late = timedelta(seconds=1), ECHO_WITHIN + timedelta(seconds=1)
    results = [report("a", "b", waits=at_once)[1] for _ in range(ECHOES - 1)]
    assert all(results)
    new_prediction, counts = report("a", "b", waits=at_once)
    assert not counts
    assert right(begin, new_prediction) is None
    assert report("a", "b", waits=at_once, source="billing")[1]
    # A report that the service did not answer, or that took its time, breaks the row.
    for labels, waits in ((("c",), at_once), (("a", "b"), late)):
        assert report(*labels, waits=waits)[1]
        assert report("a", "b", waits=at_once)[1]
