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


class AutoSentMessage(AnswerBody):
    """The message that a label set was sent automatically."""

    type: Literal["prediction.auto_sent"]
    timestamp: datetime
    data: AutoSentData


class CompletedMessage(AnswerBody):
    """The message that a reviewer submitted a label set."""

    type: Literal["review.completed"]
    timestamp: datetime
    data: CompletedData


class CorrectedMessage(AnswerBody):
    """The message that a label set that was sent is wrong."""

    type: Literal["document.corrected"]
    timestamp: datetime
    data: CorrectedData


class TrippedMessage(AnswerBody):
    """The message that the breaker tripped."""

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
