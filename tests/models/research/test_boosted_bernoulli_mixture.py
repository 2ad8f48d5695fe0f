"""Boosted mixtures: what trees add, what stays in the sum, state and bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture, ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_em import Documents, responsibilities
from setwise.models.research.boosted_bernoulli_mixture import BoostedBernoulliMixture
from setwise.models.research.boosted_learner import BoostedLearner, TreeSettings
from tests.models.enumeration import assert_inference_equals_enumeration

TREES = TreeSettings(1, 0.3, 5, 0.1, 1.0, 1)


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
    settings = {"max_iter": 25, "validation_fraction": 0.0, "n_jobs": 1, "random_state": 0}
    return BoostedBernoulliMixture(4, **settings).fit(X, Y)


def test_learns_what_no_linear_mixture_can(model) -> None:
    X, Y = crossed(600, seed=1)
    linear = ConditionalBernoulliMixture(4, features="linear", random_state=0).fit(*crossed(600))
    assert model.score(X, Y) > 0.7
    assert linear.score(X, Y) < 0.6
    assert model.log_probability(X, Y).mean() > linear.log_probability(X, Y).mean() + 0.3


def test_each_m_step_lowers_the_bound_on_this_data() -> None:
    X, Y = crossed(300)
    rows = Documents(
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
    with pytest.raises(ValueError, match="max_leaves must be at least 2"):
        BoostedBernoulliMixture(2, max_leaves=1).fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BoostedBernoulliMixture(2).fit(X, Y[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = BoostedBernoulliMixture(2, max_iter=2, n_jobs=1).fit([[1.0]], [[1]])
    assert alone.predict([[0.0]]).tolist() == [[1]]
