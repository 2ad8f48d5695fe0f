"""Registered models, the one that serves, and candidates compared with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Decision, Prediction, Reason, ScoredSet
from setwise.shown import Probability, Shown


@dataclass(frozen=True)
class ModelVersion:
    """A registered artifact."""

    id: str
    version: str
    """Digest of its content; predictions carry it."""
    location: str
    """Path of the artifact, relative to the artifact store."""
    summary: Mapping[str, object]
    """When it was made, its kind, method, size and validation metrics. A model of kind `external`
    reads another model's answers; others read `text` or `vectors`.
    """
    active: bool
    """Whether the model serves."""
    created_at: datetime

    @property
    def without_history(self) -> bool:
        """Whether it was started without training documents, so that only reviews teach it."""
        return self.summary.get("method") == "external"

    @property
    def made_at(self) -> datetime | None:
        """When the artifact was made; None if it does not say."""
        created_at = self.summary.get("created_at")
        try:
            instant = datetime.fromisoformat(created_at) if isinstance(created_at, str) else None
        except ValueError:
            return None
        return instant if instant is not None and instant.tzinfo is not None else None


@dataclass(frozen=True)
class CertificationCandidate:
    """A model to certify although another one may serve."""

    model_id: str
    trained_on_audits: bool = True
    """Whether audits may have taught it; False is an administrator's statement."""

    def since(self, model: ModelVersion) -> datetime | None:
        """Return when documents must have arrived to count; None for any time.

        Raises `InvalidRequest` if the artifact does not say when it was made.
        """
        if not self.trained_on_audits:
            return None
        made_at = model.made_at
        if made_at is None:
            detail = "has to be stated: the artifact does not say when it was made"
            raise InvalidRequest(
                "The artifact does not say when it was made, so nothing shows which documents it "
                "was trained on. If no audit taught the model, state so.",
                [FieldFault("/trained_on_audits", detail)],
            )
        return made_at


@dataclass(frozen=True)
class ComparedAnswer:
    """A candidate's answer compared with the stored prediction."""

    id: str
    model_id: str
    """The candidate."""
    prediction_id: str
    labels: tuple[str, ...]
    confidence: Probability
    decision: Decision
    reason: Reason
    """Reason of the candidate's decision, by the policy that routed the prediction."""
    same_labels: bool
    same_decision: bool
    created_at: datetime


def compared(
    prediction: Prediction,
    scored: ScoredSet,
    policy: Policy,
    *,
    model_id: str,
    comparison_id: str,
    now: datetime,
) -> ComparedAnswer:
    """Return a candidate's score compared with a prediction that ``policy`` decided."""
    gate = policy.gate_of(prediction.segment)
    decision, reason = gate.decide(scored, prediction.document.metadata)
    # A document that an audit holds back would have been sent.
    sent = Decision.AUTO if prediction.reason is Reason.AUDIT else prediction.decision
    return ComparedAnswer(
        id=comparison_id,
        model_id=model_id,
        prediction_id=prediction.id,
        labels=scored.best.labels,
        confidence=scored.best.confidence,
        decision=decision,
        reason=reason,
        same_labels=prediction.scored.agrees_with(scored.best.labels) is True,
        same_decision=decision is sent,
        created_at=now,
    )


@dataclass(frozen=True)
class Shadow(Shown):
    """A period in which a candidate scores live traffic without deciding."""

    id: str
    model_id: str
    started_at: datetime
    started_by: str
    """Id of the person or key."""
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Tally:
    """Counts of a candidate's comparisons."""

    compared: int = 0
    """Documents that both models scored."""
    same_labels: int = 0
    """Documents of which both predict the same set."""
    auto_both: int = 0
    """Sent by both."""
    auto_serving: int = 0
    """Sent, but not by the candidate."""
    auto_candidate: int = 0
    """Sent by the candidate only."""
    review_both: int = 0
    """Sent by neither."""
