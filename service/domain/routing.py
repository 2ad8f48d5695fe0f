"""From a confidence to a decision."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.predictions import Decision, Reason, ScoredSet


class ThresholdMode(StrEnum):
    """Where a threshold comes from."""

    CERTIFIED = "certified"
    FIXED = "fixed"


@dataclass(frozen=True)
class RoutingPolicy:
    """The rule that every prediction is routed by; a change makes a new version.

    Attributes
    ----------
    version : str
        Identifier of this version; stored with each prediction that it decided.
    target_accuracy : float
        Share of automatically sent sets that must be right, in (0, 1).
    risk : float
        Probability, in (0, 1), that a certificate may be wrong.
    auto_send : bool
        Whether anything may be sent without a person.
    threshold_mode : ThresholdMode
        A certified threshold stands on evidence; a fixed one on the owner's word.
    threshold : float or None
        Least confidence that is sent, in [0, 1]; None while there is none, which sends nothing.
    """

    version: str
    target_accuracy: float
    risk: float
    auto_send: bool
    threshold_mode: ThresholdMode
    threshold: float | None
    created_at: datetime
    created_by: str

    def decide(self, scored: ScoredSet) -> tuple[Decision, Reason]:
        """Route one scored document.

        The same version and the same score always give the same decision.
        """
        if scored.out_of_domain:
            return Decision.REVIEW, Reason.OUT_OF_DOMAIN
        if self.threshold is None or not self.auto_send:
            return Decision.REVIEW, Reason.NO_THRESHOLD
        if scored.confidence >= self.threshold:
            return Decision.AUTO, Reason.ABOVE_THRESHOLD
        return Decision.REVIEW, Reason.BELOW_THRESHOLD
