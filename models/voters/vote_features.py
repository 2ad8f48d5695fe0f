"""Set features beyond the paper's: label margins and votes."""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.labels.ranking import rank_largest
from setwise.models.sets.candidates import CandidateSets, RaggedSets
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.storage.state import StoredPart
from setwise.models.voters.votes import SeenSets, tally


class Unfitted(StoredPart):
    """A feature group without anything to fit."""

    def fit(self, X: csr_array, Y: csr_array) -> Self:  # noqa: ARG002  # nothing to learn
        """Return ``self``: nothing to learn."""
        return self


class MarginFeatures(Unfitted):
    """Distance to the best set and margins of the set's labels.

    ``score_gap`` is the log-probability minus that of the document's most probable candidate,
    ``weakest_inside`` the lowest log-odds of a label in the set, ``strongest_outside`` the highest
    of one that is not (both 0 if there is none), ``surplus`` the number of labels minus the
    number expected.
    """

    names = ("score_gap", "weakest_inside", "strongest_outside", "surplus")
    monotone = (1, 1, -1, 0)

    def transform(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        """Return the four columns, in nats and labels."""
        return _describe_margins(
            evidence.marginals, candidates.doc_indptr, candidates.sets, candidates.log_score
        )


class VoteFeatures(Unfitted):
    """One voter's tallies, and two tallies' gaps to the document's best.

    Not monotone: forced monotony gives worse Brier scores and confidences that are too high.
    """

    voter: ClassVar[str]
    monotone = (0, 0, 0, 0, 0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        kinds = ("equal", "jaccard", "squared", "equal_gap", "squared_gap")
        return tuple(f"{self.voter}_{kind}" for kind in kinds)

    def transform(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        """Return the five columns.

        Raises
        ------
        ValueError
            If the evidence holds no votes of this voter.
        """
        if evidence.votes is None:
            raise ValueError(f"features of the voter {self.voter!r} need votes")
        weights = evidence.votes.of(self.voter)
        return _describe_votes(candidates.doc_indptr, candidates.sets, evidence.votes.sets, weights)


class NeighbourFeatures(VoteFeatures):
    """Votes of similar training documents for the set."""

    voter = "neighbours"


class NearestFeatures(VoteFeatures):
    """Votes of the nearest training documents for the set."""

    voter = "nearest"


class SmoothFeatures(VoteFeatures):
    """Votes of the kernel regression for the set."""

    voter = "smooth"


class ForestFeatures(VoteFeatures):
    """Votes of the forest for the set."""

    voter = "forest"


@njit(cache=True, nogil=True)
def _describe_margins(
    P: NDArray[np.float64],
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    log_score: NDArray[np.float64],
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the columns of `MarginFeatures`."""
    out = np.empty((len(log_score), 4), dtype=np.float32)
    n_labels = P.shape[1]
    inside = np.zeros(n_labels, dtype=np.bool_)
    place = np.empty(n_labels, dtype=np.int64)
    for i in range(len(P)):
        sizes = np.diff(sets.indptr[doc_indptr[i] : doc_indptr[i + 1] + 1])
        # This many labels always include one that is not in the set.
        likely = place[: min(sizes.max() + 1, n_labels)]
        rank_largest(P[i], likely)
        expected = P[i].sum()
        best = log_score[doc_indptr[i] : doc_indptr[i + 1]].max()
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            members = sets.labels[sets.indptr[s] : sets.indptr[s + 1]]
            inside[members] = True
            outside = 0
            while outside < len(likely) and inside[likely[outside]]:
                outside += 1
            inside[members] = False
            out[s, 0] = log_score[s] - best
            out[s, 1] = _log_odds(P[i][members].min()) if len(members) else 0.0
            out[s, 2] = _log_odds(P[i, likely[outside]]) if outside < len(likely) else 0.0
            out[s, 3] = len(members) - expected
    return out


@njit(cache=True, nogil=True)
def _log_odds(p: float) -> float:  # pragma: no cover - compiled
    p = min(max(p, 1e-15), 1.0 - 1e-15)
    return float(np.log(p / (1.0 - p)))


@njit(cache=True, nogil=True)
def _describe_votes(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    training_sets: SeenSets,
    weights: NDArray[np.float32],
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the tallies, and the first and last tallies' gaps."""
    out = np.empty((len(sets.indptr) - 1, 5), dtype=np.float32)
    out[:, :3] = tally(doc_indptr, sets, training_sets, weights)
    for i in range(len(doc_indptr) - 1):
        first, last = doc_indptr[i], doc_indptr[i + 1]
        equal, squared = np.float32(-np.inf), np.float32(-np.inf)
        for s in range(first, last):
            equal = max(equal, out[s, 0])
            squared = max(squared, out[s, 2])
        for s in range(first, last):
            out[s, 3] = out[s, 0] - equal
            out[s, 4] = out[s, 2] - squared
    return out
