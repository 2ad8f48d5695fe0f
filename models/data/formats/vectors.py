"""What a reader of feature vectors returns."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

MOST_COLUMNS = 2**24
"""Features or labels that a file may have: each gets a name, so more would fill the memory."""


class Vectors(NamedTuple):
    """The content of a file of feature vectors."""

    X: csr_array  # (n, d) float64
    label_sets: Sequence[tuple[int, ...]]
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None  # None: numbered from 1


def matrix_of(rows: Sequence[Mapping[int, float]], n_features: int) -> csr_array:
    """Return rows given as numbers by column as a matrix, without zeros."""
    items = [sorted((column, value) for column, value in row.items() if value) for row in rows]
    indptr = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in items], out=indptr[1:])
    flat = [item for row in items for item in row]
    X = csr_array(
        (
            np.array([value for _, value in flat], dtype=np.float64),
            np.array([column for column, _ in flat], dtype=np.int32),
            indptr,
        ),
        shape=(len(rows), n_features),
    )
    X.has_sorted_indices = True
    return X
