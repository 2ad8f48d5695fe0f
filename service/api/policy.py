"""Routes for the policy."""

from typing import Annotated, Self

from fastapi import APIRouter, Header, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import version_in
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import Probability
from setwise.service.api.views import AnswerBody
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import StaleVersion, VersionRequired
from setwise.service.domain.reports import Share
from setwise.service.requests.policy import PolicyBody, PolicyRequest
from setwise.service.services import segments

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=StrictRoute)


@router.get(
    "/policy",
    response_model=PolicyBody,
    responses=answering("ETag"),
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def get_policy(caller: CallerOf, services: ServicesOf) -> Response:
    """Read the policy that routes every prediction."""
    policy = services.policy.get(caller)
    return answer(PolicyBody.of(policy), etag=policy.version)


class SegmentState(AnswerBody):
    """A segment: what is in force, how it fares, what it lacks."""

    value: str
    threshold: Probability | None
    certificate_id: str | None
    tripped: bool
    documents: int = Field(ge=0, description="Among the 5,000 newest.")
    sent: int = Field(ge=0, description="That the policy in force would send of them.")
    accuracy: Share = Field(description="Of these, as far as they were checked.")
    audits: int = Field(ge=0, description="Drawn to prove a threshold.")
    next_attempt_in: int | None = Field(
        description="Audits until its next attempt; null if none will follow."
    )
    further_audits: int | None = Field(
        description="How many more audits its last attempt asked for."
    )

    @classmethod
    def of(cls, state: segments.SegmentReport) -> Self:
        """Return the body for a segment."""
        gate, newest = state.gate, state.progress.newest
        return cls(
            value=gate.segment.value,
            threshold=gate.least_confidence,
            certificate_id=gate.state.certificate_id,
            tripped=gate.tripped,
            documents=state.forecast.documents,
            sent=state.forecast.sent,
            accuracy=state.forecast.accuracy,
            audits=state.progress.audits,
            next_attempt_in=state.progress.missing,
            further_audits=None if newest is None else newest.further_audits,
        )


class SegmentStates(AnswerBody):
    """All segments, and values that are not segments."""

    items: list[SegmentState]
    unlisted: dict[str, int] = Field(
        description="Recent documents by value, for values that found no place in the policy."
    )


@router.get(
    "/policy/segments",
    response_model=SegmentStates,
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def list_segments(caller: CallerOf, services: ServicesOf) -> Response:
    """List the segments of the policy: what is in force, how they fare, what they lack."""
    states, unlisted = services.segments.states(caller)
    items = [SegmentState.of(state) for state in states]
    return answer(SegmentStates(items=items, unlisted=unlisted))


@router.put(
    "/policy",
    response_model=PolicyBody,
    responses=answering("ETag") | documented(StaleVersion, VersionRequired),
    dependencies=[needs(Permission.ADMINISTER)],
)
def change_policy(
    caller: CallerOf,
    body: PolicyRequest,
    services: ServicesOf,
    if_match: Annotated[
        str | None,
        Header(description="The `ETag` of the policy that you mean to replace. Required."),
    ] = None,
) -> Response:
    """Replace the policy, from the next prediction on.

    Rules hold documents back regardless of their confidence, with the reason `rule`; the audit
    trail names the rule.
    """
    version = version_in(if_match, lambda: services.policy.get(caller).version)
    if version is None:
        caller.require(Permission.ADMINISTER)
        raise VersionRequired("Name the version of the policy that you replace in If-Match.")
    policy = services.policy.change(caller, body.as_change(), version)
    return answer(PolicyBody.of(policy), etag=policy.version)
