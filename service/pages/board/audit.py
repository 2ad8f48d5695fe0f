"""The audit trail: who did what, from where, to which thing."""

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from setwise.service.domain.audit_trail import Event, EventFilter
from setwise.service.domain.callers import Permission
from setwise.service.pages.board.frame import framed
from setwise.service.pages.forms import Filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/audit"
PAGE = 50

KINDS = (
    ("", "anything"),
    ("policy.", "the policy"),
    ("model.", "models"),
    ("calibrator.", "calibrators"),
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
    ("document.", "erasures"),
)


def audit_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the route of the audit trail."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.READ_AUDIT_TRAIL))],
        *,
        actor: str = "",
        action: str = "",
        subject: str = "",
        since: str = "",
        before: str = "",
        after: str | None = None,
    ) -> Response:
        """List what was done, newest first."""
        typed = {
            "actor": actor.strip(),
            "action": action.strip(),
            "subject": subject.strip(),
            "since": since,
            "before": before,
        }
        form = Filled.of(**typed)
        wanted = EventFilter(
            actor_id=typed["actor"] or None,
            action=typed["action"] or None,
            subject=typed["subject"] or None,
            since=form.instant("since"),
            before=form.instant("before"),
        )
        values = {
            "found": verbs.audit_trail.page(visit.caller, wanted, after=after, limit=PAGE),
            "form": form,
            "actors": [("", "anybody"), *_actors(verbs, visit, typed["actor"])],
            "kinds": _kinds(typed["action"]),
            "query": {name: value for name, value in typed.items() if value},
            "at_start": after is None,
            "details": details,
        }
        return framed("board_audit.html", values, visit=visit, section=HERE)

    return router


def _actors(verbs: Verbs, visit: Visit, chosen: str) -> list[tuple[str, str]]:
    named = {"system": "the service itself", "anonymous": "somebody not signed in"}
    if visit.caller.may(Permission.INSPECT):
        named |= {one.id: f"{one.name} (person)" for one in verbs.list_people(visit.caller)}
        named |= {one.id: f"{one.name} (key)" for one in verbs.list_keys(visit.caller)}
    if chosen and chosen not in named:
        named[chosen] = chosen
    return list(named.items())


def _kinds(chosen: str) -> list[tuple[str, str]]:
    """Return what can be asked for; a whole action, as links name it, stands there too."""
    known = dict(KINDS)
    return [*KINDS, *([(chosen, chosen)] if chosen not in known else [])]


def details(event: Event) -> list[tuple[str, str]]:
    """Return what is told of an event, a name and a short text each.

    >>> from datetime import UTC, datetime
    >>> details(Event("1", datetime.now(UTC), "2", "Ann", "key.created", "3",
    ...               detail={"name": "billing", "scopes": None, "audits": {"rate": 0.1}}))
    [('name', 'billing'), ('audits', '{"rate": 0.1}')]
    """
    return [
        (name.replace("_", " "), value if isinstance(value, str) else _written(value))
        for name, value in event.detail.items()
        if value is not None
    ]


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
