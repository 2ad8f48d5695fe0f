"""Route for the audit trail."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, listed, needs
from setwise.service.api.schemas import (
    Listed,
    Paged,
)
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.audit_trail import AuditEvent, EventFilter
from setwise.service.requests import Instant

router = APIRouter(prefix="/v1/admin", tags=["access"], route_class=StrictRoute)


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


@router.get("/audit", response_model=AuditPage, dependencies=[needs(Permission.READ_AUDIT_TRAIL)])
def list_events(caller: CallerOf, query: Annotated[AuditQuery, Query()], edge: EdgeOf) -> Response:
    """List events, newest first: who changed what, when and from where."""
    filters = EventFilter(**query.model_dump(exclude={"cursor", "limit"}))
    read = partial(edge.services.audit_trail.page, caller, filters)
    return listed(edge, query, f"audit?{query.filters()}", read)
