"""The voters of a model, fitted together on the same label sets."""

from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.kept_scores import Scores
from setwise.models.sets.candidates import RaggedSets
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.storage.fields import (
    StoredNames,
    StoredPieces,
    StoredSetting,
    stored_ragged,
)
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.block_ridge import HoldOut, Rows
from setwise.models.voters.forest_votes import ForestVotes
from setwise.models.voters.neighbours import NearestVotes, NeighbourVotes
from setwise.models.voters.regression_votes import SmoothVotes
from setwise.models.voters.votes import SeenSets, SetVotes, find_seen_sets

Voter = NeighbourVotes | SmoothVotes | ForestVotes

VOTERS: Final[dict[str, type[Voter]]] = {
    "neighbours": NeighbourVotes,
    "nearest": NearestVotes,
    "smooth": SmoothVotes,
    "forest": ForestVotes,
}


class SetVoters(StoredPart, Estimator):
    """Voters that share their label sets.

    Parameters
    ----------
    names : tuple of str, default ("neighbours",)
        Keys of `VOTERS`, in the order of their votes.
    max_sets : int, default 4096
        Maximum number of label sets that can get votes, the most frequent ones.
    """

    sets_: SeenSets
    voters_: tuple[Voter, ...]
    stored = (
        StoredNames("names", "names", choices=VOTERS),
        StoredSetting("max_sets", "max_sets", int, low=1),
        StoredSetting("n_labels", "sets_.n_labels", int, low=1, length="labels"),
        *stored_ragged("set_indptr", "set_labels", "sets_", "labels", "sets"),
        StoredPieces(
            "voters_",
            VOTERS,
            "voters",
            "names",
            {"features": "features", "labels": "labels", "sets": "sets"},
        ),
    )

    def __init__(self, names: tuple[str, ...] = ("neighbours",), *, max_sets: int = 4096) -> None:
        self.names = names
        self.max_sets = max_sets

    def fit_folds(
        self, X: csr_array, marginals: Scores, Y: csr_array, folds: NDArray[np.int64]
    ) -> Callable[[Rows], SetVotes]:
        """Fit on all documents and return a function for out-of-fold votes.

        Parameters
        ----------
        X : csr_array of shape (n_documents, n_features)
        marginals : float64 ndarray or KeptScores of shape (n_documents, n_labels)
            Out-of-fold label probabilities.
        Y : csr_array of shape (n_documents, n_labels)
        folds : int64 ndarray of shape (n_documents,)

        Returns
        -------
        callable
            Maps numbers of documents of one fold to the votes on them. A set that occurs
            only in this fold gets none.

        Raises
        ------
        ValueError
            If a voter is unknown.
        """
        unknown = [name for name in self.names if name not in VOTERS]
        if unknown:
            raise ValueError(f"unknown voter {unknown[0]!r}; there are {', '.join(VOTERS)}")
        sets, set_of = find_seen_sets(Y, self.max_sets)
        self.sets_ = sets
        self.voters_ = tuple(VOTERS[name]() for name in self.names)
        held_out = [self._fit(voter, X, marginals, set_of, folds) for voter in self.voters_]
        listed = set_of >= 0
        total = np.bincount(set_of[listed], minlength=sets.n_sets)

        def vote(rows: Rows) -> SetVotes:
            of_fold = set_of[listed & (folds == folds[rows[0]])]
            elsewhere = total > np.bincount(of_fold, minlength=sets.n_sets)
            weights = np.stack([hold_out(rows) for hold_out in held_out])
            # Rounding errors would reveal sets that occur only in this fold.
            weights[:, :, ~elsewhere] = 0.0
            return SetVotes(sets, self.names, weights)

        return vote

    def _fit(
        self,
        voter: Voter,
        X: csr_array,
        marginals: Scores,
        set_of: NDArray[np.int32],
        folds: NDArray[np.int64],
    ) -> HoldOut:
        n_sets = self.sets_.n_sets
        if isinstance(voter, SmoothVotes):
            return voter.fit_folds(X, marginals, set_of, n_sets, folds)
        return voter.fit_folds(X, set_of, n_sets, folds)

    def vote(self, evidence: DocumentEvidence) -> SetVotes:
        """Return the votes on new documents."""
        check_fitted(self, "voters_")
        n = len(evidence.marginals)
        weights = np.empty((len(self.voters_), n, self.sets_.n_sets), dtype=np.float32)
        for of_voter, voter in zip(weights, self.voters_, strict=True):
            if isinstance(voter, SmoothVotes):
                of_voter[:] = voter.vote(evidence.rows, evidence.marginals)
            else:
                of_voter[:] = voter.vote(evidence.rows)
        return SetVotes(self.sets_, self.names, weights)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted voters."""
        voters = cls(tuple(fields["names"]), max_sets=fields["max_sets"])
        sets = RaggedSets(fields["set_indptr"], fields["set_labels"])
        voters.sets_ = SeenSets.of(sets, lengths["labels"])
        voters.voters_ = tuple(fields["voters_"])
        return voters
