"""Outcomes: stored once, told where something was wrong."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from setwise.service.domain.errors import InvalidRequest, PredictionNotFound
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.webhooks import Message, MessageType
from setwise.service.services.outcomes import Outcomes
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests.database import ON_BOTH
from tests.fakes import FakeClock, FakePredictors
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
