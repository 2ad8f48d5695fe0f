"""Elastic-net logistic regression for many problems on the same sparse features.

The solver states what it needs and nothing of labels: binary relevance gives it one problem per
label, a mixture one problem per label and component with instance weights.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from models.base.prox_newton import EARLY, UNFINISHED, Columns, Fits, Rule, fit_problems

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both

# A problem's estimated distance to its minimum, as a share of the loss without features.
TOLERANCE = 1e-6
_CHUNKS_PER_THREAD = 8  # small enough to balance the threads, large enough to amortise a call


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Solutions of one or many problems.

    Attributes
    ----------
    coef : csr_array of shape (n_problems, n_features), float64
        Coefficients; zeros are not stored.
    intercept : ndarray of shape (n_problems,)
        Unpenalised intercepts.
    alpha : ndarray of shape (n_problems,)
        Penalty strength each was fitted with.
    objective : ndarray of shape (n_problems,)
        Penalised weighted mean log-loss on the training rows where the steps ended, in nats.
    n_iter : ndarray of shape (n_problems,), int
        Newton steps taken.
    converged : ndarray of shape (n_problems,), bool
        Whether the steps ended by themselves: at the tolerance or, with validation rows, because
        validation loss no longer fell.
    stopped_early : ndarray of shape (n_problems,), bool
        Whether validation ended them.
    valid_loss : ndarray of shape (n_problems,)
        Mean log-loss on the validation rows, in nats; infinite without any.
    """

    coef: sp.csr_array
    intercept: NDArray[np.float64]
    alpha: NDArray[np.float64]
    objective: NDArray[np.float64]
    n_iter: NDArray[np.int32]
    converged: NDArray[np.bool_]
    stopped_early: NDArray[np.bool_]
    valid_loss: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearPath:
    """Validation losses along a path of penalties.

    Attributes
    ----------
    alphas : ndarray of shape (n_problems, n_path)
        Penalty strengths visited, strongest first.
    valid_loss : ndarray of shape (n_problems, n_path)
        Lowest mean validation log-loss of the steps at each, in nats.
    n_iter : ndarray of shape (n_problems, n_path), int
        Newton steps taken at each.
    """

    alphas: NDArray[np.float64]
    valid_loss: NDArray[np.float64]
    n_iter: NDArray[np.int32]


def usable_cores() -> int:
    """Return the number of processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fit_elastic_net(
    X: Matrix,
    Y: Matrix,
    *,
    alpha: float | ArrayLike,
    l1_ratio: float,
    sample_weight: ArrayLike | None = None,
    X_valid: Matrix | None = None,
    Y_valid: Matrix | None = None,
    warm_start: LinearFit | None = None,
    tol: float = TOLERANCE,
    max_iter: int = 100,
    max_sweeps: int = 10,
    patience: int = 3,
    n_jobs: int | None = None,
) -> LinearFit:
    r"""Minimise the elastic-net logistic objective of every column of `Y`.

    .. math:: \frac{1}{\sum_n w_n} \sum_n w_n [\log(1 + e^{z_n}) - t_n z_n]
        + \alpha \left(\rho |\beta|_1 + \tfrac{1 - \rho}{2} |\beta|_2^2\right),
        \quad z_n = b + x_n \cdot \beta

    Parameters
    ----------
    X : array-like or sparse of shape (n_samples, n_features)
        Finite features. A csc_array of float32 is used as it is; anything else is copied.
    Y : array-like or sparse of shape (n_samples,) or (n_samples, n_problems)
        Targets in [0, 1]: labels or soft targets.
    alpha : float or array-like of shape (n_problems,)
        Penalty strength, not negative; beside a mean loss, so its meaning does not change with
        the number of rows.
    l1_ratio : float
        :math:`\rho` in [0, 1]; 0 is ridge, 1 is lasso.
    sample_weight : array-like of shape (n_samples,) or (n_samples, n_problems), optional
        Finite weights, not negative, shared or per problem.
    X_valid, Y_valid : optional
        Validation rows. With them each problem keeps the step with the lowest validation
        log-loss and ends after `patience` steps without a lower one.
    warm_start : LinearFit, optional
        Where to start, of the same problems and features.
    tol : float
        Steps end when the objective is within about this share of the intercept-only loss.
    max_iter, max_sweeps : int
        Newton steps, and coordinate-descent sweeps per step, at most.
    patience : int
        See `X_valid`.
    n_jobs : int, optional
        Threads; by default every usable core. The result does not depend on it.

    Returns
    -------
    LinearFit
        A problem whose weighted targets are all 0 or all 1 has no finite optimum: it gets zero
        coefficients and the logit of its rate with half a count added to either side.

    Raises
    ------
    ValueError
        If shapes disagree, or a value is out of its range, not finite or too large for float32.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, 2019, section 2.3.2,
       equation 2.49 for two classes.
    .. [2] J. Friedman, T. Hastie and R. Tibshirani, "Regularization Paths for Generalized Linear
       Models via Coordinate Descent", Journal of Statistical Software 33, 2010.
    .. [3] G.-X. Yuan, C.-H. Ho and C.-J. Lin, "An Improved GLMNET for L1-regularized Logistic
       Regression", JMLR 13, 2012.

    Examples
    --------
    >>> fit = fit_elastic_net([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], alpha=0.1, l1_ratio=0.0)
    >>> fit.coef.toarray().round(3), fit.intercept.round(3)
    (array([[1.508]]), array([-2.261]))
    """
    problem = _Problem.check(X, Y, sample_weight, X_valid, Y_valid)
    alphas = _check_alpha(alpha, problem.n_problems)[:, None]
    rule = _check_rule(tol, max_iter, patience, max_sweeps)
    fits = _solve(problem, alphas, l1_ratio, warm_start, rule, n_jobs)
    status = fits.status[:, 0]
    return LinearFit(
        coef=sp.csr_array(
            (fits.values, fits.indices, fits.indptr), shape=(problem.n_problems, problem.n_features)
        ),
        intercept=fits.intercept,
        alpha=alphas[:, 0],
        objective=fits.objective[:, 0],
        n_iter=fits.n_iter[:, 0],
        converged=status != UNFINISHED,
        stopped_early=status == EARLY,
        valid_loss=fits.held_out[:, 0],
    )


def elastic_net_path(
    X: Matrix,
    Y: Matrix,
    X_valid: Matrix,
    Y_valid: Matrix,
    *,
    alphas: ArrayLike,
    l1_ratio: float,
    sample_weight: ArrayLike | None = None,
    tol: float = TOLERANCE,
    max_iter: int = 100,
    max_sweeps: int = 10,
    patience: int = 3,
    n_jobs: int | None = None,
) -> LinearPath:
    """Measure validation loss along penalties, each fit started where the one before ended.

    Parameters
    ----------
    alphas : array-like of shape (n_path,) or (n_problems, n_path)
        Penalty strengths, strongest first.

    Others as in `fit_elastic_net`.

    Returns
    -------
    LinearPath
    """
    problem = _Problem.check(X, Y, sample_weight, X_valid, Y_valid)
    grid = np.asarray(alphas, dtype=np.float64)
    grid = np.ascontiguousarray(np.broadcast_to(grid, (problem.n_problems, grid.shape[-1])))
    rule = _check_rule(tol, max_iter, patience, max_sweeps)
    fits = _solve(problem, grid, l1_ratio, None, rule, n_jobs)
    return LinearPath(alphas=grid, valid_loss=fits.held_out, n_iter=fits.n_iter)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Checked arrays in the types the compiled code expects."""

    X: Columns
    Y: Columns
    weights: NDArray[np.float64]
    X_valid: Columns
    Y_valid: Columns
    n_valid: int
    n_features: int
    n_problems: int

    @classmethod
    def check(
        cls,
        X: Matrix,
        Y: Matrix,
        sample_weight: ArrayLike | None,
        X_valid: Matrix | None,
        Y_valid: Matrix | None,
    ) -> "_Problem":
        features = as_features(X, "X")
        n, d = features.shape
        targets = _as_targets(Y, n, "Y")
        n_problems = targets.shape[1]
        if (X_valid is None) != (Y_valid is None):
            raise ValueError("give both X_valid and Y_valid, or neither")
        if X_valid is None:
            valid = sp.csc_array((0, d), dtype=np.float32)
            valid_targets = sp.csc_array((0, n_problems), dtype=np.float64)
        else:
            valid = as_features(X_valid, "X_valid")
            valid_targets = _as_targets(Y_valid, valid.shape[0], "Y_valid")
            if valid.shape[1] != d or valid_targets.shape[1] != n_problems:
                raise ValueError(
                    f"validation has {valid.shape[1]} features and {valid_targets.shape[1]} "
                    f"problems, training {d} and {n_problems}"
                )
            if valid.shape[0] == 0:
                raise ValueError("X_valid has no rows")
        return cls(
            X=_columns(features),
            Y=_columns(targets),
            weights=_check_weights(sample_weight, n, n_problems),
            X_valid=_columns(valid),
            Y_valid=_columns(valid_targets),
            n_valid=valid.shape[0],
            n_features=d,
            n_problems=n_problems,
        )


def as_features(X: Matrix, name: str) -> sp.csc_array:
    """Return `X` as a float32 csc_array with sorted indices, refusing what float32 cannot hold."""
    if not sp.issparse(X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, got {X.ndim}")
    with np.errstate(over="ignore"):
        columns = sp.csc_array(X, dtype=np.float32)
    if not np.isfinite(columns.data).all():
        raise ValueError(
            f"{name} holds NaN, infinity or a value beyond 3.4e38: "
            "replace it or rescale the feature"
        )
    columns.sum_duplicates()
    return columns


def _as_targets(Y: Matrix, n: int, name: str) -> sp.csc_array:
    if not sp.issparse(Y):
        Y = np.asarray(Y)
        Y = Y[:, None] if Y.ndim == 1 else Y
    targets = sp.csc_array(Y, dtype=np.float64)
    targets.sum_duplicates()
    if targets.shape[0] != n:
        raise ValueError(f"{name} has {targets.shape[0]} rows, its features {n}")
    if not ((targets.data >= 0.0) & (targets.data <= 1.0)).all():
        raise ValueError(f"{name} holds a target outside [0, 1]")
    return targets


def _check_weights(weight: ArrayLike | None, n: int, n_problems: int) -> NDArray[np.float64]:
    if weight is None:
        return np.ones((1, n))
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape not in {(n,), (n, n_problems)}:
        raise ValueError(
            f"sample_weight has shape {weights.shape}; expected ({n},) or ({n}, {n_problems})"
        )
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise ValueError("sample_weight holds a negative or non-finite weight")
    return np.ascontiguousarray(weights.reshape(n, -1).T)


def _check_alpha(alpha: float | ArrayLike, n_problems: int) -> NDArray[np.float64]:
    alphas = np.asarray(alpha, dtype=np.float64)
    if alphas.shape not in {(), (n_problems,)}:
        raise ValueError(f"alpha has shape {alphas.shape}; expected one number or ({n_problems},)")
    if not (np.isfinite(alphas) & (alphas >= 0.0)).all():
        raise ValueError("alpha must be finite and not negative")
    return np.broadcast_to(alphas, (n_problems,)).copy()


def _check_rule(tol: float, max_iter: int, patience: int, max_sweeps: int) -> Rule:
    if min(max_iter, patience, max_sweeps) < 1:
        raise ValueError("max_iter, patience and max_sweeps must be at least 1")
    # A model is minimised to a hundredth of what its first sweep gains.
    return Rule(float(tol), int(max_iter), int(patience), int(max_sweeps), 1e-2)


def _columns(matrix: sp.csc_array) -> Columns:
    return Columns(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
    )


def _solve(
    problem: _Problem,
    alphas: NDArray[np.float64],
    l1_ratio: float,
    warm_start: LinearFit | None,
    rule: Rule,
    n_jobs: int | None,
) -> Fits:
    if not 0.0 <= l1_ratio <= 1.0:
        raise ValueError(f"l1_ratio must be in [0, 1], got {l1_ratio}")
    size = problem.n_problems
    if warm_start is None:
        start = Columns(np.zeros(size + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))
        start_intercept = np.full(size, np.nan)
    else:
        if warm_start.coef.shape != (size, problem.n_features):
            raise ValueError(
                f"warm_start has coefficients of shape {warm_start.coef.shape}; "
                f"expected ({size}, {problem.n_features})"
            )
        coef = warm_start.coef
        start = Columns(coef.indptr.astype(np.int64), coef.indices.astype(np.int32), coef.data)
        start_intercept = warm_start.intercept
    l1 = alphas * l1_ratio
    l2 = alphas * (1.0 - l1_ratio)

    def run(bounds: tuple[int, int]) -> Fits:
        solved: Fits = fit_problems(
            problem.X,
            problem.Y,
            problem.weights,
            problem.X_valid,
            problem.Y_valid,
            problem.n_valid,
            start,
            start_intercept,
            l1,
            l2,
            bounds[0],
            bounds[1],
            rule,
        )
        return solved

    return _join(in_threads(run, size, n_jobs))


def in_threads(run: Callable[[tuple[int, int]], Fits], size: int, n_jobs: int | None) -> list[Fits]:
    """Run over consecutive ranges of ``size`` problems, on threads, in order."""
    threads = usable_cores() if n_jobs is None or n_jobs < 0 else max(1, n_jobs)
    threads = min(threads, size)
    chunk = max(1, -(-size // (max(1, threads) * _CHUNKS_PER_THREAD)))
    ranges = [(first, min(first + chunk, size)) for first in range(0, size, chunk)]
    if threads <= 1:
        return [run(bounds) for bounds in ranges]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, ranges))


def _join(parts: list[Fits]) -> Fits:
    offsets = np.cumsum([0] + [int(part.indptr[-1]) for part in parts])
    indptr = [np.zeros(1, np.int64)]
    indptr += [part.indptr[1:] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Fits(
        np.concatenate(indptr),
        *(np.concatenate([part[field] for part in parts]) for field in range(1, len(Fits._fields))),
    )
