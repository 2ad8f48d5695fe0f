"""Chooses among candidate sets by their calibrated confidence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.calibrators import SetCalibrator
from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.features import SetFeatures


@dataclass(frozen=True, eq=False)
class SetReranker:
    """Second stage of BR-rerank [1]_: set features, calibrator and ranking.

    References
    ----------
    .. [1] C. Li, V. Pavlu, J. Aslam, B. Wang and K. Qin, "Learning to Calibrate and Rerank
       Multi-label Predictions", ECML-PKDD 2019, section 3.
    """

    features: SetFeatures  # fitted
    # Fitted on these features of rows that neither they nor the base model were fitted on.
    calibrator: SetCalibrator
    # Whether the most confident candidate comes first; otherwise the source's order is kept.
    by_confidence: bool = True

    def rank(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> tuple[CandidateSets, NDArray[np.float64]]:
        """Order each document's candidates, the chosen set first.

        Returns
        -------
        ranked : CandidateSets
        confidence : float64 ndarray of shape (n_sets,)
            In [0, 1], aligned with ``ranked``. Falling inside a document if ranked by
            confidence; equal confidences are in falling order of score.
        """
        confidence = self.judge(evidence, candidates)
        if not self.by_confidence:
            return candidates, confidence
        order = rank_by(confidence, candidates)
        return candidates.reorder(order), confidence[order]

    def judge(self, evidence: DocumentEvidence, candidates: CandidateSets) -> NDArray[np.float64]:
        """Return the confidence in each candidate, shape (n_sets,), in [0, 1]."""
        return self.calibrator.predict(self.features.transform(evidence, candidates))


def rank_by(confidence: NDArray[np.float64], candidates: CandidateSets) -> NDArray[np.int64]:
    """Return the order of each document's sets by confidence, then score."""
    return rank_rows(candidates.doc_indptr, confidence, candidates.log_score)


@njit(cache=True, nogil=True)
def rank_rows(
    doc_indptr: NDArray[np.int64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the order of each document's sets by ``first``, then ``second``."""
    order = np.empty(len(first), dtype=np.int64)
    for i in range(len(doc_indptr) - 1):
        start = doc_indptr[i]
        for s in range(start, doc_indptr[i + 1]):
            slot = s
            while slot > start:
                other = order[slot - 1]
                ahead = first[other] > first[s] or (
                    first[other] == first[s] and second[other] >= second[s]
                )
                if ahead:
                    break
                order[slot] = other
                slot -= 1
            order[slot] = s
    return order
