"""Where candidate label sets come from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from setwise.models.sets.candidates import SOURCE_VOTES, CandidateSets, RaggedSets, gather, merge
from setwise.models.sets.evidence import Evidence
from setwise.models.sets.search import independent_scores, k_best_sets
from setwise.models.voters.votes import SeenSets, find_leaders


class MarginalCandidates(BaseEstimator):
    """The most probable sets of independent labels.

    Parameters
    ----------
    k : int, default 10
        Sets a document, 1 to 64.

    Attributes
    ----------
    allow_empty_ : bool
        Whether a training document carries no label: only then may a candidate.
    """

    allow_empty_: bool

    def __init__(self, k: int = 10) -> None:
        self.k = k

    def fit(self, X: csr_array, Y: csr_array) -> Self:  # noqa: ARG002  # sets alone count
        """Learn whether the empty set occurs in Y (n_documents, n_labels)."""
        self.allow_empty_ = bool((np.diff(Y.indptr) == 0).any())
        return self

    def propose(self, evidence: Evidence) -> CandidateSets:
        """Return the ``k`` most probable sets of each document, fewer where fewer exist."""
        if not hasattr(self, "allow_empty_"):
            raise NotFittedError("MarginalCandidates must be fitted before it proposes")
        return k_best_sets(evidence.marginals, self.k, allow_empty=self.allow_empty_)

    def score(self, evidence: Evidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the log-probability of sets under independent labels, in nats."""
        return independent_scores(evidence.marginals, candidates.doc_indptr, candidates.sets)

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the settings; there are no arrays."""
        return {}, {"k": self.k, "allow_empty": self.allow_empty_}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:  # noqa: ARG003  # there are no arrays
        """Rebuild the fitted source."""
        source = cls(int(settings["k"]))
        source.allow_empty_ = bool(settings["allow_empty"])
        return source


class VotedCandidates(BaseEstimator):
    """The most probable sets of independent labels, and those that voters favour.

    All are scored under independent labels. Those of independent labels come first, then the
    voters' in the order of the voters, without repetition.

    Parameters
    ----------
    k : int, default 10
        Sets of independent labels a document, 1 to 64.
    k_voted : int, default 4
        Sets a document and voter.
    pool : int, default 32
        Sets with the largest weights, among which similar sets decide.

    Attributes
    ----------
    allow_empty_ : bool
        Whether a training document carries no label: only then may a candidate.
    """

    allow_empty_: bool

    def __init__(self, k: int = 10, k_voted: int = 4, pool: int = 32) -> None:
        self.k = k
        self.k_voted = k_voted
        self.pool = pool

    def fit(self, X: csr_array, Y: csr_array) -> Self:  # noqa: ARG002  # sets alone count
        """Learn whether the empty set occurs in Y (n_documents, n_labels)."""
        self.allow_empty_ = bool((np.diff(Y.indptr) == 0).any())
        return self

    def propose(self, evidence: Evidence) -> CandidateSets:
        """Return the candidates of each document.

        Raises
        ------
        ValueError
            If the evidence holds no votes.
        """
        if not hasattr(self, "allow_empty_"):
            raise NotFittedError("VotedCandidates must be fitted before it proposes")
        if evidence.votes is None:
            raise ValueError("candidates of voters need votes")
        united = k_best_sets(evidence.marginals, self.k, allow_empty=self.allow_empty_)
        for weights in evidence.votes.weights:
            united = merge(united, self._leading(evidence.votes.sets, weights))
        return replace(united, log_score=self.score(evidence, united))

    def score(self, evidence: Evidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the log-probability of sets under independent labels, in nats."""
        return independent_scores(evidence.marginals, candidates.doc_indptr, candidates.sets)

    def _leading(self, seen: SeenSets, weights: NDArray[np.float32]) -> CandidateSets:
        doc_indptr, leaders = find_leaders(seen, weights, self.k_voted, self.pool)
        known = RaggedSets(seen.indptr, seen.labels)
        set_indptr, labels = gather(known, leaders.astype(np.int64))
        return CandidateSets(
            doc_indptr,
            set_indptr,
            labels,
            np.zeros(len(leaders)),
            np.full(len(leaders), SOURCE_VOTES, dtype=np.uint8),
            seen.n_labels,
        )

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the settings; there are no arrays."""
        return {}, {**self.get_params(), "allow_empty": self.allow_empty_}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:  # noqa: ARG003  # there are no arrays
        """Rebuild the fitted source."""
        source = cls(int(settings["k"]), int(settings["k_voted"]), int(settings["pool"]))
        source.allow_empty_ = bool(settings["allow_empty"])
        return source
