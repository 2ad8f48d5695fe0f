"""What a model says of documents: ranked label sets, and the probability of each label."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.display import one_line
from setwise.models.labels.ranking import rank_largest
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.coherence import coherent_confidence, coherent_marginals


class RankedSet(NamedTuple):
    """One candidate of one document."""

    labels: tuple[str, ...]
    confidence: float  # calibrated probability that the whole set is right
    score: float  # probability of the set under independent labels


@dataclass(frozen=True, eq=False, repr=False)
class SetPredictions:
    """Ranked label sets for a batch of documents.

    Attributes
    ----------
    label_names : tuple of str
        Names of the label columns.
    candidates : CandidateSets
        Each document's sets, the chosen one first.
    confidence : float64 ndarray of shape (n_sets,)
        Calibrated probability that each whole set is right, in [0, 1]. A document's confidences
        sum to at most 1.
    label_probability : float64 ndarray of shape (n_documents, n_labels)
        Probability of each label, calibrated label by label, strictly inside (0, 1).
    known_features : int32 ndarray of shape (n_documents,)
        Number of the document's features that occurred in training.
    supported : bool ndarray of shape (n_documents,)
        Whether the document is like those that confidences were fitted to, see
        `setwise.models.data.support`; others are out of domain.
    """

    label_names: tuple[str, ...]
    candidates: CandidateSets
    confidence: NDArray[np.float64]
    label_probability: NDArray[np.float64]
    known_features: NDArray[np.int32]
    supported: NDArray[np.bool_]

    @cached_property
    def marginals(self) -> NDArray[np.float64]:
        """Probability of each label (n_documents, n_labels), coherent with the candidates.

        Candidates and the mass that they leave are one distribution, see
        `setwise.models.sets.coherence`: no label is less probable than the candidates that hold it
        together, nor more than these and the mass left.
        """
        return coherent_marginals(self.candidates, self.confidence, self.label_probability)

    def with_confidence(self, confidence: NDArray[np.float64]) -> "SetPredictions":
        """Return the same candidates with other confidences (n_sets,), made coherent."""
        coherent = coherent_confidence(self.candidates, confidence)
        return replace(self, confidence=coherent)

    def __len__(self) -> int:
        return self.candidates.n_documents

    def __repr__(self) -> str:
        counts = {"documents": len(self), "labels": len(self.label_names)}
        return one_line(type(self).__name__, {name: f"{n:,}" for name, n in counts.items()})

    def chosen(self) -> csr_array:
        """Return the chosen sets as a 0/1 matrix (n_documents, n_labels), uint8."""
        return self.candidates.first()

    def top_confidence(self) -> NDArray[np.float64]:
        """Return the confidence in each chosen set, shape (n_documents,)."""
        return self.confidence[self.candidates.doc_indptr[:-1]]

    def ranked(self, row: int) -> list[RankedSet]:
        """Return one document's candidates by name, the chosen one first."""
        # Lists, because indexing an array element by element is slow.
        sets, names = self.candidates, self.label_names
        first, last = sets.doc_indptr[row : row + 2].tolist()
        bounds = sets.set_indptr[first : last + 1].tolist()
        labels = [names[label] for label in sets.labels[bounds[0] : bounds[-1]].tolist()]
        ends = [bound - bounds[0] for bound in bounds]
        confidence = self.confidence[first:last].tolist()
        score = np.exp(sets.log_score[first:last]).tolist()
        return [
            RankedSet(tuple(labels[ends[i] : ends[i + 1]]), confidence[i], score[i])
            for i in range(last - first)
        ]


@njit(cache=True, nogil=True)
def most_likely(marginals: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the columns of each row's largest values.

    Columns are in falling order of value, ties in order of column.

    Returns
    -------
    int64 ndarray of shape (n_documents, min(limit, n_labels))
    """
    n, n_labels = marginals.shape
    out = np.empty((n, min(limit, n_labels)), dtype=np.int64)
    for i in range(n):
        rank_largest(marginals[i], out[i])
    return out


@njit(cache=True, nogil=True)
def likely_columns(
    marginals: NDArray[np.float64], limit: int, least: float
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return columns and values as `most_likely`, leaving out small values.

    Values smaller than ``least`` are left out.

    Returns
    -------
    indptr : int64 ndarray of shape (n_documents + 1,)
        Start of each row.
    columns : int32 ndarray
    values : float64 ndarray

    Examples
    --------
    >>> likely_columns(np.array([[0.1, 0.9, 0.3], [0.2, 0.1, 0.2]]), 2, 0.15)[:2]
    (array([0, 2, 4]), array([1, 2, 0, 2], dtype=int32))
    """
    n, n_labels = marginals.shape
    room = min(limit, n_labels)
    indptr = np.zeros(n + 1, dtype=np.int64)
    columns, values = np.empty(n * room, dtype=np.int32), np.empty(n * room)
    large, place = np.empty(n_labels, dtype=np.int32), np.empty(room, dtype=np.int64)
    held = np.empty(n_labels)
    end = 0
    for i in range(n):
        n_large = 0
        for label in range(n_labels):
            if marginals[i, label] >= least:
                large[n_large], held[n_large] = label, marginals[i, label]
                n_large += 1
        n_kept = min(room, n_large)
        rank_largest(held[:n_large], place[:n_kept])
        for k in range(n_kept):
            columns[end], values[end] = large[place[k]], held[place[k]]
            end += 1
        indptr[i + 1] = end
    return indptr, columns[:end], values[:end]
