"""The routing policy and the models."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from setwise.service.api.bodies import StrictRoute
from setwise.service.api.dependencies import CallerOf, RequestId, VerbsOf, answer, version_in
from setwise.service.api.openapi import documented
from setwise.service.api.schemas import Model, ModelPage, Policy, PolicyRequest
from setwise.service.domain.errors import ModelDamaged, ModelNotFound, StaleVersion

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=StrictRoute)


@router.get("/policy", response_model=Policy)
def get_policy(caller: CallerOf, verbs: VerbsOf) -> Response:
    """Read the policy that every prediction is routed by."""
    policy = verbs.get_policy(caller)
    return answer(Policy.of(policy), etag=policy.version)


@router.put(
    "/policy",
    response_model=Policy,
    responses=documented(StaleVersion),
)
def change_policy(
    caller: CallerOf,
    body: PolicyRequest,
    verbs: VerbsOf,
    request_id: RequestId,
    if_match: Annotated[
        str | None,
        Header(description="The `ETag` of the policy that you mean to replace; optional."),
    ] = None,
) -> Response:
    """Replace the policy, from the next prediction on.

    Rules hold documents back whatever their confidence, with the reason `rule`; the audit trail
    names the rule.
    """
    policy = verbs.change_policy(
        caller, body.as_change(), version_in(if_match), request_id=request_id
    )
    return answer(Policy.of(policy), etag=policy.version)


@router.get("/models", response_model=ModelPage)
def list_models(caller: CallerOf, verbs: VerbsOf) -> Response:
    """List the registered models, newest first, all in one page."""
    models = [Model.of(model) for model in verbs.list_models(caller)]
    return answer(ModelPage(items=models, limit=len(models)))


@router.post(
    "/models/{model_id}/activate",
    response_model=Model,
    responses=documented(ModelNotFound, ModelDamaged),
)
def activate_model(
    caller: CallerOf, model_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Let a model serve in place of the present one.

    It is loaded first and serves in this process when the answer comes; the others follow within
    seconds, and no request is dropped. Should it fail to load, the present one goes on serving.
    """
    return answer(Model.of(verbs.activate_model(caller, model_id, request_id=request_id)))
