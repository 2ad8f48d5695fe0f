"""The methods that rest on a mixture, from training to an artifact and back."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.proposals import choose_size, set_aside
from setwise.models.options import PRESETS, TrainingOptions
from setwise.models.predictor import SetPredictor
from tests.models.corpora import dataset, vectors

pytestmark = pytest.mark.slow

MIXTURES = ["cbm", pytest.param("cbm-rerank", marks=pytest.mark.verify)]


@pytest.fixture(params=MIXTURES)
def predictor(request, model_of) -> SetPredictor:
    return model_of(vectors(), TrainingOptions(method=request.param, n_components=5, n_folds=3))


def test_the_best_preset_averages_mixtures(predictor):
    mixture = predictor.source.mixture_
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
    assert choose_size(template, *set_aside(many.X, many.Y, 0)) == 100
    noise = rng.normal(size=(300, 40)), rng.random((300, 9)) < 0.3
    documents = dataset(*noise)
    kept, aside = set_aside(documents.X, documents.Y, 0)
    likelihood = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComponentWarning)
        for size in (25, 100):
            model = clone(template).set_params(n_components=size).fit(*kept, validation=aside)
            likelihood[size] = model.log_probability(*aside)
    likeliest = max(likelihood, key=lambda size: likelihood[size].mean())
    assert choose_size(template, kept, aside) == likeliest
    few = dataset(noise[0], noise[0][:, :2] > 0)
    assert choose_size(template, *set_aside(few.X, few.Y, 0)) == 25
