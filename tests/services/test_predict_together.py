"""Predicting many documents in one transaction: what one of them may cost the others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.audits import AuditMode, AuditPlan, Draws, Lottery
from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import (
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    StorageUnavailable,
)
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import (
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    Submission,
)
from setwise.service.services.predictions import Predict
from setwise.service.stores.transaction import Transactions
from tests.fakes import (
    LOTTERY,
    START,
    FakeClock,
    FakeIds,
    FakePredictor,
    FakePredictors,
)
from tests.samples import ANN, CLIENT, OTHER_CLIENT, change
from tests.sqlite import Database

KEY = IdempotencyKey("order-1", "digest of the body")


def verb(begin: Transactions, predictor: FakePredictor | None = None) -> Predict:
    return Predict(
        FakePredictors(predictor or FakePredictor()), begin, FakeClock(), FakeIds(), LOTTERY
    )


def wish(
    text: str, caller: Caller = CLIENT, idempotency: IdempotencyKey | None = None
) -> Submission:
    return Submission(caller, Document(id=text, text=text), idempotency)


def stored_texts(begin: Transactions) -> list[str | None]:
    with begin(read_only=True) as transaction:
        events = transaction.audit_trail.page(after=None, limit=50).items
        found = [transaction.predictions.get(event.subject) for event in reversed(events)]
    assert None not in found
    return [one.document.text for one in found if one is not None]


def test_each_gets_what_it_would_have_got_alone(begin: Transactions) -> None:
    outcomes = verb(begin).together(
        [wish("0.9"), wish("0.8", ANN), wish(" "), wish("0.7"), wish("0.6")]
    )
    assert [type(outcome) for outcome in outcomes] == [
        Prediction,
        Forbidden,
        InvalidRequest,
        Prediction,
        Prediction,
    ]
    made = [one for one in outcomes if isinstance(one, Prediction)]
    assert [one.document.text for one in made] == ["0.9", "0.7", "0.6"]
    assert stored_texts(begin) == ["0.9", "0.7", "0.6"]


plans = st.builds(
    AuditPlan,
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.sampled_from(AuditMode),
    overlap_rate=st.floats(0, 1),
)
submissions = st.builds(
    lambda caller, name, text: Submission(caller, Document(name, text)),
    st.sampled_from([CLIENT, OTHER_CLIENT]),
    st.text("ab", min_size=1, max_size=4),
    st.sampled_from(["0.9", "0.7", "unknown"]),
)


@given(plans, st.lists(submissions, max_size=6))
def test_the_same_is_decided_and_follows_together_and_alone(
    plan: AuditPlan, asked: list[Submission]
) -> None:
    def stored(*calls: list[Submission]) -> list[object]:
        database = Database()
        with database() as transaction:
            first = transaction.policies.current().version
            transaction.policies.add(
                change(audits=plan).as_policy("v2", START, "lead"), replacing=first
            )
            transaction.commit()
        predict = verb(database)
        made = [one for call in calls for one in predict.together(call)]
        contents = database.contents
        assert made == list(contents.predictions.values())
        assert sorted(contents.predictions) == list(contents.predictions)
        tasks = [(task.prediction.id, task.kind) for task in contents.reviews.values()]
        told = [message.data["prediction_id"] for message in contents.messages.values()]
        return [
            (
                one._replace(id=""),
                [kind for prediction_id, kind in tasks if prediction_id == one.id],
                told.count(one.id),
            )
            for one in contents.predictions.values()
        ]

    assert stored(asked) == stored(*[[one] for one in asked])


def test_one_key_sent_several_times_at_once_makes_one_prediction(begin: Transactions) -> None:
    first, again, other, mismatch = verb(begin).together(
        [
            wish("0.9", idempotency=KEY),
            wish("0.9", idempotency=KEY),
            wish("0.5"),
            wish("0.4", idempotency=IdempotencyKey(KEY.key, "another digest")),
        ]
    )
    assert isinstance(first, Prediction)
    assert again == first
    assert isinstance(other, Prediction)
    assert isinstance(mismatch, IdempotencyMismatch)
    assert stored_texts(begin) == ["0.9", "0.5"]


def test_a_document_that_the_model_refuses_fails_alone(begin: Transactions) -> None:
    class Choosy(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the parent
            if any(document.text == "vector" for document in documents):
                raise InvalidRequest("The model reads no vectors.")
            return super().score(documents)

    first, refused, last = verb(begin, Choosy()).together(
        [wish("0.9"), wish("vector"), wish("0.8")]
    )
    assert isinstance(refused, InvalidRequest)
    assert [one for one in (first, last) if not isinstance(one, Prediction)] == []
    assert stored_texts(begin) == ["0.9", "0.8"]


def test_all_are_stored_by_one_commit() -> None:
    database = Database()
    commits = 0

    def counting(*, read_only: bool = False):  # type: ignore[no-untyped-def]  # a Transactions
        nonlocal commits
        commits += 1
        return database(read_only=read_only)

    verb(counting).together([wish(f"0.{n}") for n in range(1, 9)])
    assert commits == 1
    assert len(database.contents.predictions) == 8


@pytest.mark.parametrize("broken", ["begin", "commit"])
def test_while_the_database_is_silent_all_fail_and_nothing_is_tried_twice(broken: str) -> None:
    database = Database()
    tries = 0

    def silent(*, read_only: bool = False):  # type: ignore[no-untyped-def]  # a Transactions
        nonlocal tries
        tries += 1
        if broken == "begin":
            raise StorageUnavailable("The database sleeps.")
        transaction = database(read_only=read_only)

        def commit() -> None:
            raise StorageUnavailable("The disk is full.")

        transaction.commit = commit
        return transaction

    outcomes = verb(silent).together([wish("0.9"), wish("0.8"), wish("0.7")])
    assert [type(outcome) for outcome in outcomes] == [StorageUnavailable] * 3
    assert tries == 1
    assert database.contents.predictions == {}


def test_a_row_that_cannot_be_stored_spoils_its_own_transaction_only() -> None:
    database = Database()
    predict = verb(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER poison BEFORE INSERT ON predictions WHEN NEW.text = 'poison' "
            "BEGIN SELECT RAISE(ABORT, 'cannot be written'); END"
        )
    first, poisoned, last = predict.together([wish("0.9"), wish("poison"), wish("0.8")])
    assert isinstance(poisoned, IntegrityError)
    assert isinstance(first, Prediction)
    assert isinstance(last, Prediction)
    assert list(database.contents.predictions.values()) == [first, last]
    assert len(database.contents.events) == 2


def test_a_policy_that_changes_before_the_transaction_decides_again(begin: Transactions) -> None:
    predict = verb(begin)
    predict(CLIENT, Document(text="0.9"))  # from here on it knows a policy
    prepared = predict.prepare([wish("0.9"), wish("0.7")])
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.8)
    with begin() as transaction:
        before = transaction.policies.current().version
        changed = change.as_policy(FakeIds()(), START, "lead")
        transaction.policies.add(changed, replacing=before)
        transaction.commit()
    outcomes = predict.store(prepared)
    assert outcomes != prepared.expected()
    sent, held = outcomes
    assert isinstance(sent, Prediction)
    assert isinstance(held, Prediction)
    assert {sent.policy_version, held.policy_version} == {changed.version}
    assert (sent.decision, held.decision) == (Decision.AUTO, Decision.REVIEW)
    assert sent.threshold == 0.8


def test_it_knows_ahead_what_becomes_of_each_unless_something_comes_between(
    begin: Transactions,
) -> None:
    predict = verb(begin)
    wishes = [wish("0.9"), wish("0.8", ANN), wish(" "), wish("0.7")]
    assert predict.prepare(wishes).expected() is None  # it knows no policy yet
    predict(CLIENT, Document(text="0.9"))
    prepared = predict.prepare(wishes)
    assert stored_texts(begin) == ["0.9"]
    assert predict.store(prepared) == prepared.expected()
    assert stored_texts(begin) == ["0.9", "0.9", "0.7"]


def test_what_became_of_each_stands_in_its_place(begin: Transactions) -> None:
    predict = verb(begin)
    (earlier,) = predict.together([wish("0.9", idempotency=KEY)])
    prepared = predict.prepare(
        [wish("0.7"), wish("0.9", idempotency=KEY), wish(" "), wish("0.6"), wish("0.8", ANN)]
    )
    outcomes = predict.store(prepared)
    assert outcomes == prepared.expected()
    assert [type(one) for one in outcomes] == [
        Prediction,
        Prediction,
        InvalidRequest,
        Prediction,
        Forbidden,
    ]
    assert len(outcomes) == 5
    assert outcomes[1] == earlier
    assert [one.document.text for one in outcomes.made] == ["0.7", "0.6"]
    assert outcomes[:2] + outcomes[3:4] == [outcomes.made[0], earlier, outcomes.made[1]]
    assert stored_texts(begin) == ["0.9", "0.7", "0.6"]


def test_others_may_write_while_it_decides() -> None:
    database = Database()
    free: list[bool] = []

    class Watched(Lottery):
        def __call__(self, client_id: str, name: str) -> Draws:
            free.append(not database._queue._writer.locked())
            return super().__call__(client_id, name)

    predict = replace(verb(database), lottery=Watched(b"key"))
    for text in ("0.9", "0.8", "0.7"):
        predict(CLIENT, Document(text=text))
    # Only the first one does not know a policy yet.
    assert free == [False, True, True]
