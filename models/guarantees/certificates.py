"""What a search for a provable threshold returns: a certificate, or a refusal that says what lacks.

Both carry all the evidence, so that a service can store it, show it and check it again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal


class Method(StrEnum):
    """Which test the p-values come from."""

    CLEAN = "clean"
    ADJUDICATED = "adjudicated"
    KNOWN_NOISE = "known-noise"
    BETTING = "betting"


@dataclass(frozen=True)
class SequenceStep:
    """One hypothesis of the sequence: "what is sent from this threshold up misses the target".

    Attributes
    ----------
    threshold : float
    n_audits : int
        Audits with a confidence at or above the threshold.
    n_good : int
        Of these, the ones that speak for the model: right, in agreement, or not found wrong.
    p_value : float
        Probability, at most, of as good an outcome if the hypothesis holds; in [0, 1].
    """

    threshold: float
    n_audits: int
    n_good: int
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What every outcome rests on.

    Attributes
    ----------
    method : Method
    target : float
        Accuracy that what is sent must have, in (0, 1].
    risk : float
        Probability, in (0, 1), that a threshold may be certified although it misses the target.
    test_risk : float
        What the tests may spend of it; the rest bought the bounds that they rely on.
    n_audits : int
        Audits that counted, at any confidence.
    n_predictions : int
        Unlabelled confidences that laid out the thresholds.
    steps : tuple of SequenceStep
        Hypotheses in the order of testing: each was rejected, but the last one if it stopped the
        sequence. Empty if nothing could be tested.
    excluded : mapping from str to int
        Audits that were left out, by reason.
    """

    method: Method
    target: float
    risk: float
    test_risk: float
    n_audits: int
    n_predictions: int
    steps: tuple[SequenceStep, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return numbers, strings, lists and mappings for JSON, among them ``certified``."""
        return {**asdict(self), "steps": [asdict(step) for step in self.steps]}


@dataclass(frozen=True, kw_only=True)
class Certificate(Evidence):
    """A threshold from which the target is proved at the given risk.

    The guarantee is of this kind: if documents keep coming as they did, then with probability
    ``1 - risk`` over the audits drawn, the accuracy of all that is sent is at least the target. It
    holds for one certificate; `risk_of_attempt` shares a risk among several.

    Attributes
    ----------
    threshold : float
        Lowest proved: send what has this confidence or more.
    coverage : float
        Share of the unlabelled predictions at or above the threshold, in (0, 1].
    n_above, n_good : int
        Audits at or above the threshold, and those of them that speak for the model.
    p_value : float
        Of the threshold's own test, at most ``test_risk``.
    accuracy, accuracy_bound : float
        Estimated accuracy of what is sent, and its lower confidence bound at ``test_risk``, never
        below the target; both in [0, 1].
    """

    threshold: float
    coverage: float
    n_above: int
    n_good: int
    p_value: float
    accuracy: float
    accuracy_bound: float

    certified: Literal[True] = field(default=True, init=False)

    @property
    def proved(self) -> tuple[float, ...]:
        """Every threshold that was proved, falling; all of them hold together at the one risk."""
        return tuple(step.threshold for step in self.steps if step.p_value <= self.test_risk)

    def at_least(self, floor: float) -> float | None:
        """Return the lowest proved threshold that respects a floor of confidence.

        What lies above a floor is no better than what lies above the threshold unless it was
        proved; so a floor cannot simply be put on top. None where nothing that high was proved.
        """
        return min((threshold for threshold in self.proved if threshold >= floor), default=None)


class RefusalReason(StrEnum):
    """Why no threshold is proved."""

    NO_PREDICTIONS = "no-predictions"  # nothing lays out the thresholds
    NO_AUDITS = "no-audits"
    TARGET_UNPROVABLE = "target-unprovable"  # 1.0: no number of audits shows that all are right
    TOO_FEW_AUDITS = "too-few-audits"  # the estimate reaches the target, the evidence does not yet
    BELOW_TARGET = "below-target"  # not even the most confident predictions seem to reach it
    BLOCKED_AT_TOP = "blocked-at-top"  # the most confident fail, though a lower threshold would do
    MISS_RATE_UNKNOWN = "miss-rate-unknown"  # how often reviewers overlook errors is not bounded
    NOISE_TOO_HIGH = "noise-too-high"  # some group's answers say nothing: alpha + beta >= 1


@dataclass(frozen=True, kw_only=True)
class Refusal(Evidence):
    """No threshold is proved; nothing may be sent on this evidence.

    Attributes
    ----------
    reason : RefusalReason
    further_audits : int or None
        Certification audits, over the whole stream, that would add up to a proof with the
        probability `PLANNED_POWER` if accuracies are as estimated; None where none would.
    further_if_all_good : int or None
        The same, if every further audit speaks for the model: the least that can do. None where
        the reason is not a lack of audits.
    planned_threshold : float or None
        The threshold that these further audits would prove.
    """

    reason: RefusalReason
    further_audits: int | None = None
    further_if_all_good: int | None = None
    planned_threshold: float | None = None

    certified: Literal[False] = field(default=False, init=False)


Certification = Certificate | Refusal
