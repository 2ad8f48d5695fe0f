"""The messages that webhooks receive, for the OpenAPI document."""

from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, Response

from setwise.service.api.schemas import AnswerBody
from setwise.service.domain.webhooks import (
    AutoSentData,
    CompletedData,
    CorrectedData,
    MessageType,
    TrippedData,
)

_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"
_OTHER_ID = "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10"


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
MESSAGE = {
    "type": "prediction.auto_sent",
    "timestamp": "2026-11-21T09:00:00Z",
    "data": _AUTO_SENT,
}


class AutoSentMessage(AnswerBody):
    """The message that a label set was sent automatically."""

    examples = (MESSAGE,)

    type: Literal["prediction.auto_sent"]
    timestamp: datetime
    data: AutoSentData


class CompletedMessage(AnswerBody):
    """The message that a reviewer submitted a label set."""

    examples = (
        {
            "type": "review.completed",
            "timestamp": "2026-11-21T09:12:00Z",
            "data": {
                **_AUTO_SENT,
                "decision": "review",
                "reason": "below_threshold",
                "confidence": 0.41,
                "label_missing": False,
                "agreed": True,
                "review_id": _ID,
                "annotation_id": _OTHER_ID,
                "completed_at": "2026-11-21T09:12:00Z",
            },
        },
    )

    type: Literal["review.completed"]
    timestamp: datetime
    data: CompletedData


class CorrectedMessage(AnswerBody):
    """The message that a label set that was sent is wrong."""

    examples = (
        {
            "type": "document.corrected",
            "timestamp": "2026-12-01T09:00:00Z",
            "data": {
                **_AUTO_SENT,
                "labels": ["J18.9"],
                "label_missing": False,
                "previous_labels": ["J18.9", "R50.9"],
                "outcome_id": _ID,
                "source": "billing",
                "corrected_at": "2026-12-01T09:00:00Z",
            },
        },
    )

    type: Literal["document.corrected"]
    timestamp: datetime
    data: CorrectedData


class TrippedMessage(AnswerBody):
    """The message that the breaker tripped."""

    examples = (
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
                "segment": None,
                "evidence": {"audits": 212, "right": 190, "wrong": 22, "statistic": 5210.4},
                "tripped_at": "2026-12-01T09:00:00Z",
            },
        },
    )

    type: Literal["policy.tripped"]
    timestamp: datetime
    data: TrippedData


router = APIRouter()
_SIGNED = {
    "webhook-id": "The same for every attempt of a message.",
    "webhook-timestamp": "Seconds since 1970; reject messages that are minutes old.",
    "webhook-signature": "`v1,…` by each valid secret, as in Standard Webhooks.",
}
_RECEIVED: dict[str, Any] = {  # Any: FastAPI's own type for parts of the OpenAPI document
    "status_code": 204,
    "response_class": Response,
    "response_description": "Any 2xx: the message arrived.",
    "responses": {
        410: {"description": "The webhook is disabled."},
        "default": {"description": "Anything else: retried later."},
    },
    "openapi_extra": {
        "x-internal": True,  # generators of clients would take it for a call
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": meaning,
                "schema": {"type": "string"},
            }
            for name, meaning in _SIGNED.items()
        ],
    },
}


@router.post(MessageType.PREDICTION_AUTO_SENT.value, **_RECEIVED)
def prediction_auto_sent(body: AutoSentMessage) -> None:
    """Report a label set that was sent automatically. Verify the signature first."""


@router.post(MessageType.REVIEW_COMPLETED.value, **_RECEIVED)
def review_completed(body: CompletedMessage) -> None:
    """Report a label set that a reviewer submitted. Verify the signature first."""


@router.post(MessageType.DOCUMENT_CORRECTED.value, **_RECEIVED)
def document_corrected(body: CorrectedMessage) -> None:
    """Report that a sent label set is wrong. Verify the signature first."""


@router.post(MessageType.POLICY_TRIPPED.value, **_RECEIVED)
def policy_tripped(body: TrippedMessage) -> None:
    """Report that the breaker tripped: from now on every document waits."""
