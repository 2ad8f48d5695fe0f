"""The Bernoulli mixture of label sets: likelihood, weights, recovery, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from setwise.models.mixtures.bernoulli_mixture import (
    BernoulliMixture,
    _DistinctSets,
    _run,
    mixture_covariance,
)
from setwise.models.mixtures.mixture_explanation import label_correlation
from tests.models.enumeration import every_set


def sets_of(seed: int, n: int = 200, n_labels: int = 6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means = rng.beta(0.5, 0.8, size=(3, n_labels))
    return (rng.uniform(size=(n, n_labels)) < means[rng.integers(3, size=n)]).astype(np.uint8)


def log_probability(model: BernoulliMixture, Y: np.ndarray) -> np.ndarray:
    return logsumexp(model._log_joint(Y), axis=1)


@pytest.mark.parametrize("seed", range(6))
def test_objective_never_falls_at_any_step(seed: int) -> None:
    sets = _DistinctSets.collect(sp.csr_array(sets_of(seed)), None, 0.1)
    mixture = sets.draw_start(4, np.random.RandomState(seed))
    values = [_run(sets, mixture, steps, 0.0).objective for steps in range(40)]
    assert np.all(np.diff(values) >= -1e-12)
    assert values[-1] > values[0] + 0.01


def test_probabilities_sum_to_one_over_all_sets() -> None:
    model = BernoulliMixture(3, random_state=0, tol=1e-4).fit(sets_of(1))
    assert np.exp(log_probability(model, every_set(6))).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict_proba(every_set(6)).sum(axis=1), 1.0)


def test_order_of_rows_does_not_matter() -> None:
    Y = sets_of(3)
    shuffled = Y[np.random.default_rng(0).permutation(len(Y))]
    a, b = (BernoulliMixture(3, random_state=1).fit(rows) for rows in (Y, shuffled))
    np.testing.assert_allclose(a.means_, b.means_)


def test_planted_components_are_found() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9, 0.1]])
    Y = rng.uniform(size=(4000, 5)) < means[(rng.uniform(size=4000) < 0.3).astype(int)]
    model = BernoulliMixture(2, random_state=0).fit(Y.astype(int))
    np.testing.assert_allclose(model.means_, means, atol=0.05)
    np.testing.assert_allclose(model.weights_, [0.7, 0.3], atol=0.03)


def test_best_of_several_starts_is_kept() -> None:
    Y = sets_of(4, n=300, n_labels=8)
    one = [
        BernoulliMixture(5, n_init=1, tol=1e-4, random_state=s).fit(Y).objective_ for s in range(12)
    ]
    several = BernoulliMixture(5, n_init=12, tol=1e-4, random_state=0).fit(Y).objective_
    assert several > np.median(one)


def test_covariance_and_correlation_equal_enumeration() -> None:
    model = BernoulliMixture(3, random_state=0, tol=1e-4).fit(sets_of(5))
    sets = every_set(6)
    p = np.exp(log_probability(model, sets))
    mean = p @ sets
    expected = (sets - mean).T @ ((sets - mean) * p[:, None])
    fitted = model.weights_, model.means_
    np.testing.assert_allclose(mixture_covariance(*fitted), expected, atol=1e-12)
    deviation = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        label_correlation(*fitted), expected / np.outer(deviation, deviation), atol=1e-9
    )


def test_two_components_may_leave_labels_uncorrelated() -> None:
    """Non-diagonal covariance is not guaranteed: one label has equal means here."""
    covariance = mixture_covariance(np.array([0.5, 0.5]), np.array([[0.3, 0.5], [0.7, 0.5]]))
    assert covariance[0, 1] == pytest.approx(0.0, abs=1e-15)


def test_more_components_than_distinct_sets_are_reduced_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="5 components for 2 distinct label sets: fitted 2"):
        model = BernoulliMixture(5, random_state=0).fit([[1, 0], [0, 1], [1, 0]])
    assert len(model.weights_) == 2


def test_unfinished_fit_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="after 2 steps"):
        BernoulliMixture(4, n_init=1, max_iter=2, tol=0.0, random_state=0).fit(sets_of(6))


def test_unseen_label_and_single_label_stay_possible() -> None:
    model = BernoulliMixture(2, random_state=0).fit([[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert np.isfinite(log_probability(model, [[0, 0, 1]])).all()
    alone = BernoulliMixture(1, random_state=0).fit([[1], [0], [1]])
    assert 0.5 < alone.means_[0, 0] < 0.8


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="0 and 1"):
        BernoulliMixture(1).fit([[0.5, 1.0]])
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        BernoulliMixture(1).fit([[1, 0]], sample_weight=[0.0])
    with pytest.raises(ValueError, match="expecting 2 features"):
        BernoulliMixture(1).fit([[1, 0], [0, 1]]).predict_proba([[1, 0, 0]])
