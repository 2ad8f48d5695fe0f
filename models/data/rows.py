"""Rows of a sparse matrix as plain arrays for compiled code."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


class SparseRows(NamedTuple):
    """Sparse rows of finite numbers, columns ascending in each.

    A plain tuple, because building a `csr_array` is slow for a single document.

    Examples
    --------
    >>> rows = SparseRows.of(csr_array(np.array([[0, 2.5], [1, 0]], dtype=np.float32)))
    >>> rows.indptr.tolist(), rows.features.tolist(), rows.values.tolist(), rows.n_features
    ([0, 1, 2], [1, 0], [2.5, 1.0], 2)
    """

    # (n_rows + 1,) row ``i`` holds the entries ``indptr[i]:indptr[i + 1]``.
    indptr: NDArray[np.int64]
    features: NDArray[np.int32]  # columns of the entries
    values: NDArray[Any]  # float64 before `setwise.models.data.scaler.FeatureScaler`
    n_features: int  # number of columns

    @classmethod
    def of(cls, rows: csr_array, dtype: type[np.floating] = np.float32) -> Self:
        """Return the rows of a canonical matrix, with values of ``dtype``."""
        return cls(
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32, copy=False),
            rows.data.astype(dtype, copy=False),
            rows.shape[1],
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def slice(self, start: int, stop: int) -> "SparseRows":
        """Return the rows from ``start`` up to ``stop``."""
        bounds = self.indptr[start : stop + 1]
        entries = slice(bounds[0], bounds[-1])
        return SparseRows(
            bounds - bounds[0], self.features[entries], self.values[entries], self.n_features
        )

    def to_matrix(self) -> csr_array:
        """Return a csr_array (n_rows, n_features) with int32 indices."""
        shape = (self.n_rows, self.n_features)
        return csr_array((self.values, self.features, self.indptr.astype(np.int32)), shape=shape)
