"""The report on a calibrator: what it was learnt from, and how it compares with the one before."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self

from setwise.models.results import (
    AutomationAt,
    ConfidenceBucket,
    Estimate,
    ReliabilityCurve,
    ScoreJudgement,
)
from setwise.shown import Probability, Shown

BETTER = 0.05
"""A calibrator counts as better, or worse, if the paired test's p-value is below this."""


@dataclass(frozen=True)
class OriginalRows(Shown):
    """Rows of the model's own training that a calibrator rests on too."""

    rows: int
    worth: float
    """How many reviews they weigh as much as."""
    reason: str | None = None
    """Why there are none."""


@dataclass(frozen=True)
class RowsUsed(Shown):
    """The reviewed predictions that a calibrator was learnt from."""

    used: int
    agreed: int
    """Those whose label set was confirmed."""
    contradicted: int
    by_source: Mapping[str, int]
    """From an `outcome`, an `audit` or a `review`."""
    seen_before: int
    """Those that the calibrator before may have learnt from."""
    excluded: Mapping[str, int]
    """Predictions that were left out, by reason."""
    until: datetime
    """When the newest of them was answered."""
    effective: float
    """How many rows without errors and weights they are worth."""
    original: OriginalRows


@dataclass(frozen=True)
class GroupErrorRates(Shown):
    """Error rates that the answers of a group were corrected for."""

    rows: int
    alpha: Probability
    """Share of right predictions that are contradicted."""
    beta: Probability
    """Share of wrong predictions that are agreed with."""


@dataclass(frozen=True)
class ErrorsCorrected(Shown):
    """The errors of reviewers that were corrected for."""

    mode: str
    """As `noise` of the request."""
    groups: Mapping[str, GroupErrorRates]
    """By group; blind answers apart from those given with the suggestion in view."""


@dataclass(frozen=True)
class CalibrationMeasures(Shown):
    """How good confidences are, on rows that the calibrator did not see.

    With too few rows there is only `judgement`.
    """

    n: int
    judgement: ScoreJudgement
    needed: int | None = None
    """How many rows it takes; null if there are enough."""
    noisy: bool | None = None
    """Answers had errors that were corrected for."""
    accuracy: float | None = None
    """Share of right predictions."""
    brier: Estimate | None = None
    """Mean squared error of the confidence."""
    uncertainty: float | None = None
    """Variance of being right."""
    alignment_error: Estimate | None = None
    """Mean squared distance of confidence and accuracy over buckets, debiased."""
    sharpness: Estimate | None = None
    """Variance of the accuracy over buckets, debiased."""
    biased_alignment_error: float | None = None
    """As in the papers, for comparison."""
    buckets: tuple[ConfidenceBucket, ...] = ()
    """Those that hold rows."""
    reliability: ReliabilityCurve | None = None
    level: Probability | None = None
    """Of all intervals and of the band."""


@dataclass(frozen=True)
class AutomationChange(Shown):
    """What could be sent at the target, before and after."""

    target: Probability
    before: AutomationAt
    after: AutomationAt


@dataclass(frozen=True)
class CalibratorComparison(Shown):
    """A paired test on rows that neither calibrator has seen."""

    better: bool
    """The test proves it better."""
    n: int
    """Such rows."""
    sentence: str
    """The result in words."""
    reason: str | None = None
    """Why there was no test; null if there was one, as all below without one."""
    gain: float | None = None
    """Decrease of the Brier score; negative if it rises."""
    standard_error: float | None = None
    p_value: Probability | None = None
    """Of the hypothesis that it does not decrease."""
    least_p_value: Probability | None = None
    """Below this it counts as better."""
    judged_by: Literal["gold labels", "all answers"] | None = None

    @classmethod
    def skipped(cls, n: int, reason: str) -> Self:
        """Return that there was no test."""
        return cls(better=False, n=n, sentence=f"not compared: {reason}", reason=reason)

    @classmethod
    def tested(
        cls,
        n: int,
        gain: float,
        p_value: float,
        *,
        standard_error: float | None = None,
        judged_by: Literal["gold labels", "all answers"] | None = None,
    ) -> Self:
        """Return the result of a test.

        >>> CalibratorComparison.tested(1840, 0.022, 0.0001).sentence
        'proved better: the Brier score falls by 0.0220 on 1,840 documents (p < 0.001)'
        >>> CalibratorComparison.tested(300, -0.001, 0.6).sentence
        'not proved better: the Brier score rises by 0.0010 on 300 documents (p = 0.60)'
        """
        better = gain > 0.0 and p_value < BETTER
        worse = _worse(gain, p_value)
        result = "proved worse" if worse else "proved better" if better else "not proved better"
        how = f"falls by {gain:.4f}" if gain >= 0 else f"rises by {-gain:.4f}"
        p = 1.0 - p_value if worse else p_value
        chance = "< 0.001" if p < 0.001 else f"= {p:.2f}" if p >= 0.1 else f"= {p:.3f}"
        return cls(
            better=better,
            n=n,
            sentence=f"{result}: the Brier score {how} on {n:,} documents (p {chance})",
            gain=gain,
            standard_error=standard_error,
            p_value=p_value,
            least_p_value=BETTER,
            judged_by=judged_by,
        )

    @property
    def proved(self) -> bool | None:
        """Whether the test proves it better, or worse; None if it proves neither."""
        if self.gain is None or self.p_value is None:
            return None
        return True if self.better else False if _worse(self.gain, self.p_value) else None


def _worse(gain: float, p_value: float) -> bool:
    return gain < 0.0 and 1.0 - p_value < BETTER


@dataclass(frozen=True)
class RouteChange(Shown):
    """A document that would take another route."""

    prediction_id: str
    before: Probability
    """Its confidence."""
    after: Probability


@dataclass(frozen=True)
class RouteChanges(Shown):
    """Documents that would take another route, in one direction."""

    count: int
    items: tuple[RouteChange, ...]
    """The first 200 of them."""


@dataclass(frozen=True)
class RoutesChanged(Shown):
    """Recent documents whose route would change at one threshold."""

    documents: int
    threshold: Probability
    threshold_from: Literal["the policy", "the target, as none is in force"]
    to_auto: RouteChanges
    to_review: RouteChanges


@dataclass(frozen=True)
class CalibrationReport(Shown):
    """What a calibrator was learnt from, and how it compares with the one before."""

    rows: RowsUsed
    noise: ErrorsCorrected
    before: CalibrationMeasures
    after: CalibrationMeasures
    automation: AutomationChange
    comparison: CalibratorComparison
    sending: str
    """Whether label sets of the calibrator would be sent."""
    routes: RoutesChanged
    warnings: tuple[str, ...]
    """Each a sentence."""
