"""How often each label set occurs among training documents."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets, RaggedSets, equal


class LabelSetCounts:
    """Weighted counts of distinct label sets, in a hash table.

    Attributes
    ----------
    sets : RaggedSets
        The distinct sets, in order of first appearance.
    counts : float64 ndarray of shape (n_sets,)
        Total weight of each set.
    total : float
        Total weight of all counted documents.
    slots : int64 ndarray
        Hash table of the sets for compiled code.
    """

    def __init__(
        self, set_indptr: NDArray[np.int64], labels: NDArray[np.int32], counts: NDArray[np.float64]
    ) -> None:
        self.sets = RaggedSets(
            np.asarray(set_indptr, dtype=np.int64), np.asarray(labels, dtype=np.int32)
        )
        self.counts = np.asarray(counts, dtype=np.float64)
        self.total = float(self.counts.sum())
        self.slots = _index(self.sets)

    @classmethod
    def of(cls, Y: csr_array, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Count the rows of a 0/1 matrix (n_documents, n_labels), indices sorted."""
        weight = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        first, counts = _count(RaggedSets.of(Y), np.asarray(weight, dtype=np.float64))
        distinct = RaggedSets.of(Y[first])
        return cls(distinct.indptr, distinct.labels, counts)

    def __len__(self) -> int:
        return len(self.counts)

    def lookup(self, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return each candidate's count (n_sets,), 0 if never seen."""
        return self.lookup_sets(candidates.sets)

    def lookup_sets(self, sets: RaggedSets) -> NDArray[np.float64]:
        """Return each set's count, 0 if never seen; labels must ascend."""
        return count_sets(sets, self.sets, self.counts, self.slots)


_FNV_PRIME = np.uint64(0x100000001B3)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)


@njit(cache=True, nogil=True)
def _hash(labels: NDArray[np.int32]) -> np.uint64:
    value = _FNV_OFFSET
    for label in labels:
        value = (value ^ np.uint64(label)) * _FNV_PRIME
        value ^= value >> np.uint64(29)
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def _find(sets: RaggedSets, s: int, table: RaggedSets, slots: NDArray[np.int64]) -> int:
    """Return the slot of set ``s``, or a free slot if absent."""
    last = len(slots) - 1
    labels = sets.labels[sets.indptr[s] : sets.indptr[s + 1]]
    slot = np.int64(_hash(labels) & np.uint64(last))
    while slots[slot] >= 0 and not equal(table, slots[slot], sets, s):
        slot = (slot + 1) & last
    return slot  # type: ignore[return-value]  # an integer in compiled code


@njit(cache=True, nogil=True)
def _empty_slots(n_sets: int) -> NDArray[np.int64]:
    size = 8
    while size < 2 * n_sets:  # at most half full, so that probes are short
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@njit(cache=True, nogil=True)
def _index(sets: RaggedSets) -> NDArray[np.int64]:
    slots = _empty_slots(len(sets.indptr) - 1)
    for s in range(len(sets.indptr) - 1):
        slots[_find(sets, s, sets, slots)] = s
    return slots


@njit(cache=True, nogil=True)
def _count(
    rows: RaggedSets, weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each distinct set's first row and total weight."""
    n = len(rows.indptr) - 1
    slots = _empty_slots(n)
    place = np.empty(n, dtype=np.int64)  # row that first held a set -> position among the sets
    first = np.empty(n, dtype=np.int64)
    counts = np.zeros(n, dtype=np.float64)
    n_sets = 0
    for i in range(n):
        slot = _find(rows, i, rows, slots)
        if slots[slot] < 0:
            slots[slot] = i
            place[i] = n_sets
            first[n_sets] = i
            n_sets += 1
        counts[place[slots[slot]]] += weight[i]
    return first[:n_sets].copy(), counts[:n_sets].copy()


@njit(cache=True, nogil=True)
def count_sets(
    sets: RaggedSets,
    table: RaggedSets,
    counts: NDArray[np.float64],
    slots: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the count of each wanted set (n_sets,), 0 if unknown."""
    out = np.zeros(len(sets.indptr) - 1, dtype=np.float64)
    for s in range(len(out)):
        place = slots[_find(sets, s, table, slots)]
        if place >= 0:
            out[s] = counts[place]
    return out
