"""How well label scores rank each document's true labels first."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.labels.ranking import rank_largest
from setwise.models.sets.candidates import RaggedSets

Floats = NDArray[np.float64]

DEPTHS = (1, 3, 5)
"""How many of the likeliest labels `precision_at` looks at."""


def average_precision(true: csr_array, marginals: ArrayLike) -> Floats:
    """Return the average precision of each document that has a true label.

    Its labels are ranked by their marginals, as in thesis 3.8.1, which names the measure but does
    not spell it out: it is the mean, over the true labels, of the share of true labels among those
    ranked as high or higher; so ties count against the ranking. Labels without a marginal are
    ranked last.
    """
    precision: Floats = _average_precision(
        *RaggedSets.of(true), _checked(true, marginals), true.shape[1]
    )
    return precision[np.diff(true.indptr) > 0]


def precision_at(true: csr_array, marginals: ArrayLike) -> Floats:
    """Return the share of true labels among the likeliest, by depth.

    Labels without a marginal are ranked last, in their order.
    """
    hits: Floats = _hits_at(*RaggedSets.of(true), _checked(true, marginals), true.shape[1])
    return hits / np.minimum(DEPTHS, true.shape[1])


def _checked(true: csr_array, marginals: ArrayLike) -> Floats:
    scores = np.ascontiguousarray(marginals, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] != true.shape[0] or scores.shape[1] > true.shape[1]:
        raise ValueError(f"marginals of shape {scores.shape} do not fit labels of {true.shape}")
    if not np.all(np.isfinite(scores)):
        raise ValueError("marginals must be finite")
    return scores


@njit(cache=True, nogil=True)
def _average_precision(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], scores: Floats, n_labels: int
) -> Floats:  # pragma: no cover - compiled
    n, n_scored = scores.shape
    result = np.zeros(n)
    for row in range(n):
        true = labels[indptr[row] : indptr[row + 1]]
        for label in true:
            rank = n_labels
            hits = len(true)
            if label < n_scored:
                score = scores[row, label]
                rank = 0
                for other in range(n_scored):
                    rank += scores[row, other] >= score
                hits = 0
                for other in true:
                    hits += other < n_scored and scores[row, other] >= score
            result[row] += hits / rank
        if len(true):
            result[row] /= len(true)
    return result


@njit(cache=True, nogil=True)
def _hits_at(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], scores: Floats, n_labels: int
) -> Floats:  # pragma: no cover - compiled
    """Return how many true labels are among each document's likeliest, by depth."""
    n, n_scored = scores.shape
    depths = np.array(DEPTHS)
    hits = np.zeros((n, len(depths)))
    place = np.arange(min(depths[-1], n_labels))
    for row in range(n):
        rank_largest(scores[row], place[:n_scored])
        true = labels[indptr[row] : indptr[row + 1]]
        for rank, label in enumerate(place):
            for other in true:
                if other == label:
                    hits[row] += rank < depths
    return hits
