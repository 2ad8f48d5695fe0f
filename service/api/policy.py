"""Routes for the routing policy."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.conditions import version_in
from setwise.service.api.http.dependencies import (
    CallerOf,
    ServicesOf,
    answer,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.schemas import Policy, PolicyRequest
from setwise.service.domain.callers import Permission
from setwise.service.domain.errors import StaleVersion, VersionRequired

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=StrictRoute)


@router.get("/policy", response_model=Policy, responses=answering("ETag"))
def get_policy(caller: CallerOf, services: ServicesOf) -> Response:
    """Read the policy that routes every prediction."""
    policy = services.policy.get(caller)
    return answer(Policy.of(policy), etag=policy.version)


@router.put(
    "/policy",
    response_model=Policy,
    responses=answering("ETag") | documented(StaleVersion, VersionRequired),
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
    return answer(Policy.of(policy), etag=policy.version)
