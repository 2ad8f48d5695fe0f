"""Route for the audit trail."""

from datetime import datetime
from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field, JsonValue

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, listed
from setwise.service.api.schemas import AnswerBody, Listed, Paged
from setwise.service.domain import audit_trail as domain
from setwise.service.domain.audit_trail import EventFilter
from setwise.service.requests import Example, Instant

router = APIRouter(prefix="/v1/admin", tags=["access"], route_class=StrictRoute)

_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"
_EVENT: Example = {
    "id": _ID,
    "at": "2026-11-21T09:00:00Z",
    "actor": {"id": _ID, "name": "Ann Lee"},
    "action": "review.completed",
    "subject": _ID,
    "address": "192.0.2.7",
    "request_id": _ID,
    "detail": {"version": 3, "agreed": True},
}


class Actor(AnswerBody):
    """A person, a key, `system` for the service itself, or `anonymous`."""

    id: str
    name: str


class AuditEvent(AnswerBody):
    """A line of the audit trail."""

    examples = (_EVENT,)

    id: str
    at: datetime
    actor: Actor
    action: str
    subject: str = Field(description="Id or version of the thing that was changed.")
    address: str | None = Field(description="Network address that the request came from.")
    request_id: str | None
    detail: dict[str, JsonValue]

    @classmethod
    def of(cls, event: domain.Event) -> Self:
        """Return the body for an event."""
        return cls(
            id=event.id,
            at=event.at,
            actor=Actor(id=event.actor_id, name=event.actor_name),
            action=event.action,
            subject=event.subject,
            address=event.address,
            request_id=event.request_id,
            detail=dict(event.detail),
        )


class AuditPage(Listed[AuditEvent]):
    """One page of the audit trail, newest first."""


class AuditQuery(Paged):
    """Which events to list."""

    actor_id: str | None = Field(None, max_length=100)
    action: str | None = Field(
        None, max_length=100, description="Such as `review.completed`, or `review.` for all."
    )
    subject: str | None = Field(None, max_length=200)
    since: Instant | None = Field(None, description="RFC 3339, included.")
    before: Instant | None = Field(None, description="RFC 3339, excluded.")


@router.get("/audit", response_model=AuditPage)
def list_events(caller: CallerOf, query: Annotated[AuditQuery, Query()], edge: EdgeOf) -> Response:
    """List events, newest first: who changed what, when and from where."""
    filters = EventFilter(**query.model_dump(exclude={"cursor", "limit"}))
    read = partial(edge.services.audit_trail.page, caller, filters)
    return listed(edge, query, f"audit?{query.filters()}", read, AuditEvent.of)
