"""Documents that come with another model's answer."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from setwise.service.domain import errors
from setwise.service.domain.predictions import Decision, Document, Prediction, ScoredSet, Submission
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.models import scored_again
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from tests.building import predict_one, results
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictor, FakePredictors
from tests.kit.databases import Database
from tests.samples import ADMIN, CLIENT, LEAD, change, prediction, task

ANSWER = {"labels": ["a", "b"]}


@pytest.fixture
def predictions() -> Predictions:
    source = FakePredictors(FakePredictor(external=True))
    return Predictions(source, Database(), FakeClock(), FakeIds(), LOTTERY)


def test_a_model_of_documents_refuses_them_and_stores_the_others() -> None:
    predictions = Predictions(FakePredictors(), Database(), FakeClock(), FakeIds(), LOTTERY)
    documents = [Document(text="0.9", answer=ANSWER), Document(text="0.9")]
    submissions = [Submission(CLIENT, document) for document in documents]
    refused, stored = results(predictions.predict(submissions))
    assert isinstance(refused, errors.InvalidRequest)
    assert [fault.pointer for fault in refused.faults] == ["/document/labels"]
    assert isinstance(stored, Prediction)


def test_equal_answers_to_different_documents_are_no_copies(predictions: Predictions) -> None:
    """Many documents share an answer, so that it must not draw for all of them."""
    change_policy = Policies(predictions.begin, FakeClock(), FakeIds(0x1000)).change
    change_policy(ADMIN, change(audits=AuditPlan(0.5, 0.0)), None)
    new_predictions = [predict_one(predictions, CLIENT, Document(answer=ANSWER)) for _ in range(40)]
    assert len({one.selection.draw for one in new_predictions}) == 40
    assert 8 < sum(one.selection.role.value == "certification" for one in new_predictions) < 32


def test_decisions_on_answers_alone_are_derived_again(predictions: Predictions) -> None:
    prediction = predict_one(predictions, CLIENT, Document(id="x", answer=ANSWER))
    derivation = predictions.derive(LEAD, prediction.id)
    assert (derivation.equal, derivation.draw_again) == (True, prediction.selection.draw)
    with predictions.begin() as transaction:
        transaction.texts.purge([prediction.id], FakeClock()())
    assert predictions.derive(LEAD, prediction.id).draw_again is None


def test_decisions_without_a_calibrator_are_derived_again(predictions: Predictions) -> None:
    class Uncalibrated(FakePredictor):
        def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
            return [one._replace(uncalibrated=True) for one in super().score(documents)]

    change_policy = Policies(predictions.begin, FakeClock(), FakeIds(0x1000)).change
    change_policy(ADMIN, change(threshold=0.1), None)
    source = FakePredictors(Uncalibrated(external=True))
    prediction = predict_one(
        replace(predictions, predictors=source), CLIENT, Document(answer=ANSWER)
    )
    assert (prediction.decision, prediction.threshold) == (Decision.REVIEW, None)
    derivation = predictions.derive(LEAD, prediction.id)
    assert (derivation.equal, derivation.prediction) == (True, prediction)


def test_a_text_draws_alike_whatever_another_model_answered(predictions: Predictions) -> None:
    one, two = (
        predict_one(predictions, CLIENT, Document("note", "0.5", answer={"labels": labels}))
        for labels in ([], ["a"])
    )
    assert one.selection.cluster == two.selection.cluster is not None
    assert one.selection.draw == two.selection.draw


def test_candidates_score_what_was_stored_with_an_answer() -> None:
    answered_prediction = prediction(document=Document(answer=ANSWER))
    erased_prediction = prediction(document=Document(id="x"))
    scored = scored_again(FakePredictor(), [answered_prediction, erased_prediction])
    assert [one for one, _ in scored] == [answered_prediction]


@pytest.mark.parametrize(
    ("kind", "answers", "seen"),
    [
        (ReviewKind.REVIEW, (), True),
        (ReviewKind.AUDIT, (), False),
        (ReviewKind.OVERLAP, (), False),
        (ReviewKind.ADJUDICATION, (), False),
        (ReviewKind.ADJUDICATION, (("a",), ("b",)), False),  # it would tell which is the model's
    ],
)
def test_only_ordinary_reviews_show_the_answer(
    kind: ReviewKind, answers: tuple[tuple[str, ...], ...], seen: bool
) -> None:
    document = Document(id="x", answer=ANSWER)
    new_task: ReviewTask = replace(task(prediction(document=document)), kind=kind, answers=answers)
    assert (new_task.shown.answer is not None) is seen
    assert new_task.shown.id == "x"
