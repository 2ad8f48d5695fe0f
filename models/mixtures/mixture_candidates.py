"""Candidate sets from a conditional Bernoulli mixture."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.estimator import Estimator, check_fitted
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_mode import set_log_probabilities
from setwise.models.sets.candidates import CandidateSets, merge
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import MAX_CANDIDATES
from setwise.models.sets.sources import MarginalCandidates, VotedCandidates
from setwise.models.storage.fields import StoredPiece, StoredSetting
from setwise.models.storage.state import Lengths, StoredPart

SomeMixture = ConditionalBernoulliMixture | BoostedBernoulliMixture | AveragedMixture

# Maximum number of sets scored per document. A longer search proves more lists but finds no more
# true sets.
_SEARCH_LIMIT = 256


def _stored_mixture(
    arrays: object,  # noqa: ARG001  # settings tell
    settings: Mapping[str, Any],
) -> type[SomeMixture]:
    if "boosted" in settings:
        return BoostedBernoulliMixture
    return AveragedMixture if "fits" in settings else ConditionalBernoulliMixture


class MixtureCandidates(StoredPart, Estimator):
    """Proposes and scores the most probable sets of a mixture.

    Parameters
    ----------
    mixture : one of the mixtures, optional
        Template; a clone is fitted. By default a `ConditionalBernoulliMixture`.
    k : int, default 10
        Sets per document and origin, 1 to 64.
    union : bool, default False
        Whether to add the most probable sets of independent labels under the evidence's marginals
        and the voters' sets, if any. The mixture scores these too.
    """

    mixture_: SomeMixture  # fitted
    stored = (
        StoredSetting("k", "k", int, low=1, high=MAX_CANDIDATES),
        StoredSetting("union", "union", bool),
        StoredPiece(
            "mixture_",
            _stored_mixture,
            name="mixture",
            shares={"features": "features", "labels": "labels"},
        ),
    )

    def __init__(
        self,
        mixture: SomeMixture | None = None,
        k: int = 10,
        *,
        union: bool = False,
    ) -> None:
        self.mixture = mixture
        self.k = k
        self.union = union

    @classmethod
    def of(cls, mixture: SomeMixture, k: int = 10, *, union: bool = False) -> Self:
        """Return the source of a fitted mixture."""
        source = cls(mixture, k, union=union)
        source.mixture_ = mixture
        return source

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit the mixture to documents (n, n_features) and sets (n, n_labels)."""
        mixture = self.mixture or ConditionalBernoulliMixture()
        self.mixture_ = mixture.unfitted().fit(X, Y)
        return self

    def propose(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return the candidates of each document, most probable under the mixture first."""
        check_fitted(self, "mixture_")
        if not 1 <= self.k <= MAX_CANDIDATES:
            raise ValueError(f"k must lie between 1 and {MAX_CANDIDATES}; it is {self.k}")
        mixture = self.mixture_
        likeliest = mixture.most_probable_sets(
            evidence.rows, self.k, limit=_SEARCH_LIMIT
        ).candidates
        if not self.union:
            return likeliest
        united = merge(likeliest, self._others(evidence))
        rescored = replace(united, log_score=self.score(evidence, united))
        order = np.lexsort((-rescored.log_score, rescored.document))
        return rescored.reorder(order)

    def score(self, evidence: DocumentEvidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the log-probability of sets under the mixture, in nats."""
        scored = []
        first = 0
        for log_weights, logits in self.mixture_.batches(evidence.rows):
            rows = np.arange(first, first + len(log_weights))
            first += len(log_weights)
            part = candidates.take_documents(rows)
            scored.append(set_log_probabilities(log_weights, logits, part))
        return np.concatenate(scored)

    def _others(self, evidence: DocumentEvidence) -> CandidateSets:
        """Return the sets of independent labels and of voters."""
        source = MarginalCandidates(self.k) if evidence.votes is None else VotedCandidates(self.k)
        source.allow_empty_ = self.mixture_.allow_empty_
        return source.propose(evidence)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # nothing of lengths
        """Rebuild the fitted source."""
        return cls.of(fields["mixture_"], fields["k"], union=fields["union"])
