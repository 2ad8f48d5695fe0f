"""Makes confidences and label probabilities of a document one distribution.

Calibrators judge each set, and each label, by itself. What a document is shown with must not
contradict itself: the listed sets' confidences sum to at most one, and a label is at least as
probable as the listed sets that hold it together.
"""

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets, RaggedSets


def coherent_confidence(
    candidates: CandidateSets, confidence: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return confidences that sum to at most one in each document.

    The first set of a document keeps its confidence. If the sum exceeds one, the others share what
    the first leaves, in their proportions.

    Parameters
    ----------
    candidates : CandidateSets
        The announced set first in each document.
    confidence : float64 ndarray of shape (n_sets,)
        In [0, 1].
    """
    return _capped(candidates.doc_indptr, confidence)


def coherent_marginals(
    candidates: CandidateSets,
    confidence: NDArray[np.float64],
    label_probability: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return label probabilities that fit the confidences of the listed sets.

    The listed sets that hold a label imply a probability of at least the sum of their confidences,
    and of at most that sum and the mass that no listed set has. A label's own probability is moved
    to the nearer bound if it lies outside.

    Parameters
    ----------
    candidates : CandidateSets
    confidence : float64 ndarray of shape (n_sets,)
        As returned by `coherent_confidence`.
    label_probability : float64 ndarray of shape (n_documents, n_labels)
        Calibrated label by label.

    Returns
    -------
    float64 ndarray of shape (n_documents, n_labels)
        In [0, 1].

    Examples
    --------
    >>> sets = CandidateSets(
    ...     doc_indptr=np.array([0, 2]),
    ...     set_indptr=np.array([0, 1, 3]),
    ...     labels=np.array([0, 0, 1], dtype=np.int32),
    ...     log_score=np.zeros(2),
    ...     source=np.zeros(2, dtype=np.uint8),
    ...     n_labels=3,
    ... )
    >>> coherent_marginals(sets, np.array([0.5, 0.3]), np.array([[0.1, 0.4, 0.9]])).round(6)
    array([[0.8, 0.4, 0.2]])
    """
    return _bounded(candidates.doc_indptr, candidates.sets, confidence, label_probability)


@njit(cache=True, nogil=True)
def _capped(
    doc_indptr: NDArray[np.int64], confidence: NDArray[np.float64]
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    out = confidence.copy()
    for i in range(len(doc_indptr) - 1):
        first, last = doc_indptr[i], doc_indptr[i + 1]
        others = 0.0
        for s in range(first + 1, last):
            others += confidence[s]
        if others > 0.0 and confidence[first] + others > 1.0:
            share = max(1.0 - confidence[first], 0.0) / others
            for s in range(first + 1, last):
                out[s] *= share
    return out


@njit(cache=True, nogil=True)
def _bounded(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    confidence: NDArray[np.float64],
    label_probability: NDArray[np.float64],
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    n, n_labels = label_probability.shape
    out = np.empty((n, n_labels))
    implied = np.zeros(n_labels)
    for i in range(n):
        rest = 1.0
        implied[:] = 0.0
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            rest -= confidence[s]
            for place in range(sets.indptr[s], sets.indptr[s + 1]):
                implied[sets.labels[place]] += confidence[s]
        rest = max(rest, 0.0)
        for label in range(n_labels):
            low = min(implied[label], 1.0)
            out[i, label] = min(max(label_probability[i, label], low), low + rest, 1.0)
    return out
