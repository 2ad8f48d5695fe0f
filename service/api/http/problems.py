"""Errors as ``application/problem+json`` (RFC 9457)."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote

import structlog
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match
from starlette.types import Scope

from setwise.service.api.http.problem_kinds import (
    BY_HTTP_STATUS,
    INTERNAL_ERROR,
    PROBLEMS,
    UNKNOWN_ADDRESS,
    ProblemKind,
)
from setwise.service.api.http.validation import faults_of
from setwise.service.domain import errors
from setwise.service.domain.errors import MOST_FAULTS, FieldFault, InvalidRequest, ServiceError
from setwise.service.domain.text import legible, legible_pointer, nearest, question, sentence
from setwise.service.runtime.disk import FULL

MEDIA_TYPE = "application/problem+json"

_OF_A_PATH = "/:@!$&'()*+,;=~"
_VERSION = re.compile(r"v\d+", re.IGNORECASE)

log = structlog.get_logger(__name__)


class FieldProblem(BaseModel):
    """One fault in a request."""

    pointer: str = Field(
        description="JSON Pointer into the body; `/query/NAME`, `/header/NAME` or `/path/NAME` "
        "for what is not in the body.",
        examples=["/document/text"],
    )
    detail: str = Field(examples=["must say something"])


class Problem(BaseModel):
    """A fault, in the members of RFC 9457."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(description="Address that explains this kind of problem.")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="What was wrong here, and what would be right.")
    instance: str = Field(description="The address that was asked for.")
    request_id: str = Field(
        description="Names the request in the operator's log; also sent as `X-Request-Id`."
    )
    errors: list[FieldProblem] = Field(
        default_factory=list, description="Each fault of the request, where it has any."
    )


class HttpFault(HTTPException):
    """An HTTP fault of the request, found before it reaches a service."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(status_code=kind.status, detail=detail)
        self.kind = kind


def problem_response(
    kind: ProblemKind,
    detail: str,
    scope: Scope,
    *,
    faults: Sequence[FieldFault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the problem response for one fault; ``scope`` is of the request."""
    return Response(
        _problem(kind, detail, scope, faults).model_dump_json(exclude_defaults=True),
        status_code=kind.status,
        media_type=MEDIA_TYPE,
        headers={**kind.headers, **(headers or {})},
    )


def _problem(kind: ProblemKind, detail: str, scope: Scope, faults: Sequence[FieldFault]) -> Problem:
    edge = getattr(scope["app"].state, "edge", None)
    prefix = "" if edge is None else edge.prefix  # addresses are read from outside
    return Problem(
        type=f"{prefix}{kind.type}",
        title=kind.title,
        status=kind.status,
        detail=legible(detail),
        instance=legible_pointer(prefix + quote(scope["path"], safe=_OF_A_PATH)),
        request_id=_request_id(scope),
        errors=[
            FieldProblem(pointer=legible_pointer(fault.pointer), detail=legible(fault.detail))
            for fault in faults
        ],
    )


def problem_of(error: Exception, scope: Scope, *, place: Callable[[str], str]) -> Problem:
    """Return the problem of one part of a request.

    The other parts may have succeeded.

    ``place``: Converts a pointer into the part to a pointer into the whole request.
    """
    if isinstance(error, ServiceError):
        faults = error.faults if isinstance(error, InvalidRequest) else ()
        placed = [FieldFault(place(fault.pointer), fault.detail) for fault in faults]
        return _problem(_kind_of(error), error.detail, scope, placed)
    log.error("request.failed", error=type(error).__name__, exc_info=error)
    return _problem(INTERNAL_ERROR, _failure(scope), scope, ())


def _kind_of(error: ServiceError) -> ProblemKind:
    return next(PROBLEMS[ancestor] for ancestor in type(error).__mro__ if ancestor in PROBLEMS)


def failure_response(scope: Scope) -> Response:
    """Return the response to an unexpected error, which is in the log."""
    return problem_response(INTERNAL_ERROR, _failure(scope), scope)


def _failure(scope: Scope) -> str:
    return f"The service failed; the operator finds it in the log as {_request_id(scope)}."


def _request_id(scope: Scope) -> str:
    return str(scope.get("state", {}).get("request_id", "unknown"))


def install(app: FastAPI) -> None:
    """Return a problem for every fault that reaches ``app``."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(StarletteHTTPException, http_error)
    app.add_exception_handler(OSError, _system_error)


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)  # noqa: S101 -- what the handler is registered for
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    headers = (
        {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
        if isinstance(error, errors.TooManyRequests)
        else None
    )
    return problem_response(
        _kind_of(error), error.detail, request.scope, faults=faults, headers=headers
    )


async def _system_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, OSError) or error.errno not in FULL:
        raise error
    log.error("request.no_space", exc_info=error)
    full = errors.StorageFull("There is no space left for what you sent.")
    return await _service_error(request, full)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 -- as above
    document = await run_in_threadpool(request.app.openapi)  # the first time takes a second
    operations = document["paths"].get(request.scope["route"].path, {})
    operation = operations.get(request.method.lower(), {})
    entries = error.errors()
    # A body may have a fault in each of its hundred thousands of members.
    faults = faults_of(entries[:MOST_FAULTS], operation, document["components"]["schemas"])
    more = f" (and {len(entries) - 1} more)" if len(entries) > 1 else ""
    detail = sentence(
        f"{legible_pointer(faults[0].pointer) or 'The body'}: {faults[0].detail}{more}"
    )
    return problem_response(PROBLEMS[InvalidRequest], detail, request.scope, faults=faults)


async def http_error(request: Request, error: Exception) -> Response:
    """Return the problem of a fault that has a status, such as an unknown address."""
    assert isinstance(error, StarletteHTTPException)  # noqa: S101 -- as above
    status = HTTPStatus(error.status_code)
    if isinstance(error, HttpFault):
        kind, detail = error.kind, str(error.detail)
    elif status in BY_HTTP_STATUS:
        kind = BY_HTTP_STATUS[status]
        address = legible_pointer(request.url.path)
        detail = f"{request.method} {address}: {kind.title[0].lower()}{kind.title[1:]}"
        detail += await _cure(request) if kind is UNKNOWN_ADDRESS else "."
    else:
        kind = ProblemKind("", status, status.phrase, status.description)
        detail = str(error.detail)
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_allowed(request)))
    return problem_response(kind, detail, request.scope, headers=headers)


async def _cure(request: Request) -> str:
    """Return the nearest address that exists, and where all are listed, if they are anywhere."""
    if request.app.openapi_url is None:
        return "."
    document = await run_in_threadpool(request.app.openapi)
    meant = question(nearest_address(request.url.path, document["paths"]))
    return f"{meant or '.'} All are listed at /docs."


def nearest_address(path: str, templates: Iterable[str]) -> tuple[str, ...]:
    """Return the templates of addresses that ``path`` may be a misspelling of, likeliest first.

    >>> nearest_address("/v1/prediction/17/outcom", ["/v1/labels", "/v1/predictions/{id}/outcome"])
    ('/v1/predictions/{id}/outcome',)
    >>> nearest_address("/v2/models/m/ready", ["/v1/jobs/{job_id}/retry", "/readyz"])
    ()
    """
    parts = path.rstrip("/").split("/")
    filled: dict[str, str] = {}
    for template in templates:
        steps = template.split("/")
        if len(steps) == len(parts):
            pairs = list(zip(parts, steps, strict=True))
            if not all(step.startswith("{") or _alike(part, step) for part, step in pairs):
                continue  # what one step has in common with another says nothing of the rest
            steps = [part if step.startswith("{") else step for part, step in pairs]
        filled.setdefault("/".join(steps), template)
    return tuple(filled[near] for near in nearest("/".join(parts), filled))


def _alike(part: str, step: str) -> bool:
    """Return whether a step of an address may be meant for another, or both are versions."""
    both = (part, step)
    return part == step or bool(nearest(part, [step])) or all(map(_VERSION.fullmatch, both))


def _allowed(request: Request) -> set[str]:
    """Return the methods of all routes at an address; the router knows those of the first."""
    kinds = {
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        for route in request.app.router.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }
    return kinds | {"HEAD"} if "GET" in kinds else kinds
