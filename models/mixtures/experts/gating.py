r"""Multinomial logistic regression on soft targets, with an elastic-net penalty.

The gate of a mixture learns :math:`\pi_k(x) = \mathrm{softmax}_k(b_k + \beta_k \cdot x)` from
memberships :math:`\gamma_n` (rows that sum to one) by minimising

.. math:: \frac{1}{\sum_n w_n} \sum_n w_n \Big[\log \sum_j e^{z_{nj}}
          - \sum_k \gamma_{nk} z_{nk}\Big]
          + \alpha \sum_k \Big(\rho |\beta_k|_1 + \tfrac{1 - \rho}{2} |\beta_k|_2^2\Big).

The solver moves one component at a time by a proximal Newton step with a line search on the
objective itself, and updates the probabilities after each: every step descends, from any start.
Intercepts are determined up to a common shift.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.labels.quadratic_model import (
    MAX_HALVINGS,
    MIN_CURVATURE,
    SUFFICIENT_DECREASE,
    Columns,
    Penalty,
    add_column,
    advance,
    aim,
    as_columns,
    build_model,
    minimise_model,
    penalty_change,
)

# Above this probability one minus it loses digits, so the others' are summed instead.
_NEARLY_CERTAIN = 0.99


@dataclass(frozen=True, eq=False)
class LinearGate:
    """A fitted gate."""

    coef: sp.csr_array  # (n_components, n_features)
    intercept: NDArray[np.float64]  # (n_components,)

    def penalty(self, alpha: float, l1_ratio: float) -> float:
        """Return the elastic-net penalty of the coefficients."""
        values = self.coef.data
        return float(
            alpha * (l1_ratio * np.abs(values).sum() + 0.5 * (1.0 - l1_ratio) * (values**2).sum())
        )


def constant_gate(targets: NDArray[np.float64], weight: NDArray[np.float64], d: int) -> LinearGate:
    """Return the constant gate: the weighted mean of the memberships."""
    share = weight @ targets / weight.sum()
    floor = np.finfo(np.float64).tiny
    return LinearGate(sp.csr_array((targets.shape[1], d)), np.log(np.maximum(share, floor)))


def fit_gate(
    X: sp.csc_array,
    targets: NDArray[np.float64],
    *,
    alpha: float,
    l1_ratio: float,
    sample_weight: NDArray[np.float64] | None = None,
    start: LinearGate | None = None,
    max_passes: int = 100,
    max_sweeps: int = 10,
    tol: float = 1e-8,
) -> tuple[LinearGate, bool]:
    """Fit a gate.

    Parameters
    ----------
    X : csc_array of shape (n, n_features), float32
        Finite features with sorted indices.
    targets : float64 ndarray of shape (n, n_components)
        Memberships in [0, 1]; rows sum to one.
    alpha : float
        Penalty strength relative to the mean loss, not negative.
    l1_ratio : float
        In [0, 1]; 0 is ridge, 1 is lasso.
    sample_weight : float64 ndarray of shape (n,), optional
        Not negative, not all zero.
    start : LinearGate, optional
        Where to start; by default at the constant gate.
    max_passes : int
        Newton steps per component.
    max_sweeps : int
        Coordinate-descent sweeps per Newton step.
    tol : float
        Passes end when one lowers the objective by less than this, in nats.

    Returns
    -------
    gate : LinearGate
    converged : bool
        Whether the passes ended by ``tol``.
    """
    n, d = X.shape
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if start is None:
        start = constant_gate(targets, weight, d)
    coef = np.ascontiguousarray(start.coef.toarray())
    intercept = start.intercept.astype(np.float64)
    converged = _fit(
        as_columns(sp.csc_array(X, dtype=np.float32)),
        _Memberships(np.ascontiguousarray(targets.T), weight / weight.sum()),
        coef,
        intercept,
        Penalty(alpha * l1_ratio, alpha * (1.0 - l1_ratio)),
        max_passes,
        max_sweeps,
        tol,
    )
    return LinearGate(sp.csr_array(coef), intercept - intercept.max()), bool(converged)


class _Softmax(NamedTuple):
    """Logits of all components and their log-sum-exp, updated in place."""

    z: NDArray[np.float64]  # (K, n)
    log_sum: NDArray[np.float64]  # (n,)


class _Memberships(NamedTuple):
    """Targets of the gate."""

    targets: NDArray[np.float64]  # (K, n)
    weight: NDArray[np.float64]  # (n,), sums to one


@njit(cache=True, nogil=True)
def _log_sum_exp(z: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(z.shape[1]):
        top = -math.inf
        for k in range(z.shape[0]):
            top = max(top, z[k, i])
        total = 0.0
        for k in range(z.shape[0]):
            total += math.exp(z[k, i] - top)
        out[i] = top + math.log(total)


@njit(cache=True, nogil=True)
def _split(soft: _Softmax, k: int, inside: NDArray[np.float64], rest: NDArray[np.float64]) -> None:
    """Fill each row's probability of component ``k`` and of all others."""
    for i in range(len(inside)):
        inside[i] = math.exp(soft.z[k, i] - soft.log_sum[i])
        rest[i] = 1.0 - inside[i]
        if inside[i] > _NEARLY_CERTAIN:
            rest[i] = 0.0
            for other in range(soft.z.shape[0]):
                if other != k:
                    rest[i] += math.exp(soft.z[other, i] - soft.log_sum[i])


@njit(cache=True, nogil=True)
def _grow(inside: float, rest: float, step: float) -> float:
    """Return the change of the log-sum-exp for one logit's ``step``."""
    if step > 0.0:  # factor the larger exponential out
        return step + math.log(inside + rest * math.exp(-step))
    return math.log(rest + inside * math.exp(step))


@njit(cache=True, nogil=True)
def _move_component(  # noqa: PLR0917  # compiled: no keywords
    X: Columns,
    soft: _Softmax,
    rows: _Memberships,
    k: int,
    coef: NDArray[np.float64],
    penalty: Penalty,
    max_sweeps: int,
) -> tuple[float, float]:
    """Take one proximal Newton step for component ``k``.

    Returns the decrease of the objective and the change of the intercept.
    """
    n = len(rows.weight)
    target = rows.targets[k]
    inside = np.empty(n)
    rest = np.empty(n)
    _split(soft, k, inside, rest)
    slope = rows.weight * (inside - target)
    curvature = rows.weight * np.maximum(inside * rest, MIN_CURVATURE)
    model = build_model(X, slope, curvature, coef, penalty.l1)
    shift = minimise_model(X, model, coef, penalty, max_sweeps)
    move = np.empty(n)
    promised = aim(X, model, coef, penalty, shift, move)
    if promised >= 0.0:
        return 0.0, 0.0
    length = 1.0
    for _ in range(MAX_HALVINGS):
        change = penalty_change(model, coef, penalty, length)
        for i in range(n):
            if rows.weight[i] > 0.0:
                step = length * move[i]
                change += rows.weight[i] * (_grow(inside[i], rest[i], step) - target[i] * step)
        if change <= SUFFICIENT_DECREASE * length * promised:
            advance(model, coef, length)
            for i in range(n):
                soft.z[k, i] += length * move[i]
                soft.log_sum[i] += _grow(inside[i], rest[i], length * move[i])
            return -change, length * shift
        length *= 0.5
    return 0.0, 0.0


@njit(cache=True, nogil=True)
def _fit(  # noqa: PLR0917  # compiled: no keywords
    X: Columns,
    rows: _Memberships,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    penalty: Penalty,
    max_passes: int,
    max_sweeps: int,
    least_gain: float,
) -> bool:
    """Improve ``coef`` and ``intercept`` in place; return whether converged."""
    n_components, n = rows.targets.shape
    soft = _Softmax(np.empty((n_components, n)), np.empty(n))
    for k in range(n_components):
        soft.z[k] = intercept[k]
        for j in range(coef.shape[1]):
            if coef[k, j] != 0.0:
                add_column(X, j, coef[k, j], soft.z[k])
    for _ in range(max_passes):
        _log_sum_exp(soft.z, soft.log_sum)  # recomputed, because updates accumulate rounding
        total = 0.0
        for k in range(n_components):
            gained, shift = _move_component(X, soft, rows, k, coef[k], penalty, max_sweeps)
            total += gained
            intercept[k] += shift
        if total <= least_gain:
            return True
    return False
