"""Candidate label sets of a batch of documents, in one ragged array."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit

# Origins of candidates as bit flags, so that merged duplicates keep all origins.
SOURCE_MARGINALS = 1
SOURCE_VOTES = 8
SOURCE_GIVEN = 32  # an answer of another model
SOURCE_RULE = 16  # announced by the decision rule of an objective other than set accuracy


class RaggedSets(NamedTuple):
    """Concatenated label sets, for compiled code."""

    indptr: NDArray[np.int64]  # (n_sets + 1,)
    labels: NDArray[np.int32]  # set s holds labels[indptr[s]:indptr[s + 1]]

    @classmethod
    def of(cls, Y: csr_array) -> "RaggedSets":
        """Return the rows of a 0/1 matrix with sorted indices."""
        return cls(Y.indptr.astype(np.int64), Y.indices.astype(np.int32))


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """Label sets grouped by document.

    Document ``i`` owns the sets ``doc_indptr[i]:doc_indptr[i + 1]``; set ``s`` holds
    ``labels[set_indptr[s]:set_indptr[s + 1]]``.
    """

    doc_indptr: NDArray[np.int64]  # (n_documents + 1,)
    set_indptr: NDArray[np.int64]  # (n_sets + 1,)
    labels: NDArray[np.int32]  # label columns, ascending inside a set
    # (n_sets,) log-probability of the set under its source, in nats, at most 0.
    log_score: NDArray[np.float64]
    source: NDArray[np.uint8]  # (n_sets,) bit flags such as ``SOURCE_MARGINALS``
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

    @property
    def sets(self) -> RaggedSets:
        """The sets without their documents."""
        return RaggedSets(self.set_indptr, self.labels)

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
        each = np.arange(self.n_documents + 1, dtype=np.int64)
        return self.take(self.doc_indptr[:-1], each).to_matrix()

    def take(self, sets: NDArray[np.integer], doc_indptr: NDArray[np.integer]) -> Self:
        """Return the sets with these indices, regrouped into documents by ``doc_indptr``."""
        places = np.asarray(sets, dtype=np.int64)
        set_indptr, labels = gather(self.sets, places)
        return type(self)(
            np.asarray(doc_indptr, dtype=np.int64),
            set_indptr,
            labels,
            self.log_score[places],
            self.source[places],
            self.n_labels,
        )

    def reorder(self, order: NDArray[np.integer]) -> Self:
        """Return the sets permuted by ``order``, which stays inside documents."""
        return self.take(order, self.doc_indptr)

    def take_documents(self, rows: NDArray[np.integer]) -> Self:
        """Return the candidates of these documents, in this order."""
        return self._take_runs(self.doc_indptr[rows], np.diff(self.doc_indptr)[rows])

    def top(self, k: int) -> Self:
        """Return the first ``k`` sets of each document, or all if fewer."""
        return self._take_runs(self.doc_indptr[:-1], np.minimum(np.diff(self.doc_indptr), k))

    def _take_runs(self, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Self:
        """Return documents with ``counts`` sets from ``starts`` on."""
        doc_indptr = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(doc_indptr[-1]) - np.repeat(doc_indptr[:-1], counts)
        return self.take(np.repeat(starts, counts) + within, doc_indptr)

    def correct(self, Y: csr_array) -> NDArray[np.uint8]:
        """Return which sets equal their document's true set.

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
        return _correct(self.doc_indptr, self.sets, RaggedSets.of(Y))

    def contains(self, Y: csr_array) -> NDArray[np.bool_]:
        """Return which documents (n_documents,) have their true set as candidate."""
        hits = np.concatenate([[0], np.cumsum(self.correct(Y), dtype=np.int64)])
        return hits[self.doc_indptr[1:]] > hits[self.doc_indptr[:-1]]


def one_each(sets: csr_array, log_score: NDArray[np.float64], source: int) -> CandidateSets:
    """Return each row of a matrix as its document's only candidate.

    Parameters
    ----------
    sets : csr_array of shape (n_documents, n_labels)
        0/1, sorted indices.
    log_score : float64 ndarray of shape (n_documents,)
        In nats.
    source : int
        Bit flag of all candidates.
    """
    n, n_labels = sets.shape
    return CandidateSets(
        np.arange(n + 1, dtype=np.int64),
        sets.indptr.astype(np.int64),
        sets.indices.astype(np.int32),
        log_score,
        np.full(n, source, dtype=np.uint8),
        n_labels,
    )


def concatenate(parts: Sequence[CandidateSets]) -> CandidateSets:
    """Concatenate batches of documents.

    Raises
    ------
    ValueError
        If there is no batch, or the numbers of labels differ.
    """
    if not parts:
        raise ValueError("nothing to concatenate")
    if len({part.n_labels for part in parts}) > 1:
        raise ValueError("batches with different numbers of labels do not concatenate")
    return CandidateSets(
        join_indptr([part.doc_indptr for part in parts]),
        join_indptr([part.set_indptr for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.log_score for part in parts]),
        np.concatenate([part.source for part in parts]),
        parts[0].n_labels,
    )


def merge(first: CandidateSets, second: CandidateSets) -> CandidateSets:
    """Merge two sources' candidates of the same documents, without duplicates.

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
    keep, doc_indptr, source = merge_rows(
        (first.doc_indptr, second.doc_indptr),
        (first.sets, second.sets),
        (first.source, second.source),
    )
    sets = gather_both(first.sets, second.sets, keep)
    log_score = np.concatenate([first.log_score, second.log_score])[keep]
    return CandidateSets(doc_indptr, *sets, log_score, source, first.n_labels)


def join_indptr(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the row bounds of concatenated parts."""
    steps = [np.diff(part) for part in parts]
    return np.concatenate([[0], np.cumsum(np.concatenate(steps))]).astype(np.int64)


@njit(cache=True, nogil=True)
def gather(
    sets: RaggedSets, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return bounds and labels of the sets at ``rows``."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    for i in range(len(rows)):
        indptr[i + 1] = indptr[i] + sets.indptr[rows[i] + 1] - sets.indptr[rows[i]]
    labels = np.empty(indptr[-1], dtype=np.int32)
    for i in range(len(rows)):
        start = sets.indptr[rows[i]]
        for j in range(indptr[i + 1] - indptr[i]):
            labels[indptr[i] + j] = sets.labels[start + j]
    return indptr, labels


@njit(cache=True, nogil=True)
def gather_both(
    first: RaggedSets, second: RaggedSets, rows: NDArray[np.int64]
) -> RaggedSets:  # pragma: no cover - compiled
    """Return the sets at ``rows`` of ``first`` and ``second`` concatenated."""
    n_first = len(first.indptr) - 1
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    for i in range(len(rows)):
        s = rows[i]
        if s < n_first:
            indptr[i + 1] = indptr[i] + first.indptr[s + 1] - first.indptr[s]
        else:
            s -= n_first
            indptr[i + 1] = indptr[i] + second.indptr[s + 1] - second.indptr[s]
    labels = np.empty(indptr[-1], dtype=np.int32)
    for i in range(len(rows)):
        s = rows[i]
        source = first if s < n_first else second
        start = source.indptr[s if s < n_first else s - n_first]
        for j in range(indptr[i + 1] - indptr[i]):
            labels[indptr[i] + j] = source.labels[start + j]
    return RaggedSets(indptr, labels)


@njit(cache=True, nogil=True)
def equal(a: RaggedSets, s: int, b: RaggedSets, t: int) -> bool:
    """Return whether set ``s`` of ``a`` equals set ``t`` of ``b``."""
    size = a.indptr[s + 1] - a.indptr[s]
    same = size == b.indptr[t + 1] - b.indptr[t]
    j = 0
    while same and j < size:
        same = a.labels[a.indptr[s] + j] == b.labels[b.indptr[t] + j]
        j += 1
    return bool(same)


@njit(cache=True, nogil=True)
def _correct(
    doc_indptr: NDArray[np.int64], sets: RaggedSets, truth: RaggedSets
) -> NDArray[np.uint8]:
    out = np.zeros(len(sets.indptr) - 1, dtype=np.uint8)
    for i in range(len(doc_indptr) - 1):
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            out[s] = equal(sets, s, truth, i)
    return out


@njit(cache=True, nogil=True)
def merge_rows(
    doc_indptr: tuple[NDArray[np.int64], NDArray[np.int64]],
    sets: tuple[RaggedSets, RaggedSets],
    source: tuple[NDArray[np.uint8], NDArray[np.uint8]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the merged sets' indices, document bounds and flags."""
    doc_a, doc_b = doc_indptr
    sets_a, sets_b = sets
    n_a = len(sets_a.indptr) - 1
    most = n_a + len(sets_b.indptr) - 1
    keep = np.empty(most, dtype=np.int64)
    flags = np.empty(most, dtype=np.uint8)
    merged = np.zeros(len(doc_a), dtype=np.int64)
    m = 0
    for i in range(len(doc_a) - 1):
        start = m
        for s in range(doc_a[i], doc_a[i + 1]):
            keep[m] = s
            flags[m] = source[0][s]
            m += 1
        n_before = m
        for s in range(doc_b[i], doc_b[i + 1]):
            twin = start
            while twin < n_before and not equal(sets_a, keep[twin], sets_b, s):
                twin += 1
            if twin < n_before:
                flags[twin] |= source[1][s]
            else:
                keep[m] = n_a + s
                flags[m] = source[1][s]
                m += 1
        merged[i + 1] = m
    return keep[:m].copy(), merged, flags[:m].copy()
