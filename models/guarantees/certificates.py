"""Results of a search for a provable threshold: certificate or refusal.

Both contain all the evidence, so that a service can store it, show it and verify it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from setwise.models.figures.numerals import percent
from setwise.models.figures.picture import Picture
from setwise.models.guarantees.certificate_figure import Tests, draw_certificate
from setwise.models.results import SequenceStep


@dataclass(frozen=True, kw_only=True)
class CertificationEvidence:
    """Evidence behind a certificate or a refusal.

    Attributes
    ----------
    target : float
        Required accuracy of what is sent, in (0, 1].
    risk : float
        Probability, in (0, 1), that a threshold may be certified although it misses the target.
    test_risk : float
        Part of the risk that this attempt spends.
    n_audits : int
        Audits used, at any confidence.
    n_predictions : int
        Unlabelled confidences that determined the thresholds.
    steps : tuple of SequenceStep
        Hypotheses in the order of testing: all were rejected, except the last one if it stopped
        the sequence. Empty if nothing could be tested.
    excluded : mapping from str to int
        Number of audits left out, by reason.
    looks : tuple of int, or None
        Audits at each earlier look that shares the risk; None if the attempt has it for itself.
    order : tuple of float
        Falling thresholds from the first test on; later looks test the same ones.
    """

    method: Literal["adjudicated"] = field(default="adjudicated", init=False)
    target: float
    risk: float
    test_risk: float
    n_audits: int
    n_predictions: int
    steps: tuple[SequenceStep, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)
    looks: tuple[int, ...] | None = None
    order: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, strings, lists and mappings for JSON, among them ``certified``."""
        return {**asdict(self), "steps": [asdict(step) for step in self.steps]}

    def picture(self) -> Picture:
        """Return the thresholds that were tested, with their bounds and the target, as an SVG."""
        sentences = str(self).split("\n")
        return draw_certificate(Tests(self.steps, self.target, self.test_risk, sentences))

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


@dataclass(frozen=True, kw_only=True)
class Certificate(CertificationEvidence):
    """A threshold from which the target is proved at the given risk.

    Thresholds against which the newer audits speak are left out (`SequenceStep.drifting`).

    The guarantee: if future documents are distributed as before, then with probability
    ``1 - risk`` over the audits drawn, the accuracy of all that is sent is at least the target. It
    holds for all looks that share the risk; `paths.spending` shares one among several families of
    looks.

    Attributes
    ----------
    threshold : float
        The lowest proved threshold: send predictions with this confidence or more.
    coverage : float
        Share of the unlabelled predictions at or above the threshold, in (0, 1].
    n_above, n_good : int
        Audits at or above the threshold, and those of them that were not found wrong.
    p_value : float
        p-value of the threshold's own test, at most ``test_risk``.
    accuracy, accuracy_bound : float
        Estimated accuracy of what is sent, and its lower confidence bound at ``test_risk``, never
        below the target; both in [0, 1].
    next_audits : int or None
        Further audits, over the whole stream, that would probably prove a lower threshold; None if
        no number would, or everything is sent.
    next_coverage : float or None
        Share of the unlabelled predictions at or above that threshold, in (0, 1].
    """

    threshold: float
    coverage: float
    n_above: int
    n_good: int
    p_value: float
    accuracy: float
    accuracy_bound: float
    next_audits: int | None = None
    next_coverage: float | None = None

    certified: Literal[True] = field(default=True, init=False)

    @property
    def proved(self) -> tuple[float, ...]:
        """All proved thresholds, falling; the risk holds for all together."""
        return tuple(
            step.threshold
            for step in self.steps
            if step.p_value <= self.test_risk and not step.drifting(self.target)
        )

    def __str__(self) -> str:
        """Return what to send, and why it may be sent."""
        return (
            f"Send at a confidence of {self.threshold:.4g} or more: {percent(self.coverage)} of "
            f"the answers.\nOf {self.n_above:,} checked ones, {self.n_good:,} were right (at least "
            f"{_below(self.accuracy_bound)}; target {self.target:.4g}, risk {self.risk:.4g})."
        )


class RefusalReason(StrEnum):
    """Why no threshold is proved."""

    NO_PREDICTIONS = "no-predictions"  # no confidences to determine the thresholds
    NO_AUDITS = "no-audits"
    TARGET_UNPROVABLE = "target-unprovable"  # 1.0: no number of audits shows that all are right
    TOO_FEW_AUDITS = "too-few-audits"  # the estimate reaches the target, the evidence does not yet
    BELOW_TARGET = "below-target"  # not even the most confident predictions seem to reach it
    BLOCKED_AT_TOP = "blocked-at-top"  # the most confident fail, though a lower threshold would do
    DRIFTING = "drifting"  # all audits together would prove it, but the newer ones speak against it
    MISS_RATE_UNKNOWN = "miss-rate-unknown"  # no agreement was drawn for a second reading


WHY_REFUSED = {
    RefusalReason.NO_PREDICTIONS: "there are no predictions yet",
    RefusalReason.NO_AUDITS: "nothing has been checked yet",
    RefusalReason.TARGET_UNPROVABLE: "no number of checks shows that all are right",
    RefusalReason.TOO_FEW_AUDITS: "the checks look good enough, but there are too few",
    RefusalReason.BELOW_TARGET: "not even the most confident sets seem to reach the target",
    RefusalReason.BLOCKED_AT_TOP: "the most confident sets fail, though a lower threshold would do",
    RefusalReason.DRIFTING: "all checks together look good enough, but the newer ones speak "
    "against the target",
    RefusalReason.MISS_RATE_UNKNOWN: "how many errors people overlook is unknown until some "
    "agreements are read again",
}
"""Why nothing is certified, as the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class CertificateRefusal(CertificationEvidence):
    """No threshold is proved; nothing may be sent on this evidence.

    Attributes
    ----------
    reason : RefusalReason
    further_audits : int or None
        Certification audits, over the whole stream, that would complete a proof with probability
        `PLANNED_POWER` if accuracies are as estimated; None if no number would.
    further_if_all_good : int or None
        The same if every further audit favours the model: the minimum. None if the reason is not
        a lack of audits.
    planned_threshold : float or None
        Threshold that these further audits would prove.
    """

    reason: RefusalReason
    further_audits: int | None = None
    further_if_all_good: int | None = None
    planned_threshold: float | None = None

    certified: Literal[False] = field(default=False, init=False)

    def __str__(self) -> str:
        """Return why nothing is proved, and what would prove it."""
        text = (
            f"Nothing is proved (target {self.target:.4g}, risk {self.risk:.4g}): "
            f"{WHY_REFUSED[self.reason]}."
        )
        if self.further_audits is not None:
            text += f"\nAbout {self.further_audits:,} more checks would do, as it looks now."
        return text


Certification = Certificate | CertificateRefusal


def _below(share: float) -> str:
    """Return a bound in per cent, rounded down: it must not promise more."""
    return percent(math.floor(share * 1000) / 1000)
