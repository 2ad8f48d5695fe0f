"""The gate: its optimum and its descent."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_softmax

from setwise.models.mixtures.experts.gating import constant_gate, fit_gate


def problem(seed: int, n: int = 80, d: int = 6, n_components: int = 4) -> tuple:
    rng = np.random.default_rng(seed)
    X = sp.csr_array(
        (rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.6)).astype(np.float32)
    )
    targets = rng.dirichlet(np.full(n_components, 0.4), size=n)
    return X, targets, rng.uniform(0.2, 2.0, size=n)


def log_probabilities(gate, X) -> np.ndarray:
    return log_softmax(X @ gate.coef.toarray().T + gate.intercept, axis=1)


def gate_loss(log_p, targets, weight) -> float:
    """Return the weighted mean of the cross-entropy between memberships and the gate."""
    own = np.where(targets > 0.0, targets * log_p, 0.0).sum(axis=1)
    return float(-(weight @ own) / weight.sum())


def objective(gate, X, targets, weight, alpha: float, l1_ratio: float) -> float:
    return gate_loss(log_probabilities(gate, X), targets, weight) + gate.penalty(alpha, l1_ratio)


@pytest.mark.parametrize("seed", range(4))
def test_ridge_optimum_equals_a_general_solver(seed: int) -> None:
    X, targets, weight = problem(seed)
    alpha = 0.02
    gate, converged = fit_gate(
        sp.csc_array(X), targets, alpha=alpha, l1_ratio=0.0, sample_weight=weight, tol=1e-13
    )
    assert converged
    dense, w = X.toarray().astype(float), weight / weight.sum()

    def value_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef = flat.reshape(4, 7)
        z = dense @ coef[:, :6].T + coef[:, 6]
        z -= z.max(axis=1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        error = w[:, None] * (np.exp(log_p) - targets)
        slope = np.column_stack([error.T @ dense + alpha * coef[:, :6], error.sum(axis=0)])
        value = -(w[:, None] * targets * log_p).sum() + 0.5 * alpha * (coef[:, :6] ** 2).sum()
        return value, slope.ravel()

    reference = minimize(
        value_and_slope, np.zeros(28), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    mine = objective(gate, X, targets, weight, alpha, 0.0)
    assert mine == pytest.approx(reference.fun, abs=1e-9)
    np.testing.assert_allclose(gate.coef.toarray(), reference.x.reshape(4, 7)[:, :6], atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_elastic_net_optimum_satisfies_its_conditions(l1_ratio: float) -> None:
    X, targets, weight = problem(7)
    alpha = 0.03
    gate, _ = fit_gate(
        sp.csc_array(X), targets, alpha=alpha, l1_ratio=l1_ratio, sample_weight=weight, tol=1e-14
    )
    w = weight / weight.sum()
    error = w[:, None] * (np.exp(log_probabilities(gate, X)) - targets)
    slope = error.T @ X.toarray()
    coef = gate.coef.toarray()
    at_zero = coef == 0.0
    assert at_zero.any()
    assert not at_zero.all()
    assert np.all(np.abs(slope[at_zero]) <= alpha * l1_ratio + 1e-6)
    smooth = slope + alpha * (1 - l1_ratio) * coef + alpha * l1_ratio * np.sign(coef)
    np.testing.assert_allclose(smooth[~at_zero], 0.0, atol=1e-6)
    np.testing.assert_allclose(error.sum(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_every_pass_descends_from_any_start(seed: int) -> None:
    X, targets, weight = problem(seed)
    rng = np.random.default_rng(seed)
    gate = constant_gate(targets, weight, 6)
    gate = type(gate)(sp.csr_array(rng.normal(scale=5.0, size=(4, 6))), rng.normal(size=4))
    values = [objective(gate, X, targets, weight, 0.01, 0.5)]
    for _ in range(12):
        gate, _ = fit_gate(
            sp.csc_array(X),
            targets,
            alpha=0.01,
            l1_ratio=0.5,
            sample_weight=weight,
            start=gate,
            max_passes=1,
        )
        values.append(objective(gate, X, targets, weight, 0.01, 0.5))
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] < values[0]


def test_integer_weights_equal_repeated_documents() -> None:
    X, targets, _ = problem(3)
    counts = np.random.default_rng(0).integers(0, 4, size=80)
    rows = np.repeat(np.arange(80), counts)
    settings = {"alpha": 0.02, "l1_ratio": 0.5, "tol": 1e-14}
    gate, _ = fit_gate(sp.csc_array(X), targets, sample_weight=counts.astype(float), **settings)
    repeated_gate, _ = fit_gate(sp.csc_array(X[rows]), targets[rows], **settings)
    np.testing.assert_allclose(
        log_probabilities(gate, X), log_probabilities(repeated_gate, X), atol=1e-5
    )


def test_separable_and_dead_components_stay_finite() -> None:
    X = sp.csc_array(np.repeat(np.eye(3), 10, axis=0).astype(np.float32))
    targets = np.column_stack([np.repeat(np.eye(3), 10, axis=0), np.zeros(30)])
    gate, _ = fit_gate(X, targets, alpha=0.0, l1_ratio=0.5, max_passes=200)
    log_p = log_probabilities(gate, X)
    assert np.isfinite(gate.coef.data).all()
    assert np.isfinite(gate.intercept).all()
    assert gate_loss(log_p, targets, np.ones(30)) < 1e-3
