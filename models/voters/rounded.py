"""Dense 16-bit matrix for products limited by memory bandwidth."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit

_LARGEST = 32767
# Rows multiplied in one pass over the matrix.
_TILE = 8


class RoundedMatrix(NamedTuple):
    """A matrix as 16-bit integers with a factor per row.

    Entries are rounded by at most half a factor.

    Examples
    --------
    >>> rounded = RoundedMatrix.of(np.array([[1.0, -0.25], [0.0, 0.0]], dtype=np.float32))
    >>> multiply(np.array([[2.0, 3.0]], dtype=np.float32), rounded).round(3)
    array([[ 2. , -0.5]], dtype=float32)
    """

    values: NDArray[np.int16]  # (n_rows, n_columns)
    factors: NDArray[np.float32]  # (n_rows,)

    @classmethod
    def of(cls, matrix: NDArray[np.float32]) -> Self:
        """Round a finite matrix (n_rows, n_columns)."""
        largest = np.abs(matrix).max(axis=1, initial=0.0)
        # The lower bound avoids division by zero for rows of zeros or tiny values.
        factors = np.maximum(largest / _LARGEST, np.finfo(np.float32).tiny).astype(np.float32)
        return cls(np.rint(matrix / factors[:, None]).astype(np.int16), factors)


@njit(cache=True, nogil=True)
def multiply(
    left: NDArray[np.float32], right: RoundedMatrix
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return ``left @ right``, summed in the same order for any batch.

    So a document gets the same result alone and in a batch, which BLAS does not guarantee.

    Parameters
    ----------
    left : float32 ndarray of shape (n, n_rows)
    right : RoundedMatrix of shape (n_rows, n_columns)

    Returns
    -------
    float32 ndarray of shape (n, n_columns)
    """
    n = len(left)
    out = np.zeros((n, right.values.shape[1]), dtype=np.float32)
    for start in range(0, n, _TILE):
        end = min(start + _TILE, n)
        for m in range(len(right.values)):
            row = right.values[m]
            for i in range(start, end):
                x = left[i, m] * right.factors[m]
                into = out[i]
                for s in range(len(row)):
                    into[s] += x * np.float32(row[s])
    return out
