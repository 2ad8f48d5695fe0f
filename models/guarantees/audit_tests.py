"""Test of the accuracy of sent predictions by audits."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.guarantees.joint import Sample, Samples, fewest_further, p_value, planned_power
from setwise.models.guarantees.trend import recent_accuracy

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

AUDITS_OF_A_CONFIDENCE = 20.0
"""Number of audits that a confidence is worth when planning estimates accuracies."""


def count_above(thresholds: Floats, confidence: Floats) -> Counts:
    """Return the number of confidences at or above each threshold."""
    below = np.searchsorted(np.sort(confidence), thresholds, side="left")
    return np.asarray(len(confidence) - below, dtype=np.int64)


class AdjudicatedAudits(NamedTuple):
    """Audits whose contradictions, and some agreements, a lead reads; one row each.

    Attributes
    ----------
    confidence : float64 ndarray of shape (n,)
    found_wrong, missed : bool ndarray of shape (n,)
    reread_rate, reread_draw : float64 ndarray of shape (n,)
    otherwise : float
        Rate above a threshold that no audit reaches.
    weeks : float64 ndarray of shape (n,), or None
        When each document came, if it is known.
    """

    confidence: Floats
    found_wrong: Bools
    missed: Bools
    reread_rate: Floats
    reread_draw: Floats
    otherwise: float
    weeks: Floats | None = None


class AdjudicatedTest:
    """The joint test of errors found and missed above each threshold.

    Above each threshold the least probability of a second reading holds for all audits: misses
    whose draw lies at or above it do not count. See `setwise.models.guarantees.joint`.

    Attributes
    ----------
    n_above, n_good : int64 ndarray of shape (m,)
        Audits at or above each threshold, and those of them not found wrong.
    reread_rate : float64 ndarray of shape (m,)
        The least probability of a second reading.
    """

    def __init__(self, thresholds: Floats, audits: AdjudicatedAudits) -> None:
        confidence, missed = audits.confidence, audits.missed
        self._audits = audits
        self.n_above = count_above(thresholds, confidence)
        self._found = count_above(thresholds, confidence[audits.found_wrong])
        rates = audits.reread_rate[np.argsort(-confidence, kind="stable")]
        least = np.append(audits.otherwise, np.minimum.accumulate(rates))
        self.reread_rate = least[self.n_above]
        counts = (confidence[missed] >= thresholds[:, None]) & (
            audits.reread_draw[missed] < self.reread_rate[:, None]
        )
        self._missed = np.asarray(counts.sum(axis=1), dtype=np.int64)
        self.n_good = self.n_above - self._found - self._missed

    def p_values(self, steps: NDArray[np.integer], accuracy: float, risk: float) -> Floats:
        """Return each step's p-value of "the accuracy above is at most this".

        It is only as sharp as a comparison with ``risk`` requires.
        """
        return np.array([p_value(self.sample(int(step)), 1.0 - accuracy, risk) for step in steps])

    def recent(self, thresholds: Floats, target: float) -> Floats | None:
        """Return the accuracy above thresholds when the newest audit came, if times are known."""
        audits = self._audits
        if audits.weeks is None:
            return None
        wrong = audits.found_wrong | audits.missed
        errors = wrong / np.where(audits.missed, audits.reread_rate, 1.0)
        return recent_accuracy(thresholds, audits.confidence, errors, audits.weeks, target)

    def start_power(self, n_above: Counts, accuracy: Floats, target: float, risk: float) -> Floats:
        """Return each threshold's approximate power with so many audits above."""
        blank = Samples(0, 0, 0, self.reread_rate)
        return planned_power(n_above, 1.0 - accuracy, blank, 1.0 - target, risk)

    def needed(
        self,
        steps: NDArray[np.integer],
        confidence: Floats,
        target: float,
        risk: float,
        power: float,
    ) -> tuple[Counts, Counts]:
        """Return further audits above each threshold for a proof, approximately.

        -1 if no number would do. The second array holds the numbers if no further audit finds an
        error.
        """
        n = self.n_above[steps]
        before = Samples(n, self._found[steps], self._missed[steps], self.reread_rate[steps])
        worth = AUDITS_OF_A_CONFIDENCE
        estimate = np.array([self.sample(int(step)).accuracy for step in steps])
        wrong = 1.0 - (n * estimate + worth * confidence) / (n + worth)
        return (
            fewest_further(before, wrong, 1.0 - target, risk, power),
            fewest_further(before, np.zeros(len(n)), 1.0 - target, risk, power),
        )

    def sample(self, step: int) -> Sample:
        """Return the counts above a threshold."""
        return Sample(
            int(self.n_above[step]),
            int(self._found[step]),
            int(self._missed[step]),
            float(self.reread_rate[step]),
        )
