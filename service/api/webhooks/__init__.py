"""Routes for webhooks, deliveries, and the outbox of clients that poll."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import number_in
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    listed_wholly,
    needs,
)
from setwise.service.api.http.idempotency import shown_once
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import Listed, Paged, WhollyListed
from setwise.service.api.views import AnswerBody, View
from setwise.service.api.webhooks.messages import OutboxMessage, WebhookMessage
from setwise.service.domain import errors
from setwise.service.domain import webhooks as domain
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    MessageType,
    ReceiverResponse,
)
from setwise.service.requests import RequestBody
from setwise.service.requests.webhooks import WebhookRequest
from setwise.service.services.webhooks import MOST_ACKNOWLEDGED

router = APIRouter(prefix="/v1", tags=["webhooks"], route_class=StrictRoute)


class Webhook(View, of=Endpoint, shows="id url description events enabled version created_at"):
    """A webhook."""

    disabled_because: str | None = Field(
        description="`it answered 410 Gone` or `by an administrator`."
    )
    secret: str | None = Field(
        description="The signing secret, only in the response that creates it; otherwise null."
    )
    previous_secret_expires_at: datetime | None = Field(
        description="Until then messages also carry a signature by the replaced secret."
    )

    @classmethod
    def of(cls, endpoint: Endpoint, secret: str | None = None) -> Self:
        """Return the body for an endpoint."""
        ends = [old.expires_at for old in endpoint.secrets if old.expires_at is not None]
        return cls.show(
            endpoint,
            disabled_because=endpoint.waits_because,
            secret=secret,
            previous_secret_expires_at=max(ends, default=None),
        )


class WebhookPage(WhollyListed[Webhook]):
    """Every webhook, oldest first."""


class Replayed(AnswerBody):
    """How many deliveries are sent again."""

    replayed: int = Field(ge=0)


# Deliveries


class Attempt(View, of=ReceiverResponse, shows="started_at seconds status error"):
    """An attempt in the log."""

    number: int = Field(description="From 1; a replay starts at 1 again.")
    response: str = Field(description="The beginning of the response's body.")

    @classmethod
    def of(cls, attempt: DeliveryAttempt) -> Self:
        """Return the body for an attempt."""
        return cls.show(attempt.answer, number=attempt.number, response=attempt.answer.excerpt)


class DeliveryBody(View, of=Delivery, shows="id state created_at finished_at"):
    """The delivery of a message to a webhook."""

    message_id: str = Field(description="The `webhook-id` that the receiver gets.")
    type: MessageType
    webhook_id: str
    attempts: int = Field(description="Since it was queued or replayed.")
    next_attempt_at: datetime | None

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """Return the body for a delivery."""
        pending = delivery.state is DeliveryState.PENDING
        return cls.show(
            delivery,
            message_id=delivery.message.id,
            type=delivery.message.type,
            webhook_id=delivery.endpoint_id,
            attempts=delivery.attempt,
            next_attempt_at=delivery.due_at if pending else None,
        )


class DeliveryWithLog(AnswerBody):
    """A delivery with its payload and its attempts."""

    delivery: DeliveryBody
    payload: WebhookMessage
    log: list[Attempt]


class DeliveryPage(Listed[DeliveryBody]):
    """One page of deliveries, newest first."""


class DeliveryQuery(Paged):
    """Which deliveries to list."""

    state: DeliveryState | None = None
    webhook_id: str | None = Field(None, max_length=100)


# The outbox


class MessagePage(Listed[OutboxMessage]):
    """One page of messages, oldest first."""


class OutboxQuery(Paged):
    """Which messages to list."""


class AcknowledgeRequest(RequestBody):
    """Messages that you have stored."""

    ids: list[str] = Field(
        max_length=MOST_ACKNOWLEDGED, description="`id` of each message, in any order."
    )


class Acknowledged(AnswerBody):
    """How many of the messages are newly acknowledged."""

    acknowledged: int = Field(
        ge=0, description="Without ids that were acknowledged before or are not yours."
    )


# Routes


IfMatch = Annotated[
    str | None,
    Header(description="The `ETag` of the webhook that you want to change; optional."),
]


@router.get(
    "/admin/webhooks",
    response_model=WebhookPage,
    dependencies=[needs(Permission.INSPECT)],
)
def list_webhooks(caller: CallerOf, services: ServicesOf) -> Response:
    """List all webhooks, oldest first, in one page."""
    return listed_wholly(map(Webhook.of, services.webhooks.page(caller)))


@router.post(
    "/admin/webhooks",
    status_code=201,
    response_model=Webhook,
    response_description="The webhook, with its secret, which is not shown again.",
    responses=answering("ETag", "Location", status=201),
    dependencies=[needs(Permission.ADMINISTER)],
)
def add_webhook(caller: CallerOf, body: WebhookRequest, services: ServicesOf) -> Response:
    """Add a webhook, which receives messages from now on.

    Messages are signed as in Standard Webhooks, delivered at least once under the same
    `webhook-id`, and in order for each document. Without a 2xx response within 15 seconds, a
    message is retried, with ten attempts over three days. Redirects are not followed; 410 disables
    the webhook. Host names are looked up at each delivery, and private addresses are refused unless
    the server allows them.
    """

    def respond(endpoint: Endpoint, secret: str) -> Response:
        headers = {"Location": f"/v1/admin/webhooks/{endpoint.id}"}
        return _with_secret(endpoint, secret, status=201, headers=headers)

    return shown_once(services, respond, partial(services.webhooks.add, caller, body.as_change()))


@router.get(
    "/admin/webhooks/{webhook_id}",
    response_model=Webhook,
    responses=answering("ETag") | documented(errors.WebhookNotFound),
    dependencies=[needs(Permission.INSPECT)],
)
def get_webhook(caller: CallerOf, webhook_id: str, services: ServicesOf) -> Response:
    """Read one webhook, without its secret."""
    endpoint = services.webhooks.get(caller, webhook_id)
    return answer(Webhook.of(endpoint), etag=endpoint.version)


@router.put(
    "/admin/webhooks/{webhook_id}",
    response_model=Webhook,
    responses=answering("ETag") | documented(errors.WebhookNotFound, errors.StaleVersion),
    dependencies=[needs(Permission.ADMINISTER)],
)
def change_webhook(
    caller: CallerOf,
    webhook_id: str,
    *,
    body: WebhookRequest,
    services: ServicesOf,
    if_match: IfMatch = None,
) -> Response:
    """Replace everything but the secret. Waiting deliveries go to the new URL."""
    version = number_in(if_match, lambda: services.webhooks.get(caller, webhook_id).version)
    endpoint = services.webhooks.change(caller, webhook_id, body.as_change(), version)
    return answer(Webhook.of(endpoint), etag=endpoint.version)


@router.delete(
    "/admin/webhooks/{webhook_id}",
    status_code=204,
    response_description="The webhook is deleted.",
    responses=documented(errors.WebhookNotFound, errors.StaleVersion),
    dependencies=[needs(Permission.ADMINISTER)],
)
def delete_webhook(
    caller: CallerOf, webhook_id: str, *, services: ServicesOf, if_match: IfMatch = None
) -> Response:
    """Delete a webhook. Pending deliveries are cancelled; the log stays."""
    version = number_in(if_match, lambda: services.webhooks.get(caller, webhook_id).version)
    services.webhooks.delete(caller, webhook_id, version)
    return Response(status_code=204)


@router.post(
    "/admin/webhooks/{webhook_id}/rotate-secret",
    response_model=Webhook,
    response_description="The webhook, with its new secret, which is not shown again.",
    responses=answering("ETag") | documented(errors.WebhookNotFound, errors.TooManySecrets),
    dependencies=[needs(Permission.ADMINISTER)],
)
def rotate_secret(caller: CallerOf, webhook_id: str, services: ServicesOf) -> Response:
    """Replace the secret; messages carry both signatures until `previous_secret_expires_at`."""
    rotate = partial(services.webhooks.rotate_secret, caller, webhook_id)
    return shown_once(services, _with_secret, rotate)


def _with_secret(endpoint: Endpoint, secret: str, **rest: Any) -> Response:  # noqa: ANN401 -- of `answer`
    return answer(Webhook.of(endpoint, secret), etag=endpoint.version, **rest)


@router.post(
    "/admin/webhooks/{webhook_id}/test",
    status_code=202,
    response_model=DeliveryBody,
    response_description="The delivery, due at once.",
    responses=answering("Location", status=202) | documented(errors.WebhookNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def try_webhook(caller: CallerOf, webhook_id: str, services: ServicesOf) -> Response:
    """Send a message of type `webhook.test`, regardless of the webhook's events."""
    delivery = services.webhooks.try_out(caller, webhook_id)
    return answer(
        DeliveryBody.of(delivery),
        status=202,
        headers={"Location": f"/v1/admin/deliveries/{delivery.id}"},
    )


@router.post(
    "/admin/webhooks/{webhook_id}/replay",
    response_model=Replayed,
    responses=documented(errors.WebhookNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def replay_dead(caller: CallerOf, webhook_id: str, services: ServicesOf) -> Response:
    """Send every dead delivery of a webhook again."""
    return answer(Replayed(replayed=services.webhooks.replay_dead(caller, webhook_id)))


@router.get(
    "/admin/deliveries", response_model=DeliveryPage, dependencies=[needs(Permission.INSPECT)]
)
def list_deliveries(
    caller: CallerOf, query: Annotated[DeliveryQuery, Query()], edge: EdgeOf
) -> Response:
    """List deliveries, newest first; those with `state=dead` ran out of attempts."""
    read = partial(
        edge.services.webhooks.deliveries,
        caller,
        state=query.state,
        endpoint_id=query.webhook_id,
    )
    return listed(edge, query, f"deliveries?{query.filters()}", read, DeliveryBody.of)


@router.get(
    "/admin/deliveries/{delivery_id}",
    response_model=DeliveryWithLog,
    responses=documented(errors.DeliveryNotFound, errors.BlindReviewHeld),
    dependencies=[needs(Permission.INSPECT)],
)
def get_delivery(caller: CallerOf, delivery_id: str, services: ServicesOf) -> Response:
    """Read a delivery, its payload, and every attempt with its response."""
    delivery, attempts = services.webhooks.delivery(caller, delivery_id)
    return answer(
        {
            "delivery": DeliveryBody.of(delivery),
            "payload": domain.payload(delivery.message),
            "log": [Attempt.of(attempt) for attempt in attempts],
        }
    )


@router.post(
    "/admin/deliveries/{delivery_id}/replay",
    status_code=202,
    response_model=DeliveryBody,
    response_description="The delivery, due at once.",
    responses=documented(errors.DeliveryNotFound, errors.DeliveryCancelled),
    dependencies=[needs(Permission.ADMINISTER)],
)
def replay_delivery(caller: CallerOf, delivery_id: str, services: ServicesOf) -> Response:
    """Send a delivered, dead or waiting message again."""
    delivery = services.webhooks.replay(caller, delivery_id)
    return answer(DeliveryBody.of(delivery), status=202)


def _message(message: domain.Message) -> dict[str, object]:
    return {"id": message.id, **domain.payload(message)}


@router.get("/outbox", response_model=MessagePage, dependencies=[needs(Permission.PREDICT)])
def read_outbox(caller: CallerOf, query: Annotated[OutboxQuery, Query()], edge: EdgeOf) -> Response:
    """List unacknowledged messages about your documents, oldest first.

    This is for programs that poll instead of receiving webhooks; the two are independent. Read a
    page, store its messages, acknowledge them, and read the first page again.
    """
    read = partial(edge.services.webhooks.outbox, caller)
    return listed(edge, query, f"outbox?{caller.id}", read, _message)


@router.post(
    "/outbox/acknowledge", response_model=Acknowledged, dependencies=[needs(Permission.PREDICT)]
)
def acknowledge(caller: CallerOf, body: AcknowledgeRequest, services: ServicesOf) -> Response:
    """Acknowledge messages so they are not listed again; safe to repeat."""
    return answer(Acknowledged(acknowledged=services.webhooks.acknowledge(caller, body.ids)))
