"""How a model that does not serve would have answered what the serving one did."""

from dataclasses import dataclass
from datetime import datetime

from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Prediction, Reason, ScoredSet


@dataclass(frozen=True)
class Comparison:
    """A candidate's answer beside the prediction that was made.

    Attributes
    ----------
    model_id : str
        The candidate.
    labels, confidence, decision, reason
        What it would have said, routed by the policy that routed the prediction.
    same_labels, same_decision : bool
        Whether that is what was said and done.
    """

    id: str
    model_id: str
    prediction_id: str
    labels: tuple[str, ...]
    confidence: float
    decision: Decision
    reason: Reason
    same_labels: bool
    same_decision: bool
    created_at: datetime


def compared(
    prediction: Prediction,
    scored: ScoredSet,
    policy: RoutingPolicy,
    *,
    model_id: str,
    comparison_id: str,
    now: datetime,
) -> Comparison:
    """Compare a candidate's score with a prediction; ``policy`` is the one that decided it."""
    decision, reason = policy.decide(scored, prediction.document.metadata)
    # A document that an audit holds back would have been sent.
    sent = Decision.AUTO if prediction.reason is Reason.AUDIT else prediction.decision
    return Comparison(
        id=comparison_id,
        model_id=model_id,
        prediction_id=prediction.id,
        labels=scored.labels,
        confidence=scored.confidence,
        decision=decision,
        reason=reason,
        same_labels=set(scored.labels) == set(prediction.scored.labels),
        same_decision=decision is sent,
        created_at=now,
    )


@dataclass(frozen=True)
class Shadow:
    """A time in which a candidate scores live traffic without deciding."""

    id: str
    model_id: str
    started_at: datetime
    started_by: str
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Tally:
    """How a candidate compares as a whole.

    Attributes
    ----------
    compared : int
        Documents that both have scored.
    same_labels : int
        Of these, those with the same label set.
    auto_both, auto_serving, auto_candidate, review_both : int
        Documents by who would have sent them: both, one only, or neither.
    """

    compared: int = 0
    same_labels: int = 0
    auto_both: int = 0
    auto_serving: int = 0
    auto_candidate: int = 0
    review_both: int = 0
