"""Results that leave as they are: models make them, the service stores and shows them."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from setwise.shown import Probability, Shown


@dataclass(frozen=True)
class Estimate(Shown):
    """A number and its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ConfidenceBucket(Shown):
    """Rows of about the same confidence."""

    low: Probability
    high: Probability
    n: int
    confidence: Probability
    """Mean of the rows."""
    accuracy: float
    """Corrected for errors of reviewers, so it may leave [0, 1] where rows are few."""


@dataclass(frozen=True)
class ReliabilityCurve(Shown):
    """An isotonic curve of accuracy over confidence, and a consistency band."""

    confidence: tuple[Probability, ...]
    accuracy: tuple[Probability, ...]
    low: tuple[Probability, ...]
    high: tuple[Probability, ...]
    level: Probability
    """Share of honest curves inside the band at each point."""
    p_value: Probability
    """Of the hypothesis that the confidences are true."""
    miscalibration: float
    """The Brier score is this, less `discrimination`, plus `uncertainty`."""
    discrimination: float
    uncertainty: float
    debiased_miscalibration: float
    """What goes beyond that of honest confidences; can be negative."""


class ScoreVerdict(StrEnum):
    """Whether a confidence can decide what to send."""

    ROUTES = "routes"
    MISCALIBRATED = "miscalibrated"  # ranks, but its numbers are off
    RANKS_LITTLE = "ranks-little"  # more than by chance, and too little to decide anything
    DOES_NOT_RANK = "does-not-rank"  # right and wrong answers get the same numbers
    RANKS_WRONG_WAY = "ranks-wrong-way"  # wrong answers get the higher numbers
    NOT_ENOUGH = "not-enough"  # answers to tell whether it ranks
    CONSTANT = "constant"
    TOO_FEW = "too-few"  # answers, or right or wrong ones among them


@dataclass(frozen=True)
class ScoreJudgement(Shown):
    """What a confidence is worth; see `judge_scores`. Print it for a sentence."""

    verdict: ScoreVerdict
    n: int
    n_right: int
    n_distinct: int
    """Different confidences."""
    low: Probability
    """Nine of ten confidences lie between this and `high`."""
    high: Probability
    auroc: Estimate | None
    """Probability that a right set has a higher confidence than a wrong one."""
    aurc: Estimate
    """Mean share of errors over all shares sent; 0 is best."""
    ece: Estimate
    """Expected calibration error over bins of equal mass; 0 is best."""
    alignment_error: float
    """Over bins of equal width, squared."""
    calibrated_p: Probability
    """Of the hypothesis that the confidences are true."""
    sentence: str
    """The verdict in words."""

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, strings and mappings for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the verdict and what to do about it, as sentences."""
        return self.sentence


@dataclass(frozen=True)
class AutomationAt(Shown):
    """The lowest threshold whose estimated accuracy reaches the target."""

    target: Probability
    threshold: Probability | None
    """null if none does."""
    coverage: Probability
    """Share of the rows from it up."""
    accuracy: float | None
    """Of these rows, estimated; corrected for errors of reviewers, it may exceed 1."""
    accuracy_low: Probability | None = None
    """Lower bound; null if rows are weighted, or answers have errors."""

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return asdict(self)


@dataclass(frozen=True)
class SequenceStep(Shown):
    """A test of "what is sent from this threshold up misses the target"."""

    threshold: Probability
    coverage: Probability
    """Share of the predictions at or above the threshold."""
    n_audits: int
    """Audits at or above the threshold."""
    n_good: int
    """Those of them that were not found wrong."""
    n_missed: int
    """Those of them that only a second reading found wrong."""
    reread_rate: Probability
    """The least probability of a second reading among them."""
    p_value: Probability
    """Upper bound of the probability of as good an outcome if the target is missed: by messages or,
    if that is higher, by different documents.
    """
    recent_accuracy: float | None
    """Estimated accuracy when the newest audit came."""
    thin_audits: int = 0
    """Those of the audits that were drawn at the lower rate; 0 with one rate."""
    thin_wrong: int = 0
    """Wrong ones among them."""
    thin_documents: int = 0
    """Documents at or above the threshold that they stand for."""
    documents: int = 0
    """Documents at or above the threshold, if there are two rates."""
    n_different: int | None = None
    """Of the audits, those of different documents: copies count once in a second test. Null, as the
    next two, if no audit is of a copy.
    """
    n_different_good: int | None = None
    """Those of them that were not found wrong."""
    n_different_missed: int | None = None
    """Those of them that only a second reading found wrong."""

    def drifting(self, target: float) -> bool:
        """Return whether the accuracy above the threshold seems to have fallen below the target.

        Older audits may outweigh newer ones in the test: more are drawn while nothing is sent.
        """
        return self.recent_accuracy is not None and self.recent_accuracy < target
