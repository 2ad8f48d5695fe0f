"""Predictors of what another model says: trained, without any history, stored."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.calibration.calibrators import MOST_UNPROVEN
from setwise.models.calibration.recalibration import (
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
)
from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import concatenate_datasets
from setwise.models.data.document_error import DocumentError
from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.labels.given_scores import GivenScores
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import SOURCE_GIVEN
from setwise.models.storage.artifacts import content_versions, load, save
from setwise.models.training import train
from setwise.models.training_external import start_external
from tests.models import corpora

QUICK = TrainingOptions(preset="paper", calibrator="isotonic", n_folds=2, n_jobs=1)


def alone(data):
    """Return the data set without its documents."""
    return replace(data, texts=None, X=None, feature_names=None)


def score(predictor, answers):
    """Return what a model says of answers as clients send them."""
    return predictor.score([PredictionInput(answer=parse_answer(each)) for each in answers])


def assert_same(first, second, **tolerance):
    np.testing.assert_array_equal(first.chosen().toarray(), second.chosen().toarray())
    np.testing.assert_allclose(first.confidence, second.confidence, **tolerance)
    np.testing.assert_allclose(first.marginals, second.marginals, **tolerance)


@pytest.fixture
def of_sets(model_of):
    data = alone(corpora.answered(corpora.texts(240)))
    return data, model_of(data, replace(QUICK, preset="fast"))


def test_of_sets_alone_confidence_is_learnt_and_sets_get_no_worse(of_sets):
    _, predictor = of_sets
    assert (predictor.kind, predictor.feature_names, predictor.voters) == ("external", (), None)
    assert predictor.numbers == ("length",)
    fresh = alone(corpora.answered(corpora.texts(240, seed=1), seed=1))
    found = evaluate(predictor, fresh)
    announced = start_external(fresh.label_names).predict_answers(fresh.answers).chosen()
    plain = np.mean(abs(announced - fresh.Y).sum(axis=1) == 0)
    assert found.set_accuracy >= plain - 0.02
    assert found.brier < found.uncertainty


@pytest.mark.parametrize("kind", ["scores", "labels"])
def test_with_documents_their_likes_vote_too(kind, model_of):
    data = corpora.answered(corpora.texts(240), kind)
    fresh = corpora.answered(corpora.texts(120, seed=1), kind, seed=1)
    options = replace(QUICK, preset="best", calibrator="boosted-squared")
    alike = evaluate(model_of(data, options), fresh)
    unlike = evaluate(model_of(alone(data), options), alone(fresh))
    assert alike.set_accuracy > unlike.set_accuracy + 0.1
    assert alike.brier < unlike.brier - 0.05


def test_vectors_may_stand_beside_answers():
    data = corpora.answered(corpora.vectors(120), "scores")
    predictor = train(data, replace(QUICK, preset="fast"))
    found = predictor.predict_answers(data.answers, X=data.X)
    assert (found.known_features > 5).all()


def test_every_given_set_is_a_candidate(of_sets):
    _, predictor = of_sets
    names = predictor.label_names
    answers = corpora.answers_of(
        names,
        [{"candidates": [{"labels": names}, {"labels": []}]}, {"labels": names[:2]}],
        numbers=predictor.numbers,
    )
    found = predictor.predict_answers(answers)
    sets = [set(one.labels) for one in found.ranked(0)]
    assert set(names) in sets
    assert set() in sets
    assert set(names[:2]) in [set(one.labels) for one in found.ranked(1)]
    assert (found.candidates.source & SOURCE_GIVEN).astype(bool).sum() == 3
    assert found.known_features.tolist() == [2, 1]


def test_a_document_alone_is_predicted_as_among_others(of_sets):
    data, predictor = of_sets
    whole = predictor.predict_answers(concatenate_datasets(data, data).answers)
    for row in (0, 100, 400):
        one = predictor.predict_answers(data.answers.take([row % data.n]))
        assert one.ranked(0) == whole.ranked(row)


def test_the_order_of_the_labels_columns_changes_nothing(of_sets):
    data, predictor = of_sets
    order = np.random.default_rng(3).permutation(len(data.label_names))
    names = tuple(data.label_names[place] for place in order)
    moved = replace(
        data,
        label_names=names,
        Y=csr_array(data.Y.toarray()[:, order]),
        answers=data.answers.in_columns_of(data.label_names, names),
    )
    other = train(moved, replace(QUICK, preset="fast")).predict_answers(moved.answers)
    own = predictor.predict_answers(data.answers)
    np.testing.assert_array_equal(other.chosen().toarray(), own.chosen().toarray()[:, order])
    np.testing.assert_allclose(other.top_confidence(), own.top_confidence(), atol=1e-6)


def test_data_sets_with_other_columns_are_put_into_those_of_the_model(of_sets):
    data, predictor = of_sets
    names = (*data.label_names[::-1], "unheard of")
    moved = replace(
        data,
        label_names=names,
        Y=csr_array(np.pad(data.Y.toarray()[:, ::-1], ((0, 0), (0, 1)))),
        answers=data.answers.in_columns_of(data.label_names, names),
    )
    there = moved.in_columns_of(data.label_names, None)
    assert_same(predictor.predict_answers(there.answers), predictor.predict_answers(data.answers))


def test_artifacts_predict_bit_for_bit_as_before(tmp_path):
    data = corpora.answered(corpora.texts(120), "scores")
    predictor = train(data, replace(QUICK, preset="fast"))
    save(predictor, tmp_path / "model")
    again = load(tmp_path / "model")
    first = predictor.predict_answers(data.answers, data.texts)
    second = again.predict_answers(data.answers, data.texts)
    np.testing.assert_array_equal(first.confidence, second.confidence)
    np.testing.assert_array_equal(first.marginals, second.marginals)
    assert content_versions(again) == (predictor.version, predictor.calibrator_version)
    assert again.manifest["method"] == "br-rerank"


def test_answers_that_do_not_suit_the_model_are_refused(of_sets, model_of):
    data, predictor = of_sets
    few = corpora.answers_of(data.label_names, [{"labels": data.label_names[:1]}])
    with pytest.raises(ValueError, match="answers count 2 labels; this model knows 6"):
        predictor.predict_answers(ModelAnswers.none(1, 2))
    with pytest.raises(ValueError, match="need the numbers length"):
        predictor.predict_answers(few)
    with pytest.raises(DocumentError, match="no answer of another model"):
        predictor.predict_texts(["fever"])
    with pytest.raises(DocumentError, match="no answer of another model"):
        predictor.predict_features([{"f1": 1.0}])
    plain = model_of(corpora.texts(120), QUICK)
    with pytest.raises(ValueError, match="trained on text: send no answers"):
        plain.predict_answers(few)
    both = model_of(corpora.answered(corpora.texts(120)), QUICK)
    with pytest.raises(ValueError, match="send the texts too"):
        both.predict_answers(data.answers)
    with pytest.raises(ValueError, match="1 documents and 240 answers"):
        both.predict_answers(data.answers, ["fever"])


@pytest.mark.parametrize(("kind", "learnt"), [("scores", "scores"), ("labels", "label sets")])
def test_what_the_model_has_not_learnt_from_is_refused(kind, learnt):
    predictor = train(alone(corpora.answered(corpora.texts(60), kind)), QUICK)
    documents = [{"scores": {"label 0": 0.5}}, {"labels": ["label 0"]}]
    with pytest.raises(DocumentError, match=f"the model learnt from: {learnt};") as caught:
        score(predictor, documents)
    assert caught.value.document == (1 if kind == "scores" else 0)
    both = {**documents[0], **documents[1]}
    assert len(score(predictor, [both])) == 1


def test_truth_may_name_labels_that_no_answer_knows():
    data = alone(corpora.answered(corpora.texts(60), "labels"))
    truth = csr_array(np.pad(data.Y.toarray(), ((0, 0), (0, 1)), constant_values=1))
    predictor = train(replace(data, Y=truth, label_names=(*data.label_names, "new")), QUICK)
    found = score(predictor, [{"labels": ["label 0"]}])
    assert found.ranked(0)[0].labels[-1] == "new"


def test_training_data_that_do_not_fit_are_refused():
    data = corpora.answered(corpora.texts(60))
    with pytest.raises(ValueError, match="'cbm' has its own label scores"):
        train(data, replace(QUICK, method="cbm"))
    with pytest.raises(ValueError, match="external if, and only if"):
        replace(data, answers=None)
    with pytest.raises(ValueError, match="do not suit 60 documents and 6 labels"):
        replace(data, answers=ModelAnswers.none(60, 7))


def test_probabilities_that_are_not_given_are_below_the_smallest():
    fitted = GivenScores().fit(ModelAnswers.of_scores([[0.2, 0.9]]), csr_array(np.eye(2)))
    answers = corpora.answers_of("abc"[:2], [{"scores": {"a": 0.1}}, {"scores": {"a": 0.9}}])
    probability = 1 / (1 + np.exp(-fitted.decision_function(answers)))
    np.testing.assert_allclose(probability, [[0.1, 0.05], [0.9, 0.1]])


def test_a_stored_part_that_reads_no_kind_of_answer_is_refused():
    arrays, settings = (
        GivenScores().fit(ModelAnswers.of_scores([[0.2, 0.9]]), csr_array(np.eye(2))).get_state()
    )
    with pytest.raises(ValueError, match="'reads_scores'"):
        GivenScores.from_state(arrays, settings | {"reads_scores": False})


def test_without_history_nothing_is_sure_and_the_usual_set_comes_first():
    predictor = start_external(("ash", "birch", "cedar"))
    answers = corpora.answers_of(
        predictor.label_names,
        [
            {"candidates": [{"labels": ["birch"]}, {"labels": ["ash"]}, {"labels": ["birch"]}]},
            {"labels": ["ash", "cedar"]},
            {"scores": {"ash": 0.99, "birch": 0.2, "cedar": 0.999}},
            {"labels": []},
        ],
    )
    found = predictor.predict_answers(answers)
    assert [found.ranked(row)[0].labels for row in range(4)] == [
        ("birch",),
        ("ash", "cedar"),
        ("ash", "cedar"),
        (),
    ]
    assert found.confidence.max() <= MOST_UNPROVEN
    np.testing.assert_allclose(
        found.top_confidence(), [1 / 3, 0.5, 0.5 * 0.99 * 0.8 * 0.999, 0.5], rtol=1e-6
    )
    assert predictor.calibration_rows is None


def test_labels_that_start_a_model_are_checked():
    for wrong in ((), ("a", "a"), ("a", " ")):
        with pytest.raises(ValueError, match="label_names"):
            start_external(wrong)


def test_a_model_without_history_is_stored_with_thousands_of_labels(tmp_path):
    names = [f"label {i}" for i in range(5000)]
    predictor = start_external(names)
    save(predictor, tmp_path / "model")
    again = load(tmp_path / "model")
    answers = corpora.answers_of(names, [{"labels": ["label 7", "label 4999"]}])
    assert again.predict_answers(answers).ranked(0)[0].labels == ("label 7", "label 4999")
    assert again.version == predictor.version


@pytest.mark.parametrize("kind", ["candidates", "labels", "scores"])
def test_fifty_reviews_teach_a_model_without_history(kind):
    data = alone(corpora.answered(corpora.texts(400), kind))
    found = start_external(data.label_names).predict_answers(data.answers)
    sets = AnnouncedSets.of(found.candidates, found.confidence)
    right = found.candidates.correct(data.Y)[found.candidates.doc_indptr[:-1]].astype(float)
    reviewed, others = np.arange(50), np.arange(50, 400)
    fitted = ConfidenceCorrection.fit(sets.take(reviewed), ReviewOutcomes.of(right[reviewed]))
    learnt = np.mean((fitted.predict(sets.take(others)) - right[others]) ** 2)
    before = np.mean((sets.confidence[others] - right[others]) ** 2)
    assert learnt < before
    assert learnt < right[others].var() + 0.02


def test_reviews_teach_how_far_to_trust_the_scores_of_answers():
    names, rng = ("ash", "birch"), np.random.default_rng(0)
    log_p = -rng.exponential(0.7, 600)
    right = (rng.random(600) < np.exp(log_p)).astype(float)
    answers = [{"candidates": [{"labels": ["ash"], "score": float(score)}]} for score in log_p]
    found = start_external(names).predict_answers(corpora.answers_of(names, answers))
    assert found.top_confidence().max() <= MOST_UNPROVEN
    assert (np.argsort(found.top_confidence()) == np.argsort(log_p)).all()
    sets = AnnouncedSets.of(found.candidates, found.confidence)
    reviewed, others = np.arange(100), np.arange(100, 600)
    fitted = ConfidenceCorrection.fit(sets.take(reviewed), ReviewOutcomes.of(right[reviewed]))
    brier = np.mean((fitted.predict(sets.take(others)) - right[others]) ** 2)
    assert brier < right[others].var() - 0.03
