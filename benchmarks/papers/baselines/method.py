"""What the methods of the papers have in common."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from setwise.models.sets.candidates import SOURCE_GIVEN, CandidateSets

Floats = NDArray[np.float64]
Bits = NDArray[np.uint8]


class Predicted(NamedTuple):
    """What a method predicts for n documents."""

    sets: csr_array  # (n, L) its own label sets
    scores: Floats  # (n, L) label probabilities, in [0, 1]
    candidates: CandidateSets | None = None  # the likeliest sets of its joint, with log-masses

    def mass(self, chosen: csr_array) -> Floats:
        """Return the probability of each document's chosen set, (n,).

        Under the joint where there is one, else under independent labels.
        """
        if self.candidates is None:
            right = np.where(chosen.toarray() > 0, self.scores, 1.0 - self.scores)
            return np.asarray(right.prod(axis=1))
        matches = np.exp(self.candidates.log_score) * self.candidates.correct(chosen)
        mass = np.bincount(self.candidates.document, matches, self.candidates.n_documents)
        return mass.astype(np.float64)


class Method(BaseEstimator, ABC):
    """A multi-label learner of the papers; features are weighted already."""

    @abstractmethod
    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit on features (n, d) and label sets (n, L), 0/1 with sorted indices."""

    @abstractmethod
    def predict(self, X: csr_array) -> Predicted:
        """Return the predictions for documents (n, d)."""


def independent(scores: Floats) -> Predicted:
    """Return label probabilities and every label above one half."""
    return Predicted(as_sets(scores > 0.5), scores)


def as_sets(Y: NDArray[np.generic]) -> csr_array:
    """Return a dense 0/1 matrix as label sets."""
    return csr_array(np.asarray(Y, dtype=np.uint8))


def joint(document: NDArray[np.int64], sets: csr_array, log_mass: Floats, n: int) -> Predicted:
    """Return a joint given by some sets of each document.

    Parameters
    ----------
    document : int64 ndarray of shape (n_sets,)
        Document of each set, at least one for each of the n documents.
    sets : csr_array of shape (n_sets, L)
    log_mass : float64 ndarray of shape (n_sets,)
        Logarithms of the sets' probabilities; those of a document sum to at most 1.
    """
    order = np.lexsort((-log_mass, document))
    document, sets, log_mass = document[order], sets[order], log_mass[order]
    candidates = CandidateSets(
        np.searchsorted(document, np.arange(n + 1)).astype(np.int64),
        sets.indptr.astype(np.int64),
        sets.indices.astype(np.int32),
        np.minimum(log_mass, 0.0),
        np.full(len(log_mass), SOURCE_GIVEN, dtype=np.uint8),
        sets.shape[1],
    )
    mass = np.exp(candidates.log_score)
    owner = csr_array((mass, (document, np.arange(len(mass)))), shape=(n, len(mass)))
    total = np.bincount(document, mass, n)[:, None]
    scores = (owner @ sets).toarray() / np.maximum(total, np.finfo(float).tiny)
    return Predicted(candidates.first(), np.clip(scores, 0.0, 1.0), candidates)


def votes(drawn: Bits) -> Predicted:
    """Return the joint that gives each set its share of the votes (n_votes, n, L)."""
    n_votes, n, n_labels = drawn.shape
    document = np.tile(np.arange(n, dtype=np.uint32), n_votes)
    key = np.hstack(
        [document[:, None].view(np.uint8), np.packbits(drawn.reshape(-1, n_labels), axis=1)]
    )
    kind = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).ravel()
    _, first, count = np.unique(kind, return_index=True, return_counts=True)
    sets = as_sets(drawn.reshape(-1, n_labels)[first])
    return joint(document[first].astype(np.int64), sets, np.log(count / n_votes), n)


def beside(X: csr_array, columns: NDArray[np.floating] | Bits) -> csr_array:
    """Return the features followed by other columns."""
    return csr_array(sp.hstack([X, csr_array(columns)], format="csr", dtype=np.float32))
