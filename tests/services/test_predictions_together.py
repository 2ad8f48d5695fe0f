"""Predicting many documents in one transaction: what one of them may cost the others."""

from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.predictions import (
    Accepted,
    Document,
    IdempotencyKey,
    Prediction,
    Refused,
    Submission,
)
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.services.predictions import Predictions, all_predicted
from setwise.service.stores.transaction import Transactions
from tests.building import results
from tests.fakes import (
    LOTTERY,
    START,
    FakeClock,
    FakeIds,
    FakePredictor,
    FakePredictors,
)
from tests.kit.databases import ON_BOTH, Database
from tests.samples import ANN, CLIENT, OTHER_CLIENT, change

KEY = IdempotencyKey("order-1", "digest of the body")


def verb(begin: Transactions, predictor: FakePredictor | None = None) -> Predictions:
    return Predictions(
        FakePredictors(predictor or FakePredictor()), begin, FakeClock(), FakeIds(), LOTTERY
    )


def wish(
    text: str, caller: Caller = CLIENT, idempotency: IdempotencyKey | None = None
) -> Submission:
    return Submission(caller, Document(id=text, text=text), idempotency)


def stored_texts(begin: Transactions) -> list[str | None]:
    with begin(read_only=True) as transaction:
        events = transaction.audit_trail.page(after=None, limit=50).items
        matches = [transaction.predictions.get(event.subject) for event in reversed(events)]
    assert None not in matches
    return [one.document.text for one in matches if one is not None]


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


@pytest.mark.slow
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
        predict = verb(database)
        predictions = [one for call in calls for one in all_predicted(predict.predict(call))]
        contents = database.contents
        assert predictions == list(contents.predictions.values())
        assert sorted(contents.predictions) == list(contents.predictions)
        tasks = [(task.prediction.id, task.kind) for task in contents.reviews.values()]
        prediction_ids = [message.data["prediction_id"] for message in contents.messages.values()]
        return [
            (
                one._replace(id=""),
                [kind for prediction_id, kind in tasks if prediction_id == one.id],
                prediction_ids.count(one.id),
            )
            for one in contents.predictions.values()
        ]

    assert stored(asked) == stored(*[[one] for one in asked])


@ON_BOTH
def test_one_key_sent_several_times_at_once_makes_one_prediction(begin: Transactions) -> None:
    first, again, other, mismatch = verb(begin).predict(
        [
            wish("0.9", idempotency=KEY),
            wish("0.9", idempotency=KEY),
            wish("0.5"),
            wish("0.4", idempotency=IdempotencyKey(KEY.key, "another digest")),
        ]
    )
    assert isinstance(first, Accepted)
    assert again == Accepted(first.prediction, replayed=True)
    assert isinstance(other, Accepted)
    assert isinstance(mismatch, Refused)
    assert isinstance(mismatch.error, errors.IdempotencyMismatch)
    assert stored_texts(begin) == ["0.9", "0.5"]


def test_a_document_that_the_model_refuses_fails_alone(begin: Transactions) -> None:
    class Choosy(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the parent
            fault = Refused(errors.InvalidRequest("The model reads no vectors."))
            return [
                fault if document.text == "vector" else scored
                for document, scored in zip(documents, super().score(documents), strict=True)
            ]

    wishes = [wish("0.9"), wish("vector"), wish("0.8")]
    first, refused, last = results(verb(begin, Choosy()).predict(wishes))
    assert isinstance(refused, errors.InvalidRequest)
    assert [one for one in (first, last) if not isinstance(one, Prediction)] == []
    assert stored_texts(begin) == ["0.9", "0.8"]


def test_all_are_stored_by_one_commit() -> None:
    database = Database()
    commits = 0

    def counting(*, read_only: bool = False):  # type: ignore[no-untyped-def]  # a Transactions
        nonlocal commits
        commits += 1
        return database(read_only=read_only)

    verb(counting).predict([wish(f"0.{n}") for n in range(1, 9)])
    assert commits == 1
    assert len(database.contents.predictions) == 8


@pytest.mark.parametrize("broken", ["begin", "commit"])
def test_while_the_database_is_silent_all_fail_and_nothing_is_tried_twice(broken: str) -> None:
    database = Database()
    tries = 0

    @contextmanager
    def silent(*, read_only: bool = False):  # type: ignore[no-untyped-def]  # a Transactions
        nonlocal tries
        tries += 1
        if broken == "begin":
            raise errors.StorageUnavailable("The database sleeps.")
        with database(read_only=read_only) as transaction:
            yield transaction
            raise errors.StorageUnavailable("The disk is full.")

    outcomes = results(verb(silent).predict([wish("0.9"), wish("0.8"), wish("0.7")]))
    assert [type(outcome) for outcome in outcomes] == [errors.StorageUnavailable] * 3
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
    first, poisoned, last = results(predict.predict([wish("0.9"), wish("poison"), wish("0.8")]))
    assert isinstance(poisoned, IntegrityError)
    assert isinstance(first, Prediction)
    assert isinstance(last, Prediction)
    assert list(database.contents.predictions.values()) == [first, last]
    assert len(database.contents.events) == 2


def test_what_became_of_each_stands_in_its_place(begin: Transactions) -> None:
    predict = verb(begin)
    (earlier,) = results(predict.predict([wish("0.9", idempotency=KEY)]))
    wishes = [wish("0.7"), wish("0.9", idempotency=KEY), wish(" "), wish("0.6"), wish("0.8", ANN)]
    outcomes = results(predict.predict(wishes))
    assert [type(one) for one in outcomes] == [
        Prediction,
        Prediction,
        errors.InvalidRequest,
        Prediction,
        errors.Forbidden,
    ]
    assert outcomes[1] == earlier
    assert stored_texts(begin) == ["0.9", "0.7", "0.6"]
