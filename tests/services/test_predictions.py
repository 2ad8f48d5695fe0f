"""Predicting, replaying, reading back."""

import math
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.audit_trail import PREDICTION_CREATED, AuditEvent
from setwise.service.domain.predictions import (
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    PredictionFilter,
    Reason,
    Submission,
)
from setwise.service.domain.reviews import ReviewState
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from tests.building import predict_one, results
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictor, FakePredictors
from tests.samples import ADMIN, CLIENT, LEAD, OTHER_CLIENT, change
from tests.sqlite import Database

KEY = IdempotencyKey("order-1", "digest of the body")


@dataclass
class World:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)
    predictors: FakePredictors = field(default_factory=FakePredictors)

    @property
    def predictions(self) -> Predictions:
        return Predictions(
            self.predictors, self.database, self.now, self.new_id, LOTTERY, max_text_bytes=100
        )

    def predict(self, text: str = "0.9", caller: Caller = CLIENT, **rest: object) -> Prediction:
        document = Document(id=f"doc {text}", text=text)
        return predict_one(self.predictions, caller, document, **rest)

    def events(self) -> list[AuditEvent]:
        """Return what the audit trail says of predictions."""
        events = self.database.contents.events.values()
        return [event for event in events if event.action == PREDICTION_CREATED]

    def set_threshold(self, threshold: float) -> None:
        Policies(self.database, self.now, self.new_id).change(
            ADMIN, change(threshold=threshold), None
        )


@pytest.fixture
def world() -> World:
    world = World()
    world.set_threshold(0.8)
    return world


def test_a_sure_prediction_is_sent_and_asks_nobody(world: World) -> None:
    made = world.predict("0.85")
    assert (made.decision, made.reason) == (Decision.AUTO, Reason.ABOVE_THRESHOLD)
    assert world.database.contents.predictions == {made.id: made}
    assert world.database.contents.reviews == {}


def test_a_doubtful_prediction_waits_for_a_person(world: World) -> None:
    made = world.predict("0.75")
    assert (made.decision, made.reason) == (Decision.REVIEW, Reason.BELOW_THRESHOLD)
    (task,) = world.database.contents.reviews.values()
    assert (task.prediction, task.state, task.version) == (made, ReviewState.WAITING, 1)


def test_a_prediction_carries_what_its_decision_rests_on(world: World) -> None:
    made = world.predict("0.85")
    policy = world.database.contents.policies[-1]
    assert (made.policy_version, made.threshold) == (policy.version, 0.8)
    assert made.scored.model_version == "sha256:model"
    assert (made.client_id, made.created_at) == (CLIENT.id, world.now())
    draws = LOTTERY(CLIENT.id, made.name, made.document.content or b"")
    assert policy.gate_of(None).route(made.scored, draws) == (
        made.decision,
        made.reason,
        made.selection,
        made.threshold,
        made.rule,
    )


def test_the_audit_trail_gets_numbers_and_versions_but_no_content(world: World) -> None:
    secret = "0.75"  # the text itself
    document = Document(id="name of patient", text=secret, metadata={"ward": "hush"})
    made = predict_one(world.predictions, CLIENT.calling_from(None, "req-9"), document)
    (event,) = world.events()
    assert (event.action, event.subject, event.request_id) == (
        "prediction.created",
        made.id,
        "req-9",
    )
    assert event.detail == {
        "decision": "review",
        "reason": "below_threshold",
        "confidence": 0.75,
        "threshold": 0.8,
        "model_version": "sha256:model",
        "calibrator_version": "sha256:calibrator",
        "policy_version": made.policy_version,
        "audit_role": "none",
        "draw": made.selection.draw,
    }


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (Document(), "/document"),
        (Document(text=" "), "/document/text"),
        (Document(features={"bp": math.nan}), "/document/features/bp"),
        (Document(text="x", metadata={"a": "\x00"}), "/metadata/a"),  # beside the document
    ],
)
def test_a_faulty_document_is_refused_before_it_is_scored(
    world: World, document: Document, pointer: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        predict_one(world.predictions, CLIENT, document)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]
    assert world.predictors.predictor is not None
    assert world.predictors.predictor.scored == 0
    assert world.database.contents.predictions == {}


def test_the_limit_on_text_counts_bytes(world: World) -> None:
    world.predict("é" * 50)
    with pytest.raises(errors.DocumentTooLarge, match="101 bytes of UTF-8; at most 100"):
        world.predict("é" * 50 + "x")


def test_a_repeated_request_gets_the_stored_prediction_without_scoring_again(
    world: World,
) -> None:
    first = world.predict("0.75", idempotency=KEY)
    world.now.advance(hours=1)
    world.set_threshold(0.1)
    assert world.predict("0.75", idempotency=KEY) == first
    assert world.predictors.predictor is not None
    assert world.predictors.predictor.scored == 1
    assert len(world.database.contents.reviews) == 1
    world.predictors.predictor = None
    assert world.predict("0.75", idempotency=KEY) == first


def test_a_key_that_is_used_for_another_body_is_refused(world: World) -> None:
    world.predict(idempotency=KEY)
    with pytest.raises(errors.IdempotencyMismatch):
        world.predict(idempotency=IdempotencyKey(KEY.key, "another digest"))
    assert len(world.database.contents.predictions) == 1


def test_two_clients_may_use_the_same_key(world: World) -> None:
    first = world.predict(idempotency=KEY)
    second = world.predict(caller=OTHER_CLIENT, idempotency=KEY)
    assert first.id != second.id


def test_a_request_that_loses_a_race_for_its_key_gets_the_winners_prediction() -> None:
    world = World()

    class RivalIsFaster(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the parent
            if self.scored == 0:
                self.scored = 1
                world.predictors.predictor = FakePredictor()
                winners.append(world.predict("0.3", idempotency=KEY))
            return super().score(documents)

    winners: list[Prediction] = []
    world.predictors.predictor = RivalIsFaster()
    assert world.predict("0.3", idempotency=KEY) == winners[0]
    assert list(world.database.contents.predictions) == [winners[0].id]
    assert len(world.database.contents.reviews) == 1
    assert [event.subject for event in world.events()] == [winners[0].id]


@pytest.mark.parametrize("key", ["", "  ", "k" * 256, "a\x00"])
def test_an_idempotency_key_that_cannot_be_kept_is_refused(world: World, key: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        world.predict(idempotency=IdempotencyKey(key, "d"))
    assert {fault.pointer for fault in refusal.value.faults} == {"/header/Idempotency-Key"}


def test_a_client_reads_its_own_predictions_and_knows_of_no_others(world: World) -> None:
    mine, theirs = world.predict(), world.predict(caller=OTHER_CLIENT)
    get, page = world.predictions.get, world.predictions.page
    assert get(CLIENT, mine.id) == mine
    for hidden in (theirs.id, "nonsense", "019b7a0b-0000-7000-8000-ffffffffffff"):
        with pytest.raises(errors.PredictionNotFound):
            get(CLIENT, hidden)
    assert page(CLIENT).items == (mine,)
    with pytest.raises(errors.Forbidden):
        page(CLIENT, PredictionFilter(client_id=OTHER_CLIENT.id))


def test_leads_and_administrators_read_all_predictions(world: World) -> None:
    mine, theirs = world.predict(), world.predict(caller=OTHER_CLIENT)
    for caller in (LEAD, ADMIN):
        assert world.predictions.get(caller, mine.id) == mine
        assert world.predictions.page(caller).items == (theirs, mine)
        wanted = PredictionFilter(client_id=CLIENT.id)
        assert world.predictions.page(caller, wanted).items == (mine,)


@pytest.mark.parametrize(
    ("after", "limit", "pointer"),
    [(None, 0, "/limit"), (None, 201, "/limit"), ("zzz", 50, "/cursor"), ("", 50, "/cursor")],
)
def test_a_page_that_no_list_has_is_refused(
    world: World, after: str | None, limit: int, pointer: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        world.predictions.page(CLIENT, after=after, limit=limit)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


def test_an_empty_range_of_time_is_refused(world: World) -> None:
    now = world.now()
    wanted = PredictionFilter(created_from=now, created_before=now)
    with pytest.raises(errors.InvalidRequest, match="range of time is empty"):
        world.predictions.page(CLIENT, wanted)
    made = world.predict()
    sound = PredictionFilter(created_from=now, created_before=now + timedelta(seconds=1))
    assert world.predictions.page(CLIENT, sound).items == (made,)


# Batches


def batch(
    world: World, *documents: Document, idempotency: IdempotencyKey | None = None
) -> list[Prediction | Exception]:
    submissions = [
        Submission(CLIENT, document, idempotency and idempotency.of_part(place))
        for place, document in enumerate(documents)
    ]
    return results(world.predictions.predict(submissions))


def test_a_batch_answers_each_document_in_its_place(world: World) -> None:
    sent, long, doubtful, empty = batch(
        world, Document(text="0.9"), Document(text="x" * 101), Document(text="0.1"), Document()
    )
    assert isinstance(sent, Prediction)
    assert sent.decision is Decision.AUTO
    assert isinstance(long, errors.DocumentTooLarge)
    assert isinstance(doubtful, Prediction)
    assert doubtful.decision is Decision.REVIEW
    assert isinstance(empty, errors.InvalidRequest)
    assert set(world.database.contents.predictions) == {sent.id, doubtful.id}
    assert len(world.database.contents.reviews) == 1


def test_a_batch_sent_again_gives_what_is_stored_and_tries_the_rest_anew(world: World) -> None:
    documents = [Document(text="0.9"), Document(), Document(text="0.9")]
    first = batch(world, *documents, idempotency=KEY)
    second = batch(world, *documents, idempotency=KEY)
    assert [second[0], second[2]] == [first[0], first[2]]
    assert first[0] != first[2]
    assert isinstance(second[1], errors.InvalidRequest)
    assert len(world.database.contents.predictions) == 2


def test_without_a_model_every_sound_document_is_refused_for_that(world: World) -> None:
    world.predictors.predictor = None
    refused, faulty = batch(world, Document(text="0.9"), Document())
    assert isinstance(refused, errors.ModelUnavailable)
    assert isinstance(faulty, errors.InvalidRequest)
    assert world.database.contents.predictions == {}
