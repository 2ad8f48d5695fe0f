"""The messages that webhooks receive, for the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.views import AnswerBody
from setwise.service.domain.webhooks import (
    AutoSentData,
    CompletedData,
    CorrectedData,
    MessageType,
    TestData,
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


class TestMessage(AnswerBody):
    """The message that an administrator sends to try a webhook."""

    type: Literal["webhook.test"]
    timestamp: datetime
    data: TestData


WebhookMessage = Annotated[
    AutoSentMessage | CompletedMessage | CorrectedMessage | TrippedMessage | TestMessage,
    Field(
        discriminator="type",
        description="The message as its webhook receives it. Ignore types that you do not know: "
        "later releases may add some.",
    ),
]


class _Kept(AnswerBody):
    """What the outbox adds to a message."""

    id: str = Field(description="The `webhook-id` that webhooks get.")


class OutboxAutoSent(AutoSentMessage, _Kept):
    """A label set that was sent automatically, in the outbox."""


class OutboxCompleted(CompletedMessage, _Kept):
    """A label set that a reviewer submitted, in the outbox."""


class OutboxCorrected(CorrectedMessage, _Kept):
    """A label set that replaces a wrong one, in the outbox."""


class OutboxTripped(TrippedMessage, _Kept):
    """An alarm of the breaker, in the outbox."""


class OutboxTest(TestMessage, _Kept):
    """A message that tries a webhook; the outbox lists none today."""


OutboxMessage = Annotated[
    OutboxAutoSent | OutboxCompleted | OutboxCorrected | OutboxTripped | OutboxTest,
    Field(
        discriminator="type",
        description="A message about one of your documents, as webhooks receive it. Ignore types "
        "that you do not know: later releases may add some.",
    ),
]

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
        "security": [],  # the signature is the receiver's to check
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


@router.post(MessageType.WEBHOOK_TEST.value, **_RECEIVED)
def webhook_test(body: TestMessage) -> None:
    """Report that an administrator tries the webhook. Verify the signature first."""
