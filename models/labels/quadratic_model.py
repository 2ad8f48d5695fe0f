r"""Quadratic model of a linear predictor's loss and its elastic-net minimiser.

Around :math:`z = b + X \beta` a loss is replaced by
:math:`\sum_n g_n \delta_n + \tfrac{1}{2} h_n \delta_n^2`, where :math:`\delta` is the change of
:math:`z`. The model needs only the rows' slopes :math:`g` and curvatures :math:`h`, so it serves
weighted logistic losses, one component of a softmax, or a mixture's shared expert.

The intercept is minimised out exactly, so that a coordinate sees its column as if centred by the
curvatures although the column stays sparse.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.compilation import njit

# Backtracking accepts a step that keeps this share of the decrease its slope promises (Armijo).
SUFFICIENT_DECREASE = 1e-4

# Thirty halvings leave a billionth of the step; a failure there is due to rounding.
MAX_HALVINGS = 30

# A settled row keeps this much curvature, so that the model never divides by zero.
MIN_CURVATURE = 1e-12

# Sweeps end when one gains less than this share of the first: a more exact minimum of the model
# saves no steps.
_SWEEP_ACCURACY = 0.3

# Centred curvature below this share of the raw one is rounding: the column is constant.
_CONSTANT = 1e-11

# Sums may be reordered, which vectorises them; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract"}


class Columns(NamedTuple):
    """A sparse matrix by columns. Unsigned, because numba then skips negative subscripts."""

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]
    values: NDArray[np.float32]


class Penalty(NamedTuple):
    """Strengths of the two norms: ``l1 |b|_1 + l2/2 |b|^2``."""

    l1: float
    l2: float


class Model(NamedTuple):
    """The model around a point, restricted to active features.

    A feature is active if its coefficient is not zero or about to leave zero.
    """

    slope: NDArray[np.float64]  # (n,)
    curvature: NDArray[np.float64]  # (n,)
    active: NDArray[np.uint32]  # (m,)
    gradient: NDArray[np.float64]  # (m,) derivative of the loss along the feature
    along: NDArray[np.float64]  # (m,) curvature with the intercept minimised out; 0: constant
    shared: NDArray[np.float64]  # (m,) curvature shared with the intercept
    total: float  # curvature along the intercept
    delta: NDArray[np.float64]  # (m,) change of the coefficients


def as_columns(X: sp.csc_array) -> Columns:
    """View a csc_array with sorted indices as `Columns`."""
    # Fixed index types, so that numba compiles one version for each type of values.
    return Columns(
        X.indptr.astype(np.uint64),
        X.indices.astype(np.int32, copy=False).view(np.uint32),
        X.data,
    )


@njit(cache=True, nogil=True)
def _shrink(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit(cache=True, nogil=True, fastmath=_REORDER)
def dot_column(X: Columns, j: int, rows: NDArray[np.float64]) -> float:
    """Multiply column ``j`` with a vector over the rows."""
    total = 0.0
    for k in range(X.indptr[j], X.indptr[j + 1]):
        total += X.values[k] * rows[X.indices[k]]
    return total


@njit(cache=True, nogil=True)
def add_column(X: Columns, j: int, factor: float, rows: NDArray[np.float64]) -> None:
    """Add a multiple of column ``j`` to a vector over the rows."""
    for k in range(X.indptr[j], X.indptr[j + 1]):
        rows[X.indices[k]] += factor * X.values[k]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def build_model(
    X: Columns,
    slope: NDArray[np.float64],
    curvature: NDArray[np.float64],
    coef: NDArray[np.float64],
    l1: float,
) -> Model:
    """Build the model around ``coef`` (d,) from slopes and curvatures (n,)."""
    total = curvature.sum()
    d = len(coef)
    active = np.empty(d, dtype=np.uint32)
    gradient = np.empty(d)
    along = np.empty(d)
    shared = np.empty(d)
    m = 0
    for j in range(d):
        gradient[m] = dot_column(X, j, slope)
        if coef[j] == 0.0 and abs(gradient[m]) <= l1:
            continue
        raw = 0.0
        mass = 0.0
        for k in range(X.indptr[j], X.indptr[j + 1]):
            hx = curvature[X.indices[k]] * X.values[k]
            mass += hx
            raw += hx * X.values[k]
        centred = raw - mass * mass / total
        along[m] = centred if centred > _CONSTANT * raw else 0.0
        shared[m] = mass
        active[m] = j
        m += 1
    return Model(
        slope, curvature, active[:m], gradient[:m], along[:m], shared[:m], total, np.zeros(m)
    )


@njit(cache=True, nogil=True)
def distance(model: Model, coef: NDArray[np.float64], penalty: Penalty) -> float:
    """Estimate how far the objective is above its minimum.

    The sum over coordinates of what the model gains along each alone: free of the features'
    units, and zero exactly where the optimality conditions hold.
    """
    slope = float(model.slope.sum())
    gain = 0.5 * slope * slope / model.total
    for a in range(len(model.active)):
        h = model.along[a] + penalty.l2
        if model.along[a] > 0.0:
            b = coef[model.active[a]]
            g = model.gradient[a] - model.shared[a] * slope / model.total + penalty.l2 * b
            change = _shrink(h * b - g, penalty.l1) / h - b
            gain += 0.5 * h * change * change
    return gain


@njit(cache=True, nogil=True)
def minimise_model(
    X: Columns, model: Model, coef: NDArray[np.float64], penalty: Penalty, max_sweeps: int
) -> float:
    """Fill ``delta`` by coordinate descent; return the intercept's change."""
    slope = model.slope.copy()
    rest = float(slope.sum())
    first = 0.0
    for sweep in range(max_sweeps):
        gained = 0.0
        for a in range(len(model.active)):
            j = model.active[a]
            h = model.along[a] + penalty.l2
            b = coef[j] + model.delta[a]
            if model.along[a] > 0.0:
                g = dot_column(X, j, slope) - model.shared[a] * rest / model.total + penalty.l2 * b
                change = _shrink(h * b - g, penalty.l1) / h - b
            else:
                change = -b  # a constant column earns nothing beside the intercept
            if change != 0.0:
                model.delta[a] += change
                rest += model.shared[a] * change
                for k in range(X.indptr[j], X.indptr[j + 1]):
                    i = X.indices[k]
                    slope[i] += model.curvature[i] * (X.values[k] * change)
                gained += h * change * change
        if sweep == 0:
            first = gained
        if gained <= _SWEEP_ACCURACY * first:
            break
    return float(-rest / model.total)


@njit(cache=True, nogil=True)
def aim(  # noqa: PLR0917 - compiled code is called by position
    X: Columns,
    model: Model,
    coef: NDArray[np.float64],
    penalty: Penalty,
    shift: float,
    move: NDArray[np.float64],
) -> float:
    """Fill ``move`` (n,) for the whole step; return its predicted decrease.

    The result is the directional derivative with the L1 norm by its whole change, negative for a
    step worth taking.
    """
    move[:] = shift
    promised = 0.0
    for a in range(len(model.active)):
        delta = model.delta[a]
        if delta != 0.0:
            b = coef[model.active[a]]
            promised += penalty.l2 * b * delta + penalty.l1 * (abs(b + delta) - abs(b))
            add_column(X, model.active[a], delta, move)
    return float(promised + np.dot(model.slope, move))


@njit(cache=True, nogil=True)
def penalty_change(
    model: Model, coef: NDArray[np.float64], penalty: Penalty, length: float
) -> float:
    """Return the change of the penalty over ``length`` of the step."""
    change = 0.0
    for a in range(len(model.active)):
        b = coef[model.active[a]]
        move = length * model.delta[a]
        change += penalty.l1 * (abs(b + move) - abs(b)) + penalty.l2 * move * (b + 0.5 * move)
    return float(change)


@njit(cache=True, nogil=True)
def advance(model: Model, coef: NDArray[np.float64], length: float) -> None:
    """Take the step for ``length`` of its way."""
    for a in range(len(model.active)):
        coef[model.active[a]] += length * model.delta[a]
