"""Adds a block of audits to the law of two counts."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def add_block(law: Floats, block: Floats) -> Floats:  # pragma: no cover - compiled
    """Return the law of the sums of two independent pairs of counts, within the table."""
    rows, columns = law.shape
    result = np.zeros((rows, columns))
    for row in range(rows):
        for column in range(columns):
            chance = law[row, column]
            if chance == 0.0:
                continue
            for more in range(rows - row):
                for again in range(columns - column):
                    result[row + more, column + again] += chance * block[more, again]
    return result
