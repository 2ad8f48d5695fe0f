"""Shared experts: their optimum, their descent, and what sharing must and must not change."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from setwise.models.labels.linear import fit_elastic_net
from setwise.models.mixtures.experts.shared_experts import SharedSettings, fit_shared_experts
from setwise.models.mixtures.mixture_scoring import SharedExperts


def problem(seed: int, n: int = 60, d: int = 4, n_components: int = 3) -> tuple:
    rng = np.random.default_rng(seed)
    X = sp.csc_array(rng.normal(size=(n, d)).astype(np.float32))
    Y = sp.csr_array((rng.uniform(size=(n, 2)) < 0.4).astype(np.uint8))
    return X, Y, rng.dirichlet(np.full(n_components, 0.5), size=n), rng.uniform(0.5, 2.0, size=n)


def objective(flat: np.ndarray, X, y, memberships, weight, alpha: float, ridge: float) -> float:
    """One label's objective, written down from its definition."""
    coef, intercept, bias = flat[:4], flat[4], flat[5:]
    z = (X @ coef + intercept)[:, None] + bias
    loss = np.logaddexp(0.0, z) - y[:, None] * z
    mean = (weight[:, None] * memberships * loss).sum() / weight.sum()
    return mean + 0.5 * alpha * (coef**2).sum() + 0.5 * ridge * (bias**2).sum()


@pytest.mark.parametrize("seed", range(3))
def test_optimum_equals_a_general_solver(seed: int) -> None:
    X, Y, memberships, weight = problem(seed)
    settings = SharedSettings(0.0, 0.05, membership_floor=0.0, newton_steps=200, max_sweeps=20)
    experts = fit_shared_experts(X, Y, memberships, weight, np.array([0.1, 0.1]), settings=settings)
    for label in range(2):
        data = (X, Y.toarray()[:, label].astype(float), memberships, weight, 0.1, 0.05)
        best = minimize(objective, np.zeros(8), args=data, method="BFGS", options={"gtol": 1e-8})
        mine = np.concatenate(
            [
                experts.coef[[label]].toarray().ravel(),
                [experts.intercept[label]],
                experts.bias[:, label],
            ]
        )
        assert objective(mine, *data) == pytest.approx(best.fun, abs=1e-9)


def test_one_component_is_independent_logistic_regression() -> None:
    X, Y, _, weight = problem(7)
    settings = SharedSettings(0.5, 1.0, newton_steps=100, max_sweeps=50)
    experts = fit_shared_experts(
        X, Y, np.ones((60, 1)), weight, np.full(2, 0.02), settings=settings
    )
    alone = fit_elastic_net(X, Y, alpha=0.02, l1_ratio=0.5, sample_weight=weight, tol=1e-12)
    np.testing.assert_allclose(experts.coef.toarray(), alone.coef.toarray(), atol=1e-4)
    np.testing.assert_allclose(experts.intercept + experts.bias[0], alone.intercept, atol=1e-4)


def test_each_step_descends_and_carries_on_from_its_start() -> None:
    X, Y, memberships, weight = problem(9)
    rng = np.random.default_rng(1)
    start = SharedExperts(
        sp.csr_array(rng.normal(scale=3.0, size=(2, 4))),
        rng.normal(size=2),
        rng.normal(scale=3.0, size=(3, 2)),
    )
    data = (X, Y.toarray()[:, 0].astype(float), memberships, weight, 0.03, 0.05)
    values = []
    for _ in range(10):
        flat = [start.coef[[0]].toarray().ravel(), [start.intercept[0]], start.bias[:, 0]]
        values.append(objective(np.concatenate(flat), *data))
        start = fit_shared_experts(
            X,
            Y,
            memberships,
            weight,
            np.full(2, 0.03),
            settings=SharedSettings(0.0, 0.05, membership_floor=0.0, newton_steps=1),
            start=start,
        )
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] < values[0] - 0.1
