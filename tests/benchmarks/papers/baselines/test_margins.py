"""PD-Sparse against its dual, and thresholds against enumeration."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from benchmarks.papers.baselines.method import as_sets
from benchmarks.papers.baselines.sparse_margins import SparseMargins, bi_simplex
from benchmarks.papers.baselines.thresholded import best_threshold

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("l1", [0.01, 1.0])
def test_the_sparse_margins_close_the_gap_between_primal_and_dual(l1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    Y = X[:, :4] + rng.normal(size=(40, 4)) > 0.3
    Y[0], Y[1] = 0, 1  # without labels, and with all: nothing to separate
    model = SparseMargins(l1, n_passes=200)
    model.learn(csr_array(X), as_sets(Y))
    z = model.measure(csr_array(X))
    best, worst = np.where(Y, -np.inf, z).max(axis=1), np.where(Y, z, np.inf).min(axis=1)
    half = 0.5 * (model.coef_**2).sum()
    primal = l1 * np.abs(model.coef_).sum() + half + np.maximum(1 + best - worst, 0).sum()
    dual = -half - model.dual_[~Y].sum()
    assert dual <= primal <= 1.005 * dual
    np.testing.assert_allclose(model.dual_.sum(axis=1), 0.0, atol=1e-9)
    assert model.dual_[Y].min() >= 0 >= model.dual_[~Y].max()
    assert model.dual_[Y].sum() <= 40 * model.C
    assert (model.coef_ == 0).any() == (l1 == 1.0)


@pytest.mark.parametrize("most", [0.3, 10.0])
def test_vectors_of_equal_sums_are_the_nearest(most):
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (3, 2), (2, 4)):
        b, c = rng.normal(size=n) + 0.3, rng.normal(size=m)
        both = np.concatenate([b, c])
        found = minimize(
            lambda v, to=both: ((v - to) ** 2).sum(),
            np.zeros(n + m),
            bounds=[(0, None)] * (n + m),
            constraints=[
                {"type": "eq", "fun": lambda v, n=n: v[:n].sum() - v[n:].sum()},
                {"type": "ineq", "fun": lambda v, n=n: most - v[:n].sum()},
            ],
        )
        np.testing.assert_allclose(np.concatenate(bi_simplex(b, c, most)), found.x, atol=1e-4)


def test_the_threshold_gets_most_sets_right():
    rng = np.random.default_rng(2)
    score = rng.normal(size=(30, 3)).round(1)
    truth = score + rng.normal(size=(30, 3)) * 0.5 > 0.2

    def right(threshold):
        return ((score > threshold) == truth).all(axis=1).sum()

    every = np.append(np.unique(score), score.min() - 1)
    assert right(best_threshold(score, truth)) == max(map(right, every[1:]))
