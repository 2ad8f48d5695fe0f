"""Candidate label sets of a batch of documents, in one ragged array."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

# Where a candidate came from: bit flags, so that merged duplicates keep every origin.
SOURCE_MARGINALS = 1


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """Label sets grouped by document.

    Document ``i`` owns the sets ``doc_indptr[i]:doc_indptr[i + 1]``; set ``s`` holds
    ``labels[set_indptr[s]:set_indptr[s + 1]]``.

    Attributes
    ----------
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
    set_indptr : int64 ndarray of shape (n_sets + 1,)
    labels : int32 ndarray
        Label columns, ascending inside a set.
    log_score : float64 ndarray of shape (n_sets,)
        Log-probability of the set under its source, in nats, at most 0.
    source : uint8 ndarray of shape (n_sets,)
        Bit flags, ``SOURCE_MARGINALS`` and the like.
    n_labels : int
    """

    doc_indptr: NDArray[np.int64]
    set_indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    log_score: NDArray[np.float64]
    source: NDArray[np.uint8]
    n_labels: int

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.doc_indptr) - 1

    def __len__(self) -> int:
        return len(self.set_indptr) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Cardinality of each set, shape (n_sets,)."""
        return np.diff(self.set_indptr)

    @property
    def document(self) -> NDArray[np.int64]:
        """Document that each set belongs to, shape (n_sets,)."""
        return np.repeat(np.arange(self.n_documents), np.diff(self.doc_indptr))

    def labels_of(self, index: int) -> NDArray[np.int32]:
        """Return the ascending label columns of one set."""
        return self.labels[self.set_indptr[index] : self.set_indptr[index + 1]]

    def to_matrix(self) -> csr_array:
        """Return the sets as a 0/1 matrix of shape (n_sets, n_labels), uint8."""
        ones = np.ones(len(self.labels), dtype=np.uint8)
        return csr_array((ones, self.labels, self.set_indptr), shape=(len(self), self.n_labels))

    def first(self) -> csr_array:
        """Return each document's first set as a 0/1 matrix (n_documents, n_labels), uint8.

        Raises
        ------
        ValueError
            If a document has no candidate.
        """
        if np.any(np.diff(self.doc_indptr) == 0):
            raise ValueError("a document without a candidate has no first set")
        return self.take(self.doc_indptr[:-1], np.arange(self.n_documents + 1)).to_matrix()

    def take(self, sets: NDArray[np.integer], doc_indptr: NDArray[np.integer]) -> Self:
        """Return the sets with these indices, regrouped into documents by ``doc_indptr``."""
        sets = np.asarray(sets, dtype=np.int64)
        set_indptr, labels = _gather(self.set_indptr, self.labels, sets)
        return type(self)(
            np.asarray(doc_indptr, dtype=np.int64),
            set_indptr,
            labels,
            self.log_score[sets],
            self.source[sets],
            self.n_labels,
        )

    def reorder(self, order: NDArray[np.integer]) -> Self:
        """Return the same documents with their sets permuted; ``order`` stays inside documents."""
        return self.take(order, self.doc_indptr)

    def take_documents(self, rows: NDArray[np.integer]) -> Self:
        """Return the candidates of these documents, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        counts = np.diff(self.doc_indptr)[rows]
        doc_indptr = np.concatenate([[0], np.cumsum(counts)])
        offsets = np.arange(doc_indptr[-1]) - np.repeat(doc_indptr[:-1], counts)
        return self.take(np.repeat(self.doc_indptr[rows], counts) + offsets, doc_indptr)

    def top(self, k: int) -> Self:
        """Return the first ``k`` sets of each document (all of them where there are fewer)."""
        counts = np.minimum(np.diff(self.doc_indptr), k)
        doc_indptr = np.concatenate([[0], np.cumsum(counts)])
        offsets = np.arange(doc_indptr[-1]) - np.repeat(doc_indptr[:-1], counts)
        return self.take(np.repeat(self.doc_indptr[:-1], counts) + offsets, doc_indptr)

    def correct(self, Y: csr_array) -> NDArray[np.uint8]:
        """Tell which sets equal their document's true set.

        Parameters
        ----------
        Y : csr_array of shape (n_documents, n_labels)
            True labels, 0/1, sorted indices.

        Returns
        -------
        uint8 ndarray of shape (n_sets,)
        """
        if Y.shape != (self.n_documents, self.n_labels):
            raise ValueError(
                f"Y has shape {Y.shape}; these candidates need {(self.n_documents, self.n_labels)}"
            )
        return _correct(
            self.doc_indptr,
            self.set_indptr,
            self.labels,
            Y.indptr.astype(np.int64),
            Y.indices.astype(np.int32),
        )

    def contains(self, Y: csr_array) -> NDArray[np.bool_]:
        """Tell which documents have their true set among the candidates, shape (n_documents,)."""
        hits = np.concatenate([[0], np.cumsum(self.correct(Y), dtype=np.int64)])
        return hits[self.doc_indptr[1:]] > hits[self.doc_indptr[:-1]]


def concatenate(parts: Sequence[CandidateSets]) -> CandidateSets:
    """Put batches of documents behind each other.

    Raises
    ------
    ValueError
        If there is no batch, or the batches count different labels.
    """
    if not parts:
        raise ValueError("nothing to concatenate")
    if len({part.n_labels for part in parts}) > 1:
        raise ValueError("batches with different numbers of labels do not concatenate")
    return CandidateSets(
        _join_indptr([part.doc_indptr for part in parts]),
        _join_indptr([part.set_indptr for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.log_score for part in parts]),
        np.concatenate([part.source for part in parts]),
        parts[0].n_labels,
    )


def merge(first: CandidateSets, second: CandidateSets) -> CandidateSets:
    """Unite two sources' candidates of the same documents, without duplicates.

    Each document keeps the order of ``first``, then of ``second``. A set proposed by both keeps
    the score of ``first`` and the flags of both.

    Raises
    ------
    ValueError
        If the two differ in documents or labels.
    """
    if (first.n_documents, first.n_labels) != (second.n_documents, second.n_labels):
        raise ValueError(
            f"candidates of {first.n_documents} documents and {first.n_labels} labels do not merge "
            f"with those of {second.n_documents} and {second.n_labels}"
        )
    keep, doc_indptr, source = _merge(
        first.doc_indptr,
        first.set_indptr,
        first.labels,
        first.source,
        second.doc_indptr,
        second.set_indptr,
        second.labels,
        second.source,
    )
    stacked = concatenate([first, second])
    united = stacked.take(keep, doc_indptr)
    return CandidateSets(
        united.doc_indptr, united.set_indptr, united.labels, united.log_score, source, first.n_labels
    )


def _join_indptr(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    steps = [np.diff(part) for part in parts]
    return np.concatenate([[0], np.cumsum(np.concatenate(steps))]).astype(np.int64)


@njit(cache=True, nogil=True)
def _gather(
    indptr: NDArray[np.int64], values: NDArray[np.int32], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    out_indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    for i in range(len(rows)):
        out_indptr[i + 1] = out_indptr[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    out = np.empty(out_indptr[-1], dtype=np.int32)
    for i in range(len(rows)):
        start = indptr[rows[i]]
        for j in range(out_indptr[i + 1] - out_indptr[i]):
            out[out_indptr[i] + j] = values[start + j]
    return out_indptr, out


@njit(cache=True, nogil=True)
def _equal(
    a: NDArray[np.int32], a0: int, a1: int, b: NDArray[np.int32], b0: int, b1: int
) -> bool:
    if a1 - a0 != b1 - b0:
        return False
    for j in range(a1 - a0):
        if a[a0 + j] != b[b0 + j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _correct(
    doc_indptr: NDArray[np.int64],
    set_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    true_indptr: NDArray[np.int64],
    true_labels: NDArray[np.int32],
) -> NDArray[np.uint8]:
    out = np.zeros(len(set_indptr) - 1, dtype=np.uint8)
    for i in range(len(doc_indptr) - 1):
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            out[s] = _equal(
                labels,
                set_indptr[s],
                set_indptr[s + 1],
                true_labels,
                true_indptr[i],
                true_indptr[i + 1],
            )
    return out


@njit(cache=True, nogil=True)
def _merge(  # type: ignore[no-untyped-def]  # eight arrays in, three out: the caller names them
    doc_a, set_a, labels_a, source_a, doc_b, set_b, labels_b, source_b
):
    n_a = len(set_a) - 1
    most = n_a + len(set_b) - 1
    keep = np.empty(most, dtype=np.int64)
    source = np.empty(most, dtype=np.uint8)
    doc_indptr = np.zeros(len(doc_a), dtype=np.int64)
    m = 0
    for i in range(len(doc_a) - 1):
        start = m
        for s in range(doc_a[i], doc_a[i + 1]):
            keep[m] = s
            source[m] = source_a[s]
            m += 1
        own = m
        for s in range(doc_b[i], doc_b[i + 1]):
            twin = -1
            for j in range(start, own):
                t = keep[j]
                if _equal(labels_a, set_a[t], set_a[t + 1], labels_b, set_b[s], set_b[s + 1]):
                    twin = j
                    break
            if twin >= 0:
                source[twin] |= source_b[s]
            else:
                keep[m] = n_a + s
                source[m] = source_b[s]
                m += 1
        doc_indptr[i + 1] = m
    return keep[:m].copy(), doc_indptr, source[:m].copy()
