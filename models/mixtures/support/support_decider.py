"""F1 rule for a mixture restricted to seen label sets."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.support.sized_calibration import (
    SizedMarginalCalibrator,
    SizedMarginals,
    support_sized_marginals,
)
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.decider import Decider
from setwise.models.sets.evidence import CandidateSource, DocumentEvidence
from setwise.models.sets.f_measure import maximise_from_sized_marginals
from setwise.models.storage.fields import StoredPiece, StoredSetting

# Weight of raw marginals, which decide if the curves calibrate everything to 0.
_RAW = 1e-9

_NO_MIXTURE = "a rule on a mixture's support needs candidates of a mixture"


@dataclass(frozen=True, eq=False)
class SupportDecider(Decider):
    """Maximises expected F1 under a mixture restricted to its support, then calibrated.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, section 3.7.1.
    """

    calibrator: SizedMarginalCalibrator  # fitted on out-of-fold marginals of the same support
    rule: ClassVar = {"objective": "f1"}
    stored: ClassVar = (
        StoredPiece("calibrator", SizedMarginalCalibrator, shares={"pairs": "pairs"}),
        StoredSetting("rule", "rule", dict, choices=(rule,)),
    )

    def choose(
        self,
        evidence: DocumentEvidence,
        source: CandidateSource,
        candidates: CandidateSets,  # noqa: ARG002  # the mixture knows more sets
        confidence: NDArray[np.float64],  # noqa: ARG002  # the mixture knows more sets
    ) -> csr_array:
        """Return the sets of highest expected F1.

        Raises
        ------
        ValueError
            If the candidates come from no mixture.
        """
        if not isinstance(source, MixtureCandidates):
            raise ValueError(_NO_MIXTURE)  # noqa: TRY004  # a model that does not fit together
        return self.decide(
            sized_marginals(source, evidence), allow_empty=source.mixture_.allow_empty_
        )

    def decide(
        self, marginals: SizedMarginals, allow_empty: bool
    ) -> csr_array:  # the mixture's own flag
        """Return the sets of highest expected F1 under sized marginals, calibrated here."""
        calibrated, p_empty = self.calibrator.transform(marginals)
        return maximise_from_sized_marginals(
            calibrated.P + _RAW * marginals.P,
            p_empty if allow_empty else np.zeros_like(p_empty),
            marginals.labels,
            marginals.sizes,
            marginals.n_labels,
        ).sets


def sized_marginals(source: MixtureCandidates, evidence: DocumentEvidence) -> SizedMarginals:
    """Return the sized marginals of the mixture on its support."""
    mixture = source.mixture_
    return support_sized_marginals(mixture.support_log_probability(evidence.rows), mixture.support_)


def support_pairs(source: CandidateSource) -> NDArray[np.int64]:
    """Return the ascending (label, size) codes of a mixture's support.

    Raises
    ------
    ValueError
        If the candidates come from no mixture.
    """
    if not isinstance(source, MixtureCandidates):
        raise ValueError(_NO_MIXTURE)  # noqa: TRY004  # a model that does not fit together
    support = source.mixture_.support_
    empty = support_sized_marginals(np.zeros((0, support.shape[0])), support)
    return pair_codes(empty)


def pair_codes(marginals: SizedMarginals) -> NDArray[np.int64]:
    """Return a number for each (label, size) pair."""
    return marginals.labels * (marginals.n_labels + 1) + marginals.sizes
