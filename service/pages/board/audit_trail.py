"""The audit trail: who did what, from where, to what.

Question: who did that?
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from markupsafe import Markup

from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.audit_trail import AuditEvent, EventFilter
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import BoardPage, Call
from setwise.service.pages.forms import Filled, select, utc
from setwise.service.requests import Input

AUDIT = "/board/audit"
PAGE = 50
LONGEST_ID = 20

KINDS = (
    ("", "anything"),
    ("policy.", "the policy"),
    ("model.", "models"),
    ("calibration.", "calibrators"),
    ("breaker.", "the breaker"),
    ("key.", "keys"),
    ("person.", "people"),
    ("session.", "sessions"),
    ("review.", "reviews"),
    ("webhook.", "webhooks"),
    ("delivery.", "deliveries"),
    ("job.", "jobs"),
    ("annotator.", "annotators"),
    ("group.", "groups"),
    ("label.", "labels"),
    ("document.", "erasures"),
)


def details(event: AuditEvent) -> list[tuple[str, str]]:
    """Return the details of an event, a name and a short text each.

    >>> from datetime import UTC, datetime
    >>> details(AuditEvent("1", datetime.now(UTC), "2", "Ann", "key.created", "3",
    ...               detail={"name": "billing", "scopes": None, "audits": {"rate": 0.1}}))
    [('name', 'billing'), ('audits', '{"rate": 0.1}')]
    """
    return [
        (name.replace("_", " "), value if isinstance(value, str) else _json(value))
        for name, value in event.detail.items()
        if value is not None
    ]


DONE = {
    "annotator.placed": "moved an annotator to a group",
    "breaker.reset": "resumed sending",
    "calibration.activated": "activated a calibrator",
    "calibration.made": "trained a calibrator",
    "delivery.replayed": "sent a message again",
    "document.commented": "commented on a document",
    "document.erased": "erased a document",
    "documents.assigned": "assigned documents",
    "documents.prioritized": "changed the order of documents",
    "documents.reopened": "sent documents back to review",
    "export.read": "downloaded an export",
    "group.changed": "changed a group",
    "group.created": "created a group",
    "job.cancelled": "cancelled a job",
    "job.requested": "requested a job",
    "job.retried": "retried a job",
    "key.created": "created a key",
    "key.revoked": "revoked a key",
    "key.rotated": "replaced the secret of a key",
    "label.changed": "changed a label",
    "label.proposed": "proposed a label",
    "label.removed": "removed a label",
    "labels.added": "added labels",
    "labels.described": "replaced the descriptions of labels",
    "model.activated": "activated a model",
    "model.added": "added a model",
    "model.shadow_begun": "started a shadow run of a model",
    "model.shadow_ended": "ended a shadow run of a model",
    "outcome.reported": "reported an outcome",
    "person.changed": "changed an account",
    "person.created": "created an account",
    "person.disabled": "disabled an account",
    "person.enabled": "enabled an account",
    "person.erased": "erased an account",
    "person.invited": "invited a person",
    "person.joined": "joined",
    "person.password_changed": "changed their password",
    "person.password_refused": "gave a wrong password",
    "person.password_set": "set the password of an account",
    "policy.audits_aimed": "changed where audits are drawn",
    "policy.certified": "certified a threshold",
    "policy.changed": "changed the policy",
    "policy.not_certified": "certified no threshold",
    "policy.retested": "checked the audits of a certificate again",
    "policy.segments_listed": "listed the segments of the policy",
    "policy.tripped": "stopped sending",
    "prediction.created": "sent a document",
    "review.claimed": "took a document to review",
    "review.completed": "answered a document",
    "review.decided": "decided a document, and can undo it",
    "review.lease_expired": "returned a document whose time ran out",
    "review.postponed": "put off a document",
    "review.released": "gave a document back",
    "review.reopened": "reopened a document",
    "review.skipped": "skipped a document",
    "review.undone": "took a decision back",
    "session.begun": "signed in",
    "session.ended": "signed out",
    "session.refused": "was refused a sign-in",
    "texts.purged": "erased old texts",
    "webhook.added": "added a webhook",
    "webhook.changed": "changed a webhook",
    "webhook.deleted": "deleted a webhook",
    "webhook.disabled": "switched a webhook off",
    "webhook.emptied": "discarded the waiting messages of a webhook",
    "webhook.replayed": "sent the messages of a webhook again",
    "webhook.secret_rotated": "replaced the secret of a webhook",
    "webhook.tested": "sent a test message to a webhook",
}
"""What was done, as what follows a name."""


def done(action: str) -> str:
    """Return what was done, as what follows a name.

    >>> done("review.claimed"), done("sock.knitted_twice")
    ('took a document to review', 'sock knitted twice')
    """
    return DONE.get(action) or action.replace(".", " ").replace("_", " ")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _columns(names: Mapping[str, str]) -> Sequence[ui.Column[AuditEvent]]:
    """Return the columns; ``names`` has the names of what has an id."""

    def sentence(event: AuditEvent) -> Markup:
        subject = event.subject
        shown = subject if len(subject) < LONGEST_ID else f"…{subject[-12:]}"
        shown = names.get(subject, shown)
        link_to = Markup('<a href="{}?subject={}">{}</a>').format(AUDIT, quote(subject), shown)
        actor = Markup("<strong>{}</strong>").format(event.actor.name)
        # Who signs in does that to themselves.
        to = "" if subject == event.actor.id else ui.joined(": ", link_to)
        return ui.joined(actor, " ", done(event.action), to, detailed(event))

    def detailed(event: AuditEvent) -> Markup:
        lines = [f"{name}: {_cut(names.get(value, value))}" for name, value in details(event)]
        if not lines:
            return Markup("")
        return Markup(
            '<details class="detail"><summary>Details<span class="unseen">: {}</span></summary>{}'
            "</details>"
        ).format(event.action, "; ".join(lines))

    return (
        ui.Column("What", sentence, "head"),
        ui.Column("When (UTC)", lambda event: _to_the_second(event.at)),
        ui.Column("From", lambda event: event.address or "", "small"),
    )


def _to_the_second(at: datetime) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at:%-d %b %Y, %H:%M:%S}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:157]}..."


def _accounts(call: Call) -> Mapping[str, str]:
    """Return the names of people and keys by id, as far as the reader may know them."""
    if not call.caller.may(Permission.INSPECT):
        return {}
    people, keys = (of.all(call.caller) for of in (call.services.people, call.services.keys))
    named = {person.id: f"{person.name} (person)" for person in people}
    return named | {key.id: f"{key.name} (key)" for key in keys}


def _actors(accounts: Mapping[str, str], chosen: str) -> Sequence[tuple[str, str]]:
    named = {"": "anyone", "system": "the service itself", "anonymous": "someone not signed in"}
    named |= accounts
    return [*named.items(), *([] if chosen in named else [(chosen, chosen)])]


def _kinds(chosen: str) -> Sequence[tuple[str, str]]:
    """Return the choices; links may name a whole action."""
    return [*KINDS, *([] if chosen in dict(KINDS) else [(chosen, chosen)])]


def _trail(call: Call) -> ui.View:
    names = ("actor", "action", "subject", "since", "before")
    query = {name: text for name in names if (text := call.query.get(name, "").strip())}
    form = Filled.of(**query)
    instants = {}
    for name in ("since", "before"):
        try:
            instants[name] = utc(query[name]) if name in query else None
        except ValueError as error:
            form.blame(name, str(error))
    filters = EventFilter(
        actor_id=query.get("actor"),
        action=query.get("action"),
        subject=query.get("subject"),
        **instants,
    )
    page = call.services.audit_trail.page(call.caller, filters, after=call.after, limit=PAGE)
    labels = call.services.labels.catalogue(call.caller)
    accounts = _accounts(call)
    words = {**accounts, **{each.id: each.label for each in labels if each.id}}
    inputs = {
        "actor": select("By", _actors(accounts, query.get("actor", ""))),
        "action": select("About", _kinds(query.get("action", ""))),
        "subject": Input("Id"),
        "since": Input("From (UTC)", widget="datetime-local"),
        "before": Input("Until (UTC)", widget="datetime-local"),
    }
    empty = ui.joined(
        "No events match.", ui.joined(" ", ui.link(AUDIT, "Show all.")) if query else ""
    )
    return ui.View(
        "Audit trail",
        (
            ui.Filters(AUDIT, inputs, form),
            ui.Table("Audit trail", _columns(words), page.items, empty, kind="trail tight"),
            ui.Pager(AUDIT, page.next_after, query, started=call.after is None),
        ),
        lead="Who did what, from where, to what. Entries are only ever added.",
    )


PAGES = (
    BoardPage(
        AUDIT,
        _trail,
        name="Audit trail",
        meaning="Who did what, from where, to what.",
        needed=(Permission.READ_AUDIT_TRAIL,),
    ),
)
