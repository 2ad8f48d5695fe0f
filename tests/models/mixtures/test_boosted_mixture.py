"""Boosted mixtures: what trees add, what stays in the sum, state and bad input."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import xgboost

from setwise.models.calibration.trees import read_tree
from setwise.models.evaluation.explanation import describe_model, explain_rows
from setwise.models.mixtures import boosted_mixture
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture, ComponentWarning
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.experts.boosted_trees import BoostedLearner, TreeScores, TreeSettings
from setwise.models.mixtures.mixture_em import WeightedDocuments, responsibilities
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from tests.models.bounds import beats
from tests.models.corpora import dataset
from tests.models.enumeration import assert_inference_equals_enumeration

TREES = TreeSettings(0.3, 5, 0.1, 1.0)


def crossed(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels that depend on the product of two features: no linear score finds them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    same = X[:, 0] * X[:, 1] > 0
    Y = np.where(same[:, None], [1, 1, 0], [0, 0, 1])
    flip = rng.uniform(size=Y.shape) < 0.05
    return X, Y ^ flip


@pytest.fixture(scope="module")
def model() -> BoostedBernoulliMixture:
    X, Y = crossed(600)
    settings = {"learning_rate": 0.3, "max_iter": 25, "validation_fraction": 0.0, "n_jobs": 1}
    return BoostedBernoulliMixture(4, **settings).fit(X, Y)


def test_learns_what_no_linear_mixture_can(model) -> None:
    X, Y = crossed(600, seed=1)
    linear = ConditionalBernoulliMixture(4, features="linear", random_state=0).fit(*crossed(600))
    assert beats(Y, model.predict(X), linear.predict(X))
    gain = model.log_probability(X, Y) - linear.log_probability(X, Y)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_each_m_step_lowers_the_bound_on_this_data() -> None:
    X, Y = crossed(300)
    rows = WeightedDocuments(
        sp.csr_array(X.astype(np.float32)), sp.csr_array(Y.astype(np.uint8)), np.ones(300)
    )
    learner = BoostedLearner(rows, TREES)
    memberships = BernoulliMixture(3, random_state=0).fit(rows.Y).predict_proba(rows.Y)
    state, likelihoods = None, []
    for _ in range(10):
        after = learner.maximise(memberships, state)
        if state is not None:
            before_joint = state.mixture.log_joint(rows.X, rows.Y)
            after_joint = after.mixture.log_joint(rows.X, rows.Y)
            assert (memberships * (after_joint - before_joint)).sum() > 0
        state = after
        memberships, log_likelihood = responsibilities(state.mixture.log_joint(rows.X, rows.Y))
        likelihoods.append(log_likelihood.mean())
    assert np.all(np.diff(likelihoods) > 0)


def test_the_initial_scores_stay_in_the_sum() -> None:
    """With no features to split on, trees add nothing and the constants must answer."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.uniform(size=(400, 1)) < 0.3, [1, 1, 0], [0, 0, 1])
    model = BoostedBernoulliMixture(2, max_iter=3, validation_fraction=0.0, n_jobs=1)
    p = model.fit(np.ones((400, 2)), Y).predict_proba(np.ones((1, 2)))[0]
    np.testing.assert_allclose(p, Y.mean(axis=0), atol=0.02)


def test_inference_is_that_of_every_mixture(model) -> None:
    assert_inference_equals_enumeration(model, crossed(20, seed=2)[0], 3, atol=1e-7)


def test_few_sets_and_bad_arguments() -> None:
    X, Y = np.repeat(np.eye(2), 20, axis=0), np.repeat([[1, 0], [0, 1]], 20, axis=0)
    with pytest.warns(ComponentWarning, match="2 of 9 components remain"):
        model = BoostedBernoulliMixture(9, max_iter=5, validation_fraction=0.0, n_jobs=1).fit(X, Y)
    assert model.score(X, Y) == 1.0
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BoostedBernoulliMixture(2).fit(X, Y[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = BoostedBernoulliMixture(2, max_iter=2, n_jobs=1).fit([[1.0]], [[1]])
    assert alone.predict([[0.0]]).tolist() == [[1]]


def test_the_walk_is_xgboosts_own_prediction() -> None:
    """Sparse rows, values on a split, rounds of three outputs: all add up as there."""
    X, Y = crossed(400)
    X = np.round(X, 1) * (np.abs(X) > 0.3)
    rows, rng = xgboost.QuantileDMatrix(X, nthread=1), np.random.default_rng(0)
    booster = xgboost.Booster(TREES.parameters(3), [rows])
    for round_ in range(5):
        slope = (0.5 - Y + rng.normal(size=Y.shape)).astype(np.float32)
        booster.boost(rows, iteration=round_, grad=slope, hess=np.ones_like(slope))
    initial = np.array([0.5, -1.0, 2.0])
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    read = [read_tree(tree, 4, 4) for tree in trees]
    scores = TreeScores.of(initial)
    for first in range(0, 15, 3):
        scores = scores.plus(read[first : first + 3])
    expected = booster.predict(rows, output_margin=True) + initial
    sparse = sp.csr_array(X.astype(np.float32))
    np.testing.assert_allclose(scores.scores(sparse), expected, atol=1e-6)
    assert np.unique(expected).size > 50
    kept_scores = scores.keep(np.array([2, 0]))
    np.testing.assert_array_equal(kept_scores.scores(sparse), scores.scores(sparse)[:, [2, 0]])
    alone = np.concatenate([scores.scores(sparse[[i]]) for i in range(20)])
    np.testing.assert_array_equal(alone, scores.scores(sparse, n_jobs=2)[:20])


@pytest.mark.parametrize(
    ("name", "value"),
    [("expert_child", 0), ("gate_child", 10**6), ("gate_feature", 4), ("expert_output", 99)],
)
def test_trees_that_loop_or_point_outside_are_refused(model, name: str, value: int) -> None:
    arrays, settings = model.get_state()
    again = BoostedBernoulliMixture.from_state(arrays, settings, features=4, labels=3)
    X = crossed(50, seed=4)[0]
    for ours, theirs in zip(again.parameters(X), model.parameters(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    changed = arrays[name].copy()
    changed[int(np.flatnonzero(arrays[name] > 0)[0])] = value
    with pytest.raises(ValueError, match=r"loops|do not exist"):
        BoostedBernoulliMixture.from_state({**arrays, name: changed}, settings)
    with pytest.raises(ValueError, match="it counts 9 experts"):
        BoostedBernoulliMixture.from_state(
            {
                **arrays,
                "expert_initial": np.zeros(9),
                "expert_output": np.minimum(arrays["expert_output"], 8),
            },
            settings,
        )


def test_the_whole_way_from_training_to_an_explanation(tmp_path) -> None:
    data = dataset(*crossed(500))
    options = TrainingOptions(
        method="cbm",
        experts="boosted",
        preset="paper",
        n_components=3,
        n_folds=2,
        alpha=1e-3,
        n_jobs=1,
    )
    predictor = train(data, options)
    save(predictor, tmp_path / "model")
    served_predictor = load(tmp_path / "model")
    new = dataset(*crossed(300, seed=5))
    predictions = served_predictor.predict(new.X)
    np.testing.assert_array_equal(predictions.confidence, predictor.predict(new.X).confidence)
    alone = [served_predictor.predict(new.X[[i]]).top_confidence()[0] for i in range(20)]
    np.testing.assert_array_equal(alone, predictions.top_confidence()[:20])
    blind = np.tile(np.array([[1, 1, 0]]), (new.n, 1))  # as good as any without the product
    assert beats(new.Y.toarray(), predictions.chosen().toarray(), blind)
    model = describe_model(served_predictor, n_terms=2)
    assert sum(component.share for component in model.components) == pytest.approx(1.0)
    why = next(explain_rows(served_predictor, new.X[:1]))
    assert why.labels == predictions.ranked(0)[0].labels
    assert why.joint == pytest.approx(np.exp(predictions.candidates.log_score[0]))


def test_too_large_a_mixture_is_refused_before_it_is_fitted(monkeypatch) -> None:
    monkeypatch.setattr(boosted_mixture, "available_memory", lambda: 10**6)
    with pytest.raises(ValueError, match="1,000 documents with 4 features and 60 boosted experts"):
        BoostedBernoulliMixture(20).fit(*crossed(1000))
