"""Compiled proximal Newton steps for elastic-net logistic regression on sparse columns.

One problem has targets :math:`t_n \\in [0, 1]` and weights that sum to one:

.. math:: \\min_{b, \\beta} \\sum_n w_n [\\log(1 + e^{z_n}) - t_n z_n]
          + \\lambda_1 |\\beta|_1 + \\tfrac{\\lambda_2}{2} |\\beta|_2^2, \\quad z = b + X \\beta.

A step replaces the loss by a quadratic model, minimises model plus penalty by coordinate descent
over the features that can move, and searches along the line to that minimiser. Inside the model
the intercept is minimised out exactly, so a coordinate sees its column as if centred by the
model's weights although the column stays sparse: shifting a feature costs no extra sweeps, and a
constant feature is recognised by its vanishing centred curvature.

A fit is a state (`Iterate`), one `_step`, and a stopping rule apart from both (`_stop`).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

CONVERGED = 0
EARLY = 1
UNFINISHED = 2

# Backtracking accepts a step that keeps this share of the decrease its slope promises (Armijo).
_SUFFICIENT = 1e-4
# Thirty halvings leave a billionth of the step: what still fails there fails by rounding.
_MAX_HALVINGS = 30
# A saturated row keeps this much curvature, so that the model never divides by zero.
_MIN_CURVATURE = 1e-12
# Centred curvature below this share of the raw one is rounding: the column is constant.
_CONSTANT = 1e-11
# Rounding of a sum of logarithms, relative: decreases below it cannot be seen in the objective.
_ROUNDING = 1e-15


class Columns(NamedTuple):
    """A sparse matrix by columns."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]


class Iterate(NamedTuple):
    """Where a fit stands. Arrays are updated in place; `b` and the like are arrays of one."""

    coef: NDArray[np.float64]  # (d,)
    intercept: NDArray[np.float64]  # (1,)
    z: NDArray[np.float64]  # (n,) logits
    slope: NDArray[np.float64]  # (n,) derivative of the loss by z
    curvature: NDArray[np.float64]  # (n,) model's second derivative by z
    loss: NDArray[np.float64]  # (1,) weighted mean log-loss


class Scratch(NamedTuple):
    """Memory that steps reuse."""

    target: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,), sums to one
    model_slope: NDArray[np.float64]  # (n,)
    trial_z: NDArray[np.float64]  # (n,)
    move: NDArray[np.float64]  # (n,) change of z along the whole step
    gradient: NDArray[np.float64]  # (d,)
    active: NDArray[np.int32]  # (d,)
    delta: NDArray[np.float64]  # (d,)
    raw: NDArray[np.float64]  # (d,) curvature along a coordinate
    mass: NDArray[np.float64]  # (d,) curvature shared with the intercept


class HeldOut(NamedTuple):
    """Validation rows of one problem."""

    X: Columns
    target: NDArray[np.float64]  # (n_valid,)
    z: NDArray[np.float64]  # (n_valid,) scratch


class Best(NamedTuple):
    """The iterate with the lowest held-out loss so far."""

    coef: NDArray[np.float64]  # (d,)
    intercept: NDArray[np.float64]  # (1,)
    loss: NDArray[np.float64]  # (1,)


class Rule(NamedTuple):
    """When a fit stops, and how exactly a step minimises its model."""

    tol: float  # estimated distance to the minimum, as a share of the intercept-only loss
    max_iter: int  # steps per penalty
    patience: int  # successive steps without a better held-out loss
    max_sweeps: int  # coordinate-descent sweeps per step
    accuracy: float  # sweeps end when one gains less than this share of the first


class Fits(NamedTuple):
    """Solutions of a range of problems; coefficients as sparse rows, one per problem."""

    indptr: NDArray[np.int64]  # (size + 1,)
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    intercept: NDArray[np.float64]  # (size,)
    objective: NDArray[np.float64]  # (size, n_path)
    n_iter: NDArray[np.int32]  # (size, n_path)
    status: NDArray[np.int8]  # (size, n_path)
    held_out: NDArray[np.float64]  # (size, n_path)


@njit(cache=True, nogil=True, inline="always")
def _shrink(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@njit(cache=True, nogil=True)
def _measure(
    z: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    slope: NDArray[np.float64],
    curvature: NDArray[np.float64],
) -> float:
    """Fill the derivatives of the loss at `z` and return the loss."""
    loss = 0.0
    for i in range(z.shape[0]):
        w = weight[i]
        if w == 0.0:
            slope[i] = 0.0
            curvature[i] = 0.0
            continue
        e = math.exp(-abs(z[i]))
        share = 1.0 / (1.0 + e)
        if z[i] >= 0.0:
            loss += w * (math.log1p(e) + (1.0 - target[i]) * z[i])
            slope[i] = w * ((1.0 - target[i]) - e * share)
        else:
            loss += w * (math.log1p(e) - target[i] * z[i])
            slope[i] = w * (e * share - target[i])
        curvature[i] = w * max(e * share * share, _MIN_CURVATURE)
    return loss


@njit(cache=True, nogil=True)
def _fill_gradient(X: Columns, slope: NDArray[np.float64], gradient: NDArray[np.float64]) -> None:
    for j in range(gradient.shape[0]):
        total = 0.0
        for k in range(X.indptr[j], X.indptr[j + 1]):
            total += X.values[k] * slope[X.indices[k]]
        gradient[j] = total


@njit(cache=True, nogil=True)
def _find_active(at: Iterate, s: Scratch, l1: float) -> int:
    """List the features that are not at zero or would leave it; return their number."""
    n_active = 0
    for j in range(s.gradient.shape[0]):
        if at.coef[j] != 0.0 or abs(s.gradient[j]) > l1:
            s.active[n_active] = j
            n_active += 1
    return n_active


@njit(cache=True, nogil=True)
def _fill_curvature(X: Columns, at: Iterate, s: Scratch, n_active: int) -> float:
    """Fill each active coordinate's curvature; return the intercept's."""
    total = 0.0
    for i in range(at.curvature.shape[0]):
        total += at.curvature[i]
    for a in range(n_active):
        j = s.active[a]
        raw = 0.0
        mass = 0.0
        for k in range(X.indptr[j], X.indptr[j + 1]):
            hx = X.values[k] * at.curvature[X.indices[k]]
            mass += hx
            raw += X.values[k] * hx
        centred = raw - mass * mass / total
        s.raw[a] = centred if centred > _CONSTANT * raw else 0.0
        s.mass[a] = mass
        s.delta[a] = 0.0
    return total


@njit(cache=True, nogil=True)
def _violation(at: Iterate, s: Scratch, n_active: int, l1: float, l2: float, total: float) -> float:
    """Estimate how far the objective is above its minimum.

    The sum over coordinates of what minimising the model along each alone would gain: free of the
    features' units, zero exactly where the optimality conditions hold.
    """
    slope = 0.0
    for i in range(at.slope.shape[0]):
        slope += at.slope[i]
    gain = 0.5 * slope * slope / total
    for a in range(n_active):
        j = s.active[a]
        b = at.coef[j]
        if s.raw[a] == 0.0 and b == 0.0:
            continue
        h = s.raw[a] + l2
        if h <= 0.0:
            continue
        g = s.gradient[j] - s.mass[a] * slope / total + l2 * b
        change = _shrink(h * b - g, l1) / h - b
        gain += 0.5 * h * change * change
    return gain


@njit(cache=True, nogil=True)
def _minimise_model(
    X: Columns,
    at: Iterate,
    s: Scratch,
    n_active: int,
    l1: float,
    l2: float,
    total: float,
    max_sweeps: int,
    accuracy: float,
) -> float:
    """Coordinate descent on the model; fills `delta`, returns the change of the intercept."""
    rest = 0.0
    for i in range(at.slope.shape[0]):
        s.model_slope[i] = at.slope[i]
        rest += at.slope[i]
    first = 0.0
    for sweep in range(max_sweeps):
        gained = 0.0
        for a in range(n_active):
            h = s.raw[a] + l2
            j = s.active[a]
            b = at.coef[j] + s.delta[a]
            if s.raw[a] == 0.0 or h <= 0.0:
                change = -b  # a constant column earns nothing beside the intercept
                if change == 0.0:
                    continue
            else:
                g = 0.0
                for k in range(X.indptr[j], X.indptr[j + 1]):
                    g += X.values[k] * s.model_slope[X.indices[k]]
                g += l2 * b - s.mass[a] * rest / total
                change = _shrink(h * b - g, l1) / h - b
                if change == 0.0:
                    continue
            s.delta[a] += change
            rest += s.mass[a] * change
            for k in range(X.indptr[j], X.indptr[j + 1]):
                i = X.indices[k]
                s.model_slope[i] += at.curvature[i] * X.values[k] * change
            gained += h * change * change
        if sweep == 0:
            first = gained
        if gained <= accuracy * first:
            break
    return -rest / total


@njit(cache=True, nogil=True)
def _penalty_along(
    at: Iterate, s: Scratch, n_active: int, l1: float, l2: float, length: float
) -> float:
    """Change of the penalty when the step is taken for `length` of its way."""
    change = 0.0
    for a in range(n_active):
        b = at.coef[s.active[a]]
        move = length * s.delta[a]
        change += l1 * (abs(b + move) - abs(b)) + l2 * move * (b + 0.5 * move)
    return change


@njit(cache=True, nogil=True)
def _step(
    X: Columns, at: Iterate, s: Scratch, n_active: int, l1: float, l2: float, shift: float
) -> float:
    """Move along the minimiser of the model; return the decrease of the objective (0: stuck)."""
    n = at.z.shape[0]
    for i in range(n):
        s.move[i] = shift
    slope_along = 0.0
    for a in range(n_active):
        if s.delta[a] != 0.0:
            j = s.active[a]
            slope_along += l2 * at.coef[j] * s.delta[a]
            for k in range(X.indptr[j], X.indptr[j + 1]):
                s.move[X.indices[k]] += X.values[k] * s.delta[a]
    for i in range(n):
        slope_along += at.slope[i] * s.move[i]
    l1_full = _penalty_along(at, s, n_active, l1, 0.0, 1.0)
    promised = slope_along + l1_full
    if promised >= 0.0:
        return 0.0
    length = 1.0
    before = at.loss[0]
    for _ in range(_MAX_HALVINGS):
        for i in range(n):
            s.trial_z[i] = at.z[i] + length * s.move[i]
        loss = _measure(s.trial_z, s.target, s.weight, at.slope, at.curvature)
        change = loss - before + _penalty_along(at, s, n_active, l1, l2, length)
        if change <= _SUFFICIENT * length * promised:
            for a in range(n_active):
                at.coef[s.active[a]] += length * s.delta[a]
            at.intercept[0] += length * shift
            at.z[:] = s.trial_z
            at.loss[0] = loss
            return -change
        length *= 0.5
    at.loss[0] = _measure(at.z, s.target, s.weight, at.slope, at.curvature)
    return 0.0


@njit(cache=True, nogil=True)
def _consider(held_out: HeldOut, at: Iterate, best: Best) -> float:
    """Return the iterate's mean log-loss on validation rows, and keep the iterate if it is best."""
    z = held_out.z
    if z.shape[0] == 0:
        return math.inf
    z[:] = at.intercept[0]
    for j in range(at.coef.shape[0]):
        b = at.coef[j]
        if b != 0.0:
            for k in range(held_out.X.indptr[j], held_out.X.indptr[j + 1]):
                z[held_out.X.indices[k]] += held_out.X.values[k] * b
    loss = 0.0
    for i in range(z.shape[0]):
        loss += math.log1p(math.exp(-abs(z[i]))) + max(z[i], 0.0) - held_out.target[i] * z[i]
    loss /= z.shape[0]
    if loss < best.loss[0]:
        best.loss[0] = loss
        best.coef[:] = at.coef
        best.intercept[0] = at.intercept[0]
    return loss


@njit(cache=True, nogil=True)
def _penalty(coef: NDArray[np.float64], l1: float, l2: float) -> float:
    total = 0.0
    for b in coef:
        total += l1 * abs(b) + 0.5 * l2 * b * b
    return total


@njit(cache=True, nogil=True)
def _make_state(n: int, d: int) -> tuple[Iterate, Scratch]:
    at = Iterate(np.zeros(d), np.zeros(1), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(1))
    scratch = Scratch(
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(d),
        np.zeros(d, np.int32),
        np.zeros(d),
        np.zeros(d),
        np.zeros(d),
    )
    return at, scratch


@njit(cache=True, nogil=True)
def _load_target(Y: Columns, p: int, target: NDArray[np.float64]) -> None:
    target[:] = 0.0
    for k in range(Y.indptr[p], Y.indptr[p + 1]):
        target[Y.indices[k]] = Y.values[k]


@njit(cache=True, nogil=True)
def _load_problem(
    Y: Columns, p: int, weights: NDArray[np.float64], s: Scratch
) -> tuple[float, float]:
    """Set targets and normalised weights; return the total weight and the weighted rate."""
    _load_target(Y, p, s.target)
    row = weights[min(p, weights.shape[0] - 1)]
    total = row.sum()
    rate = 0.0
    for i in range(row.shape[0]):
        s.weight[i] = row[i] / total if total > 0.0 else 0.0
        rate += s.weight[i] * s.target[i]
    return total, rate


@njit(cache=True, nogil=True)
def _start_at(
    X: Columns, at: Iterate, s: Scratch, start: Columns, p: int, intercept: float, rate: float
) -> None:
    if math.isnan(intercept):
        intercept = math.log(rate) - math.log1p(-rate)
    at.coef[:] = 0.0
    at.z[:] = intercept
    at.intercept[0] = intercept
    for m in range(start.indptr[p], start.indptr[p + 1]):
        j = start.indices[m]
        at.coef[j] = start.values[m]
        for k in range(X.indptr[j], X.indptr[j + 1]):
            at.z[X.indices[k]] += X.values[k] * start.values[m]
    at.loss[0] = _measure(at.z, s.target, s.weight, at.slope, at.curvature)


@njit(cache=True, nogil=True)
def _stop(violation: float, bar: float, worse: int, patience: int) -> int:
    """Decide whether a fit ends before its next step."""
    if violation <= bar:
        return CONVERGED
    if worse >= patience:
        return EARLY
    return UNFINISHED


@njit(cache=True, nogil=True)
def _descend(
    X: Columns,
    at: Iterate,
    s: Scratch,
    held_out: HeldOut,
    best: Best,
    l1: float,
    l2: float,
    bar: float,
    rule: Rule,
) -> tuple[int, int, float]:
    """Run steps at one penalty; return the status, the steps taken, the best held-out loss."""
    lowest = _consider(held_out, at, best)
    worse = 0
    for iteration in range(rule.max_iter):
        _fill_gradient(X, at.slope, s.gradient)
        n_active = _find_active(at, s, l1)
        total = _fill_curvature(X, at, s, n_active)
        status = _stop(_violation(at, s, n_active, l1, l2, total), bar, worse, rule.patience)
        if status != UNFINISHED:
            return status, iteration, lowest
        shift = _minimise_model(X, at, s, n_active, l1, l2, total, rule.max_sweeps, rule.accuracy)
        if _step(X, at, s, n_active, l1, l2, shift) <= 0.0:
            return CONVERGED, iteration + 1, lowest
        if held_out.z.shape[0] > 0:
            loss = _consider(held_out, at, best)
            worse = 0 if loss < lowest else worse + 1
            lowest = min(lowest, loss)
    return UNFINISHED, rule.max_iter, lowest


@njit(cache=True, nogil=True)
def fit_problems(
    X: Columns,
    Y: Columns,
    weights: NDArray[np.float64],
    X_valid: Columns,
    Y_valid: Columns,
    n_valid: int,
    start: Columns,
    start_intercept: NDArray[np.float64],
    l1: NDArray[np.float64],
    l2: NDArray[np.float64],
    first: int,
    last: int,
    rule: Rule,
) -> Fits:
    """Fit problems ``first`` to ``last - 1``, each along its row of penalties.

    Parameters
    ----------
    X : Columns
        Features, (n, d).
    Y : Columns
        Targets in [0, 1], (n, n_problems).
    weights : ndarray of shape (1 or n_problems, n)
        Non-negative row weights, one row for all problems or one each.
    X_valid, Y_valid : Columns
        Validation rows, ``n_valid`` of them; with none, nothing is held out.
    start : Columns
        Starting coefficients, (d, n_problems).
    start_intercept : ndarray of shape (n_problems,)
        Starting intercepts; NaN starts at the logit of the weighted rate.
    l1, l2 : ndarray of shape (n_problems, n_path)
        Penalties in the order in which they are visited, each started at its predecessor's end.
    first, last : int
        Range of problems.
    rule : Rule
        When to stop.

    Returns
    -------
    Fits
        The last iterate or, with validation rows, the best.
    """
    n = weights.shape[1]
    d = X.indptr.shape[0] - 1
    size = last - first
    n_path = l1.shape[1]
    at, s = _make_state(n, d)
    best = Best(np.zeros(d), np.zeros(1), np.full(1, np.inf))
    held_out = HeldOut(X_valid, np.zeros(n_valid), np.zeros(n_valid))
    fits = Fits(
        np.zeros(size + 1, np.int64),
        np.zeros(0, np.int32),
        np.zeros(0),
        np.zeros(size),
        np.zeros((size, n_path)),
        np.zeros((size, n_path), np.int32),
        np.zeros((size, n_path), np.int8),
        np.zeros((size, n_path)),
    )
    features = np.zeros(1024, np.int32)
    values = np.zeros(1024)
    for q in range(size):
        p = first + q
        total, rate = _load_problem(Y, p, weights, s)
        _load_target(Y_valid, p, held_out.target)
        best.loss[0] = np.inf
        if rate <= 0.0 or rate >= 1.0 or total <= 0.0:
            # One class only: no finite optimum, so the logit of the rate with half a count each.
            at.coef[:] = 0.0
            at.intercept[0] = math.log((rate * total + 0.5) / ((1.0 - rate) * total + 0.5))
            fits.held_out[q] = _consider(held_out, at, best)
        else:
            bar = rule.tol * -(rate * math.log(rate) + (1.0 - rate) * math.log1p(-rate))
            _start_at(X, at, s, start, p, start_intercept[p], rate)
            for m in range(n_path):
                status, steps, lowest = _descend(
                    X, at, s, held_out, best, l1[p, m], l2[p, m], bar, rule
                )
                fits.status[q, m] = status
                fits.n_iter[q, m] = steps
                fits.held_out[q, m] = lowest
                fits.objective[q, m] = at.loss[0] + _penalty(at.coef, l1[p, m], l2[p, m])
            if n_valid > 0:
                at.coef[:] = best.coef
                at.intercept[0] = best.intercept[0]
        fits.intercept[q] = at.intercept[0]
        fill = fits.indptr[q]
        while fill + np.count_nonzero(at.coef) > features.shape[0]:
            features = np.concatenate((features, np.zeros_like(features)))
            values = np.concatenate((values, np.zeros_like(values)))
        for j in range(d):
            if at.coef[j] != 0.0:
                features[fill] = j
                values[fill] = at.coef[j]
                fill += 1
        fits.indptr[q + 1] = fill
    return Fits(
        fits.indptr,
        features[: fits.indptr[size]].copy(),
        values[: fits.indptr[size]].copy(),
        fits.intercept,
        fits.objective,
        fits.n_iter,
        fits.status,
        fits.held_out,
    )
