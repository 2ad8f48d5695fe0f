"""Scales measurements, so that no fit depends on their units."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.storage.fields import StoredArray
from setwise.models.storage.state import Lengths, StoredPart

# A matrix with a larger share of non-zero values is a table of measurements.
_DENSE_SHARE = 0.5
# So is one with a larger share than this, if its columns vary; words fill less.
_TABLE_SHARE = 0.1
# A column varies if its most frequent non-zero value has a smaller share of them: that of a count
# is mostly 1, and that of its weight mostly the weight of 1.
_REPEATED_SHARE = 0.4
# In another matrix, a column with a larger share of non-zero values is a measurement.
_FULL_SHARE = 0.9
# Rows whose lengths differ by less were normalised before they came here.
_UNIT_TOLERANCE = 1e-3
# A column with a smaller share of spread in its magnitude is constant as far as float64 can tell.
_CONSTANT = 1e-10
# So is one whose deviation has a larger reciprocal: the number 1, scaled, would not fit float32.
_LARGEST_SCALE = 1e38
# Scaled values are multiples of this. It hides the rounding errors of other units, so that equal
# documents in any units get equal values and the same trees.
_STEP = 2.0**-16


class FeatureScaler(StoredPart):
    """Centres measurements and divides them by their deviation, in float64.

    Every column of a table is a measurement. A matrix is a table if most of its values are not
    zero; or if more than a tenth are, the rows do not have unit length, and most of these values
    stand in columns that vary, where no value comes up again and again as the 1 of a count does.
    Indicators, columns with one non-zero value, do not decide.

    In another matrix, only a nearly full column is a measurement, unless it counts something
    (whole numbers, none negative) or the rows have unit length; the other columns stay as they
    are, so counts and terms stay sparse.

    Examples
    --------
    >>> heights = csr_array([[150.0], [170.0], [190.0]])
    >>> scaler = FeatureScaler().fit(heights)
    >>> in_feet = csr_array(heights.toarray() / 30.48)
    >>> print(scaler.transform(heights).toarray().ravel().round(2))
    [-1.22  0.    1.22]
    >>> print(FeatureScaler().fit(in_feet).transform(in_feet).toarray().ravel().round(2))
    [-1.22  0.    1.22]
    """

    stored = (
        StoredArray("centre", "centre_", np.float64, ("features",)),
        StoredArray("scale", "scale_", np.float64, ("features",), low=0.0, high=_LARGEST_SCALE),
        StoredArray("measured", "measured_", np.uint8, ("features",), low=0, high=1),
    )

    centre_: NDArray[np.float64]  # (n_features,) mean of each measurement; 0 for other columns
    # (n_features,) reciprocal deviation of each measurement, 0 if it is constant; 1 for other
    # columns.
    scale_: NDArray[np.float64]
    measured_: NDArray[np.uint8]  # (n_features,) 1 for measurements

    def fit(self, X: csr_array) -> Self:
        """Learn from training rows (n_documents, n_features) in canonical format."""
        d = X.shape[1]
        self.measured_ = _measurements(X).astype(np.uint8)
        self.centre_, self.scale_ = np.zeros(d), np.ones(d)
        columns = X.astype(np.float64).tocsc()
        for j in np.flatnonzero(self.measured_):
            values = np.zeros(X.shape[0])
            span = slice(columns.indptr[j], columns.indptr[j + 1])
            values[columns.indices[span]] = columns.data[span]
            mean = values.mean()
            mean += (values - mean).mean()  # the first mean of large values is rounded
            deviation = values.std(mean=mean)
            spread = deviation > np.hypot(_CONSTANT * mean, 1.0 / _LARGEST_SCALE)
            self.centre_[j], self.scale_[j] = mean, 1.0 / deviation if spread else 0.0
        return self

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted scaler."""
        scaler = super().restored(fields, lengths)
        if (np.abs(scaler.centre_) * scaler.scale_ > 2.0 / _CONSTANT).any():  # 2 for rounding
            raise ValueError("array 'scale' is too large beside 'centre': every document would be")
        return scaler

    @property
    def active(self) -> bool:
        """Whether there is a measurement to scale."""
        return bool(self.measured_.any())

    @property
    def dense(self) -> bool:
        """Whether every column is a measurement, as in a table."""
        return bool(self.measured_.all())

    def scale_rows(self, rows: SparseRows) -> SparseRows:
        """Return rows with float64 values scaled, in float32 and without zeros.

        Raises
        ------
        ValueError
            If a scaled value is too large for float32.
        """
        return _scale(rows, self.centre_, self.scale_, self.measured_)

    def transform(self, X: csr_array) -> csr_array:
        """Return the scaled rows of a matrix (n_documents, n_features), float32."""
        return self.scale_rows(SparseRows.of(X, np.float64)).to_matrix()


def _measurements(X: csr_array) -> NDArray[np.bool_]:
    """Return which columns are measurements."""
    n, d = X.shape
    present = X.data != 0.0
    filled = np.bincount(X.indices[present], minlength=d)
    if filled.sum() > _DENSE_SHARE * n * d:
        return np.ones(d, dtype=bool)
    if _have_unit_length(X):
        return np.zeros(d, dtype=bool)
    if filled.sum() > _TABLE_SHARE * n * d and _most_vary(X):
        return np.ones(d, dtype=bool)
    counts = (X.data >= 0.0) & (X.data == np.floor(X.data))
    fractional = np.bincount(X.indices[~counts], minlength=d) > 0
    return np.asarray((filled > _FULL_SHARE * n) & fractional)


def _have_unit_length(X: csr_array) -> bool:
    """Return whether all rows but empty ones have unit length."""
    squares = np.zeros(X.shape[0])
    rows = np.repeat(np.arange(len(squares)), np.diff(X.indptr))
    np.add.at(squares, rows, X.data.astype(np.float64) ** 2)
    lengths = np.sqrt(squares[squares > 0.0])
    return bool(np.all(np.abs(lengths - 1.0) < _UNIT_TOLERANCE))


def _most_vary(X: csr_array) -> bool:
    """Return whether most non-zero values, but those of indicators, stand in columns that vary."""
    columns = X.tocsc()
    in_varied, in_repeated = 0, 0
    for values in np.split(columns.data, columns.indptr[1:-1]):
        _, times = np.unique(values[values != 0.0], return_counts=True)
        if len(times) < 2:  # an indicator
            continue
        if times.max() < _REPEATED_SHARE * times.sum():
            in_varied += int(times.sum())
        else:
            in_repeated += int(times.sum())
    return in_varied > in_repeated


@njit(cache=True, nogil=True)
def _scale(
    rows: SparseRows,
    centre: NDArray[np.float64],
    scale: NDArray[np.float64],
    measured: NDArray[np.uint8],
) -> SparseRows:  # pragma: no cover - compiled
    n, d = len(rows.indptr) - 1, len(centre)
    columns = np.flatnonzero(measured)
    room = len(rows.values) + n * len(columns)
    indptr = np.zeros(n + 1, dtype=np.int64)
    features = np.empty(room, dtype=np.int32)
    values = np.empty(room, dtype=np.float32)
    end = 0
    for i in range(n):
        k, last, m = rows.indptr[i], rows.indptr[i + 1], 0
        while k < last or m < len(columns):
            # The next column of the row or, where the row holds 0, of the measurements.
            j = columns[m] if m < len(columns) else d
            x = 0.0
            if k < last and rows.features[k] <= j:
                j = rows.features[k]
                x = np.float64(rows.values[k])
                k += 1
            if m < len(columns) and columns[m] == j:
                m += 1
                x = np.round((x - centre[j]) * scale[j] / _STEP) * _STEP
            value = np.float32(x)
            if not np.isfinite(value):
                raise ValueError("X holds a value too large beside those of training: rescale it")
            if value != 0.0:
                features[end] = j
                values[end] = value
                end += 1
        indptr[i + 1] = end
    return SparseRows(indptr, features[:end].copy(), values[:end].copy(), d)
