"""The audit trail: who did what, from where, to what.

Question: who did that?
"""

import json
from collections.abc import Mapping, Sequence
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


def said(action: str) -> str:
    """Return what was done in words.

    >>> said("review.lease_expired")
    'Review lease expired'
    """
    return action.replace(".", " ").replace("_", " ").capitalize()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _columns(names: Mapping[str, str]) -> Sequence[ui.Column[AuditEvent]]:
    """Return the columns; ``names`` has the names of what has an id."""

    def what(event: AuditEvent) -> Markup:
        subject = event.subject
        shown = subject if len(subject) < LONGEST_ID else f"…{subject[-12:]}"
        shown = names.get(subject, shown)
        link_to = Markup('<a href="{}?subject={}">{}</a>').format(AUDIT, quote(subject), shown)
        return ui.joined(said(event.action), ui.sub(link_to))

    def detailed(event: AuditEvent) -> str:
        return "; ".join(
            f"{name}: {_cut(names.get(value, value))}" for name, value in details(event)
        )

    return (
        ui.Column(
            "When", lambda event: ui.joined(ui.instant(event.at), ui.sub(f"{event.at:%S} s"))
        ),
        ui.Column("Who", lambda event: ui.joined(event.actor.name, ui.sub(event.address))),
        ui.Column("What", what, "head"),
        ui.Column("Details", detailed, "small"),
    )


def _cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:157]}..."


def _actors(call: Call, chosen: str) -> Sequence[tuple[str, str]]:
    named = {"": "anyone", "system": "the service itself", "anonymous": "someone not signed in"}
    if call.caller.may(Permission.INSPECT):
        named |= {
            person.id: f"{person.name} (person)" for person in call.services.people.all(call.caller)
        }
        named |= {key.id: f"{key.name} (key)" for key in call.services.keys.all(call.caller)}
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
    words = {each.id: each.label for each in labels if each.id}
    inputs = {
        "actor": select("By", _actors(call, query.get("actor", ""))),
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
            ui.Table("Audit trail", _columns(words), page.items, empty, kind="trail"),
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
