"""How often each label set occurs among training documents."""

from typing import Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from models.sets.candidates import CandidateSets


class LabelSetCounts:
    """Weighted count of every distinct label set, found by hash and confirmed label by label.

    Attributes
    ----------
    set_indptr, labels : ndarray
        The distinct sets, in order of first appearance.
    counts : float64 ndarray of shape (n_sets,)
        Total weight of each set.
    """

    def __init__(
        self, set_indptr: NDArray[np.int64], labels: NDArray[np.int32], counts: NDArray[np.float64]
    ) -> None:
        self.set_indptr = np.asarray(set_indptr, dtype=np.int64)
        self.labels = np.asarray(labels, dtype=np.int32)
        self.counts = np.asarray(counts, dtype=np.float64)
        self._slots = _index(self.set_indptr, self.labels)

    @classmethod
    def of(cls, Y: csr_array, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Count the rows of a 0/1 matrix (n_documents, n_labels) with sorted indices."""
        weight = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        indptr = Y.indptr.astype(np.int64)
        labels = Y.indices.astype(np.int32)
        first, counts = _count(indptr, labels, np.asarray(weight, dtype=np.float64))
        chosen = Y[first]
        return cls(chosen.indptr, chosen.indices, counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> float:
        """Total weight of all counted documents."""
        return float(self.counts.sum())

    def lookup(self, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return each candidate's count, 0 for a set never seen; shape (n_sets,)."""
        return _lookup(
            candidates.set_indptr,
            candidates.labels,
            self.set_indptr,
            self.labels,
            self.counts,
            self._slots,
        )


_FNV_PRIME = np.uint64(0x100000001B3)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)


@njit(cache=True, nogil=True)
def _hash(labels: NDArray[np.int32], start: int, end: int) -> np.uint64:
    value = _FNV_OFFSET
    for j in range(start, end):
        value = (value ^ np.uint64(labels[j])) * _FNV_PRIME
        value ^= value >> np.uint64(29)
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def _find(
    wanted: NDArray[np.int32],
    start: int,
    end: int,
    indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    slots: NDArray[np.int64],
) -> int:
    """Return the slot that holds the set or, when it is absent, the free slot for it."""
    last = len(slots) - 1
    slot = np.int64(_hash(wanted, start, end) & np.uint64(last))
    while slots[slot] >= 0:
        known = slots[slot]
        same = indptr[known + 1] - indptr[known] == end - start
        j = 0
        while same and j < end - start:
            same = labels[indptr[known] + j] == wanted[start + j]
            j += 1
        if same:
            break
        slot = (slot + 1) & last
    return slot


@njit(cache=True, nogil=True)
def _empty_slots(n_sets: int) -> NDArray[np.int64]:
    size = 8
    while size < 2 * n_sets:  # at most half full, so that a probe is short
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@njit(cache=True, nogil=True)
def _index(indptr: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.int64]:
    slots = _empty_slots(len(indptr) - 1)
    for s in range(len(indptr) - 1):
        slots[_find(labels, indptr[s], indptr[s + 1], indptr, labels, slots)] = s
    return slots


@njit(cache=True, nogil=True)
def _count(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the first row of each distinct set and the total weight of its rows."""
    n = len(indptr) - 1
    slots = _empty_slots(n)
    place = np.empty(n, dtype=np.int64)  # row that first held a set -> position among the sets
    first = np.empty(n, dtype=np.int64)
    counts = np.zeros(n, dtype=np.float64)
    n_sets = 0
    for i in range(n):
        slot = _find(labels, indptr[i], indptr[i + 1], indptr, labels, slots)
        if slots[slot] < 0:
            slots[slot] = i
            place[i] = n_sets
            first[n_sets] = i
            n_sets += 1
        counts[place[slots[slot]]] += weight[i]
    return first[:n_sets].copy(), counts[:n_sets].copy()


@njit(cache=True, nogil=True)
def _lookup(
    wanted_indptr: NDArray[np.int64],
    wanted: NDArray[np.int32],
    indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    counts: NDArray[np.float64],
    slots: NDArray[np.int64],
) -> NDArray[np.float64]:
    out = np.zeros(len(wanted_indptr) - 1, dtype=np.float64)
    for s in range(len(out)):
        slot = _find(wanted, wanted_indptr[s], wanted_indptr[s + 1], indptr, labels, slots)
        if slots[slot] >= 0:
            out[s] = counts[slots[slot]]
    return out
