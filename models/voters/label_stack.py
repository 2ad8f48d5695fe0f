"""Refines label probabilities by the votes.

Binary relevance sees one label at a time. For each likely label of a document, boosted trees see
its calibrated log-odds, those of the document's other labels, and the votes for the label.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.labels.ranking import rank_largest
from setwise.models.sets.features import SetFeatureTable
from setwise.models.storage.fields import StoredPiece, StoredSetting
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.votes import SeenSets, SetVotes

# Limit of log-odds: beyond it float64 probabilities round to 1.
_LOGIT_LIMIT = 34.0

_OWN = ("logit", "to_first", "to_second", "rank", "expected_size")
_PER_VOTER = ("votes", "votes_gap", "votes_rank")


class LabelVotes(NamedTuple):
    """Votes for sets, summed by label."""

    voters: tuple[str, ...]
    weights: NDArray[np.float32]  # (n_voters, n_documents, n_labels)

    @classmethod
    def of(cls, votes: SetVotes) -> Self:
        """Return the summed weights of the sets that hold each label."""
        return cls(
            votes.voters,
            np.stack([sum_by_label(votes.sets, weights) for weights in votes.weights]),
        )


class LabelStack(StoredPart, BaseEstimator):
    """Boosted trees that refine label probabilities.

    The most likely labels of each document are refined, those of binary relevance and those of
    each voter; the others keep their probabilities.

    Parameters
    ----------
    n_likely : int, default 16
        Labels per document by binary relevance.
    n_voted : int, default 6
        Labels per document and voter.
    trees : BoostedSets, optional
        Unfitted; by default 100 trees of the logistic loss on at most 100,000 pairs, not monotone
        in the votes, which raises accuracy.
    """

    trees_: BoostedSets
    stored = (
        StoredSetting("n_likely", "n_likely", int, low=1),
        StoredSetting("n_voted", "n_voted", int, low=1),
        StoredPiece("trees_", BoostedSets, shares={"labels": "labels"}),
    )

    def __init__(
        self, n_likely: int = 16, n_voted: int = 6, *, trees: BoostedSets | None = None
    ) -> None:
        self.n_likely = n_likely
        self.n_voted = n_voted
        self.trees = trees

    def fit(self, marginals: NDArray[np.float64], votes: LabelVotes, Y: csr_array) -> Self:
        """Fit to documents unseen by binary relevance and voters.

        Parameters
        ----------
        marginals : float64 ndarray of shape (n_documents, n_labels)
            Calibrated probabilities, strictly inside (0, 1).
        votes : LabelVotes
        Y : csr_array of shape (n_documents, n_labels)
        """
        rows, table = self._describe(marginals, votes)
        trees = self.trees
        if trees is None:
            trees = BoostedSets("logistic", max_rows=100_000, monotone=False)
        truth = Y.astype(np.float64)[rows, table.labels]
        self.trees_ = clone(trees).fit(table, np.asarray(truth, dtype=np.float64).ravel())
        return self

    def refine(self, marginals: NDArray[np.float64], votes: LabelVotes) -> NDArray[np.float64]:
        """Return label probabilities (n_documents, n_labels) in (0, 1)."""
        if not hasattr(self, "trees_"):
            raise NotFittedError("LabelStack must be fitted before it refines")
        rows, table = self._describe(marginals, votes)
        refined = marginals.copy()
        refined[rows, table.labels] = self.trees_.predict(table)
        return refined

    def _describe(
        self, marginals: NDArray[np.float64], votes: LabelVotes
    ) -> tuple[NDArray[np.int64], SetFeatureTable]:
        """Return the pairs' documents and a table of document-label pairs."""
        n_labels = marginals.shape[1]
        logits = log_odds(np.ascontiguousarray(marginals))
        likely = min(self.n_likely, n_labels)
        voted = min(self.n_voted, n_labels)
        doc_indptr, labels, dense = describe_pairs(logits, votes.weights, likely, voted)
        rows = np.repeat(np.arange(len(marginals)), np.diff(doc_indptr))
        names = [f"{voter}_{kind}" for voter in votes.voters for kind in _PER_VOTER]
        table = SetFeatureTable(
            (*_OWN, *names),
            (1, 1, 1, 0, 0) + (1, 1, 0) * len(votes.voters),
            dense,
            np.arange(len(labels) + 1, dtype=np.int64),
            labels,
            doc_indptr,
            n_labels,
        )
        return rows, table

    @property
    def n_columns(self) -> int:
        """Number of columns that the trees read."""
        return self.trees_.shape_[0]

    @staticmethod
    def columns_of(n_voters: int) -> int:
        """Return the number of columns that describe a label by votes."""
        return len(_OWN) + n_voters * len(_PER_VOTER)

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted stack."""
        stack = super().restored(found, lengths)
        if stack.trees_.objective != "logistic":
            raise ValueError("its trees do not return probabilities inside (0, 1)")
        return stack


@njit(cache=True, nogil=True)
def log_odds(marginals: NDArray[np.float64]) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the log-odds of probabilities inside (0, 1), kept within `_LOGIT_LIMIT`."""
    out = np.empty_like(marginals)
    for i in range(marginals.shape[0]):
        for label in range(marginals.shape[1]):
            odds = np.log(marginals[i, label] / (1.0 - marginals[i, label]))
            out[i, label] = min(max(odds, -_LOGIT_LIMIT), _LOGIT_LIMIT)
    return out


@njit(cache=True, nogil=True)
def sum_by_label(
    seen: SeenSets, weights: NDArray[np.float32]
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Sum the weights (n_documents, n_sets) of sets by label."""
    out = np.zeros((len(weights), len(seen.label_indptr) - 1), dtype=np.float32)
    for i in range(len(weights)):
        for label in range(out.shape[1]):
            total = 0.0
            for p in range(seen.label_indptr[label], seen.label_indptr[label + 1]):
                total += np.float64(weights[i, seen.holders[p]])
            out[i, label] = total
    return out


@njit(cache=True, nogil=True)
def describe_pairs(
    logits: NDArray[np.float64], votes: NDArray[np.float32], n_likely: int, n_voted: int
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]
]:  # pragma: no cover - compiled
    """Choose and describe each document's labels, by likelihood and then by voter.

    Returns the documents' bounds, the labels, and the columns.
    """
    n, n_labels = logits.shape
    n_voters = len(votes)
    most = min(n_likely + n_voters * n_voted, n_labels)
    doc_indptr = np.zeros(n + 1, dtype=np.int64)
    labels = np.empty(n * most, dtype=np.int32)
    dense = np.empty((n * most, 5 + 3 * n_voters), dtype=np.float32)
    place = np.empty((1 + n_voters, max(n_likely, n_voted)), dtype=np.int64)
    # Ranks count from 0; labels beyond those listed share the next one.
    rank = np.empty((1 + n_voters, n_labels), dtype=np.float32)
    own = np.empty(n_labels, dtype=np.float32)
    chosen = np.zeros(n_labels, dtype=np.bool_)
    end = 0
    for i in range(n):
        expected = 0.0
        for label in range(n_labels):
            own[label] = logits[i, label]
            expected += 1.0 / (1.0 + np.exp(-logits[i, label]))
        start = end
        for g in range(1 + n_voters):
            room = n_likely if g == 0 else n_voted
            rank_largest(own if g == 0 else votes[g - 1, i], place[g, :room])
            rank[g, :] = room
            for slot in range(room):
                label = place[g, slot]
                rank[g, label] = slot
                if not chosen[label]:
                    chosen[label] = True
                    labels[end] = label
                    end += 1
        doc_indptr[i + 1] = end
        first = own[place[0, 0]]
        second = own[place[0, min(1, n_likely - 1)]]
        for pair in range(start, end):
            label = labels[pair]
            chosen[label] = False
            dense[pair, 0] = own[label]
            dense[pair, 1] = own[label] - first
            dense[pair, 2] = own[label] - second
            dense[pair, 3] = rank[0, label]
            dense[pair, 4] = expected
            for v in range(n_voters):
                dense[pair, 5 + 3 * v] = votes[v, i, label]
                dense[pair, 6 + 3 * v] = votes[v, i, label] - votes[v, i, place[v + 1, 0]]
                dense[pair, 7 + 3 * v] = rank[v + 1, label]
    return doc_indptr, labels[:end].copy(), dense[:end].copy()
