"""Deliveries: what was sent where, with every attempt and its answer; send one again."""

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import Conflict, WebhookNotFound
from setwise.service.domain.webhooks import Delivery, DeliveryState, payload
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/deliveries"
PAGE = 50

STATES = {
    DeliveryState.PENDING: "waiting",
    DeliveryState.DELIVERED: "delivered",
    DeliveryState.DEAD: "given up",
    DeliveryState.CANCELLED: "cancelled",
}


def delivery_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the deliveries."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        state: str = "",
        webhook: str = "",
        after: str | None = None,
    ) -> Response:
        """List deliveries, newest first."""
        endpoints = verbs.list_webhooks(visit.caller)
        values = {
            "found": verbs.list_deliveries(
                visit.caller,
                state=DeliveryState(state) if state in set(DeliveryState) else None,
                endpoint_id=webhook or None,
                after=after,
                limit=PAGE,
            ),
            "urls": {one.id: one.url for one in endpoints},
            "form": Filled.of(state=state, webhook=webhook),
            "states": [("", "any state"), *((one.value, shown) for one, shown in STATES.items())],
            "webhooks": [("", "any webhook"), *((one.id, one.url) for one in endpoints)],
            "query": {k: v for k, v in (("state", state), ("webhook", webhook)) if v},
            "at_start": after is None,
        }
        return framed("board_deliveries.html", values, visit=visit, section=HERE)

    @router.get(f"{HERE}/{{delivery_id}}")
    def one(
        delivery_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """Show one delivery with its attempts."""
        return _one(verbs, visit, delivery_id, notice=done)

    @router.get(f"{HERE}/{{delivery_id}}/replay")
    def ask(
        delivery_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))],
    ) -> Response:
        """Say what sending again does, and ask."""
        delivery, _ = verbs.get_delivery(visit.caller, delivery_id)
        return _question(delivery).ask(visit, HERE)

    @router.post(f"{HERE}/{{delivery_id}}/replay")
    def replay(
        request: Request,
        delivery_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Send a message again."""
        try:
            verbs.replay_delivery(visit.caller, delivery_id, request_id=request_id_of(request))
        except Conflict as error:
            return _one(verbs, visit, delivery_id, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(f"{HERE}/{delivery_id}", "delivery-replayed")

    return router


def _one(
    verbs: Verbs,
    visit: Visit,
    delivery_id: str,
    *,
    refusal: str = "",
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    delivery, attempts = verbs.get_delivery(visit.caller, delivery_id)
    try:
        url = verbs.get_webhook(visit.caller, delivery.endpoint_id).url
    except WebhookNotFound:
        url = None
    values = {
        "delivery": delivery,
        "attempts": list(reversed(attempts)),
        "url": url,
        "body": json.dumps(payload(delivery.message), indent=2, ensure_ascii=False),
        "refusal": refusal,
        "live": delivery.state is DeliveryState.PENDING and delivery.attempt == 0,
    }
    return framed(
        "board_delivery.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _question(delivery: Delivery) -> Question:
    arrived = delivery.state is DeliveryState.DELIVERED
    return Question(
        heading="Send this message again?",
        will=(
            f"{delivery.message.type} is sent once more, at once, under the same webhook-id.",
            "It has arrived before: a receiver that does not look at the id takes it twice."
            if arrived
            else "If it fails, it is tried again over three days.",
        ),
        answer="Send it again",
        address=f"{HERE}/{delivery.id}/replay",
        back=f"{HERE}/{delivery.id}",
        dangerous=False,
    )
