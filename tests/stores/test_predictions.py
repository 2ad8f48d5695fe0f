"""Predictions, and the requests that made them."""

from datetime import timedelta

import pytest

from setwise.service.domain.predictions import (
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    PredictionFilter,
    Reason,
    Submission,
)
from setwise.service.domain.text import Page
from setwise.service.services.predictions import Predictions
from setwise.service.stores.predictions import IdempotencyKeyTaken
from setwise.service.stores.transaction import Transactions
from tests.building import results
from tests.fakes import LOTTERY, START, FakeClock, FakeIds, FakePredictors
from tests.samples import CLIENT, OTHER_CLIENT, add_predictions, prediction


def store(begin: Transactions, *made: Prediction) -> None:
    with begin() as transaction:
        add_predictions(transaction, *made)


def listed(begin: Transactions, after: str | None = None, limit: int = 50, **wanted: object):
    with begin(read_only=True) as transaction:
        return transaction.predictions.page(PredictionFilter(**wanted), after=after, limit=limit)


@pytest.mark.parametrize(
    "document",
    [
        Document(id="note-17", text="fever", metadata={"ward": {"beds": [1, 2.5, None, True]}}),
        Document(features={"bp": 0.1 + 0.2, "tiny": 5e-324, "huge": 1.7e308, "-0": -0.0}),
        Document(id="é" * 200, text='נפיחות 🤒 \x07 \u202e "quoted" \\ \\u0000 %s :x {y}' * 100),
        Document(answer={"scores": {"b": 0.1 + 0.2, "a": 1.0, "é": 0.0}}),
        Document(text="x", answer={"candidates": [{"labels": ["a"], "score": -1e300}]}),
        Document(text="null", features=None, metadata={"null": None, "": "", "a.b": {}}),
    ],
)
def test_a_stored_prediction_comes_back_as_it_was(begin: Transactions, document: Document) -> None:
    new_prediction = prediction(
        document=document, reason=Reason.RULE, created_at=START + timedelta(microseconds=1)
    )._replace(rule="label J18.9")
    new_prediction = new_prediction._replace(
        scored=new_prediction.scored._replace(replaced=(0.75, 0.1 + 0.2, 1e-12))
    )
    store(begin, new_prediction)
    with begin(read_only=True) as transaction:
        assert transaction.predictions.get(new_prediction.id) == new_prediction


def test_pages_go_newest_first_without_gaps_or_repeats(begin: Transactions) -> None:
    predictions = [prediction() for _ in range(6)]
    store(begin, *predictions)
    seen, after = [], None
    for full_pages in (1, 2):
        page = listed(begin, after, limit=3)
        seen += page.items
        after = page.next_after
        assert (after is None) == (full_pages == 2)
    assert seen == predictions[::-1]


def test_one_documents_predictions_go_newest_first_among_others(begin: Transactions) -> None:
    names = ["d-1", "d-2", "d-1", "d-1", "d-2", "d-1"]
    predictions = [prediction(document=Document(id=name, text="x")) for name in names]
    foreign = prediction(document=Document(id="d-1", text="x"), client_id=OTHER_CLIENT.id)
    store(begin, *predictions, foreign)
    wanted = {"document_id": "d-1", "client_id": CLIENT.id}
    first = listed(begin, limit=2, **wanted)
    assert first == Page((predictions[5], predictions[3]), predictions[3].id)
    assert listed(begin, first.next_after, limit=2, **wanted) == Page(
        (predictions[2], predictions[0]), None
    )
    assert listed(begin, document_id="d-1", limit=1) == Page((foreign,), foreign.id)


def test_filters_narrow_a_list_and_combine(begin: Transactions) -> None:
    auto = {"decision": Decision.AUTO, "reason": Reason.ABOVE_THRESHOLD}
    later = START + timedelta(hours=1)
    first = prediction(document=Document(id="d-1", text="x"))
    second = prediction(document=Document(id="d-2", text="x"), **auto)
    third = prediction(client_id=OTHER_CLIENT.id, created_at=later, **auto)
    store(begin, first, second, third)
    assert listed(begin, decision=Decision.AUTO).items == (third, second)
    assert listed(begin, client_id=CLIENT.id).items == (second, first)
    assert listed(begin, client_id=CLIENT.id, decision=Decision.AUTO).items == (second,)
    assert listed(begin, document_id="d-1").items == (first,)
    assert listed(begin, created_from=later).items == (third,)
    assert listed(begin, created_before=later).items == (second, first)
    assert listed(begin, client_id="system").items == ()


def test_predictions_are_counted_by_decision_and_reason(begin: Transactions) -> None:
    with begin(read_only=True) as transaction:
        assert transaction.reports().decisions() == {}
    auto = {"decision": Decision.AUTO, "reason": Reason.ABOVE_THRESHOLD}
    store(begin, prediction(), prediction(), prediction(**auto))
    with begin(read_only=True) as transaction:
        assert transaction.reports().decisions() == {
            (Decision.REVIEW, Reason.BELOW_THRESHOLD): 2,
            (Decision.AUTO, Reason.ABOVE_THRESHOLD): 1,
        }


def test_a_request_is_found_again_by_its_client_and_key(begin: Transactions) -> None:
    new_prediction = prediction()
    with begin() as transaction:
        add_predictions(transaction, new_prediction, idempotency=IdempotencyKey("k", "digest"))
    with begin(read_only=True) as transaction:
        requests = [(CLIENT.id, "k"), (CLIENT.id, "K"), (OTHER_CLIENT.id, "k")]
        assert transaction.predictions.replayed(requests) == {
            (CLIENT.id, "k"): (new_prediction, "digest")
        }


def test_a_key_is_taken_once_by_each_client_and_a_late_one_leaves_no_trace(
    begin: Transactions,
) -> None:
    first, late, others = prediction(), prediction(), prediction(client_id=OTHER_CLIENT.id)
    key = IdempotencyKey("k", "digest")
    for one in (first, others):
        with begin() as transaction:
            add_predictions(transaction, one, idempotency=key)
    with pytest.raises(IdempotencyKeyTaken), begin() as transaction:
        add_predictions(transaction, late, idempotency=key)
    assert listed(begin).items == (others, first)


def test_a_batch_is_stored_whole_and_found_again_under_its_key(begin: Transactions) -> None:
    predictions = Predictions(FakePredictors(), begin, FakeClock(), FakeIds(), LOTTERY)
    documents = [Document(id=f"note-{n}", text="0.5") for n in range(200)]
    documents[7] = Document(text="")
    key = IdempotencyKey("monday", "digest")
    batch = [
        Submission(CLIENT, document, key.of_part(place)) for place, document in enumerate(documents)
    ]
    first, again = (results(predictions.predict(batch)) for _ in range(2))
    stored_predictions = [made for made in first if isinstance(made, Prediction)]
    assert len(stored_predictions) == 199
    assert [made for made in again if isinstance(made, Prediction)] == stored_predictions
    with begin(read_only=True) as transaction:
        assert sum(transaction.reports().decisions().values()) == 199
        assert sum(transaction.reviews.open_counts().values()) == 199
