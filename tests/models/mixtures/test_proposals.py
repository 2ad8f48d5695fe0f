"""The methods that rest on a mixture, from training to an artifact and back."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from setwise.models.evaluation.explanation import describe_model, explain_rows
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.mixtures.proposals import (
    Judged,
    choose_size,
    propose_mixture,
    scores_pay,
    set_aside,
)
from setwise.models.mixtures.stacked_mixture import StackedMixture
from setwise.models.options import PRESETS, TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from tests.models.corpora import dataset, vectors

pytestmark = pytest.mark.slow

MIXTURES = ["cbm", pytest.param("cbm-rerank", marks=pytest.mark.verify)]


@pytest.fixture(params=MIXTURES)
def predictor(request, model_of) -> SetPredictor:
    return model_of(vectors(), TrainingOptions(method=request.param, n_components=5, n_folds=3))


def test_the_best_preset_averages_mixtures(predictor):
    mixture = predictor.source.mixture_
    mixture = mixture.model_ if isinstance(mixture, StackedMixture) else mixture
    assert len(mixture.fits_) == PRESETS["best"].n_fits
    assert mixture.n_components_ == 5 * len(mixture.fits_)


def test_confidence_is_calibrated_on_new_documents(predictor):
    new = vectors(n=1500, seed=2)
    found = predictor.predict(new.X)
    metrics = RunningMetrics().add(new.Y, found.chosen(), found.top_confidence()).result()
    assert metrics.brier < metrics.uncertainty
    assert metrics.alignment_error < 0.01
    foretold = predictor.manifest["metrics"]["set_accuracy"]
    assert foretold == pytest.approx(metrics.set_accuracy, abs=3 * np.sqrt(0.25 / 300))


def test_sets_stand_in_the_order_of_the_joint_or_of_confidence_when_reranked(predictor):
    found = predictor.predict(vectors(seed=1).X)
    inside = np.diff(found.candidates.document) == 0
    by = found.candidates.log_score
    if predictor.manifest["method"] == "cbm-rerank":
        by = found.confidence
    assert (np.diff(by)[inside] <= 0).all()


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore::setwise.models.mixtures.bernoulli_mixture.ComponentWarning")
def test_mixtures_see_label_scores_where_rows_set_aside_speak_for_them():
    def source(documents, **given):
        asked = {"n_components": 6, "union": False, "n_jobs": 1, "seed": 0, **given}
        return propose_mixture(3, documents.X, documents.Y, **asked)

    rng = np.random.default_rng(0)
    # Sixty kinds of texts, each with words and a label set of its own: near documents know the set,
    # six components over words do not.
    kinds = rng.integers(0, 60, size=1000)
    words = np.stack([rng.permutation(np.arange(40) < 6) for _ in range(60)])
    sets = rng.random((60, 6)) < 0.4
    noisy = dataset(words[kinds] * (rng.random((1000, 40)) < 0.9), sets[kinds])
    scores = LabelScores(1e-2, n_jobs=1)
    chosen = source(noisy, scores=scores, n_fits=2)
    assert isinstance(chosen.final.mixture_, StackedMixture)
    assert isinstance(chosen.for_folds.mixture, StackedMixture)
    assert chosen.for_folds.mixture.mixture.n_fits == 2
    # Each label is logistic in one number: nothing is gained by a second look.
    X = rng.normal(size=(1000, 3))
    plain = dataset(X, rng.random(X.shape) < 1.0 / (1.0 + np.exp(-1.5 * X)))
    assert not isinstance(source(plain, scores=scores).final.mixture_, StackedMixture)
    # Nor is it tried where it is not asked for, or there are too few documents.
    assert not isinstance(source(noisy).final.mixture_, StackedMixture)
    few = dataset(noisy.X.toarray()[:900], noisy.Y.toarray()[:900])
    assert not isinstance(source(few, scores=scores).final.mixture_, StackedMixture)


def test_label_scores_pay_by_more_than_chance_in_likelihood_and_in_sets():
    rng = np.random.default_rng(0)
    plain = Judged(np.full(400, -3.0), np.arange(400) < 200)
    gain = rng.normal(size=400)
    gain += 0.1 - gain.mean()  # two standard errors of 0.05
    more = np.arange(400) < 205  # five sets in 400 are 2.2 standard errors

    def pay(gain, right=more):
        few = Judged(*(column[: len(gain)] for column in plain))
        return scores_pay(Judged(few.log_likelihood + gain, right[: len(gain)]), few)

    assert pay(gain)
    assert not pay(gain - 0.05)  # real, but not a fiftieth of 3 nats
    assert not pay(1.5 * gain - 0.08)  # more than that, yet within a standard error
    assert not pay(gain, plain.right)
    assert not pay(gain, np.roll(plain.right, 2) | (np.arange(400) == 300))  # three won, two lost
    assert not pay(gain[:1] * 0.0 + 9.0)  # one row says nothing of chance


def test_a_mixture_over_label_scores_is_stored_explained_and_asked_for_f1(tmp_path, monkeypatch):
    monkeypatch.setattr("setwise.models.mixtures.proposals._LEAST_DOCUMENTS_SCORED", 1)
    monkeypatch.setattr("setwise.models.mixtures.proposals.scores_pay", lambda *_: True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComponentWarning)
        options = TrainingOptions(method="cbm", n_components=4, n_folds=2, optimize="f1")
        made = train(vectors(), options)
    assert isinstance(made.source.mixture_, StackedMixture)
    save(made, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.version == made.version
    X = vectors(seed=1).X
    first, second = made.predict(X), again.predict(X)
    np.testing.assert_array_equal(first.confidence, second.confidence)
    np.testing.assert_array_equal(first.chosen().toarray(), second.chosen().toarray())
    learnt = describe_model(again, n_terms=2)
    assert len(learnt.components) == made.source.mixture_.n_components_
    assert all(len(component.terms) <= 2 for component in learnt.components)
    assert next(explain_rows(again, X[:1])).labels


@pytest.mark.filterwarnings("ignore::setwise.models.mixtures.bernoulli_mixture.ComponentWarning")
def test_rows_set_aside_are_a_fifth_and_leave_one_to_learn_from():
    documents = dataset(np.arange(20.0).reshape(10, 2), np.eye(10) > 0)
    kept, aside = set_aside(documents.X, documents.Y, 0)
    assert (kept.X.shape[0], aside.X.shape[0]) == (8, 2)
    together = np.concatenate([kept.X.toarray(), aside.X.toarray()])
    assert sorted(together[:, 0]) == sorted(documents.X.toarray()[:, 0])
    kept, aside = set_aside(documents.X[:2], documents.Y[:2], 0)
    assert (kept.X.shape[0], aside.X.shape[0]) == (1, 1)


def test_the_number_of_components_is_the_likelier_one_on_rows_set_aside():
    rng = np.random.default_rng(0)
    # Sixty kinds of documents, each with a set of its own: no label is linear in six measurements.
    kinds = rng.integers(0, 60, size=2400)
    sets = rng.permutation(np.unique(rng.random((400, 12)) < 0.3, axis=0))[:60]
    places = rng.normal(size=(60, 6))
    places *= 3.0 / np.linalg.norm(places, axis=1, keepdims=True)
    many = dataset(places[kinds] + 0.3 * rng.normal(size=(2400, 6)), sets[kinds])
    template = ConditionalBernoulliMixture(features="linear", alpha=1e-3, random_state=0)
    assert choose_size(template, *set_aside(many.X, many.Y, 0))[0] == 100
    noise = rng.normal(size=(300, 40)), rng.random((300, 9)) < 0.3
    documents = dataset(*noise)
    kept, aside = set_aside(documents.X, documents.Y, 0)
    likelihood, right = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComponentWarning)
        for size in (25, 100):
            model = clone(template).set_params(n_components=size).fit(*kept, validation=aside)
            likelihood[size] = model.log_probability(*aside)
            right[size] = (model.predict(aside.X) == aside.Y.toarray()).all(axis=1)
    chosen, judged = choose_size(template, kept, aside)
    assert chosen == max(likelihood, key=lambda size: likelihood[size].mean())
    np.testing.assert_array_equal(judged.log_likelihood, likelihood[chosen])
    np.testing.assert_array_equal(judged.right, right[chosen])
    few = dataset(noise[0], noise[0][:, :2] > 0)
    assert choose_size(template, *set_aside(few.X, few.Y, 0))[0] == 25
