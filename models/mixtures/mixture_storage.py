"""The stored form of sparse linear scores and of label sets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.storage.fields import StoredArray, stored_ragged


def stored_linear(
    name: str, owner: str, rows: str, features: str = "features"
) -> tuple[StoredArray, ...]:
    """Return the fields of an attribute's coefficients and intercepts.

    Parameters
    ----------
    name : str
        Prefix of the arrays, followed by an underscore.
    owner : str
        The attribute with a dot, or nothing for the part itself.
    rows, features : str
        Names of the lengths.
    """
    entries = f"{name}_entries"
    return (
        StoredArray(f"{name}_intercept", f"{owner}intercept", np.float64, (rows,)),
        *stored_ragged(
            f"{name}_indptr",
            f"{name}_features",
            f"{owner}coef",
            "indices",
            rows,
            features,
            entries,
        ),
        StoredArray(f"{name}_values", f"{owner}coef.data", np.float64, (entries,)),
    )


def restored_linear(
    fields: Mapping[str, NDArray[Any]], name: str, n_features: int
) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """Return coefficients and intercepts."""
    indptr = fields[f"{name}_indptr"]
    entries = fields[f"{name}_values"], fields[f"{name}_features"], indptr
    coef = sp.csr_array(entries, shape=(len(indptr) - 1, n_features))
    return coef, fields[f"{name}_intercept"]


def restored_sets(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int
) -> sp.csr_array:
    """Return label sets as a 0/1 matrix (n_sets, n_labels), uint8."""
    ones = np.ones_like(labels, np.uint8)
    return sp.csr_array((ones, labels, indptr), shape=(len(indptr) - 1, n_labels))
