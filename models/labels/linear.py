"""Elastic-net logistic regression for many problems on the same sparse features.

The solver knows nothing of labels: binary relevance gives it one problem per label, a mixture one
problem per label and component with instance weights.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.labels.prox_newton import Fits, NewtonRule, Problems, fit_problems
from setwise.models.labels.quadratic_model import Columns, as_columns
from setwise.models.parallel import Engine, engine_for

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both

# A problem's estimated distance to its minimum, as a share of the loss without features.
TOLERANCE = 1e-6
_CHUNKS_PER_WORKER = 8  # small enough to balance the workers, large enough to amortise a call


class Start(NamedTuple):
    """Where the steps of a fit begin."""

    coef: sp.csr_array  # (n_problems, n_features) float64
    intercept: NDArray[np.float64]  # (n_problems,)


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Solutions of one or many problems."""

    coef: sp.csr_array  # (n_problems, n_features) coefficients; zeros are not stored
    intercept: NDArray[np.float64]  # (n_problems,) unpenalised intercepts
    alpha: NDArray[np.float64]  # (n_problems,) penalty strength each was fitted with
    # (n_problems,) penalised weighted mean log-loss of the solution on the training rows, in nats.
    objective: NDArray[np.float64]
    n_iter: NDArray[np.int64]  # (n_problems,) Newton steps taken
    # (n_problems,) whether the fit ended at the tolerance, before the limit of its steps.
    converged: NDArray[np.bool_]


def fit_elastic_net(
    X: Matrix,
    Y: Matrix,
    *,
    alpha: float | ArrayLike,
    l1_ratio: float,
    sample_weight: ArrayLike | None = None,
    warm_start: LinearFit | Start | None = None,
    tol: float = TOLERANCE,
    max_iter: int = 100,
    max_sweeps: int = 3,
    trusted: float = 0.0,
    n_jobs: int | None = None,
) -> LinearFit:
    r"""Minimise the elastic-net logistic objective of every column of `Y`.

    .. math:: \frac{1}{\sum_n w_n} \sum_n w_n [\log(1 + e^{z_n}) - t_n z_n]
        + \alpha \left(\rho |\beta|_1 + \tfrac{1 - \rho}{2} |\beta|_2^2\right),
        \quad z_n = b + x_n \cdot \beta

    Parameters
    ----------
    X : array-like or sparse of shape (n_samples, n_features)
        Finite features. A csc_array of float32 is used as it is; other matrices are copied.
    Y : array-like or sparse of shape (n_samples,) or (n_samples, n_problems)
        Targets in [0, 1]: labels or soft targets.
    alpha : float or array-like of shape (n_problems,)
        Penalty strength, not negative; the loss is a mean, so the strength does not depend on
        the number of rows.
    l1_ratio : float
        :math:`\rho` in [0, 1]; 0 is ridge, 1 is lasso.
    sample_weight : array-like of shape (n_samples,) or (n_samples, n_problems), optional
        Finite weights, not negative, shared or per problem.
    warm_start : LinearFit or Start, optional
        Fit of the same problems and features to start from.
    tol : float
        Steps end when the objective is within about this share of the intercept-only loss.
    max_iter : int
        Maximum number of Newton steps.
    max_sweeps : int
        Maximum number of coordinate-descent sweeps per step.
    trusted : float
        A step that begins within this many times `tol` is the last one and its result is not
        checked, because checking every feature takes as long as the step.
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
    features = as_features(X, "X")
    n, d = features.shape
    targets = as_targets(Y, n, "Y")
    size = targets.shape[1]
    if not 0.0 <= l1_ratio <= 1.0:
        raise ValueError(f"l1_ratio must be in [0, 1], got {l1_ratio}")
    if max_sweeps < 1:
        raise ValueError(f"max_sweeps must be at least 1, got {max_sweeps}")
    alphas = _strengths(alpha, size)
    start, start_intercept = _as_start(warm_start, size, d)
    problems = Problems(
        X=as_columns(features),
        Y=as_columns(targets),
        weights=_check_weights(sample_weight, n, size),
        l1=alphas * l1_ratio,
        l2=alphas * (1.0 - l1_ratio),
        start=start,
        start_intercept=start_intercept,
    )
    rule = NewtonRule(float(tol), int(max_iter), int(max_sweeps), float(trusted))
    fits = _join(_in_chunks(problems, rule, size, engine_for(n_jobs)))
    return LinearFit(
        coef=sp.csr_array((fits.values, fits.indices, fits.indptr), shape=(size, d)),
        intercept=fits.intercept,
        alpha=alphas,
        objective=fits.objective,
        n_iter=fits.n_iter,
        converged=fits.converged,
    )


def as_features(X: Matrix, name: str) -> sp.csc_array:
    """Return `X` as a sorted csc_array, checked to fit float32."""
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
    return _canonical(columns, X)


def as_targets(Y: Matrix, n: int, name: str) -> sp.csc_array:
    """Return `Y` as a float64 csc_array (n, n_problems), checked for [0, 1]."""
    if not sp.issparse(Y):
        Y = np.asarray(Y)
        Y = Y[:, None] if Y.ndim == 1 else Y
    targets = sp.csc_array(Y, dtype=np.float64)
    targets = _canonical(targets, Y)
    if targets.shape[0] != n:
        raise ValueError(f"{name} has {targets.shape[0]} rows, its features {n}")
    if not ((targets.data >= 0.0) & (targets.data <= 1.0)).all():
        raise ValueError(f"{name} holds a target outside [0, 1]")
    return targets


def _canonical(matrix: sp.csc_array, source: Matrix) -> sp.csc_array:
    if matrix.has_canonical_format:
        return matrix
    if sp.issparse(source):
        matrix = matrix.copy()  # the caller's arrays may be shared
    matrix.sum_duplicates()
    return matrix


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


def _strengths(value: ArrayLike, size: int) -> NDArray[np.float64]:
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in {(), (size,)}:
        raise ValueError(f"alpha has shape {values.shape}; expected one number or ({size},)")
    if not (np.isfinite(values) & (values >= 0.0)).all():
        raise ValueError("alpha must be finite and not negative")
    return np.broadcast_to(values, (size,)).copy()


def _as_start(
    warm_start: LinearFit | Start | None, size: int, d: int
) -> tuple[Columns, NDArray[np.float64]]:
    if warm_start is None:
        return as_columns(sp.csc_array((d, size), dtype=np.float64)), np.full(size, np.nan)
    if warm_start.coef.shape != (size, d):
        raise ValueError(
            f"warm_start has coefficients of shape {warm_start.coef.shape}; expected ({size}, {d})"
        )
    return as_columns(warm_start.coef.T), warm_start.intercept


def _in_chunks(problems: Problems, rule: NewtonRule, size: int, engine: Engine) -> list[Fits]:
    """Fit consecutive ranges of problems side by side; return them in order."""
    n_chunks = engine.size * _CHUNKS_PER_WORKER if engine.size > 1 else 1
    chunk = max(1, -(-size // n_chunks))
    ranges = [(first, min(first + chunk, size)) for first in range(0, size, chunk)]
    return engine.run(_fit_range, (problems, rule), ranges)


def _fit_range(shared: tuple[Problems, NewtonRule], part: tuple[int, int]) -> Fits:
    fits: Fits = fit_problems(shared[0], *part, shared[1])
    return fits


def _join(parts: list[Fits]) -> Fits:
    offsets = np.cumsum([0] + [int(part.indptr[-1]) for part in parts])
    indptr = [np.zeros(1, np.int64)]
    indptr += [part.indptr[1:] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Fits(
        np.concatenate(indptr),
        *(np.concatenate([part[field] for part in parts]) for field in range(1, len(Fits._fields))),
    )
