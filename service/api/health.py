"""Routes for liveness, readiness and Prometheus metrics."""

from collections.abc import Callable, Mapping
from typing import Literal

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from setwise.service.api.http.dependencies import EdgeOf, answer, caller_of
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.problem_kinds import NOT_READY
from setwise.service.api.http.problems import problem_response
from setwise.service.api.http.streams import run_soon
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import FieldFault, Forbidden, StorageUnavailable, Unauthenticated

router = APIRouter(tags=["operation"])


async def _may_scrape(request: Request, edge: EdgeOf) -> None:
    if not edge.open_metrics:
        (await caller_of(request)).require(Permission.INSPECT)


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Every part that was checked works."""

    status: Literal["ready"] = "ready"
    checks: dict[str, Literal["ok"]]


@router.get("/healthz", response_model=Health)
async def alive() -> Response:
    """Return 200 while the process is alive."""
    return answer(Health())


@router.get("/readyz", response_model=Readiness, responses=documented(NOT_READY))
async def ready(edge: EdgeOf, request: Request) -> Response:
    """Return 200 if the service can take requests, with or without a model.

    The database answers and is migrated, its encryption keys are there, no disk is full, and the
    start is over. If not, the problem names what is missing. Probes and proxies ask here, so that
    a first model can be added through them.
    """
    return await run_soon(_readiness, edge.checks, request)


@router.get("/readyz/predictions", response_model=Readiness, responses=documented(NOT_READY))
async def ready_to_predict(edge: EdgeOf, request: Request) -> Response:
    """Return 200 if, beyond `/readyz`, a model is loaded and predicts.

    If not, the problem names what is missing.
    """
    return await run_soon(_readiness, {**edge.checks, **edge.prediction_checks}, request)


def _readiness(checks: Mapping[str, Callable[[], str | None]], request: Request) -> Response:
    faults = [
        FieldFault(f"/checks/{name}", detail)
        for name, check in checks.items()
        if (detail := check()) is not None
    ]
    if not faults:
        return answer(Readiness(checks=dict.fromkeys(checks, "ok")))
    detail = " ".join(fault.detail for fault in faults)
    return problem_response(NOT_READY, detail, request.scope, faults=faults)


@router.get(
    "/metrics",
    response_class=Response,
    dependencies=[Depends(_may_scrape)],
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(Unauthenticated, Forbidden, StorageUnavailable),
    },
)
def metrics(edge: EdgeOf) -> Response:
    """Return the metrics of this process and the depth of the queue.

    If the operator has closed them, they need a key that may inspect, such as an auditor's.
    """
    return Response(edge.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})
