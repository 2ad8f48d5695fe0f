r"""Compiled proximal Newton fits of elastic-net logistic regression on sparse columns.

One problem has targets :math:`t_n \in [0, 1]` and weights that sum to one:

.. math:: \min_{b, \beta} \sum_n w_n [\log(1 + e^{z_n}) - t_n z_n]
          + \lambda_1 |\beta|_1 + \tfrac{\lambda_2}{2} |\beta|_2^2, \quad z = b + X \beta.

A fit consists of a state (`Iterate`) and a `_step` (minimise the quadratic model, then search along
the line to that minimiser), taken until the estimated distance to the minimum is small.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.labels.quadratic_model import (
    MAX_HALVINGS,
    MIN_CURVATURE,
    SUFFICIENT_DECREASE,
    Columns,
    Model,
    Penalty,
    add_column,
    advance,
    aim,
    build_model,
    distance,
    minimise_model,
    penalty_change,
)


class NewtonRule(NamedTuple):
    """When a fit stops."""

    tol: float  # estimated distance to the minimum, as a share of the intercept-only loss
    max_iter: int  # steps
    max_sweeps: int  # coordinate-descent sweeps per step
    trusted: float  # a step from within this many times `tol` is the last, unchecked


class Problems(NamedTuple):
    """Many problems on the same rows and features."""

    X: Columns  # (n, d)
    Y: Columns  # (n, n_problems) targets in [0, 1]
    weights: NDArray[np.float64]  # (1 or n_problems, n), not negative
    l1: NDArray[np.float64]  # (n_problems,)
    l2: NDArray[np.float64]  # (n_problems,)
    start: Columns  # (d, n_problems) coefficients to start from
    start_intercept: NDArray[np.float64]  # (n_problems,) NaN: the logit of the rate


class Fits(NamedTuple):
    """Solutions of a range of problems, coefficients as sparse rows."""

    indptr: NDArray[np.int64]  # (size + 1,)
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    intercept: NDArray[np.float64]  # (size,)
    objective: NDArray[np.float64]  # (size,) of the solution
    n_iter: NDArray[np.int64]  # (size,) steps taken
    converged: NDArray[np.bool_]  # (size,) whether it ended before the limit of its steps


class LogisticRows(NamedTuple):
    """One problem's targets and weights."""

    target: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,), sums to one


class Iterate(NamedTuple):
    """State of a fit, updated in place; scalars are arrays of one."""

    coef: NDArray[np.float64]  # (d,)
    intercept: NDArray[np.float64]  # (1,)
    z: NDArray[np.float64]  # (n,) logits
    slope: NDArray[np.float64]  # (n,) derivative of the loss by z
    curvature: NDArray[np.float64]  # (n,) second derivative of the loss by z
    loss: NDArray[np.float64]  # (1,) weighted mean log-loss
    move: NDArray[np.float64]  # (n,) scratch: change of z along the whole step
    trial: NDArray[np.float64]  # (n,) scratch: z at a trial point


class Fit(NamedTuple):
    """One problem being fitted."""

    X: Columns
    rows: LogisticRows
    at: Iterate


@njit(cache=True, nogil=True)
def _measure(z: NDArray[np.float64], rows: LogisticRows, at: Iterate) -> float:
    """Fill the derivatives of the loss at `z` and return the loss."""
    loss = 0.0
    for i in range(z.shape[0]):
        w, t = rows.weight[i], rows.target[i]
        e = math.exp(-abs(z[i]))
        share = 1.0 / (1.0 + e)
        if z[i] >= 0.0:
            loss += w * (math.log1p(e) + (1.0 - t) * z[i])
            at.slope[i] = w * ((1.0 - t) - e * share)
        else:
            loss += w * (math.log1p(e) - t * z[i])
            at.slope[i] = w * (e * share - t)
        at.curvature[i] = w * max(e * share * share, MIN_CURVATURE)
    return loss


@njit(cache=True, nogil=True)
def _step(fit: Fit, model: Model, penalty: Penalty, max_sweeps: int) -> bool:
    """Move towards the model's minimiser; return whether the objective fell."""
    at = fit.at
    shift = minimise_model(fit.X, model, at.coef, penalty, max_sweeps)
    promised = aim(fit.X, model, at.coef, penalty, shift, at.move)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        if promised >= 0.0:
            break
        at.trial[:] = at.z + length * at.move
        loss = _measure(at.trial, fit.rows, at)
        change = loss - at.loss[0] + penalty_change(model, at.coef, penalty, length)
        if change <= SUFFICIENT_DECREASE * length * promised:
            advance(model, at.coef, length)
            at.intercept[0] += length * shift
            at.z[:] = at.trial
            at.loss[0] = loss
            return True
        length *= 0.5
    return False


@njit(cache=True, nogil=True)
def _descend(fit: Fit, penalty: Penalty, bar: float, rule: NewtonRule) -> tuple[int, bool]:
    """Run steps until the rule ends them; return their number and whether it did."""
    at = fit.at
    for n_iter in range(rule.max_iter):
        model = build_model(fit.X, at.slope, at.curvature, at.coef, penalty.l1)
        gap = distance(model, at.coef, penalty)
        if gap <= bar:
            return n_iter, True
        if not _step(fit, model, penalty, rule.max_sweeps):
            return n_iter, True  # up to rounding: no point on the line is lower
        if gap <= rule.trusted * bar:
            return n_iter + 1, True
    return rule.max_iter, False


@njit(cache=True, nogil=True)
def _begin(problems: Problems, p: int, fit: Fit, intercept: float) -> None:
    """Set the iterate to the problem's start."""
    at, start = fit.at, problems.start
    first = problems.start_intercept[p]
    at.intercept[0] = intercept if math.isnan(first) else first
    at.coef[:] = 0.0
    at.z[:] = at.intercept[0]
    for m in range(start.indptr[p], start.indptr[p + 1]):
        at.coef[start.indices[m]] = start.values[m]
        add_column(problems.X, start.indices[m], start.values[m], at.z)
    at.loss[0] = _measure(at.z, fit.rows, at)


@njit(cache=True, nogil=True)
def _append(
    fits: Fits,
    q: int,
    coef: NDArray[np.float64],
    room: tuple[NDArray[np.int32], NDArray[np.float64]],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Store the non-zero coefficients of problem `q`, growing arrays as needed."""
    features, values = room
    fill = fits.indptr[q]
    while fill + np.count_nonzero(coef) > features.shape[0]:
        features = np.concatenate((features, np.zeros_like(features)))
        values = np.concatenate((values, np.zeros_like(values)))
    for j in range(coef.shape[0]):
        if coef[j] != 0.0:
            features[fill] = j
            values[fill] = coef[j]
            fill += 1
    fits.indptr[q + 1] = fill
    return features, values


@njit(cache=True, nogil=True)
def fit_problems(problems: Problems, first: int, last: int, rule: NewtonRule) -> Fits:
    """Fit problems ``first`` to ``last - 1``.

    A problem whose targets are all 0 or all 1 has no finite optimum: it gets no coefficients and
    the logit of its rate with half a count added to either side.
    """
    n = problems.weights.shape[1]
    d = problems.X.indptr.shape[0] - 1
    size = last - first
    # fmt: off
    at = Iterate(
        np.zeros(d), np.zeros(1), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(1),
        np.zeros(n), np.zeros(n),
    )
    fits = Fits(
        np.zeros(size + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(size),
        np.zeros(size), np.zeros(size, np.int64), np.ones(size, np.bool_),
    )
    # fmt: on
    rows = LogisticRows(np.zeros(n), np.zeros(n))
    fit = Fit(problems.X, rows, at)
    room = (np.zeros(256, np.int32), np.zeros(256))
    for q in range(size):
        p = first + q
        rows.target[:] = 0.0
        add_column(problems.Y, p, 1.0, rows.target)
        weight = problems.weights[min(p, problems.weights.shape[0] - 1)]
        ones = np.dot(weight, rows.target)
        zeros = np.dot(weight, 1.0 - rows.target)
        if ones > 0.0 and zeros > 0.0:
            rows.weight[:] = weight / weight.sum()
            logit = math.log(ones / zeros)
            null_loss = math.log1p(math.exp(-abs(logit))) + max(logit, 0.0)
            null_loss -= logit * ones / (ones + zeros)
            penalty = Penalty(problems.l1[p], problems.l2[p])
            _begin(problems, p, fit, logit)
            bar = rule.tol * null_loss
            fits.n_iter[q], fits.converged[q] = _descend(fit, penalty, bar, rule)
            fits.objective[q] = at.loss[0] + (
                penalty.l1 * np.abs(at.coef).sum() + 0.5 * penalty.l2 * np.square(at.coef).sum()
            )
        else:
            at.coef[:] = 0.0
            at.intercept[0] = math.log((ones + 0.5) / (zeros + 0.5))
        fits.intercept[q] = at.intercept[0]
        room = _append(fits, q, at.coef, room)
    fill = fits.indptr[size]
    # fmt: off
    return Fits(
        fits.indptr, room[0][:fill].copy(), room[1][:fill].copy(), fits.intercept,
        fits.objective, fits.n_iter, fits.converged,
    )
    # fmt: on
