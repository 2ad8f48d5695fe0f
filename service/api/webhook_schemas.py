"""Bodies about webhooks, deliveries and the outbox, and those that webhooks themselves carry."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue

from setwise.service.api.schemas import AnswerBody, Example, Paged, Probability, RequestBody
from setwise.service.domain import webhooks as domain
from setwise.service.domain.breaker import TripCause
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.webhooks import DeliveryState, EndpointChange, MessageType
from setwise.service.services.webhooks import MOST_ACKNOWLEDGED

Subscribable = Literal[
    "prediction.auto_sent", "review.completed", "document.corrected", "policy.tripped"
]

_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"
_OTHER_ID = "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10"


def _with(*shown: Example) -> dict[str, Any]:  # Any: pydantic's own type for schema parts
    return {"examples": list(shown)}


# Webhooks


class WebhookRequest(RequestBody):
    """An address of yours that is to be told, and of what."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "url": "https://billing.example/hooks/setwise",
                "description": "billing",
                "events": ["prediction.auto_sent", "review.completed"],
            },
            {"url": "https://billing.example/hooks/setwise", "enabled": False},
        )
    )

    url: str = Field(description="An `https` address on the public internet.")
    description: str = Field("", description="For people.")
    events: list[Subscribable] = Field(
        default_factory=list, max_length=20, description="What it is told of; [] for everything."
    )
    enabled: bool = Field(
        True, description="While false its deliveries wait; then they go out in order."
    )

    def as_change(self) -> EndpointChange:
        """Return what the use case takes."""
        events = [MessageType(kind) for kind in self.events]
        return EndpointChange(self.url, self.description, events, self.enabled)


class Webhook(AnswerBody):
    """An address that is told."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "id": _ID,
                "url": "https://billing.example/hooks/setwise",
                "description": "billing",
                "events": ["prediction.auto_sent", "review.completed"],
                "enabled": True,
                "disabled_because": None,
                "secret": "whsec_bm90IHJhbmRvbSwgYXMgeW91IGNhbiBzZWU=",
                "previous_secret_expires_at": None,
                "version": 1,
                "created_at": "2026-11-21T09:00:00Z",
            }
        )
    )

    id: str
    url: str
    description: str
    events: list[MessageType]
    enabled: bool
    disabled_because: str | None = Field(description="`it answered 410 Gone`, or who disabled it.")
    secret: str | None = Field(
        description="The signing secret in the answer that makes it; null ever after."
    )
    previous_secret_expires_at: datetime | None = Field(
        description="Until then every message carries a signature by the secret before, too."
    )
    version: int = Field(description="Changes with each change; the `ETag` carries it.")
    created_at: datetime

    @classmethod
    def of(cls, endpoint: domain.Endpoint, secret: str | None = None) -> Self:
        """Describe an endpoint."""
        ends = [old.expires_at for old in endpoint.secrets if old.expires_at is not None]
        return cls(
            id=endpoint.id,
            url=endpoint.url,
            description=endpoint.description,
            events=list(endpoint.events),
            enabled=endpoint.enabled,
            disabled_because=endpoint.disabled_because,
            secret=secret,
            previous_secret_expires_at=max(ends, default=None),
            version=endpoint.version,
            created_at=endpoint.created_at,
        )


class WebhookPage(AnswerBody):
    """Every webhook, oldest first."""

    items: list[Webhook]
    next_cursor: None = None
    limit: int


class Replayed(AnswerBody):
    """How much is sent again."""

    model_config = ConfigDict(json_schema_extra=_with({"replayed": 17}))

    replayed: int = Field(ge=0)


# Deliveries


class Attempt(AnswerBody):
    """One try, as the log keeps it."""

    number: int = Field(description="From 1; a replay begins again at 1.")
    started_at: datetime
    seconds: float
    status: int | None = Field(description="HTTP status; null when no answer came.")
    response: str = Field(description="The beginning of the answer's body.")
    error: str | None = Field(description="Why no answer came.")

    @classmethod
    def of(cls, attempt: domain.Attempt) -> Self:
        """Describe a line of the log."""
        answer = attempt.answer
        return cls(
            number=attempt.number,
            started_at=answer.started_at,
            seconds=answer.seconds,
            status=answer.status,
            response=answer.excerpt,
            error=answer.error,
        )


_DELIVERY = {
    "id": _OTHER_ID,
    "message_id": _ID,
    "type": "prediction.auto_sent",
    "webhook_id": _ID,
    "state": "pending",
    "attempts": 1,
    "next_attempt_at": "2026-11-21T09:00:05Z",
    "created_at": "2026-11-21T09:00:00Z",
    "finished_at": None,
}


class Delivery(AnswerBody):
    """A message on its way to one webhook."""

    model_config = ConfigDict(json_schema_extra=_with(_DELIVERY))

    id: str
    message_id: str = Field(description="The `webhook-id` that the receiver sees.")
    type: MessageType
    webhook_id: str
    state: DeliveryState = Field(
        description="`dead` after the last attempt; `cancelled` when its webhook was deleted."
    )
    attempts: int = Field(description="Since it was queued or replayed.")
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, delivery: domain.Delivery) -> Self:
        """Describe a delivery."""
        pending = delivery.state is DeliveryState.PENDING
        return cls(
            id=delivery.id,
            message_id=delivery.message.id,
            type=delivery.message.type,
            webhook_id=delivery.endpoint_id,
            state=delivery.state,
            attempts=delivery.attempt,
            next_attempt_at=delivery.due_at if pending else None,
            created_at=delivery.created_at,
            finished_at=delivery.finished_at,
        )


class DeliveryWithLog(AnswerBody):
    """A delivery, what it carries, and every attempt."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "delivery": _DELIVERY,
                "payload": {"type": "webhook.test", "timestamp": "…", "data": {}},
                "log": [
                    {
                        "number": 1,
                        "started_at": "2026-11-21T09:00:00Z",
                        "seconds": 0.21,
                        "status": 503,
                        "response": "try later",
                        "error": None,
                    }
                ],
            }
        )
    )

    delivery: Delivery
    payload: dict[str, JsonValue]
    log: list[Attempt]

    @classmethod
    def of(cls, delivery: domain.Delivery, attempts: list[domain.Attempt]) -> Self:
        """Describe a delivery with its log."""
        return cls.model_validate(
            {
                "delivery": Delivery.of(delivery),
                "payload": domain.payload(delivery.message),
                "log": [Attempt.of(attempt) for attempt in attempts],
            }
        )


class DeliveryPage(AnswerBody):
    """One page of deliveries, newest first."""

    items: list[Delivery]
    next_cursor: str | None
    limit: int


class DeliveryQuery(Paged):
    """Which deliveries to list."""

    state: DeliveryState | None = None
    webhook_id: str | None = Field(None, max_length=100)


# Messages


class AutoSentData(AnswerBody):
    """A label set that left without a person."""

    prediction_id: str
    document_id: str | None
    client_id: str
    labels: list[str]
    confidence: Probability
    decision: Decision
    reason: Reason
    threshold: Probability | None
    model_version: str
    calibrator_version: str
    policy_version: str
    predicted_at: datetime


class CompletedData(AutoSentData):
    """A label set that a person gave; confidence and decision are the prediction's."""

    agreed: bool = Field(description="The labels are those that were predicted.")
    review_id: str
    annotation_id: str
    completed_at: datetime


_AUTO_SENT = {
    "prediction_id": _OTHER_ID,
    "document_id": "note-17",
    "client_id": _ID,
    "labels": ["J18.9", "R50.9"],
    "confidence": 0.93,
    "decision": "auto",
    "reason": "above_threshold",
    "threshold": 0.9,
    "model_version": "3f9c0b7a1d2e",
    "calibrator_version": "90ab12cd34ef",
    "policy_version": _OTHER_ID,
    "predicted_at": "2026-11-21T09:00:00Z",
}
_MESSAGE = {
    "type": "prediction.auto_sent",
    "timestamp": "2026-11-21T09:00:00Z",
    "data": _AUTO_SENT,
}


class AutoSentMessage(AnswerBody):
    """What a webhook is told when a label set was sent."""

    model_config = ConfigDict(json_schema_extra=_with(_MESSAGE))

    type: Literal["prediction.auto_sent"]
    timestamp: datetime
    data: AutoSentData


class CompletedMessage(AnswerBody):
    """What a webhook is told when a review was completed."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "type": "review.completed",
                "timestamp": "2026-11-21T09:12:00Z",
                "data": {
                    **_AUTO_SENT,
                    "decision": "review",
                    "reason": "below_threshold",
                    "confidence": 0.41,
                    "agreed": True,
                    "review_id": _ID,
                    "annotation_id": _OTHER_ID,
                    "completed_at": "2026-11-21T09:12:00Z",
                },
            }
        )
    )

    type: Literal["review.completed"]
    timestamp: datetime
    data: CompletedData


class CorrectedData(AutoSentData):
    """A label set that replaces one that was sent and is wrong."""

    previous_labels: list[str] = Field(description="What was sent before.")
    outcome_id: str | None = Field(None, description="The report that tells the truth.")
    annotation_id: str | None = Field(None, description="Or the review that does.")
    source: str = Field(
        description="Who found the fault: a report's source, `adjudication` or `audit`."
    )
    corrected_at: datetime


class CorrectedMessage(AnswerBody):
    """What a webhook is told when a label set that was sent is found wrong."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "type": "document.corrected",
                "timestamp": "2026-12-01T09:00:00Z",
                "data": {
                    **_AUTO_SENT,
                    "labels": ["J18.9"],
                    "previous_labels": ["J18.9", "R50.9"],
                    "outcome_id": _ID,
                    "source": "billing",
                    "corrected_at": "2026-12-01T09:00:00Z",
                },
            }
        )
    )

    type: Literal["document.corrected"]
    timestamp: datetime
    data: CorrectedData


class TrippedData(AnswerBody):
    """Why nothing is sent any more."""

    trip_id: str
    cause: TripCause
    policy_version: str = Field(description="The one in force now, which sends nothing.")
    replaced_policy_version: str
    target_accuracy: Probability
    model_version: str
    calibrator_version: str
    evidence: dict[str, JsonValue]
    tripped_at: datetime


class TrippedMessage(AnswerBody):
    """What a webhook is told when the breaker trips."""

    model_config = ConfigDict(
        json_schema_extra=_with(
            {
                "type": "policy.tripped",
                "timestamp": "2026-12-01T09:00:00Z",
                "data": {
                    "trip_id": _ID,
                    "cause": "drift",
                    "policy_version": _OTHER_ID,
                    "replaced_policy_version": _ID,
                    "target_accuracy": 0.95,
                    "model_version": "3f9c0b7a1d2e",
                    "calibrator_version": "90ab12cd34ef",
                    "evidence": {"audits": 212, "right": 190, "wrong": 22, "statistic": 5210.4},
                    "tripped_at": "2026-12-01T09:00:00Z",
                },
            }
        )
    )

    type: Literal["policy.tripped"]
    timestamp: datetime
    data: TrippedData


class Message(AnswerBody):
    """Something that happened to one of your documents, as webhooks are told of it."""

    model_config = ConfigDict(json_schema_extra=_with({"id": _ID, **_MESSAGE}))

    id: str = Field(description="The `webhook-id` under which webhooks get it.")
    type: MessageType = Field(description="Ignore types that you do not know; more may come.")
    timestamp: datetime
    data: dict[str, JsonValue]

    @classmethod
    def of(cls, message: domain.Message) -> Self:
        """Describe a message."""
        return cls.model_validate({"id": message.id, **domain.payload(message)})


class MessagePage(AnswerBody):
    """One page of messages, oldest first."""

    items: list[Message]
    next_cursor: str | None
    limit: int


class OutboxQuery(Paged):
    """Which messages to list."""


class AcknowledgeRequest(RequestBody):
    """Messages that you have for good."""

    model_config = ConfigDict(json_schema_extra=_with({"ids": [_ID, _OTHER_ID]}))

    ids: list[str] = Field(
        max_length=MOST_ACKNOWLEDGED, description="`id` of each message, in any order."
    )


class Acknowledged(AnswerBody):
    """How many of the messages are newly acknowledged."""

    model_config = ConfigDict(json_schema_extra=_with({"acknowledged": 2}))

    acknowledged: int = Field(
        ge=0, description="Ids that you acknowledged before, or that are not yours, do not count."
    )
