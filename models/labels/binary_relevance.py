"""Binary relevance: one logistic regression per label, all fitted together."""

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted, draws_of, warn_of_unfinished
from setwise.models.labels.linear import LinearFit, Start, fit_elastic_net
from setwise.models.labels.penalty import choose_penalty
from setwise.models.labels.scaling import (
    STORED_WEIGHTING,
    FeatureWeighting,
    Scheme,
    check_sample_weight,
    checked_rows,
)
from setwise.models.labels.targets import SetClassifierMixin
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import Stored, StoredArray, StoredParameters, stored_ragged
from setwise.models.storage.state import Lengths, StoredPart

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both

Penalty = Literal["auto"] | float | NDArray[np.float64]

# The choice of a penalty needs less accuracy than the fit.
_PATH_TOLERANCE = 1e-3
# Of the tolerance of a fit that starts from one that has seen the labels left out: with all of it,
# labels drawn at random would be scored a little better than chance.
_FOLD_ACCURACY = 0.1
# A single row cannot be split to choose a penalty.
_ALPHA_WITHOUT_VALIDATION = 1e-3
# Above this share of non-zero coefficients a dense matrix is faster than lists.
_DENSE_SHARE = 0.05
_DENSE_BYTES = 256 * 2**20


class LabelWeights(NamedTuple):
    """Coefficients by feature, sparse or dense, for compiled scoring."""

    indptr: NDArray[np.int64]  # (d + 1,)
    labels: NDArray[np.int32]
    values: NDArray[np.float32]
    dense: NDArray[np.float32]  # (d, L) or (0, 0)
    intercept: NDArray[np.float64]  # (L,)


class BinaryRelevance(StoredPart, SetClassifierMixin, Estimator):
    """One elastic-net logistic regression per label.

    Parameters
    ----------
    alpha : "auto", float or array-like of shape (n_labels,)
        Penalty strength as in `fit_elastic_net`. ``"auto"`` chooses it for each label
        by the log-loss on validation rows, see `choose_penalty`.
    l1_ratio : float
        Share of the L1 norm in the penalty, in [0, 1].
    weighting : {"auto", "idf", "deviation", "none"}
        Weighting of features before the fit, see `FeatureWeighting`.
    tol, max_iter : float, int
        See `fit_elastic_net`.
    validation_fraction : float
        Share of rows set aside by ``alpha="auto"``; the final fit uses all rows.
    n_jobs : int, optional
        Threads; by default every usable core. The result does not depend on it.
    random_state : int, RandomState or None
        Random state for the rows set aside.

    References
    ----------
    .. [1] C. Li, V. Pavlu, J. Aslam, B. Wang and K. Qin, "Learning to Calibrate and Rerank
       Multi-label Predictions", ECML 2019, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 20, axis=0)
    >>> Y = np.repeat([[1, 0], [1, 1], [0, 0]], 20, axis=0)
    >>> BinaryRelevance(alpha=1e-3).fit(X, Y).predict(np.eye(3))
    array([[1, 0],
           [1, 1],
           [0, 0]])
    """

    alpha_: NDArray[np.float64]  # (n_labels,) penalty strength of each label
    coef_: sp.csc_array  # (n_labels, n_features) coefficients of the weighted features
    intercept_: NDArray[np.float64]  # (n_labels,)
    weighting_: FeatureWeighting
    weights_: LabelWeights  # coefficients and intercepts as `score_row` reads them
    n_iter_: NDArray[np.int64]  # (n_labels,)
    n_features_in_: int
    start: Start | None = None  # where the steps of a fit with given penalties begin
    stored: ClassVar[tuple[Stored, ...]] = (
        StoredParameters("params"),
        *STORED_WEIGHTING,
        *stored_ragged("coef_indptr", "coef_indices", "coef_", "indices", "features"),
        StoredArray("coef_values", "coef_.data", np.float32, ("entries",)),
        StoredArray("intercept", "intercept_", np.float64, ("labels",)),
        StoredArray("alpha", "alpha_", np.float64, ("labels",), infinite=True),
        StoredArray("n_iter", "n_iter_", np.int64, ("labels",)),
    )

    def __init__(
        self,
        *,
        alpha: Penalty = "auto",
        l1_ratio: float = 0.7,
        weighting: Scheme = "auto",
        tol: float = 1e-4,
        max_iter: int = 50,
        validation_fraction: float = 0.2,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.weighting = weighting
        self.tol = tol
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Matrix,
        y: Matrix,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit every label.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : array-like or sparse of shape (n_samples, n_labels)
            0 or 1; or anything else that `read_targets` reads. A label that occurs never or always
            gets the logit of its smoothed rate.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, not negative.

        Raises
        ------
        ValueError
            If shapes disagree, or a value is out of its range, not finite or too large for float32.

        Warns
        -----
        ConvergenceWarning
            Once, if labels were still moving after `max_iter` steps.
        """
        check_parameters(self)
        rows = checked_rows(self, X, reset=True)
        targets = self._adopt_targets(y, rows)
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, rows.shape[0])
            counted = weight > 0.0
            rows, targets, weight = rows[counted], targets[counted], weight[counted]
        self.weighting_ = FeatureWeighting(self.weighting).fit(rows, sample_weight=weight)
        fit = self._fit_labels(self.weighting_.transform(rows), targets, weight)
        self._keep(fit)
        unfinished = int(np.count_nonzero(~fit.converged))
        if unfinished:
            warn_of_unfinished(
                f"{unfinished} of {len(fit.converged)} labels were still moving after "
                f"{self.max_iter} steps; raise max_iter, tol or alpha"
            )
        return self

    def _fit_labels(
        self, X: sp.csr_array, Y: sp.csr_array, weight: NDArray[np.float64] | None
    ) -> LinearFit:
        """Fit every label on weighted features."""
        return self._solve(X, Y, weight, self.alpha, self.start)

    def _solve(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        weight: NDArray[np.float64] | None,
        alpha: Penalty,
        start: LinearFit | Start | None,
    ) -> LinearFit:
        if isinstance(alpha, str):
            alpha, start = self._choose_alpha(X, Y, weight)
        return fit_elastic_net(
            X,
            Y,
            alpha=alpha,
            l1_ratio=self.l1_ratio,
            sample_weight=weight,
            warm_start=start,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )

    def for_folds(self) -> Self:
        """Return an unfitted copy with the penalties of this one, to fit to parts of its rows.

        With a share of the squared norm in the penalty the minimum is unique, and the fits start
        from these coefficients. Labels of rows left out then move a fit by no more than its
        tolerance, which is a tenth of this one's.
        """
        copy = self.unfitted()
        copy.alpha = self.alpha_
        if self.l1_ratio < 1.0:
            copy.start, copy.tol = self.as_start(), _FOLD_ACCURACY * self.tol
        return copy

    def as_start(self) -> Start:
        """Return the coefficients as a start of other fits."""
        return Start(sp.csr_array(self.coef_.astype(np.float64)), self.intercept_)

    def _choose_alpha(
        self, X: sp.csr_array, Y: sp.csr_array, weight: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], LinearFit | None]:
        """Return each label's penalty and a warm start, if fitted."""
        if self.alpha != "auto":
            raise ValueError(f'alpha must be a number, one per label or "auto", got {self.alpha!r}')
        n = X.shape[0]
        order = draws_of(self.random_state).permutation(n)
        n_valid = min(max(1, round(self.validation_fraction * n)), n - 1)
        if n_valid < 1:
            return np.asarray(_ALPHA_WITHOUT_VALIDATION), None
        valid, train = np.sort(order[:n_valid]), np.sort(order[n_valid:])
        choice = choose_penalty(
            X[train],
            Y[train],
            X[valid],
            Y[valid],
            l1_ratio=self.l1_ratio,
            sample_weight=None if weight is None else weight[train],
            tol=max(self.tol, _PATH_TOLERANCE),
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        complete = choice.fit.coef.shape[0] == Y.shape[1]
        return choice.alpha, choice.fit if complete else None

    def _keep(self, fit: LinearFit) -> None:
        self.alpha_ = fit.alpha
        self.coef_ = sp.csc_array(fit.coef.astype(np.float32))
        self.intercept_ = fit.intercept
        self.n_iter_ = fit.n_iter
        self.weights_ = _by_feature(self.coef_, self.intercept_)

    def added_by_features(self) -> sp.csr_array:
        """Return what a unit of each feature adds to each label's log-odds, (n_labels, d)."""
        return sp.csr_array(self.coef_)

    def decision_function(self, X: Matrix) -> NDArray[np.float64]:
        """Return the logit of every label.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Log-odds in nats, always finite. If ``y`` had one of two classes per row, the log-odds
            of the second, (n_samples,).
        """
        logits = self._logits(X)
        if self.exclusive_ and logits.shape[1] == 2:
            log_probability = -np.logaddexp(0.0, -logits)
            return np.asarray(log_probability[:, 1] - log_probability[:, 0])
        return logits

    def _logits(self, X: Matrix) -> NDArray[np.float64]:
        check_fitted(self, "coef_")
        return self.score_rows(SparseRows.of(checked_rows(self, X, reset=False)))

    def score_rows(self, rows: SparseRows) -> NDArray[np.float64]:
        """Return what `decision_function` does, without checking the columns."""
        return score_rows(self.weighting_.weigh(rows), self.weights_)

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Return the marginal probability of every label, shape (n_samples, n_labels)."""
        return self._shown_probability(np.asarray(expit(self._logits(X))))

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Return 1 for labels with a probability above one half, else 0.

        If ``y`` had one class per row, the most probable class of each row instead.
        """
        logits = self._logits(X)
        if self.exclusive_:
            return self._likeliest(logits)
        return (logits > 0.0).astype(np.int64)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted classifiers."""
        model = cls(**fields["parameters"])
        model.weighting_ = FeatureWeighting.from_state(
            fields["scale"], fields["scheme"], model.weighting
        )
        model.coef_ = sp.csc_array(
            (fields["coef_values"], fields["coef_indices"], fields["coef_indptr"]),
            shape=(lengths["labels"], lengths["features"]),
        )
        model.alpha_, model.intercept_ = fields["alpha"], fields["intercept"]
        model.n_iter_ = fields["n_iter"]
        model.n_features_in_ = lengths["features"]
        model.classes_ = np.arange(lengths["labels"])
        model.weights_ = _by_feature(model.coef_, model.intercept_)
        return model


def _by_feature(coef: sp.csc_array, intercept: NDArray[np.float64]) -> LabelWeights:
    n_labels, d = coef.shape
    fits = 4 * d * n_labels <= _DENSE_BYTES
    dense = np.zeros((0, 0), np.float32)
    if fits and coef.nnz > _DENSE_SHARE * d * n_labels:
        dense = np.ascontiguousarray(coef.toarray().T)
    return LabelWeights(
        coef.indptr.astype(np.int64),
        coef.indices.astype(np.int32),
        np.ascontiguousarray(coef.data, dtype=np.float32),
        dense,
        np.ascontiguousarray(intercept, dtype=np.float64),
    )


@njit(cache=True, nogil=True)
def score_row(
    features: NDArray[np.int32],
    values: NDArray[np.float32],
    weights: LabelWeights,
    logits: NDArray[np.float64],
) -> None:
    """Fill the logits (L,) of one document from its weighted features."""
    logits[:] = weights.intercept
    if weights.dense.shape[0] > 0:
        for k in range(features.shape[0]):
            x = np.float64(values[k])
            row = weights.dense[features[k]]
            for label in range(row.shape[0]):
                logits[label] += x * row[label]
    else:
        for k in range(features.shape[0]):
            x = np.float64(values[k])
            for m in range(weights.indptr[features[k]], weights.indptr[features[k] + 1]):
                logits[weights.labels[m]] += x * weights.values[m]


@njit(cache=True, nogil=True)
def score_rows(
    rows: SparseRows, weights: LabelWeights
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the logits (n, L) of weighted sparse rows."""
    logits = np.empty((len(rows.indptr) - 1, len(weights.intercept)))
    for i in range(len(logits)):
        span = slice(rows.indptr[i], rows.indptr[i + 1])
        score_row(rows.features[span], rows.values[span], weights, logits[i])
    return logits
