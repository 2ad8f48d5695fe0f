r"""Label classifiers shared by all components, with a bias for each.

The expert of label :math:`l` in component :math:`k` has the logit

.. math:: z_{nkl} = w_l \cdot x_n + b_l + c_{kl},

one detector per label whose threshold depends on the component (thesis, section 3.12.1). Given
memberships :math:`\gamma` each label minimises

.. math:: J_l = \frac{1}{\sum_n w_n} \sum_n w_n \sum_k \gamma_{nk}
          \big[\log(1 + e^{z_{nkl}}) - y_{nl} z_{nkl}\big]
          + \alpha_l \Big(\rho |w_l|_1 + \tfrac{1 - \rho}{2} |w_l|_2^2\Big)
          + \tfrac{\kappa}{2} \sum_k c_{kl}^2 .

A step in :math:`w_l` uses only sums over components, so no document is copied, and the cost depends
on the number of non-negligible memberships instead of K. In the thesis both
:math:`b_l` and :math:`c_{kl}` are free, so neither is determined; here the biases are penalised.
"""

import math
from concurrent.futures import ThreadPoolExecutor
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
from setwise.models.mixtures.mixture_scoring import SharedExperts
from setwise.models.parallel import thread_count

# Below this the error of six terms of the series of log(1 + e) is less than rounding.
_SMALL = 0.01

# Few enough to balance the threads, many enough to make Python's overhead negligible.
_LABELS_PER_TASK = 4


@dataclass(frozen=True)
class SharedSettings:
    """Settings of shared experts."""

    l1_ratio: float  # share of the L1 norm in the penalty of the detectors
    bias_penalty: float = 1e-4  # ridge on the components' biases
    membership_floor: float = 1e-3  # smaller memberships are left out
    # newton_steps and max_sweeps: steps and sweeps per label and EM step.
    newton_steps: int = 2
    max_sweeps: int = 3


class _Shares(NamedTuple):
    """Non-negligible memberships by document, with a total of one."""

    indptr: NDArray[np.int64]
    component: NDArray[np.int32]
    share: NDArray[np.float64]


class _ExpertStart(NamedTuple):
    """Start of all labels: sparse detectors, intercepts and biases."""

    indptr: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float64]
    intercept: NDArray[np.float64]  # (L,)
    bias: NDArray[np.float64]  # (L, K)


class _Rows(NamedTuple):
    """Targets of one label's expert."""

    shares: _Shares
    target: NDArray[np.float64]  # (n,)


class _Point(NamedTuple):
    """One label's parameters, updated in place."""

    coef: NDArray[np.float64]  # (d,)
    bias: NDArray[np.float64]  # (K,)
    u: NDArray[np.float64]  # (n,) logits without the biases


def fit_shared_experts(
    X: sp.csc_array,
    Y: sp.csr_array,
    memberships: NDArray[np.float64],
    weight: NDArray[np.float64],
    alpha: NDArray[np.float64],
    *,
    settings: SharedSettings,
    start: SharedExperts | None = None,
    n_jobs: int | None = None,
) -> SharedExperts:
    """Improve shared experts by alternating Newton steps.

    Steps in biases and in detectors alternate.

    Parameters
    ----------
    X : csc_array of shape (n, n_features), float32
    Y : csr_array of shape (n, n_labels)
    memberships : ndarray of shape (n, n_components)
        Rows sum to one.
    weight : ndarray of shape (n,)
        Weights of the documents.
    alpha : ndarray of shape (n_labels,)
        Penalty strengths of the detectors.
    settings : SharedSettings
    start : SharedExperts, optional
        Where to start; by default every label at its rate.
    n_jobs : int or None
        Threads; the result does not depend on it.
    """
    n_labels, n_components = Y.shape[1], memberships.shape[1]
    if start is None:
        rate = (np.asarray(weight @ Y) + 0.5) / (weight.sum() + 1.0)
        start = SharedExperts(
            sp.csr_array((n_labels, X.shape[1])),
            np.log(rate) - np.log1p(-rate),
            np.zeros((n_components, n_labels)),
        )
    before = _ExpertStart(
        start.coef.indptr.astype(np.int64),
        start.coef.indices.astype(np.int32),
        np.asarray(start.coef.data, dtype=np.float64),
        np.asarray(start.intercept, dtype=np.float64),
        np.ascontiguousarray(start.bias.T),
    )
    shares = _collect_shares(memberships, weight, settings.membership_floor)
    columns, targets = (as_columns(sp.csc_array(A, dtype=np.float32)) for A in (X, Y))
    l1, l2 = alpha * settings.l1_ratio, alpha * (1.0 - settings.l1_ratio)
    work = (settings.bias_penalty, settings.newton_steps, settings.max_sweeps)
    intercept, bias = before.intercept.copy(), before.bias.copy()

    def fit(first: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        last = min(first + _LABELS_PER_TASK, n_labels)
        rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] = _fit_labels(
            columns, targets, shares, before, l1, l2, work, first, last, intercept, bias
        )
        return rows

    threads = thread_count(n_jobs)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(fit, range(0, n_labels, _LABELS_PER_TASK)))
    sizes = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
    coef = sp.csr_array(
        (
            np.concatenate([values for _, _, values in parts]),
            np.concatenate([features for _, features, _ in parts]),
            np.concatenate([[0], np.cumsum(sizes)]),
        ),
        shape=(n_labels, X.shape[1]),
    )
    return SharedExperts(coef, intercept, np.ascontiguousarray(bias.T))


def _collect_shares(
    memberships: NDArray[np.float64], weight: NDArray[np.float64], floor: float
) -> _Shares:
    shares = sp.csr_array(np.where(memberships > floor, memberships * weight[:, None], 0.0))
    return _Shares(
        shares.indptr.astype(np.int64),
        shares.indices.astype(np.int32),
        shares.data / weight.sum(),
    )


class _Slopes(NamedTuple):
    """First and second derivatives of the loss."""

    by_row: NDArray[np.float64]  # (n,) by a document's logit, all components together
    row_curvature: NDArray[np.float64]
    by_bias: NDArray[np.float64]  # (K,)
    bias_curvature: NDArray[np.float64]


@njit(cache=True, nogil=True)
def _log1p(e: float) -> float:
    """Return log(1 + e) for e from 0 to 1."""
    if e < _SMALL:
        series = 0.25 - e * (0.2 - e / 6.0)
        return e * (1.0 - e * (0.5 - e * (1.0 / 3.0 - e * series)))
    return math.log1p(e)


@njit(cache=True, nogil=True)
def _evaluate(
    rows: _Rows, u: NDArray[np.float64], bias: NDArray[np.float64], slopes: _Slopes
) -> float:
    """Return the loss and fill its derivatives, sharing one exponential."""
    shares = rows.shares
    slopes.by_bias[:] = 0.0
    slopes.bias_curvature[:] = 0.0
    loss = 0.0
    for i in range(len(u)):
        row_slope = 0.0
        row_curvature = 0.0
        for a in range(shares.indptr[i], shares.indptr[i + 1]):
            k = shares.component[a]
            share = shares.share[a]
            z = u[i] + bias[k]
            e = math.exp(-abs(z))
            rest = e / (1.0 + e)
            p = 1.0 - rest if z > 0.0 else rest
            loss += share * (max(z, 0.0) + _log1p(e) - rows.target[i] * z)
            slope = share * (p - rows.target[i])
            curvature = share * max(rest * (1.0 - rest), MIN_CURVATURE)
            row_slope += slope
            row_curvature += curvature
            slopes.by_bias[k] += slope
            slopes.bias_curvature[k] += curvature
        slopes.by_row[i] = row_slope
        slopes.row_curvature[i] = row_curvature
    return loss


@njit(cache=True, nogil=True)
def _copy(source: _Slopes, target: _Slopes) -> None:
    target.by_row[:] = source.by_row
    target.row_curvature[:] = source.row_curvature
    target.by_bias[:] = source.by_bias
    target.bias_curvature[:] = source.bias_curvature


@njit(cache=True, nogil=True)
def _move_biases(  # noqa: PLR0917  # compiled: no keywords
    rows: _Rows, point: _Point, loss: float, at: _Slopes, trial_at: _Slopes, ridge: float
) -> float:
    """Take a Newton step in all biases (independent); return the loss."""
    slope = at.by_bias + ridge * point.bias
    step = -slope / (at.bias_curvature + (ridge + MIN_CURVATURE))
    promised = np.dot(slope, step)
    penalty = 0.5 * ridge * np.dot(point.bias, point.bias)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        trial = point.bias + length * step
        after = _evaluate(rows, point.u, trial, trial_at)
        change = after - loss + 0.5 * ridge * np.dot(trial, trial) - penalty
        if change <= SUFFICIENT_DECREASE * length * promised:
            point.bias[:] = trial
            _copy(trial_at, at)
            return after
        length *= 0.5
    return loss


@njit(cache=True, nogil=True)
def _move_detector(  # noqa: PLR0917  # compiled: no keywords
    X: Columns,
    rows: _Rows,
    point: _Point,
    loss: float,
    at: _Slopes,
    trial_at: _Slopes,
    penalty: Penalty,
    max_sweeps: int,
) -> tuple[float, float]:
    """Take a proximal Newton step in the detector.

    Returns the loss reached and the change of the intercept.
    """
    model = build_model(X, at.by_row, at.row_curvature, point.coef, penalty.l1)
    shift = minimise_model(X, model, point.coef, penalty, max_sweeps)
    move = np.empty(len(point.u))
    promised = aim(X, model, point.coef, penalty, shift, move)
    if promised >= 0.0:
        return loss, 0.0
    length = 1.0
    for _ in range(MAX_HALVINGS):
        trial = point.u + length * move
        after = _evaluate(rows, trial, point.bias, trial_at)
        change = after - loss + penalty_change(model, point.coef, penalty, length)
        if change <= SUFFICIENT_DECREASE * length * promised:
            advance(model, point.coef, length)
            point.u[:] = trial
            _copy(trial_at, at)
            return after, length * shift
        length *= 0.5
    return loss, 0.0


@njit(cache=True, nogil=True)
def _make_slopes(n: int, n_components: int) -> _Slopes:
    return _Slopes(np.empty(n), np.empty(n), np.empty(n_components), np.empty(n_components))


@njit(cache=True, nogil=True)
def _improve(  # noqa: PLR0917  # compiled: no keywords
    X: Columns,
    rows: _Rows,
    point: _Point,
    penalty: Penalty,
    ridge: float,
    n_steps: int,
    max_sweeps: int,
) -> float:
    """Improve one label's parameters in place; return the change of the intercept."""
    for j in range(len(point.coef)):
        if point.coef[j] != 0.0:
            add_column(X, j, point.coef[j], point.u)
    at = _make_slopes(len(point.u), len(point.bias))
    trial_at = _make_slopes(len(point.u), len(point.bias))
    loss = _evaluate(rows, point.u, point.bias, at)
    shift = 0.0
    for _ in range(n_steps):
        loss = _move_biases(rows, point, loss, at, trial_at, ridge)
        loss, moved = _move_detector(X, rows, point, loss, at, trial_at, penalty, max_sweeps)
        shift += moved
    return shift


@njit(cache=True, nogil=True)
def _fit_labels(  # noqa: PLR0917  # compiled: no keywords
    X: Columns,
    Y: Columns,
    shares: _Shares,
    start: _ExpertStart,
    l1: NDArray[np.float64],
    l2: NDArray[np.float64],
    work: tuple[float, int, int],
    first: int,
    last: int,
    intercept: NDArray[np.float64],
    bias: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Improve a range of labels; return sparse rows of detectors.

    Intercepts and biases are updated in place.
    """
    n, d = len(shares.indptr) - 1, len(X.indptr) - 1
    indptr = np.zeros(last - first + 1, dtype=np.int64)
    features = np.empty(1024, dtype=np.int32)
    values = np.empty(1024)
    fill = 0
    target = np.empty(n)
    for label in range(first, last):
        target[:] = 0.0
        for t in range(Y.indptr[label], Y.indptr[label + 1]):
            target[Y.indices[t]] = 1.0
        point = _Point(np.zeros(d), bias[label], np.full(n, intercept[label]))
        for t in range(start.indptr[label], start.indptr[label + 1]):
            point.coef[start.features[t]] = start.values[t]
        penalty = Penalty(l1[label], l2[label])
        rows = _Rows(shares, target)
        intercept[label] += _improve(X, rows, point, penalty, work[0], work[1], work[2])
        count = np.count_nonzero(point.coef)
        if fill + count > len(values):
            more = np.empty(2 * len(values) + count, dtype=np.int32)
            more[:fill] = features[:fill]
            features = more
            larger = np.empty(len(more))
            larger[:fill] = values[:fill]
            values = larger
        for j in range(d):
            if point.coef[j] != 0.0:
                features[fill] = j
                values[fill] = point.coef[j]
                fill += 1
        indptr[label - first + 1] = fill
    return indptr, features[:fill].copy(), values[:fill].copy()
