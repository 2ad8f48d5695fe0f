"""Webhooks, their deliveries, and the outbox for those who would rather pull."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from setwise.service.api.bodies import StrictRoute
from setwise.service.api.dependencies import (
    CallerOf,
    EdgeOf,
    RequestId,
    VerbsOf,
    answer,
    version_in,
)
from setwise.service.api.openapi import documented
from setwise.service.api.webhook_schemas import (
    Acknowledged,
    AcknowledgeRequest,
    AutoSentMessage,
    CompletedMessage,
    CorrectedMessage,
    Delivery,
    DeliveryPage,
    DeliveryQuery,
    DeliveryWithLog,
    Message,
    MessagePage,
    OutboxQuery,
    Replayed,
    TrippedMessage,
    Webhook,
    WebhookPage,
    WebhookRequest,
)
from setwise.service.domain.errors import (
    DeliveryCancelled,
    DeliveryNotFound,
    StaleVersion,
    WebhookNotFound,
)
from setwise.service.domain.webhooks import MessageType

router = APIRouter(prefix="/v1", tags=["webhooks"], route_class=StrictRoute)

_ONE_WEBHOOK = (WebhookNotFound,)

IfMatch = Annotated[
    str | None,
    Header(description="The `ETag` of the webhook that you mean to change; optional."),
]


@router.get("/admin/webhooks", response_model=WebhookPage)
def list_webhooks(caller: CallerOf, verbs: VerbsOf) -> Response:
    """List the webhooks, oldest first, all in one page."""
    webhooks = [Webhook.of(endpoint) for endpoint in verbs.webhooks.page(caller)]
    return answer(WebhookPage(items=webhooks, limit=len(webhooks)))


@router.post(
    "/admin/webhooks",
    status_code=201,
    response_model=Webhook,
    response_description="The webhook, with its secret, which is not shown again.",
)
def add_webhook(
    caller: CallerOf, body: WebhookRequest, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Add an address that is told of what happens from now on.

    Messages are signed as Standard Webhooks says, delivered at least once under one `webhook-id`,
    and in order for each document. What is not answered with 2xx within 15 seconds is tried ten
    times over three days; redirects are not followed; 410 disables the webhook. Names are looked
    up at each delivery, and private addresses are refused unless the server allows them.
    """
    endpoint, secret = verbs.webhooks.add(caller, body.as_change(), request_id=request_id)
    return answer(
        Webhook.of(endpoint, secret),
        status=201,
        etag=endpoint.version,
        headers={"Location": f"/v1/admin/webhooks/{endpoint.id}"},
    )


@router.get(
    "/admin/webhooks/{webhook_id}", response_model=Webhook, responses=documented(*_ONE_WEBHOOK)
)
def get_webhook(caller: CallerOf, webhook_id: str, verbs: VerbsOf) -> Response:
    """Read one webhook, without its secret."""
    endpoint = verbs.webhooks.get(caller, webhook_id)
    return answer(Webhook.of(endpoint), etag=endpoint.version)


@router.put(
    "/admin/webhooks/{webhook_id}",
    response_model=Webhook,
    responses=documented(*_ONE_WEBHOOK, StaleVersion),
)
def change_webhook(
    caller: CallerOf,
    webhook_id: str,
    *,
    body: WebhookRequest,
    verbs: VerbsOf,
    request_id: RequestId,
    if_match: IfMatch = None,
) -> Response:
    """Replace everything but the secret. What was waiting goes to the new address."""
    endpoint = verbs.webhooks.change(
        caller, webhook_id, body.as_change(), _version(if_match), request_id=request_id
    )
    return answer(Webhook.of(endpoint), etag=endpoint.version)


@router.delete(
    "/admin/webhooks/{webhook_id}",
    status_code=204,
    response_description="It is deleted.",
    responses=documented(*_ONE_WEBHOOK, StaleVersion),
)
def delete_webhook(
    caller: CallerOf,
    webhook_id: str,
    *,
    verbs: VerbsOf,
    request_id: RequestId,
    if_match: IfMatch = None,
) -> Response:
    """Delete a webhook. What was on its way is cancelled; its log stays."""
    verbs.webhooks.delete(caller, webhook_id, _version(if_match), request_id=request_id)
    return Response(status_code=204)


@router.post(
    "/admin/webhooks/{webhook_id}/rotate-secret",
    response_model=Webhook,
    response_description="The webhook, with its new secret, which is not shown again.",
    responses=documented(*_ONE_WEBHOOK),
)
def rotate_secret(
    caller: CallerOf, webhook_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Replace the secret. Until `previous_secret_expires_at` messages carry both signatures."""
    endpoint, secret = verbs.webhooks.rotate_secret(caller, webhook_id, request_id=request_id)
    return answer(Webhook.of(endpoint, secret), etag=endpoint.version)


@router.post(
    "/admin/webhooks/{webhook_id}/test",
    status_code=202,
    response_model=Delivery,
    response_description="The delivery, about to be made.",
    responses=documented(*_ONE_WEBHOOK),
)
def try_webhook(
    caller: CallerOf, webhook_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Send the webhook a message of type `webhook.test`, whatever it subscribes to."""
    delivery = verbs.webhooks.try_out(caller, webhook_id, request_id=request_id)
    return answer(
        Delivery.of(delivery),
        status=202,
        headers={"Location": f"/v1/admin/deliveries/{delivery.id}"},
    )


@router.post(
    "/admin/webhooks/{webhook_id}/replay",
    response_model=Replayed,
    responses=documented(*_ONE_WEBHOOK),
)
def replay_dead(
    caller: CallerOf, webhook_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Send again everything that was given up for a webhook."""
    return answer(
        Replayed(replayed=verbs.webhooks.replay_dead(caller, webhook_id, request_id=request_id))
    )


@router.get(
    "/admin/deliveries",
    response_model=DeliveryPage,
)
def list_deliveries(
    caller: CallerOf, wanted: Annotated[DeliveryQuery, Query()], edge: EdgeOf
) -> Response:
    """List deliveries, newest first; `state=dead` are those that were given up."""
    scope = f"deliveries?{wanted.model_dump_json(exclude={'cursor', 'limit'})}"
    page = edge.verbs.webhooks.deliveries(
        caller,
        state=wanted.state,
        endpoint_id=wanted.webhook_id,
        after=edge.cursors.read(wanted.cursor, scope),
        limit=wanted.limit,
    )
    return answer(
        DeliveryPage(
            items=[Delivery.of(item) for item in page.items],
            next_cursor=edge.cursors.write(page.next_after, scope),
            limit=wanted.limit,
        )
    )


@router.get(
    "/admin/deliveries/{delivery_id}",
    response_model=DeliveryWithLog,
    responses=documented(DeliveryNotFound),
)
def get_delivery(caller: CallerOf, delivery_id: str, verbs: VerbsOf) -> Response:
    """Read one delivery, what it carries, and every attempt with its answer."""
    return answer(DeliveryWithLog.of(*verbs.webhooks.delivery(caller, delivery_id)))


@router.post(
    "/admin/deliveries/{delivery_id}/replay",
    status_code=202,
    response_model=Delivery,
    response_description="The delivery, due at once.",
    responses=documented(DeliveryNotFound, DeliveryCancelled),
)
def replay_delivery(
    caller: CallerOf, delivery_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Send one message again, whether it arrived, was given up or still waits."""
    delivery = verbs.webhooks.replay(caller, delivery_id, request_id=request_id)
    return answer(Delivery.of(delivery), status=202)


@router.get(
    "/outbox",
    response_model=MessagePage,
)
def read_outbox(
    caller: CallerOf, wanted: Annotated[OutboxQuery, Query()], edge: EdgeOf
) -> Response:
    """List what happened to your documents and you have not acknowledged, oldest first.

    For programs that pull instead of taking webhooks; neither knows of the other. Read a page,
    keep what it says, acknowledge it, and read the first page again.
    """
    scope = f"outbox?{caller.id}"
    page = edge.verbs.webhooks.outbox(
        caller, after=edge.cursors.read(wanted.cursor, scope), limit=wanted.limit
    )
    return answer(
        MessagePage(
            items=[Message.of(item) for item in page.items],
            next_cursor=edge.cursors.write(page.next_after, scope),
            limit=wanted.limit,
        )
    )


@router.post(
    "/outbox/acknowledge",
    response_model=Acknowledged,
)
def acknowledge(caller: CallerOf, body: AcknowledgeRequest, verbs: VerbsOf) -> Response:
    """Say that you have these messages, so that they are not listed again; repeat it at will."""
    return answer(Acknowledged(acknowledged=verbs.webhooks.acknowledge(caller, body.ids)))


def _version(if_match: str | None) -> int | None:
    version = version_in(if_match)
    if version is None:
        return None
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise StaleVersion(f"If-Match names {version!r}, which no webhook ever had as its ETag.")
    return int(version)


# What webhooks themselves receive; in the OpenAPI document only.
outgoing = APIRouter()
_SIGNED = {
    "webhook-id": "The same at every repetition of a message.",
    "webhook-timestamp": "Seconds since 1970; refuse messages that are minutes old.",
    "webhook-signature": "`v1,…` by each live secret, as Standard Webhooks says.",
}
_RECEIVED: dict[str, Any] = {  # Any: FastAPI's own type for parts of the OpenAPI document
    "status_code": 204,
    "response_class": Response,
    "response_description": "Any 2xx: the message arrived.",
    "responses": {
        410: {"description": "Tell this address nothing more; it is disabled."},
        "default": {"description": "Anything else: tried again later."},
    },
    "openapi_extra": {
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": meaning,
                "schema": {"type": "string"},
            }
            for name, meaning in _SIGNED.items()
        ]
    },
}


@outgoing.post(MessageType.PREDICTION_AUTO_SENT.value, **_RECEIVED)
def prediction_auto_sent(body: AutoSentMessage) -> None:
    """Tell that a label set was sent without a person. Verify the signature first."""


@outgoing.post(MessageType.REVIEW_COMPLETED.value, **_RECEIVED)
def review_completed(body: CompletedMessage) -> None:
    """Tell that a person gave a document's label set. Verify the signature first."""


@outgoing.post(MessageType.DOCUMENT_CORRECTED.value, **_RECEIVED)
def document_corrected(body: CorrectedMessage) -> None:
    """Tell that a label set that was sent is wrong, and which one is right."""


@outgoing.post(MessageType.POLICY_TRIPPED.value, **_RECEIVED)
def policy_tripped(body: TrippedMessage) -> None:
    """Tell that the breaker tripped: confident documents wait for people from now on."""
