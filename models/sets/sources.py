"""Where candidate label sets come from."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from models.sets.candidates import CandidateSets
from models.sets.evidence import Evidence
from models.sets.search import k_best_sets


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

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the settings; there are no arrays."""
        return {}, {"k": self.k, "allow_empty": self.allow_empty_}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:  # noqa: ARG003  # there are no arrays
        """Rebuild the fitted source."""
        source = cls(int(settings["k"]))
        source.allow_empty_ = bool(settings["allow_empty"])
        return source
