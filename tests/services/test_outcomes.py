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
    made = (
        prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD) if sent else prediction()
    )
    with begin() as transaction:
        add_predictions(transaction, made)
    return made


def messages(begin: Transactions) -> list[Message]:
    with begin(read_only=True) as transaction:
        return list(transaction.outbox.unacknowledged(CLIENT.id, after=None, limit=50).items)


def test_a_sent_set_found_wrong_is_corrected_once(begin: Transactions, outcomes: Outcomes) -> None:
    made = stored(begin, sent=True)
    outcome, new, unknown = outcomes.report(
        CLIENT.calling_from(None, "r-1"), made.id, ["c", "a"], "billing"
    )
    assert new
    assert unknown == []
    assert (outcome.labels, outcome.agreed, outcome.number) == (("a", "c"), False, 1)
    assert outcomes.report(CLIENT, made.id, ["a", "c"], "billing") == (outcome, False, [])
    (message,) = messages(begin)
    assert message.type is MessageType.DOCUMENT_CORRECTED
    assert message.data["labels"] == ["a", "c"]
    assert message.data["previous_labels"] == ["a", "b"]
    assert message.data["outcome_id"] == outcome.id
    with begin(read_only=True) as transaction:
        event, _ = transaction.audit_trail.page(after=None, limit=9).items  # newest first
    assert (event.action, event.subject, event.request_id) == ("outcome.reported", made.id, "r-1")
    assert event.detail["corrects"] is True


def test_a_sent_set_found_right_is_left_alone(begin: Transactions, outcomes: Outcomes) -> None:
    made = stored(begin, sent=True)
    outcome = outcomes.report(CLIENT, made.id, ["b", "a"], "billing").outcome
    assert outcome.agreed
    assert messages(begin) == []


def test_nobody_is_told_of_a_correction_of_what_was_never_told(
    begin: Transactions, outcomes: Outcomes
) -> None:
    made = stored(begin, sent=False)
    outcomes.report(CLIENT, made.id, ["never seen"], "billing")
    assert messages(begin) == []


def test_a_source_may_change_its_mind_and_the_last_word_counts(
    begin: Transactions, outcomes: Outcomes
) -> None:
    made = stored(begin, sent=True)
    said = [
        outcomes.report(CLIENT, made.id, labels, "billing").outcome
        for labels in (["c"], ["a", "b"], [])
    ]
    assert outcomes.page(CLIENT, made.id) == said
    assert outcomes.page(LEAD, made.id) == said
    assert [one.number for one in said] == [1, 2, 3]
    assert [message.data["labels"] for message in messages(begin)] == [["c"], ["a", "b"], []]


def test_two_sources_may_say_the_same(begin: Transactions, outcomes: Outcomes) -> None:
    made = stored(begin, sent=True)
    outcomes.report(CLIENT, made.id, ["c"], "billing")
    new = outcomes.report(ADMIN, made.id, ["c"], "second reading").new
    assert new
    assert len(messages(begin)) == 1


def test_others_neither_report_nor_read(begin: Transactions, outcomes: Outcomes) -> None:
    made = stored(begin, sent=True)
    with pytest.raises(PredictionNotFound):
        outcomes.report(OTHER_CLIENT, made.id, ["c"], "billing")
    with pytest.raises(PredictionNotFound):
        outcomes.page(OTHER_CLIENT, made.id)
    with pytest.raises(InvalidRequest):
        outcomes.report(CLIENT, made.id, ["c", "c"], "billing")
    with pytest.raises(PredictionNotFound):
        outcomes.report(CLIENT, "nonsense", ["c"], "billing")
    assert outcomes.page(CLIENT, made.id) == []


@ON_BOTH
def test_reports_at_the_same_time_get_numbers_of_their_own(
    begin: Transactions, outcomes: Outcomes
) -> None:
    made = stored(begin, sent=True)

    def one(number: int) -> bool:
        return outcomes.report(CLIENT, made.id, [f"label {number % 4}"], f"source {number % 4}").new

    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(one, range(16)))
    found = outcomes.page(CLIENT, made.id)
    assert [outcome.number for outcome in found] == [1, 2, 3, 4]
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
    made = stored(begin, sent=True)
    report = outcomes.report(CLIENT, made.id, ["a", "c"], "billing", sampling=sampling)
    assert report.outcome.counts is counts
    assert right(begin, made) is (False if counts else None)
    (message,) = messages(begin)
    assert message.data["labels"] == ["a", "c"]
    assert outcomes.page(CLIENT, made.id) == [report.outcome]


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
    repeated = outcomes.report(CLIENT, second.id, ["c"], "desk", sampling=Sampling.ALL)
    assert (repeated.new, repeated.outcome.counts) == (True, True)
    assert right(begin, second) is False


@ON_BOTH
def test_a_source_that_only_repeats_what_was_answered_is_no_evidence(begin: Transactions) -> None:
    clock = FakeClock()
    outcomes = Outcomes(begin, clock, new_id, FakePredictors())

    def report(*labels: str, waits: timedelta, source: str = "echo") -> tuple[Prediction, bool]:
        made = prediction(decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD)
        made = made._replace(created_at=clock() - waits)
        with begin() as transaction:
            add_predictions(transaction, made)
        return made, outcomes.report(CLIENT, made.id, labels, source).outcome.counts

    at_once, late = timedelta(seconds=1), ECHO_WITHIN + timedelta(seconds=1)
    counted = [report("a", "b", waits=at_once)[1] for _ in range(ECHOES - 1)]
    assert all(counted)
    made, counts = report("a", "b", waits=at_once)
    assert not counts
    assert right(begin, made) is None
    assert report("a", "b", waits=at_once, source="billing")[1]
    # A report that the service did not answer, or that took its time, breaks the row.
    for labels, waits in ((("c",), at_once), (("a", "b"), late)):
        assert report(*labels, waits=waits)[1]
        assert report("a", "b", waits=at_once)[1]
