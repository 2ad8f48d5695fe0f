"""Sources of candidate label sets."""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.sets.candidates import (
    SOURCE_GIVEN,
    SOURCE_VOTES,
    CandidateSets,
    RaggedSets,
    gather,
    gather_both,
    merge,
    merge_rows,
)
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import MAX_CANDIDATES, independent_scores, k_best_sets
from setwise.models.storage.fields import Stored, StoredSetting
from setwise.models.storage.state import StoredPart
from setwise.models.voters.votes import SeenSets, find_leaders

# Time grows with its square.
_LARGEST_POOL = 4096


class MarginalCandidates(StoredPart, Estimator):
    """Proposes the most probable sets under independent labels.

    Parameters
    ----------
    k : int, default 10
        Sets per document, 1 to 64.
    """

    # Whether the empty set can be a candidate: if some training document has no label.
    allow_empty_: bool
    stored: ClassVar[tuple[Stored, ...]] = (
        StoredSetting("k", "k", int, low=1, high=MAX_CANDIDATES),
        StoredSetting("allow_empty", "allow_empty_", bool),
    )

    def __init__(self, k: int = 10) -> None:
        self.k = k

    def fit(self, X: csr_array, Y: csr_array) -> Self:  # noqa: ARG002  # sets alone count
        """Learn whether the empty set occurs in Y (n_documents, n_labels)."""
        self.allow_empty_ = bool((np.diff(Y.indptr) == 0).any())
        return self

    def propose(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return each document's ``k`` most probable sets, or all if fewer."""
        check_fitted(self, "allow_empty_")
        return k_best_sets(evidence.marginals, self.k, allow_empty=self.allow_empty_)

    def score(self, evidence: DocumentEvidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the log-probability of sets under independent labels, in nats."""
        return independent_scores(evidence.marginals, candidates.doc_indptr, candidates.sets)


class VotedCandidates(MarginalCandidates):
    """Proposes sets of independent labels and sets that voters favour.

    All are scored under independent labels. The sets of independent labels come first, then the
    voters' sets in the order of the voters, without duplicates.

    Parameters
    ----------
    k : int, default 10
        As for `MarginalCandidates`.
    k_voted : int, default 4
        Sets per document and voter.
    pool : int, default 32
        Number of sets with the largest weights from which `k_voted` are selected by the votes of
        similar sets.
    """

    stored: ClassVar[tuple[Stored, ...]] = (
        *MarginalCandidates.stored,
        StoredSetting("k_voted", "k_voted", int, low=1, high=MAX_CANDIDATES),
        StoredSetting("pool", "pool", int, low=1, high=_LARGEST_POOL),
    )

    def __init__(self, k: int = 10, k_voted: int = 4, pool: int = 32) -> None:
        super().__init__(k)
        self.k_voted = k_voted
        self.pool = pool

    def propose(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return the candidates of each document.

        Raises
        ------
        ValueError
            If the evidence holds no votes.
        """
        likely = super().propose(evidence)
        if evidence.votes is None:
            raise ValueError("candidates of voters need votes")
        doc_indptr, set_indptr, labels, source = _add_voted(
            likely.doc_indptr,
            likely.sets,
            likely.source,
            evidence.votes.sets,
            evidence.votes.weights,
            self.k_voted,
            self.pool,
        )
        log_score = independent_scores(
            evidence.marginals, doc_indptr, RaggedSets(set_indptr, labels)
        )
        return CandidateSets(doc_indptr, set_indptr, labels, log_score, source, likely.n_labels)


class GivenCandidates(VotedCandidates):
    """Proposes another model's label sets, besides those of labels and voters.

    The given sets come last, scored under independent labels as all are. Without votes there are
    no sets of voters. The parameters are those of `VotedCandidates`.
    """

    def propose(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return the candidates of each document.

        Raises
        ------
        ValueError
            If the evidence holds no answers.
        """
        if evidence.answers is None:
            raise ValueError("candidates of another model need its answers")
        source = MarginalCandidates if evidence.votes is None else VotedCandidates
        likely = source.propose(self, evidence)
        answers = evidence.answers
        answered = CandidateSets(
            answers.doc_indptr,
            answers.sets.indptr,
            answers.sets.labels,
            independent_scores(evidence.marginals, answers.doc_indptr, answers.sets),
            np.full(len(answers.counts), SOURCE_GIVEN, dtype=np.uint8),
            answers.n_labels,
        )
        return merge(likely, answered)


@njit(cache=True, nogil=True)
def _add_voted(  # noqa: PLR0917 - compiled code is called by position
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    source: NDArray[np.uint8],
    training_sets: SeenSets,
    votes: NDArray[np.float32],
    k_voted: int,
    pool: int,
) -> tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]
]:  # pragma: no cover - compiled
    """Add voters' sets; return document bounds, set bounds, labels and flags.

    ``votes`` are the weights of the seen sets, of shape (n_voters, n_documents, n_sets).
    """
    ragged = RaggedSets(training_sets.indptr, training_sets.labels)
    for v in range(len(votes)):
        own_indptr, leaders = find_leaders(training_sets, votes[v], k_voted, pool)
        set_indptr, labels = gather(ragged, leaders.astype(np.int64))
        voted = RaggedSets(set_indptr, labels)
        flags = np.full(len(leaders), SOURCE_VOTES, dtype=np.uint8)
        keep, doc_indptr, source = merge_rows(
            (doc_indptr, own_indptr), (sets, voted), (source, flags)
        )
        sets = gather_both(sets, voted, keep)
    return doc_indptr, sets.indptr, sets.labels, source
