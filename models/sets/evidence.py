"""Input of candidate sources and set features."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.data.answers import ModelAnswers
from setwise.models.data.rows import SparseRows
from setwise.models.sets.candidates import CandidateSets
from setwise.models.storage.state import Storable
from setwise.models.voters.votes import SetVotes


@dataclass(frozen=True, eq=False)
class DocumentEvidence:
    """Features, label scores and votes of a batch of documents."""

    rows: SparseRows  # features of the documents
    # (n_documents, n_labels) raw scores of labels; cross-fitting keeps them in single
    # precision.
    logits: NDArray[np.floating]
    # (n_documents, n_labels) calibrated label probabilities, strictly inside (0, 1).
    marginals: NDArray[np.float64]
    # Votes of the training documents' label sets, if the model has voters.
    votes: SetVotes | None = None
    answers: ModelAnswers | None = None  # what another model says, if the predictor is external

    @cached_property
    def X(self) -> csr_array:  # noqa: N802 -- the usual name of a feature matrix
        """The features as a matrix (n_documents, n_features), float32."""
        return self.rows.to_matrix()


class CandidateSource(Storable, Protocol):
    """Proposes label sets for documents that it was not fitted on."""

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Learn from documents (n, n_features) and their label sets (n, n_labels)."""

    def propose(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return at least one set for each document, most probable first."""

    def score(self, evidence: DocumentEvidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the log-probability (n_sets,) of any sets, as in `propose`."""
