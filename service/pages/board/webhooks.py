"""Webhooks and deliveries: which addresses get messages, and what became of each message.

Question: did every message arrive?
"""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from markupsafe import Markup

from setwise.models.figures.numerals import plural
from setwise.service.domain.errors import WebhookNotFound
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    payload,
)
from setwise.service.pages import documents
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.pages.forms import Filled, select
from setwise.service.requests import Input
from setwise.service.requests.webhooks import WebhookRequest

WEBHOOKS = "/board/webhooks"
DELIVERIES = "/board/deliveries"
PAGE = 50

STATES = {
    DeliveryState.PENDING: "pending",
    DeliveryState.DELIVERED: "delivered",
    DeliveryState.DEAD: "failed",
    DeliveryState.CANCELLED: "cancelled",
}


class ChangedWebhook(WebhookRequest):
    """The form that changes a webhook."""

    version: Annotated[int, Input(widget="hidden")]
    url: Annotated[str, Input("Address", "Pending messages go to the new one.", "url")]


def _add(call: Call, form: WebhookRequest) -> ui.View:
    endpoint, secret = call.services.webhooks.add(call.caller, form.as_change())
    return _secret(endpoint, secret, HTTPStatus.CREATED)


def _change(call: Call, form: ChangedWebhook) -> None:
    call.services.webhooks.change(call.caller, call.id, form.as_change(), form.version)


def _test(call: Call, _: Nothing) -> str:
    return f"{DELIVERIES}/{call.services.webhooks.try_out(call.caller, call.id).id}"


def _rotate(call: Call, _: Nothing) -> ui.View:
    endpoint, secret = call.services.webhooks.rotate_secret(call.caller, call.id)
    return _secret(endpoint, secret)


def _secret(endpoint: Endpoint, secret: str, status: HTTPStatus = HTTPStatus.OK) -> ui.View:
    hint = Markup(
        "For {}. Signatures follow Standard Webhooks; every message carries <code>webhook-id</code>"
        ", <code>webhook-timestamp</code> and <code>webhook-signature</code>."
    ).format(endpoint.url)
    shown = ui.Secret(
        "Signing secret of the webhook",
        "Copy it now; it is never shown again. The receiver checks signatures with it.",
        secret,
        hint,
        f"{WEBHOOKS}/{endpoint.id}",
    )
    return ui.View("", (shown,), title="Signing secret", status=status)


def _rotate_question(call: Call) -> ui.Question:
    endpoint = call.services.webhooks.get(call.caller, call.id)
    return ui.Question(
        "Rotate the signing secret?",
        (
            "A new secret is created and shown once; give it to the receiver.",
            "For a while messages carry both signatures, so the receiver refuses none of them.",
        ),
        "Rotate",
        f"{WEBHOOKS}/{endpoint.id}",
        danger=False,
    )


def _delete_question(call: Call) -> ui.Question:
    endpoint = call.services.webhooks.get(call.caller, call.id)
    return ui.Question(
        "Delete this webhook?",
        (
            f"{endpoint.url} receives no more messages.",
            "Pending messages are cancelled and cannot be sent again.",
            "Its deliveries stay on record.",
        ),
        "Delete",
        f"{WEBHOOKS}/{endpoint.id}",
    )


def _resend_question(call: Call) -> ui.Question:
    endpoint = call.services.webhooks.get(call.caller, call.id)
    return ui.Question(
        "Resend the failed messages?",
        (
            f"Every failed message is sent to {endpoint.url} again, in order.",
            "Receivers recognise a repeated message by its webhook-id.",
        ),
        "Resend",
        f"{WEBHOOKS}/{endpoint.id}",
        danger=False,
    )


_ONE = f"{WEBHOOKS}/{{webhook_id}}"
ADD = Action(
    WEBHOOKS,
    _add,
    WebhookRequest,
    ("url", "description", "events"),
    heading="Add a webhook",
    label="Add webhook",
)
CHANGE = Action(
    _ONE,
    _change,
    ChangedWebhook,
    heading="Settings",
    label="Save changes",
    then=_ONE,
    notices={"webhook-changed": "Your changes are saved."},
)
TEST = Action(f"{_ONE}/test", _test)
ROTATE = Action(f"{_ONE}/rotate", _rotate, ask=_rotate_question)
DELETE = Action(
    f"{_ONE}/delete",
    lambda call, _: call.services.webhooks.delete(call.caller, call.id),
    ask=_delete_question,
    then=WEBHOOKS,
    notices={"webhook-deleted": "The webhook is deleted; its deliveries stay on record."},
)
RESEND_FAILED = Action(
    f"{_ONE}/replay",
    lambda call, _: call.services.webhooks.replay_dead(call.caller, call.id),
    ask=_resend_question,
    then=_ONE,
    notices={"dead-replayed": "The failed messages are due again."},
)


def _failed(call: Call, webhook_id: str) -> bool:
    deliveries = call.services.webhooks.deliveries(
        call.caller, state=DeliveryState.DEAD, endpoint_id=webhook_id, limit=1
    )
    return bool(deliveries.items)


def _deliveries_of(endpoint: Endpoint, state: DeliveryState) -> str:
    return f"{DELIVERIES}?state={state.value}&webhook={endpoint.id}"


def _state(endpoint: Endpoint) -> Markup:
    return ui.badge("on", "good") if endpoint.enabled else ui.badge("off", "bad")


def _events(endpoint: Endpoint) -> str:
    return ", ".join(endpoint.events) or "all events"


def _retrying(n: int) -> str:
    """Say how many messages wait after a failed attempt.

    >>> _retrying(1), _retrying(1200)
    ('1 message failed and is retried', '1,200 messages failed and are retried')
    """
    return f"{plural(n, 'message')} failed and {'is' if n == 1 else 'are'} retried"


def _webhooks(call: Call) -> ui.View:
    failing = call.services.webhooks.failing(call.caller)

    def state(endpoint: Endpoint) -> Markup:
        dead = _deliveries_of(endpoint, DeliveryState.DEAD)
        failed = ui.link(dead, "failed messages", "badge bad")
        n, pending = failing.get(endpoint.id, 0), _deliveries_of(endpoint, DeliveryState.PENDING)
        return ui.joined(
            _state(endpoint),
            ui.joined(" ", ui.link(pending, _retrying(n), "badge warn")) if n else "",
            "" if endpoint.enabled else ui.sub(endpoint.waits_because),
            ui.joined(" ", failed) if _failed(call, endpoint.id) else "",
        )

    columns: Sequence[ui.Column[Endpoint]] = (
        ui.Column(
            "Address",
            lambda endpoint: ui.joined(
                ui.link(f"{WEBHOOKS}/{endpoint.id}", endpoint.url), ui.sub(endpoint.description)
            ),
            "head",
        ),
        ui.Column("Events", _events),
        ui.Column("Added", lambda endpoint: endpoint.created_at),
        ui.Column("State", state),
    )
    empty = "There are no webhooks. Add the address of a program that should get messages."
    table = ui.Table("Webhooks", columns, call.services.webhooks.page(call.caller), empty)
    return ui.View(
        "Webhooks",
        (table, call.form(ADD)),
        lead="Programs that get a message when something happens. Messages are signed and arrive "
        "at least once.",
    )


def _webhooks_state(call: Call) -> SectionState:
    endpoints = call.services.webhooks.page(call.caller)
    off = sum(not endpoint.enabled for endpoint in endpoints)
    if not endpoints:
        return SectionState("None.")
    failing = call.services.webhooks.failing(call.caller)
    if n := sum(endpoint.id in failing for endpoint in endpoints):
        return SectionState(f"{len(endpoints):,}, {n:,} of them failing.", wrong=True)
    return SectionState(
        f"{len(endpoints):,}, {off:,} of them off." if off else f"{len(endpoints):,}, all on."
    )


def _webhook(call: Call) -> ui.View:
    endpoint = call.services.webhooks.get(call.caller, call.id)
    here, failed = f"{WEBHOOKS}/{endpoint.id}", _failed(call, endpoint.id)
    parts: list[ui.Piece] = []
    if not endpoint.enabled:
        parts.append(ui.text(f"It gets no messages: {endpoint.waits_because}.", "alert"))
    if n := call.services.webhooks.failing(call.caller).get(endpoint.id):
        pending = _deliveries_of(endpoint, DeliveryState.PENDING)
        shown = Markup("{}. {}").format(_retrying(n), ui.link(pending, "View them."))
        parts.append(ui.text(shown, "alert"))
    if failed:
        shown = Markup("Some messages could not be delivered. {} or {}").format(
            ui.link(_deliveries_of(endpoint, DeliveryState.DEAD), "View them"),
            ui.link(documents.address(undelivered_to=endpoint.id), "their documents"),
        )
        parts.append(ui.text(ui.joined(shown, "."), "note"))
    resend = (ui.Go("Resend failed messages", f"{here}/replay"),) if failed else ()
    parts += [
        ui.Facts(
            (
                ("Description", endpoint.description or "none"),
                ("Events", _events(endpoint)),
                ("Added", ui.instant(endpoint.created_at, zone=True)),
            )
        ),
        ui.text(ui.link(f"{DELIVERIES}?webhook={endpoint.id}", "Its deliveries")),
        ui.Buttons(
            (
                ui.Press("Send test message", f"{here}/test"),
                *resend,
                ui.Go("Rotate secret", f"{here}/rotate"),
                ui.Go("Delete", f"{here}/delete"),
            )
        ),
        call.form(
            CHANGE,
            version=str(endpoint.version),
            url=endpoint.url,
            description=endpoint.description,
            events=[kind.value for kind in endpoint.events],
            **({"enabled": "yes"} if endpoint.disabled_because is None else {}),
        ),
    ]
    return ui.View(endpoint.url, parts, title="Webhook", badge=_state(endpoint))


# Deliveries


def _resend_one_question(call: Call) -> ui.Question:
    delivery, _ = call.services.webhooks.delivery(call.caller, call.id)
    arrived = delivery.state is DeliveryState.DELIVERED
    return ui.Question(
        "Resend this message?",
        (
            f"{delivery.message.type} is sent again at once, with the same webhook-id.",
            "It was delivered before: a receiver that ignores the id processes it twice."
            if arrived
            else "If that fails, it is retried for three days.",
        ),
        "Resend",
        f"{DELIVERIES}/{delivery.id}",
        danger=False,
    )


_DELIVERY = f"{DELIVERIES}/{{delivery_id}}"
RESEND = Action(
    f"{_DELIVERY}/replay",
    lambda call, _: call.services.webhooks.replay(call.caller, call.id),
    ask=_resend_one_question,
    then=_DELIVERY,
    notices={"delivery-replayed": "The message is due again now."},
)


def _delivery_state(delivery: Delivery) -> Markup:
    match delivery.state:
        case DeliveryState.DELIVERED:
            return ui.badge("delivered", "good")
        case DeliveryState.DEAD:
            return ui.badge("failed", "bad")
        case DeliveryState.PENDING if delivery.attempt:
            return ui.badge("pending", "warn")
        case state:
            return ui.badge(STATES[state])


def _deliveries(call: Call) -> ui.View:
    endpoints = call.services.webhooks.page(call.caller)
    urls = {endpoint.id: endpoint.url for endpoint in endpoints}

    columns: Sequence[ui.Column[Delivery]] = (
        ui.Column(
            "Message",
            lambda delivery: ui.link(f"{DELIVERIES}/{delivery.id}", delivery.message.type),
            "head",
        ),
        ui.Column(
            "To", lambda delivery: urls.get(delivery.endpoint_id, "a deleted webhook"), "wrap"
        ),
        ui.Column("State", _delivery_state),
        ui.Column("Attempts", lambda delivery: delivery.attempt, "count"),
        ui.Column("Queued", lambda delivery: delivery.created_at),
        ui.Column("Next or last attempt", lambda delivery: delivery.finished_at or delivery.due_at),
    )
    state, webhook = call.query.get("state", ""), call.query.get("webhook", "")
    query = {k: v for k, v in (("state", state), ("webhook", webhook)) if v}
    deliveries = call.services.webhooks.deliveries(
        call.caller,
        state=DeliveryState(state) if state in set(DeliveryState) else None,
        endpoint_id=webhook or None,
        after=call.after,
        limit=PAGE,
    )
    empty = (
        ui.joined("No deliveries match. ", ui.link(DELIVERIES, "Show all."))
        if query
        else "Nothing has been sent to a webhook yet."
    )
    return ui.View(
        "Deliveries",
        (
            ui.Filters(
                DELIVERIES,
                {
                    "state": select("State", [("", "any state"), *STATES.items()]),
                    "webhook": select("Webhook", [("", "any webhook"), *urls.items()]),
                },
                Filled.of(**query),
            ),
            ui.Table("Deliveries", columns, deliveries.items, empty),
            ui.Pager(DELIVERIES, deliveries.next_after, query, started=call.after is None),
        ),
        lead="Every message to a webhook, with its attempts. A message that fails is retried ten "
        "times over three days.",
    )


def _answer(attempt: DeliveryAttempt) -> Markup:
    answer = attempt.answer
    shown = (
        ui.badge(str(answer.status), "good" if answer.accepted else "bad")
        if answer.status
        else ui.badge("no answer", "bad")
    )
    return ui.joined(shown, " ", (answer.error or answer.excerpt)[:200])


_ATTEMPTS: Sequence[ui.Column[DeliveryAttempt]] = (
    ui.Column("No.", lambda each: each.number, "count"),
    ui.Column("When", lambda each: each.answer.started_at),
    ui.Column("Seconds", lambda each: f"{each.answer.seconds:.2f}", "count"),
    ui.Column("Answer", _answer),
)


def _document(delivery: Delivery) -> Markup | None:
    prediction_id = delivery.message.data.get("prediction_id")
    return ui.link(documents.of_document(str(prediction_id)), "View it") if prediction_id else None


def _delivery(call: Call) -> ui.View:
    delivery, attempts = call.services.webhooks.delivery(call.caller, call.id)
    webhook: object = "a deleted webhook"
    try:
        url = call.services.webhooks.get(call.caller, delivery.endpoint_id).url
        webhook = ui.link(f"{WEBHOOKS}/{delivery.endpoint_id}", url)
    except WebhookNotFound:
        pass
    ended, due = delivery.finished_at, delivery.due_at
    resend = ui.Go("Resend", f"{DELIVERIES}/{delivery.id}/replay")
    cancelled = delivery.state is DeliveryState.CANCELLED
    being_sent = delivery.lease_expires_at is not None
    return ui.View(
        delivery.message.type,
        (
            ui.Facts(
                (
                    ("To", webhook),
                    ("Message", ui.code(delivery.message.id)),
                    ("Document", _document(delivery)),
                    ("Queued", ui.instant(delivery.created_at, zone=True)),
                    ("Ended", ui.instant(ended, zone=True) if ended else None),
                    ("Next attempt", None if ended else ui.instant(due, zone=True)),
                )
            ),
            ui.Buttons(() if cancelled else (resend,)),
            ui.heading("Attempts"),
            ui.Table("Attempts", _ATTEMPTS, attempts[::-1], "None yet; it is about to be sent."),
            ui.heading("Content"),
            ui.pre(json.dumps(payload(delivery.message), indent=2, ensure_ascii=False)),
        ),
        title="Delivery",
        badge=_delivery_state(delivery),
        live="delivery",
        settled=not (
            delivery.state is DeliveryState.PENDING and (being_sent or delivery.attempt == 0)
        ),
    )


def _deliveries_state(call: Call) -> SectionState:
    failed = call.services.webhooks.deliveries(call.caller, state=DeliveryState.DEAD, limit=1).items
    if failed:
        return SectionState("Some messages failed.", wrong=True)
    retried = sum(call.services.webhooks.failing(call.caller).values())
    return (
        SectionState(f"{_retrying(retried)}.", wrong=True)
        if retried
        else SectionState("None failed.")
    )


PAGES = (
    BoardPage(
        WEBHOOKS,
        _webhooks,
        (ADD,),
        name="Webhooks",
        meaning="Which programs get messages, and about what.",
        state=_webhooks_state,
    ),
    BoardPage(_ONE, _webhook, (CHANGE, TEST, ROTATE, DELETE, RESEND_FAILED), section=WEBHOOKS),
    BoardPage(
        DELIVERIES,
        _deliveries,
        name="Deliveries",
        meaning="Messages that were sent to webhooks, and those that failed.",
        state=_deliveries_state,
    ),
    BoardPage(_DELIVERY, _delivery, (RESEND,), section=DELIVERIES),
)
