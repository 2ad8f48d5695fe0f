"""Weights features before a linear model, fitted on training rows."""

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.storage.fields import StoredArray, StoredSetting

if TYPE_CHECKING:
    from sklearn.utils import Tags

Scheme = Literal["auto", "idf", "deviation", "none"]
Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both

# Rows whose lengths differ by less were normalised before they came here.
_UNIT_TOLERANCE = 1e-3
# A column with a smaller share of spread in its magnitude is constant as far as float32 can tell.
_CONSTANT = 1e-5
_LARGEST = float(np.finfo(np.float32).max)


STORED_WEIGHTING = (
    StoredSetting("scheme", "weighting_.scheme_", str, choices=("idf", "deviation", "none")),
    StoredArray("scale", "weighting_.scale_", np.float64, ("features",), low=0.0),
)
"""Fields of a part with the attribute ``weighting_``."""


class FeatureWeighting(Estimator):
    """Scales features by a factor per column, optionally to unit rows.

    Nothing is centred, so sparse input stays sparse; a model with an unpenalised intercept has
    the same optimum either way.

    Parameters
    ----------
    scheme : {"auto", "idf", "deviation", "none"}
        ``"idf"`` multiplies by the smoothed inverse document frequency
        ``log((1 + n) / (1 + df)) + 1`` and scales rows to unit length, as for counts or
        indicators of terms. ``"deviation"`` divides by the standard deviation; a constant column
        becomes zero. ``"auto"`` leaves rows of unit length alone, uses ``"idf"`` where values are
        non-negative and mostly zero, and ``"deviation"`` elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> FeatureWeighting("idf").fit_transform(np.eye(3) + np.eye(3, k=1)).toarray().round(2)
    array([[0.8 , 0.61, 0.  ],
           [0.  , 0.71, 0.71],
           [0.  , 0.  , 1.  ]], dtype=float32)
    """

    scheme_: Literal["idf", "deviation", "none"]  # the scheme in use, never ``"auto"``
    scale_: NDArray[np.float64]  # (n_features,) factor of each column
    unit_rows_: bool  # whether rows are scaled to unit length
    n_features_in_: int

    def __init__(self, scheme: Scheme = "auto") -> None:
        self.scheme = scheme

    def fit(self, X: Matrix, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the factors.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight two counts as two rows.
        """
        del y
        rows = checked_rows(self, X, reset=True)
        if self.scheme not in {"auto", "idf", "deviation", "none"}:
            raise ValueError(f"scheme must be auto, idf, deviation or none, got {self.scheme!r}")
        self.scheme_ = _choose(rows) if self.scheme == "auto" else self.scheme
        self.unit_rows_ = self.scheme_ == "idf"
        n = rows.shape[0]
        weight = np.ones(n) if sample_weight is None else check_sample_weight(sample_weight, n)
        of_value = np.repeat(weight, np.diff(rows.indptr))
        if self.scheme_ == "idf":
            present = np.bincount(
                rows.indices, weights=of_value * (rows.data != 0.0), minlength=rows.shape[1]
            )
            self.scale_ = np.log((1.0 + weight.sum()) / (1.0 + present)) + 1.0
        elif self.scheme_ == "deviation":
            self.scale_ = _inverse_deviation(rows, of_value, weight.sum())
        else:
            self.scale_ = np.ones(rows.shape[1])
        return self

    def transform(self, X: Matrix) -> sp.csr_array:
        """Weight the features of `X`.

        Returns
        -------
        csr_array of shape (n_samples, n_features), float32

        Raises
        ------
        ValueError
            If the number of features differs from training, or a value is NaN, infinite or too
            large for float32.
        """
        check_fitted(self, "scale_")
        rows = checked_rows(self, X, reset=False)
        values = weight_rows(SparseRows.of(rows), self.scale_, self.unit_rows_)
        return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)

    def fit_transform(self, X: Matrix, y: object = None, **fit: ArrayLike | None) -> sp.csr_array:
        """Fit, and transform the same rows."""
        return self.fit(X, y, **fit).transform(X)

    def weigh(self, rows: SparseRows) -> SparseRows:
        """Return weighted rows; as `transform`, without checking the columns.

        Raises
        ------
        ValueError
            If a weighted value is too large for float32.
        """
        values = weight_rows(rows, self.scale_, self.unit_rows_)
        return SparseRows(rows.indptr, rows.features, values, rows.n_features)

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import TransformerTags  # noqa: PLC0415 - as in `estimator`

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    @classmethod
    def from_state(
        cls,
        scale: NDArray[np.float64],
        scheme: Literal["idf", "deviation", "none"],
        requested: Scheme,
    ) -> Self:
        """Rebuild a fitted weighting from its factors and its scheme."""
        weighting = cls(requested)
        weighting.scale_ = np.asarray(scale, dtype=np.float64)
        weighting.scheme_ = scheme
        weighting.unit_rows_ = scheme == "idf"
        weighting.n_features_in_ = len(weighting.scale_)
        return weighting


def check_sample_weight(weight: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return checked row weights of shape (n,)."""
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}; expected ({n},)")
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise ValueError("sample_weight holds a negative or non-finite weight")
    if n > 0 and not weights.any():
        raise ValueError("every sample_weight is zero")
    return weights


def checked_rows(estimator: Estimator, X: Matrix, *, reset: bool) -> sp.csr_array:
    """Check `X` as scikit-learn does and return `as_rows` of it.

    Parameters
    ----------
    estimator : Estimator
        Learns the number and names of the features when `reset`, else compares them.
    """
    from sklearn.utils.validation import validate_data  # noqa: PLC0415 - as in `estimator`

    with np.errstate(over="ignore"):  # what float32 cannot hold is refused by name just after
        checked = validate_data(estimator, X, accept_sparse="csr", dtype=np.float32, reset=reset)
    return as_rows(checked)


def as_rows(X: Matrix, dtype: type[np.floating] = np.float32) -> sp.csr_array:
    """Return `X` as a csr_array of `dtype` with sorted int32 indices.

    Raises
    ------
    ValueError
        If `X` has not two dimensions, or a value is NaN, infinite or too large for float32.
    """
    if not sp.issparse(X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: reshape X")
    with np.errstate(over="ignore"):
        rows: sp.csr_array[Any, tuple[int, int]] = sp.csr_array(X).astype(dtype, copy=False)
    # Negated so that NaN fails too.
    if not (np.abs(rows.data) <= _LARGEST).all():
        raise ValueError(
            "X holds NaN, infinity or a value beyond 3.4e38: replace it or rescale the feature"
        )
    if not rows.has_canonical_format:
        rows = rows.copy()  # the caller's arrays may be shared
        rows.sum_duplicates()
    if rows.indices.dtype != np.int32 or rows.indptr.dtype != np.int32:
        rows = sp.csr_array(
            (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)),
            shape=rows.shape,
        )
    return rows


def no_features(n: int) -> sp.csr_array:
    """Return the rows of n documents without any features."""
    return as_rows(np.zeros((n, 0)))


def _choose(rows: sp.csr_array) -> Literal["idf", "deviation", "none"]:
    lengths = np.sqrt(_row_sums(rows, rows.data.astype(np.float64) ** 2))
    lengths = lengths[lengths > 0.0]
    if lengths.size and np.all(np.abs(lengths - 1.0) < _UNIT_TOLERANCE):
        return "none"
    sparse = 2 * rows.nnz < rows.shape[0] * rows.shape[1]
    if sparse and (rows.data >= 0.0).all():
        return "idf"
    return "deviation"


def _row_sums(rows: sp.csr_array, values: NDArray[np.float64]) -> NDArray[np.float64]:
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.bincount(of_row, weights=values, minlength=rows.shape[0]).astype(np.float64)


def _inverse_deviation(
    rows: sp.csr_array, weight: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """Return the reciprocal deviation of each column, given value weights."""
    d = rows.shape[1]
    values = rows.data.astype(np.float64)
    mean = np.bincount(rows.indices, weights=weight * values, minlength=d) / total
    stored = np.bincount(rows.indices, weights=weight, minlength=d)
    squares = np.bincount(
        rows.indices, weights=weight * (values - mean[rows.indices]) ** 2, minlength=d
    )
    variance = np.maximum(squares + (total - stored) * mean**2, 0.0) / total
    deviation = np.sqrt(variance)
    spread = deviation > _CONSTANT * np.sqrt(variance + mean**2)
    return np.divide(1.0, deviation, out=np.zeros(d), where=spread)


@njit(cache=True, nogil=True)
def weight_rows(
    rows: SparseRows, scale: NDArray[np.float64], unit_rows: bool
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the weighted values of sparse rows; rows of zeros stay so.

    Raises
    ------
    ValueError
        If a weighted value is too large for float32.
    """
    indptr, features, values = rows.indptr, rows.features, rows.values
    weighted = np.empty(values.shape[0], np.float32)
    finite = True
    for i in range(indptr.shape[0] - 1):
        squares = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            squares += (values[k] * scale[features[k]]) ** 2
        factor = 1.0 / np.sqrt(squares) if unit_rows and squares > 0.0 else 1.0
        for k in range(indptr[i], indptr[i + 1]):
            weighted[k] = values[k] * scale[features[k]] * factor
            finite &= np.isfinite(weighted[k])
    if not finite:
        raise ValueError("X holds a value too large beside those of training: rescale it")
    return weighted
