"""Predicting, replaying, reading back."""

import math
from datetime import timedelta

import pytest

from setwise.service.domain import errors
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
from setwise.service.domain.routing.copies import Likeness
from tests.building import predict_one, results
from tests.fakes import LOTTERY, FakePredictor
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, CLIENT, LEAD, OTHER_CLIENT

KEY = IdempotencyKey("order-1", "digest of the body")


def small() -> Clinic:
    """Return a service that takes no long texts."""
    return Clinic(predicting={"max_text_bytes": 100})


def created(clinic: Clinic) -> list[AuditEvent]:
    """Return what the audit trail says of predictions."""
    events = clinic.contents.events.values()
    return [event for event in events if event.action == PREDICTION_CREATED]


@pytest.fixture
def clinic() -> Clinic:
    clinic = small()
    clinic.fix_threshold()
    return clinic


def test_a_sure_prediction_is_sent_and_asks_nobody(clinic: Clinic) -> None:
    prediction = clinic.predict("0.85")
    assert (prediction.decision, prediction.reason) == (Decision.AUTO, Reason.ABOVE_THRESHOLD)
    assert clinic.contents.predictions == {prediction.id: prediction}
    assert clinic.contents.reviews == {}


def test_a_doubtful_prediction_waits_for_a_person(clinic: Clinic) -> None:
    prediction = clinic.predict("0.75")
    assert (prediction.decision, prediction.reason) == (Decision.REVIEW, Reason.BELOW_THRESHOLD)
    (task,) = clinic.contents.reviews.values()
    assert (task.prediction, task.state, task.version) == (prediction, ReviewState.WAITING, 1)


def test_a_prediction_carries_what_its_decision_rests_on(clinic: Clinic) -> None:
    prediction = clinic.predict("0.85")
    policy = clinic.contents.policies[-1]
    assert (prediction.policy_version, prediction.threshold) == (policy.version, 0.8)
    assert prediction.scored.model_version == "sha256:model"
    assert (prediction.client_id, prediction.created_at) == (CLIENT.id, clinic.now())
    document = prediction.document
    likeness = document.likeness or Likeness(b"")
    draws = LOTTERY(CLIENT.id, prediction.name, document.content or b"", likeness.form)
    assert policy.gate_of(None).route(prediction.scored, draws) == (
        prediction.decision,
        prediction.reason,
        prediction.selection,
        prediction.threshold,
        prediction.rule,
    )


def test_the_audit_trail_gets_numbers_and_versions_but_no_content(clinic: Clinic) -> None:
    secret = "0.75"  # the text itself
    document = Document(id="name of patient", text=secret, metadata={"ward": "hush"})
    prediction = predict_one(clinic.predictions, CLIENT.calling_from(None, "req-9"), document)
    (event,) = created(clinic)
    assert (event.action, event.subject, event.request_id) == (
        "prediction.created",
        prediction.id,
        "req-9",
    )
    assert event.detail == {
        "decision": "review",
        "reason": "below_threshold",
        "confidence": 0.75,
        "threshold": 0.8,
        "model_version": "sha256:model",
        "calibrator_version": "sha256:calibrator",
        "policy_version": prediction.policy_version,
        "audit_role": "none",
        "draw": prediction.selection.draw,
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
    clinic: Clinic, document: Document, pointer: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        predict_one(clinic.predictions, CLIENT, document)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]
    assert clinic.predictors.predictor is not None
    assert clinic.predictors.predictor.scored == 0
    assert clinic.contents.predictions == {}


def test_the_limit_on_text_counts_bytes(clinic: Clinic) -> None:
    clinic.predict("é" * 50)
    with pytest.raises(errors.DocumentTooLarge, match="101 bytes of UTF-8; at most 100"):
        clinic.predict("é" * 50 + "x")


def test_a_repeated_request_gets_the_stored_prediction_without_scoring_again(
    clinic: Clinic,
) -> None:
    first = clinic.predict("0.75", idempotency=KEY)
    clinic.now.advance(hours=1)
    clinic.fix_threshold(0.1)
    assert clinic.predict("0.75", idempotency=KEY) == first
    assert clinic.predictors.predictor is not None
    assert clinic.predictors.predictor.scored == 1
    assert len(clinic.contents.reviews) == 1
    clinic.predictors.predictor = None
    assert clinic.predict("0.75", idempotency=KEY) == first


def test_a_key_that_is_used_for_another_body_is_refused(clinic: Clinic) -> None:
    clinic.predict(idempotency=KEY)
    with pytest.raises(errors.IdempotencyMismatch):
        clinic.predict(idempotency=IdempotencyKey(KEY.key, "another digest"))
    assert len(clinic.contents.predictions) == 1


def test_two_clients_may_use_the_same_key(clinic: Clinic) -> None:
    first = clinic.predict(idempotency=KEY)
    second = clinic.predict(by=OTHER_CLIENT, idempotency=KEY)
    assert first.id != second.id


def test_a_request_that_loses_a_race_for_its_key_gets_the_winners_prediction() -> None:
    clinic = small()

    class RivalIsFaster(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the parent
            if self.scored == 0:
                self.scored = 1
                clinic.predictors.predictor = FakePredictor()
                winners.append(clinic.predict("0.3", idempotency=KEY))
            return super().score(documents)

    winners: list[Prediction] = []
    clinic.predictors.predictor = RivalIsFaster()
    assert clinic.predict("0.3", idempotency=KEY) == winners[0]
    assert list(clinic.contents.predictions) == [winners[0].id]
    assert len(clinic.contents.reviews) == 1
    assert [event.subject for event in created(clinic)] == [winners[0].id]


@pytest.mark.parametrize("key", ["", "  ", "k" * 256, "a\x00"])
def test_an_idempotency_key_that_cannot_be_kept_is_refused(clinic: Clinic, key: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.predict(idempotency=IdempotencyKey(key, "d"))
    assert {fault.pointer for fault in refusal.value.faults} == {"/header/Idempotency-Key"}


def test_a_client_reads_its_own_predictions_and_knows_of_no_others(clinic: Clinic) -> None:
    mine, theirs = clinic.predict(), clinic.predict(by=OTHER_CLIENT)
    get, page = clinic.predictions.get, clinic.predictions.page
    assert get(CLIENT, mine.id) == mine
    for hidden in (theirs.id, "nonsense", "019b7a0b-0000-7000-8000-ffffffffffff"):
        with pytest.raises(errors.PredictionNotFound):
            get(CLIENT, hidden)
    assert page(CLIENT).items == (mine,)
    with pytest.raises(errors.Forbidden):
        page(CLIENT, PredictionFilter(client_id=OTHER_CLIENT.id))


def test_leads_and_administrators_read_all_predictions(clinic: Clinic) -> None:
    mine, theirs = clinic.predict(), clinic.predict(by=OTHER_CLIENT)
    for caller in (LEAD, ADMIN):
        assert clinic.predictions.get(caller, mine.id) == mine
        assert clinic.predictions.page(caller).items == (theirs, mine)
        wanted_filter = PredictionFilter(client_id=CLIENT.id)
        assert clinic.predictions.page(caller, wanted_filter).items == (mine,)


@pytest.mark.parametrize(
    ("after", "limit", "pointer"),
    [(None, 0, "/limit"), (None, 201, "/limit"), ("zzz", 50, "/cursor"), ("", 50, "/cursor")],
)
def test_a_page_that_no_list_has_is_refused(
    clinic: Clinic, after: str | None, limit: int, pointer: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.predictions.page(CLIENT, after=after, limit=limit)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


def test_an_empty_range_of_time_is_refused(clinic: Clinic) -> None:
    now = clinic.now()
    wanted_filter = PredictionFilter(created_from=now, created_before=now)
    with pytest.raises(errors.InvalidRequest, match="range of time is empty"):
        clinic.predictions.page(CLIENT, wanted_filter)
    prediction = clinic.predict()
    sound = PredictionFilter(created_from=now, created_before=now + timedelta(seconds=1))
    assert clinic.predictions.page(CLIENT, sound).items == (prediction,)


# Batches


def batch(
    clinic: Clinic, *documents: Document, idempotency: IdempotencyKey | None = None
) -> list[Prediction | Exception]:
    submissions = [
        Submission(CLIENT, document, idempotency and idempotency.of_part(place))
        for place, document in enumerate(documents)
    ]
    return results(clinic.predictions.predict(submissions))


def test_a_batch_answers_each_document_in_its_place(clinic: Clinic) -> None:
    sent, long, doubtful, empty = batch(
        clinic, Document(text="0.9"), Document(text="x" * 101), Document(text="0.1"), Document()
    )
    assert isinstance(sent, Prediction)
    assert sent.decision is Decision.AUTO
    assert isinstance(long, errors.DocumentTooLarge)
    assert isinstance(doubtful, Prediction)
    assert doubtful.decision is Decision.REVIEW
    assert isinstance(empty, errors.InvalidRequest)
    assert set(clinic.contents.predictions) == {sent.id, doubtful.id}
    assert len(clinic.contents.reviews) == 1


def test_a_batch_sent_again_gives_what_is_stored_and_tries_the_rest_anew(clinic: Clinic) -> None:
    documents = [Document(text="0.9"), Document(), Document(text="0.9")]
    first = batch(clinic, *documents, idempotency=KEY)
    second = batch(clinic, *documents, idempotency=KEY)
    assert [second[0], second[2]] == [first[0], first[2]]
    assert first[0] != first[2]
    assert isinstance(second[1], errors.InvalidRequest)
    assert len(clinic.contents.predictions) == 2


def test_while_the_model_loads_every_sound_document_is_refused_for_that(clinic: Clinic) -> None:
    clinic.predictors.unload()
    refused, faulty = batch(clinic, Document(text="0.9"), Document())
    assert isinstance(refused, errors.ModelLoading)
    assert isinstance(faulty, errors.InvalidRequest)
    assert clinic.contents.predictions == {}


def test_other_versions_that_were_not_sent_are_counted(clinic: Clinic) -> None:
    predictions = [clinic.predict(text) for text in ("0.5", "0.6", "0.6", "0.7", "0.9", "0.4")]
    assert [each.earlier_versions for each in predictions] == [0, 1, 1, 2, 3, 3]
    assert predictions[4].decision is Decision.AUTO
    assert clinic.contents.predictions[predictions[4].id] == predictions[4]
    assert clinic.predict("0.55", name="another").earlier_versions == 0
    assert clinic.predict("0.57", by=OTHER_CLIENT).earlier_versions == 0
    clinic.now.advance(days=31)
    assert clinic.predict("0.65").earlier_versions == 0


def test_versions_in_one_batch_count_and_a_rule_holds_them_back(clinic: Clinic) -> None:
    clinic.fix_threshold(0.8, rules=[{"kind": "versions", "n": 1}])
    texts = ("0.5", "0.7", "0.9", "0.95")
    submissions = [Submission(CLIENT, Document(id="note", text=text)) for text in texts]
    made = results(clinic.predictions.predict(submissions))
    assert [each.earlier_versions for each in made] == [0, 1, 2, 3]
    assert [each.reason for each in made[2:]] == [Reason.RULE, Reason.RULE]
    assert made[2].rule == "posted again"
