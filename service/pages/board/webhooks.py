"""Webhooks: addresses that are told of what happens; add, change, test, rotate, delete."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import InvalidRequest, StaleVersion
from setwise.service.domain.webhooks import (
    SUBSCRIBABLE,
    DeliveryState,
    Endpoint,
    EndpointChange,
    MessageType,
)
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/webhooks"
DELIVERIES = "/board/deliveries"

EVENTS = {
    MessageType.PREDICTION_AUTO_SENT: "a label set was sent without a person",
    MessageType.REVIEW_COMPLETED: "a person settled a document",
    MessageType.DOCUMENT_CORRECTED: "what was sent turned out to be wrong",
    MessageType.POLICY_TRIPPED: "the breaker stopped automatic sending",
}

_PLACES = {
    "/url": "url",
    "/description": "description",
    **{f"/events/{place}": "event" for place in range(len(SUBSCRIBABLE))},
}


def webhook_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the webhooks."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """List the webhooks, and offer to add one."""
        return _list(verbs, visit, Filled.of(), notice=done)

    @router.post(HERE)
    def add(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Add a webhook and show its secret, this once."""
        change = _change(form, enabled=True)
        if change is not None:
            try:
                endpoint, secret = verbs.add_webhook(
                    visit.caller, change, request_id=request_id_of(request)
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            else:
                return _made(visit, endpoint, secret, status=HTTPStatus.CREATED)
        return _list(verbs, visit, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    router.include_router(_one_webhook(verbs, visitors))
    router.include_router(_doings(verbs, visitors))
    return router


def _one_webhook(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which a webhook is looked at and changed."""
    router = APIRouter(route_class=Page)

    @router.get(f"{HERE}/{{webhook_id}}")
    def one(
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """Show one webhook."""
        return _one(verbs, visit, verbs.get_webhook(visit.caller, webhook_id), notice=done)

    @router.post(f"{HERE}/{{webhook_id}}")
    def change(
        request: Request,
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Change a webhook."""
        version = form.whole("version", 0, 10**9) or 0
        wanted = _change(form, enabled=form.ticked("enabled"))
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        if wanted is not None and not form.faults:
            try:
                verbs.change_webhook(
                    visit.caller, webhook_id, wanted, version, request_id=request_id_of(request)
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            except StaleVersion:
                form.blame("", "Somebody changed it meanwhile; look at it above and decide again.")
                status = HTTPStatus.PRECONDITION_FAILED
            else:
                return done(f"{HERE}/{webhook_id}", "webhook-changed")
        endpoint = verbs.get_webhook(visit.caller, webhook_id)
        return _one(verbs, visit, endpoint, form=form, status=status)

    return router


def _doings(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes on which something is done with a webhook as it is."""
    router = APIRouter(route_class=Page)

    @router.post(f"{HERE}/{{webhook_id}}/test")
    def test(
        request: Request,
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Send a message of no meaning, and follow it."""
        delivery = verbs.try_webhook(visit.caller, webhook_id, request_id=request_id_of(request))
        return go(f"{DELIVERIES}/{delivery.id}")

    @router.get(f"{HERE}/{{webhook_id}}/{{action}}")
    def ask(
        webhook_id: str,
        action: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))],
    ) -> Response:
        """Say what rotating, deleting or replaying does, and ask."""
        endpoint = verbs.get_webhook(visit.caller, webhook_id)
        question = _questions(endpoint).get(action)
        return go(f"{HERE}/{endpoint.id}") if question is None else question.ask(visit, HERE)

    @router.post(f"{HERE}/{{webhook_id}}/rotate")
    def rotate(
        request: Request,
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Replace the secret and show the new one, this once."""
        endpoint, secret = verbs.rotate_secret(
            visit.caller, webhook_id, request_id=request_id_of(request)
        )
        return _made(visit, endpoint, secret)

    @router.post(f"{HERE}/{{webhook_id}}/delete")
    def delete(
        request: Request,
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Delete a webhook."""
        verbs.delete_webhook(visit.caller, webhook_id, request_id=request_id_of(request))
        return done(HERE, "webhook-deleted")

    @router.post(f"{HERE}/{{webhook_id}}/replay")
    def replay(
        request: Request,
        webhook_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Send again everything that was given up."""
        verbs.replay_dead(visit.caller, webhook_id, request_id=request_id_of(request))
        return done(f"{HERE}/{webhook_id}", "dead-replayed")

    return router


def _list(
    verbs: Verbs,
    visit: Visit,
    form: Filled,
    *,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    endpoints = verbs.list_webhooks(visit.caller)
    values = {
        "endpoints": endpoints,
        "dead": {one.id: _some_dead(verbs, visit, one.id) for one in endpoints},
        "form": form,
        "events": _events(),
    }
    return framed(
        "board_webhooks.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _one(
    verbs: Verbs,
    visit: Visit,
    endpoint: Endpoint,
    *,
    form: Filled | None = None,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    typed = {
        "url": endpoint.url,
        "description": endpoint.description,
        "event": [kind.value for kind in endpoint.events],
        "version": str(endpoint.version),
        **({"enabled": "yes"} if endpoint.enabled else {}),
    }
    values = {
        "endpoint": endpoint,
        "form": form or Filled.of(**typed),
        "events": _events(),
        "dead": _some_dead(verbs, visit, endpoint.id),
    }
    return framed(
        "board_webhook.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _some_dead(verbs: Verbs, visit: Visit, webhook_id: str) -> bool:
    page = verbs.list_deliveries(
        visit.caller, state=DeliveryState.DEAD, endpoint_id=webhook_id, limit=1
    )
    return bool(page.items)


def _made(
    visit: Visit, endpoint: Endpoint, secret: str, *, status: HTTPStatus = HTTPStatus.OK
) -> Response:
    values = {"endpoint": endpoint, "secret": secret}
    return framed("board_webhook_made.html", values, visit=visit, section=HERE, status=status)


def _events() -> list[tuple[str, str, str]]:
    return [(kind.value, kind.value, f"When {EVENTS[kind]}.") for kind in SUBSCRIBABLE]


def _change(form: Filled, *, enabled: bool) -> EndpointChange | None:
    known = {kind.value for kind in SUBSCRIBABLE}
    ticked = form.all("event")
    if not set(ticked) <= known:
        form.blame("event", "One of them is unknown; reload the page.")
        return None
    return EndpointChange(
        form.text("url"), form.text("description"), [MessageType(one) for one in ticked], enabled
    )


def _questions(endpoint: Endpoint) -> dict[str, Question]:
    here = f"{HERE}/{endpoint.id}"
    return {
        "rotate": Question(
            heading="Replace the secret?",
            will=(
                "A new secret is made and shown once; give it to the receiver.",
                "For a while messages carry both signatures, so that nothing is refused meanwhile.",
            ),
            answer="Replace it",
            address=f"{here}/rotate",
            back=here,
            dangerous=False,
        ),
        "delete": Question(
            heading="Delete this webhook?",
            will=(
                f"{endpoint.url} is told nothing more.",
                "What is on its way to it is cancelled and cannot be sent again.",
                "Its log stays.",
            ),
            answer="Delete it",
            address=f"{here}/delete",
            back=here,
        ),
        "replay": Question(
            heading="Send again what was given up?",
            will=(
                f"Every message that was given up is sent to {endpoint.url} again, in order.",
                "Receivers know a repeated message by its webhook-id.",
            ),
            answer="Send it again",
            address=f"{here}/replay",
            back=here,
            dangerous=False,
        ),
    }
