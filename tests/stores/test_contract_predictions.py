"""Predictions and the audit trail: the fake and both databases behave alike."""

from datetime import timedelta

import pytest

from setwise.service.domain.audit_trail import Event, EventFilter
from setwise.service.domain.callers import Caller, Role
from setwise.service.domain.predictions import (
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    PredictionFilter,
    Reason,
    Submission,
)
from setwise.service.domain.reports import Span
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.domain.text import Page
from setwise.service.services.predictions import Predictions
from setwise.service.stores.predictions import IdempotencyKeyTaken
from setwise.service.stores.transaction import Transactions
from tests.fakes import LOTTERY, START, FakeClock, FakeIds, FakePredictors
from tests.samples import CLIENT, OTHER_CLIENT, add_predictions, prediction

MISSING = ["nonsense", "", "019b7a0b-0000-7000-8000-ffffffffffff", "x" * 500, "\x00"]


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
    made = prediction(document=document, created_at=START + timedelta(microseconds=1))
    store(begin, made)
    with begin(read_only=True) as transaction:
        assert transaction.predictions.get(made.id) == made


def test_what_is_not_there_is_not_found(begin: Transactions) -> None:
    with begin(read_only=True) as transaction:
        assert [transaction.predictions.get(name) for name in MISSING] == [None] * len(MISSING)


def test_nothing_is_stored_after_a_rollback(begin: Transactions) -> None:
    with begin() as transaction:
        add_predictions(transaction, prediction())
        transaction.roll_back()
    assert listed(begin) == Page((), None)


def test_a_transaction_sees_what_it_wrote(begin: Transactions) -> None:
    made = prediction()
    with begin() as transaction:
        add_predictions(transaction, made)
        assert transaction.predictions.get(made.id) == made


def test_pages_go_newest_first_without_gaps_or_repeats(begin: Transactions) -> None:
    made = [prediction() for _ in range(7)]
    store(begin, *made)
    seen, after = [], None
    while True:
        page = listed(begin, after, limit=3)
        seen += page.items
        after = page.next_after
        if after is None:
            break
    assert seen == made[::-1]


def test_one_documents_predictions_go_newest_first_among_others(begin: Transactions) -> None:
    names = ["d-1", "d-2", "d-1", "d-1", "d-2", "d-1"]
    made = [prediction(document=Document(id=name, text="x")) for name in names]
    foreign = prediction(document=Document(id="d-1", text="x"), client_id=OTHER_CLIENT.id)
    store(begin, *made, foreign)
    wanted = {"document_id": "d-1", "client_id": CLIENT.id}
    first = listed(begin, limit=2, **wanted)
    assert first == Page((made[5], made[3]), made[3].id)
    assert listed(begin, first.next_after, limit=2, **wanted) == Page((made[2], made[0]), None)
    assert listed(begin, document_id="d-1", limit=1) == Page((foreign,), foreign.id)


def test_a_full_last_page_is_the_last(begin: Transactions) -> None:
    store(begin, *(prediction() for _ in range(3)))
    assert listed(begin, limit=3).next_after is None


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
        assert transaction.predictions.counts() == {}
    auto = {"decision": Decision.AUTO, "reason": Reason.ABOVE_THRESHOLD}
    store(begin, prediction(), prediction(), prediction(**auto))
    with begin(read_only=True) as transaction:
        assert transaction.predictions.counts() == {
            (Decision.REVIEW, Reason.BELOW_THRESHOLD): 2,
            (Decision.AUTO, Reason.ABOVE_THRESHOLD): 1,
        }


def test_a_request_is_found_again_by_its_client_and_key(begin: Transactions) -> None:
    made = prediction()
    with begin() as transaction:
        add_predictions(transaction, made, idempotency=IdempotencyKey("k", "digest"))
    with begin(read_only=True) as transaction:
        asked = [(CLIENT.id, "k"), (CLIENT.id, "K"), (OTHER_CLIENT.id, "k")]
        assert transaction.predictions.replayed(asked) == {(CLIENT.id, "k"): (made, "digest")}


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


def test_events_are_listed_newest_first(begin: Transactions) -> None:
    events = [
        Event(one.id, START, "system", "system", "policy.changed", "v2", request_id, {"a": [1.5]})
        for one, request_id in ((prediction(), None), (prediction(), "r-1"), (prediction(), "r-2"))
    ]
    with begin() as transaction:
        for event in events:
            transaction.audit_trail.add(event)
    with begin(read_only=True) as transaction:
        page = transaction.audit_trail.page(after=None, limit=2)
        assert page.items == (events[2], events[1])
        rest = transaction.audit_trail.page(after=page.next_after, limit=2)
        assert (rest.items, rest.next_after) == ((events[0],), None)


def test_predictions_are_events_among_the_others(begin: Transactions) -> None:
    """Whatever is asked for, a page at a time, as a list that had them all would give it."""
    hour, made, expected = timedelta(hours=1), [], []
    for number in range(8):
        client = (CLIENT, OTHER_CLIENT)[number // 2 % 2]
        one = prediction(client_id=client.id, created_at=START + number * hour)
        if number % 3 == 0:
            action = ("prediction.corrected", "policy.changed")[number % 2]
            event = Event(one.id, one.created_at, client.id, "n", action, one.id, None, {"a": 1})
        else:
            rule = "own" if number == 4 else None
            one = one._replace(rule=rule, selection=Selection(AuditRole.NONE, number / 9, 0.5))
            name = f"name {number}"
            caller = Caller(
                client.id,
                name,
                Role.CLIENT,
                None if number % 2 else "::1",
                request_id=f"r-{number}",
            )
            made.append((one, Submission(caller, one.document)))
            detail = {
                "decision": "review", "reason": "below_threshold", "confidence": 0.4,
                "threshold": 0.75, "model_version": one.scored.model_version,
                "calibrator_version": one.scored.calibrator_version,
                "policy_version": one.policy_version, "audit_role": "none", "draw": number / 9,
            } | ({"rule": "own"} if rule else {})  # fmt: skip
            event = Event(
                one.id, one.created_at, client.id, name, "prediction.created", one.id,
                caller.request_id, detail, caller.address,
            )  # fmt: skip
        expected.insert(0, event)
    with begin() as transaction:
        transaction.predictions.add_all(made)
        for event in expected:
            if event.action != "prediction.created":
                transaction.audit_trail.add(event)

    def found(limit: int, **fields: object) -> list[Event]:
        items: list[Event] = []
        after: str | None = None
        with begin(read_only=True) as transaction:
            while True:
                wanted = EventFilter(**fields)
                page = transaction.audit_trail.page(wanted, after=after, limit=limit)
                assert len(page.items) == limit or page.next_after is None
                items += page.items
                if page.next_after is None:
                    return items
                after = page.next_after

    for limit in (1, 2, 3, 50):
        assert found(limit) == expected
        assert found(limit, action="prediction.") == [
            event for event in expected if event.action != "policy.changed"
        ]
        assert found(limit, action="prediction.created", actor_id=CLIENT.id) == [
            event
            for event in expected
            if (event.action, event.actor_id) == ("prediction.created", CLIENT.id)
        ]
        assert found(limit, action="policy.changed") == [
            event for event in expected if event.action == "policy.changed"
        ]
        assert found(limit, since=START + 2 * hour, before=START + 5 * hour) == expected[3:6]
    assert found(5, subject=expected[0].id) == [expected[0]]
    assert found(5, subject="nothing") == []
    with begin(read_only=True) as transaction:
        told: list[Event] = []
        while page := transaction.history.events(
            Span(), after=told[-1].id if told else None, limit=3
        ):
            told += page
    assert told == expected[::-1]


def test_a_batch_is_stored_whole_and_found_again_under_its_key(begin: Transactions) -> None:
    predictions = Predictions(FakePredictors(), begin, FakeClock(), FakeIds(), LOTTERY)
    documents = [Document(id=f"note-{n}", text="0.5") for n in range(200)]
    documents[7] = Document(text="")
    key = IdempotencyKey("monday", "digest")
    batch = [
        Submission(CLIENT, document, key.of_part(place)) for place, document in enumerate(documents)
    ]
    first, again = predictions.predict(batch), predictions.predict(batch)
    stored = [made for made in first if isinstance(made, Prediction)]
    assert len(stored) == 199
    assert [made for made in again if isinstance(made, Prediction)] == stored
    with begin(read_only=True) as transaction:
        assert sum(transaction.predictions.counts().values()) == 199
        assert sum(transaction.reviews.counts().values()) == 199


def test_the_rule_that_held_a_document_back_is_kept(begin: Transactions) -> None:
    made = prediction(reason=Reason.RULE)._replace(rule="label J18.9")
    store(begin, made)
    with begin(read_only=True) as transaction:
        assert transaction.predictions.get(made.id) == made
