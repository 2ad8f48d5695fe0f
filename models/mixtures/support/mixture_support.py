r"""Support inference: probabilities of seen label sets under a mixture.

Restricting a mixture to the sets it was trained on regularises it: label combinations that never
occurred get no mass (thesis, section 3.7.1; KDD 2017, section 3.2). The F-measure maximiser uses
the remaining mass and may still return an unseen set.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit

# Terms this much smaller than the largest, in nats, do not change a sum of doubles.
_INVISIBLE = 40.0


def distinct_sets(Y: csr_array) -> csr_array:
    """Return distinct rows of a 0/1 matrix by size, then labels.

    Parameters
    ----------
    Y : csr_array of shape (n_samples, n_labels)
        Zeros and ones, sorted indices.
    """
    keys: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(np.split(Y.indices, Y.indptr[1:-1])):
        keys.setdefault((len(row), *row.tolist()), i)
    distinct: csr_array = Y[[keys[key] for key in sorted(keys)]].astype(np.uint8)
    return distinct


def support_log_probabilities(
    log_weights: ArrayLike, logits: ArrayLike, support: csr_array
) -> NDArray[np.float64]:
    r"""Return :math:`\log p(y \mid x)` of every set of a list.

    Parameters
    ----------
    log_weights : array-like of shape (n_documents, n_components)
        Log-weights of the components, in nats.
    logits : array-like of shape (n_documents, n_components, n_labels)
        Finite log-odds of the labels inside the components.
    support : csr_array of shape (n_sets, n_labels)
        Zeros and ones, sorted indices.

    Returns
    -------
    float64 ndarray of shape (n_documents, n_sets)
        In nats; not normalised over the support.

    Raises
    ------
    ValueError
        If the shapes disagree.

    Examples
    --------
    >>> sets = csr_array(np.array([[1, 0], [1, 1]], dtype=np.uint8))
    >>> np.exp(support_log_probabilities([[0.0]], [[[0.0, 0.0]]], sets)).round(2)
    array([[0.25, 0.25]])
    """
    weights = np.ascontiguousarray(log_weights, dtype=np.float64)
    z = np.ascontiguousarray(logits, dtype=np.float64)
    if z.ndim != 3 or weights.shape != z.shape[:2] or z.shape[2] != support.shape[1]:
        raise ValueError(
            f"log_weights {weights.shape}, logits {z.shape} and support {support.shape} disagree"
        )
    scores: NDArray[np.float64] = _score(
        weights, z, support.indptr.astype(np.int64), support.indices.astype(np.int32)
    )
    return scores


@njit(cache=True, nogil=True)
def _log_none(log_weights: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    out = log_weights.copy()
    for k in range(z.shape[0]):
        for label in range(z.shape[1]):
            out[k] -= max(z[k, label], 0.0) + math.log1p(math.exp(-abs(z[k, label])))
    return out


@njit(cache=True, nogil=True)
def _score(
    log_weights: NDArray[np.float64],
    logits: NDArray[np.float64],
    indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> NDArray[np.float64]:
    n, n_components, _ = logits.shape
    n_sets = len(indptr) - 1
    out = np.empty((n, n_sets))
    by_component = np.empty(n_components)
    for i in range(n):
        none = _log_none(log_weights[i], logits[i])
        z = np.ascontiguousarray(logits[i].T)  # a label's logits of all components side by side
        for c in range(n_sets):
            by_component[:] = none
            for t in range(indptr[c], indptr[c + 1]):
                for k in range(n_components):
                    by_component[k] += z[labels[t], k]
            top = by_component.max()
            total = 0.0
            for k in range(n_components):
                if by_component[k] > top - _INVISIBLE:
                    total += math.exp(by_component[k] - top)
            out[i, c] = top + math.log(total)
    return out
