r"""Votes of training documents' label sets for a document's candidates.

A voter gives each label set :math:`u` seen in training a weight :math:`w_u`: its belief, which may
be negative, that the document carries exactly this set. A candidate :math:`C` then collects

.. math:: \sum_u w_u\, [u = C], \qquad \sum_u w_u\, J(u, C), \qquad \sum_u w_u\, J(u, C)^2

with the Jaccard similarity :math:`J`. The first is the belief in the candidate itself; the others
also count similar sets, and so favour candidates that no training document carries.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.sets.candidates import RaggedSets
from setwise.models.sets.counts import LabelSetCounts, count_sets
from setwise.models.storage.checks import check_labels


class SeenSets(NamedTuple):
    """The distinct label sets of training documents, indexed by label."""

    indptr: NDArray[np.int64]  # (n_sets + 1,)
    labels: NDArray[np.int32]  # set s holds labels[indptr[s]:indptr[s + 1]], ascending
    label_indptr: NDArray[np.int64]  # (n_labels + 1,)
    holders: NDArray[np.int32]  # label l is in holders[label_indptr[l]:label_indptr[l + 1]]

    @classmethod
    def of(cls, sets: RaggedSets, n_labels: int) -> Self:
        """Index sets by label.

        Raises
        ------
        ValueError
            If a set holds labels out of order or out of range.
        """
        check_labels("labels", sets.indptr, sets.labels, n_labels)
        ones = np.ones(len(sets.labels), dtype=np.uint8)
        shape = (len(sets.indptr) - 1, n_labels)
        by_label = csr_array((ones, sets.labels, sets.indptr), shape=shape).tocsc()
        return cls(
            np.asarray(sets.indptr, dtype=np.int64),
            np.asarray(sets.labels, dtype=np.int32),
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32),
        )

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.indptr) - 1

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.label_indptr) - 1


def find_seen_sets(Y: csr_array, max_sets: int) -> tuple[SeenSets, NDArray[np.int32]]:
    """List the most frequent label sets of training documents.

    Parameters
    ----------
    Y : csr_array of shape (n_documents, n_labels)
        0/1, sorted indices.
    max_sets : int
        Maximum number of sets; among equally frequent sets the first ones are kept.

    Returns
    -------
    sets : SeenSets
        In order of first appearance.
    set_of : int32 ndarray of shape (n_documents,)
        Number of each document's set, -1 if it is not listed.

    Examples
    --------
    >>> sets, set_of = find_seen_sets(csr_array(np.array([[1, 0], [1, 1], [1, 0]])), 10)
    >>> sets.n_sets, set_of.tolist()
    (2, [0, 1, 0])
    """
    counts = LabelSetCounts.of(Y)
    frequent = np.sort(np.argsort(-counts.counts, kind="stable")[:max_sets])
    every = csr_array(
        (np.ones(len(counts.sets.labels), np.uint8), counts.sets.labels, counts.sets.indptr),
        shape=(len(counts), Y.shape[1]),
    )[frequent]
    sets = SeenSets.of(RaggedSets.of(every), int(Y.shape[1]))
    numbers = LabelSetCounts(sets.indptr, sets.labels, np.arange(1.0, sets.n_sets + 1.0))
    places = count_sets(RaggedSets.of(Y), numbers.sets, numbers.counts, numbers.slots)
    return sets, places.astype(np.int32) - 1


@dataclass(frozen=True, eq=False)
class SetVotes:
    """Votes for a batch of documents."""

    sets: SeenSets
    voters: tuple[str, ...]
    # (n_voters, n_documents, n_sets) finite. Exactly 0 if a voter never saw the set, which is then
    # never proposed.
    weights: NDArray[np.float32]

    def of(self, voter: str) -> NDArray[np.float32]:
        """Return one voter's weights, shape (n_documents, n_sets).

        Raises
        ------
        ValueError
            If there is no such voter.
        """
        if voter not in self.voters:
            raise ValueError(f"no voter is named {voter!r}; there are {', '.join(self.voters)}")
        of_voter: NDArray[np.float32] = self.weights[self.voters.index(voter)]
        return of_voter


@njit(cache=True, nogil=True)
def _overlaps(
    labels: NDArray[np.int32],
    training_sets: SeenSets,
    shared: NDArray[np.int32],
    touched: NDArray[np.int32],
) -> int:  # pragma: no cover - compiled
    """Count labels shared with each seen set; return the sets with any.

    ``touched`` starts with their numbers; ``shared`` (n_sets,) must be zero elsewhere.
    """
    n_touched = 0
    for label in labels:
        for p in range(training_sets.label_indptr[label], training_sets.label_indptr[label + 1]):
            s = training_sets.holders[p]
            if shared[s] == 0:
                touched[n_touched] = s
                n_touched += 1
            shared[s] += 1
    return n_touched


@njit(cache=True, nogil=True)
def _empty_set(training_sets: SeenSets) -> int:  # pragma: no cover - compiled
    """Return the number of the empty set, -1 if never seen."""
    for s in range(len(training_sets.indptr) - 1):
        if training_sets.indptr[s] == training_sets.indptr[s + 1]:
            return s
    return -1


@njit(cache=True, nogil=True)
def tally(
    doc_indptr: NDArray[np.int64],
    candidates: RaggedSets,
    training_sets: SeenSets,
    weights: NDArray[np.float32],
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Count the votes for candidates.

    Parameters
    ----------
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
        Bounds of each document's candidates.
    candidates : RaggedSets
    training_sets : SeenSets
    weights : float32 ndarray of shape (n_documents, n_sets)

    Returns
    -------
    float32 ndarray of shape (n_candidates, 3)
        Votes for equal sets, and all votes by Jaccard similarity and by its square.
    """
    out = np.empty((len(candidates.indptr) - 1, 3), dtype=np.float32)
    n_sets = len(training_sets.indptr) - 1
    shared = np.zeros(n_sets, dtype=np.int32)
    touched = np.empty(n_sets, dtype=np.int32)
    empty = _empty_set(training_sets)
    for i in range(len(doc_indptr) - 1):
        for c in range(doc_indptr[i], doc_indptr[i + 1]):
            members = candidates.labels[candidates.indptr[c] : candidates.indptr[c + 1]]
            size = len(members)
            equal, jaccard, squared = 0.0, 0.0, 0.0
            if size == 0 and empty >= 0:
                equal = np.float64(weights[i, empty])
                jaccard, squared = equal, equal
            for t in range(_overlaps(members, training_sets, shared, touched)):
                s = touched[t]
                union = size + training_sets.indptr[s + 1] - training_sets.indptr[s] - shared[s]
                similarity = shared[s] / union
                vote = np.float64(weights[i, s])
                if shared[s] == union:
                    equal = vote
                jaccard += vote * similarity
                squared += vote * similarity * similarity
                shared[s] = 0
            out[c, 0], out[c, 1], out[c, 2] = equal, jaccard, squared
    return out


@njit(cache=True, nogil=True)
def find_leaders(
    training_sets: SeenSets, weights: NDArray[np.float32], k: int, pool: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # pragma: no cover - compiled
    """List the seen sets with most support in each document, best first.

    Among the ``pool`` sets with the largest positive weights, the ``k`` with the largest sums over
    squared Jaccard similarities are kept.

    Returns
    -------
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
    leaders : int32 ndarray
        Numbers of seen sets.
    """
    n, n_sets = weights.shape
    doc_indptr = np.zeros(n + 1, dtype=np.int64)
    leaders = np.empty(n * k, dtype=np.int32)
    shared = np.zeros(n_sets, dtype=np.int32)
    touched = np.empty(n_sets, dtype=np.int32)
    pooled = np.empty(pool, dtype=np.int32)
    support = np.empty(pool, dtype=np.float32)
    best = np.empty(k, dtype=np.int32)
    key = np.empty(max(pool, k), dtype=np.float32)
    end = 0
    for i in range(n):
        held = _largest(weights[i], pooled, key)
        for m in range(held):
            s = pooled[m]
            members = training_sets.labels[training_sets.indptr[s] : training_sets.indptr[s + 1]]
            size = len(members)
            total = np.float64(weights[i, s]) if size == 0 else 0.0
            for t in range(_overlaps(members, training_sets, shared, touched)):
                u = touched[t]
                union = size + training_sets.indptr[u + 1] - training_sets.indptr[u] - shared[u]
                similarity = shared[u] / union
                total += weights[i, u] * similarity * similarity
                shared[u] = 0
            support[m] = total
        for m in range(_largest(support[:held], best, key)):
            leaders[end] = pooled[best[m]]
            end += 1
        doc_indptr[i + 1] = end
    return doc_indptr, leaders[:end].copy()


@njit(cache=True, nogil=True)
def find_strongest(
    weights: NDArray[np.float32], k: int
) -> tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]
]:  # pragma: no cover - compiled
    """List the sets with the largest positive weights in each document, falling.

    Returns
    -------
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
    strongest : int64 ndarray
        Numbers of seen sets, at most ``k`` per document.
    mass : float64 ndarray
        Their weights, divided by the document's sum.
    """
    n = len(weights)
    doc_indptr = np.zeros(n + 1, dtype=np.int64)
    strongest = np.empty(n * k, dtype=np.int64)
    mass = np.empty(n * k)
    best = np.empty(k, dtype=np.int32)
    key = np.empty(k, dtype=np.float32)
    end = 0
    for i in range(n):
        held = _largest(weights[i], best, key)
        total = 0.0
        for m in range(held):
            total += np.float64(key[m])
        for m in range(held):
            strongest[end] = best[m]
            mass[end] = np.float64(key[m]) / total
            end += 1
        doc_indptr[i + 1] = end
    return doc_indptr, strongest[:end].copy(), mass[:end].copy()


@njit(cache=True, nogil=True)
def _largest(
    values: NDArray[np.float32], places: NDArray[np.int32], key: NDArray[np.float32]
) -> int:  # pragma: no cover - compiled
    """Fill ``places`` with the largest positive values' places; return their number.

    Places are in falling order of value, equal values in their present order. ``key`` is scratch.
    """
    held = 0
    room = len(places)
    for s in range(len(values)):
        value = values[s]
        if value <= 0.0 or (held == room and value <= key[held - 1]):
            continue
        if held < room:
            held += 1
        slot = held - 1
        while slot > 0 and key[slot - 1] < value:
            key[slot] = key[slot - 1]
            places[slot] = places[slot - 1]
            slot -= 1
        key[slot] = value
        places[slot] = s
    return held
