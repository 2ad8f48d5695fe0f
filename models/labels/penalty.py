"""Choice of the penalty strength by a path of warm-started fits."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.compilation import njit
from setwise.models.estimator import draws_of
from setwise.models.labels.linear import LinearFit, Matrix, as_features, as_targets, fit_elastic_net
from setwise.models.labels.quadratic_model import Columns, add_column, as_columns

# One Newton step from a neighbour on the path reduces the distance to the minimum at least by this
# factor. Larger values raise the log-loss of some data sets.
_TRUSTED = 10.0
# Strengths fall by this factor: validation loss is flat at that scale.
RATIO = 2.0
MAX_LENGTH = 24
# The path ends once this many strengths in a row did not lower the summed validation loss, or at
# one that raised it by this share, because weak penalties take longest to fit.
PATIENCE = 2
CLEARLY_WORSE = 0.01
# The pooled loss counts for each problem like this many of its validation positives: without it
# small data sets overfit their validation rows, and a shared strength alone fits text worse.
PRIOR_POSITIVES = 30.0
# With more problems the path runs on a sample; the others take the best strength of the sample.
MAX_PROBLEMS = 1000
_BLOCK = 256  # problems whose products with the features are held at once
_ROUNDING = 1e-9  # a slope below this share of its two terms may be rounding


@dataclass(frozen=True, eq=False)
class PenaltyChoice:
    """Penalty strengths chosen on validation rows."""

    alpha: NDArray[np.float64]  # (n_problems,) the choice for each problem
    path: NDArray[np.float64]  # (n_path,) strengths visited, strongest first
    # (n_path, n_visited) mean validation log-loss of each visited problem, in nats.
    valid_loss: NDArray[np.float64]
    fit: LinearFit  # fit of the visited problems at their best shared strength


def choose_penalty(
    X: Matrix,
    Y: Matrix,
    X_valid: Matrix,
    Y_valid: Matrix,
    *,
    l1_ratio: float,
    tol: float,
    sample_weight: ArrayLike | None = None,
    max_iter: int = 100,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> PenaltyChoice:
    """Choose each problem's penalty strength by validation log-loss.

    Strengths fall geometrically from one that leaves (almost) no coefficient, wherever the
    features' zeros lie. Each fit starts from the previous one, until the summed loss rises. A
    problem then takes the strength with its lowest loss relative to the best shared strength. The
    pooled loss of all problems is added with the weight of `PRIOR_POSITIVES` positives, so that
    rare labels follow the shared choice and frequent ones their own.

    Parameters
    ----------
    X, Y, l1_ratio, tol, sample_weight, max_iter, n_jobs
        See `setwise.models.labels.linear.fit_elastic_net`; one weight per row.
    X_valid, Y_valid : array-like or sparse
        Validation rows, at least one.
    random_state : int, RandomState or None
        Random state of the sample if there are more than `MAX_PROBLEMS` problems.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 5))
    >>> Y = X[:, [0]] + rng.normal(size=(400, 1)) > 0
    >>> choice = choose_penalty(X[:300], Y[:300], X[300:], Y[300:], l1_ratio=0.5, tol=1e-6)
    >>> bool(choice.alpha[0] < choice.path[0])
    True
    """
    features, valid = as_features(X, "X"), as_features(X_valid, "X_valid")
    targets = as_targets(Y, features.shape[0], "Y")
    valid_targets = as_targets(Y_valid, valid.shape[0], "Y_valid")
    if valid.shape[0] == 0:
        raise ValueError("X_valid has no rows to choose a penalty on")
    if (valid.shape[1], valid_targets.shape[1]) != (features.shape[1], targets.shape[1]):
        raise ValueError("validation rows have other features or problems than training rows")
    n_problems = targets.shape[1]
    visited = np.arange(n_problems)
    if n_problems > MAX_PROBLEMS:
        visited = np.sort(draws_of(random_state).choice(n_problems, MAX_PROBLEMS, replace=False))
        targets, valid_targets = targets[:, visited], valid_targets[:, visited]
    strength, emptying = _emptying_penalty(features, targets, sample_weight, max(l1_ratio, 0.1))
    # Skip strengths whose fits are empty: they would use up the patience.
    while strength >= emptying * RATIO ** (PATIENCE + 1):
        strength /= RATIO
    held_out = as_columns(valid), as_columns(valid_targets), valid.shape[0]
    path: list[float] = []
    fits: list[LinearFit] = []
    losses: list[NDArray[np.float64]] = []
    best = 0
    worse = False
    while not worse and len(path) < MAX_LENGTH and len(path) - best <= PATIENCE:
        strength /= RATIO
        fits.append(
            fit_elastic_net(
                features,
                targets,
                alpha=strength,
                l1_ratio=l1_ratio,
                sample_weight=sample_weight,
                warm_start=fits[-1] if fits else None,
                tol=tol,
                trusted=_TRUSTED,
                max_iter=max_iter,
                n_jobs=n_jobs,
            )
        )
        path.append(strength)
        losses.append(_mean_losses(*held_out, as_columns(fits[-1].coef.T), fits[-1].intercept))
        now, lowest = losses[-1].sum(), losses[best].sum()
        best = len(path) - 1 if now < lowest else best
        worse = now > (1.0 + CLEARLY_WORSE) * lowest
    positives = np.asarray(valid_targets.sum(axis=0), dtype=np.float64).ravel()
    alpha = np.full(n_problems, path[best])
    alpha[visited] = np.array(path)[_settle(np.array(losses), best, positives)]
    return PenaltyChoice(alpha, np.array(path), np.array(losses), fits[best])


@njit(cache=True, nogil=True)
def _mean_losses(
    X: Columns, Y: Columns, n: int, coef: Columns, intercept: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean log-loss of each problem on `n` rows; `coef` has one problem per column."""
    losses = np.empty(len(intercept))
    z, target = np.empty(n), np.empty(n)
    for p in range(len(intercept)):
        z[:] = intercept[p]
        for k in range(coef.indptr[p], coef.indptr[p + 1]):
            add_column(X, coef.indices[k], coef.values[k], z)
        target[:] = 0.0
        add_column(Y, p, 1.0, target)
        loss = 0.0
        for i in range(n):
            loss += math.log1p(math.exp(-abs(z[i]))) + max(z[i], 0.0) - target[i] * z[i]
        losses[p] = loss / n
    return losses


def _settle(
    losses: NDArray[np.float64], best: int, positives: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return each problem's position on the path."""
    tiny = np.finfo(np.float64).tiny
    relative = losses / np.maximum(losses[best], tiny)
    shared = losses.sum(axis=1) / max(losses[best].sum(), tiny)
    place: NDArray[np.intp] = np.argmin(
        positives * relative + PRIOR_POSITIVES * shared[:, None], axis=0
    )
    return place


def _emptying_penalty(
    X: sp.csc_array, Y: sp.csc_array, sample_weight: ArrayLike | None, l1_ratio: float
) -> tuple[float, float]:
    """Return a bound on the least strength without coefficients, and that strength.

    The bound is far too high if features lie far from zero, as temperatures in kelvin do.
    """
    n = X.shape[0]
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    total = weight.sum()
    if total <= 0.0:
        return 1.0, 1.0
    share = weight / total
    mean = np.asarray(X.T @ share)
    size = np.abs(mean)
    largest_first = np.argsort(-size)
    bound = steepest = 0.0
    for first in range(0, Y.shape[1], _BLOCK):
        block = Y[:, first : first + _BLOCK].multiply(share[:, None])
        rate = np.asarray(block.sum(axis=0)).ravel()
        product = sp.csr_array(X.T.astype(np.float64) @ sp.csc_array(block))
        stored = product.tocoo()
        j, p = stored.coords
        slope = np.abs(stored.data - mean[j] * rate[p]).max(initial=0.0)
        # Entries that are not stored have a product of zero.
        bound = max(bound, slope, size.max() * rate.max())
        absent = np.append(size[largest_first], 0.0)[_first_absent(product[largest_first].tocsc())]
        steepest = max(steepest, slope, (absent * rate).max())
    if bound == 0.0:
        return 1.0, 1.0
    if steepest <= _ROUNDING * bound:  # nothing varies, or all targets are the same
        steepest = bound
    return float(bound / l1_ratio), float(steepest / l1_ratio)


def _first_absent(matrix: sp.csc_array) -> NDArray[np.intp]:
    """Return the first unstored row of each column, ``n_rows`` if none."""
    matrix.sort_indices()
    length = np.diff(matrix.indptr)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], length)
    column = np.repeat(np.arange(len(length)), length)
    return np.bincount(column[matrix.indices == place], minlength=len(length))
