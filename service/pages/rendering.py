"""Templates, assets and refusals of the pages: whatever a route of `Page` raises becomes a page."""

import hashlib
import mimetypes
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from setwise.service.api.headers import PAGE_POLICY
from setwise.service.domain import errors
from setwise.service.domain.errors import FieldFault, ServiceError, Unauthenticated
from setwise.service.pages.compression import compressed
from setwise.service.pages.figures import numerals
from setwise.service.pages.figures.table import Figure
from setwise.service.pages.glossary import GLOSSARY
from setwise.service.pages.navigation import places_for
from setwise.service.pages.visitors import LOGIN, SignInFirst, visitor_of
from setwise.service.sign_in.sessions import Visit

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SECURITY_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    # Not no-referrer, under which browsers send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

# What a refusal is to somebody who reads pages; the first class that fits counts.
_REFUSALS: tuple[tuple[type[ServiceError], HTTPStatus, str], ...] = (
    (errors.ForgedRequest, HTTPStatus.FORBIDDEN, "This request was not sent from here"),
    (errors.Forbidden, HTTPStatus.FORBIDDEN, "Your role does not allow this"),
    (errors.Unauthenticated, HTTPStatus.FORBIDDEN, "You could not be signed in"),
    (errors.ProviderUnavailable, HTTPStatus.SERVICE_UNAVAILABLE, "Signing in is not possible now"),
    (errors.NotFound, HTTPStatus.NOT_FOUND, "There is nothing here"),
    (errors.StaleVersion, HTTPStatus.PRECONDITION_FAILED, "It has changed since you read it"),
    (errors.Conflict, HTTPStatus.CONFLICT, "This cannot be done now"),
    (errors.TooManyRequests, HTTPStatus.TOO_MANY_REQUESTS, "Too many attempts"),
    (errors.ModelUnavailable, HTTPStatus.SERVICE_UNAVAILABLE, "No model is active"),
    (ServiceError, HTTPStatus.UNPROCESSABLE_ENTITY, "This cannot be done"),
)

log = structlog.get_logger(__name__)


class Page(APIRoute):
    """A route for people at a browser: refusals become pages, or problems for scripts."""

    # Any: FastAPI's own types for a handler.
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler that FastAPI calls."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            return compressed(request, await answered(request))

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except SignInFirst as first:
                if _is_script(request):
                    raise Unauthenticated("You are signed out; sign in again.") from first
                return to_sign_in(first.back)
            except Exception as error:
                if _is_script(request) or isinstance(error, HTTPException):
                    raise
                return _told(error, request)

        return guarded


def _is_script(request: Request) -> bool:
    destination = request.headers.get("Sec-Fetch-Dest")
    return destination == "empty" or "application/json" in request.headers.get("Accept", "")


def to_sign_in(back: str) -> Response:
    """Take the browser to the sign-in page, and afterwards to ``back``."""
    address = LOGIN if back == "/" else f"{LOGIN}?{urlencode({'next': back})}"
    return go(address)


def go(address: str) -> Response:
    """Take the browser elsewhere; what it does there is a GET."""
    return RedirectResponse(
        address, HTTPStatus.SEE_OTHER, headers={**SECURITY_HEADERS, "Cache-Control": "no-store"}
    )


def _unreadable(error: RequestValidationError) -> errors.InvalidRequest:
    """Return the refusal of an address or a form whose values are not what they must be."""
    faults = []
    for entry in error.errors():
        given = entry.get("input")
        said = f", not {given[:_LONGEST_SHOWN]!r}" if isinstance(given, str) else ""
        must = _MUST.get(entry["type"], "cannot be read: {msg}").format_map(
            {"msg": entry["msg"], **entry.get("ctx", {})}
        )
        faults.append(FieldFault("/" + "/".join(map(str, entry["loc"])), must + said))
    return errors.InvalidRequest("The address, or what was sent, cannot be read.", faults)


_MUST = {
    "missing": "is missing",
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "enum": "must be {expected}",
}
_LONGEST_SHOWN = 40


def refusal(error: ServiceError, request: Request) -> Response:
    """Return the page that tells a person of a refusal, in the frame that is theirs."""
    if isinstance(error, errors.StorageUnavailable):
        # Its words may name files and hosts, which are for the operator.
        log.warning("page.unavailable", reason=error.detail)
        return page("unavailable.html", status=HTTPStatus.SERVICE_UNAVAILABLE)
    status, title = next((s, t) for kind, s, t in _REFUSALS if isinstance(error, kind))
    faults = error.faults if isinstance(error, errors.InvalidRequest) else ()
    detail = " ".join([error.detail, *(f"{_place(fault)} {fault.detail}." for fault in faults)])
    shown = {
        "heading": title,
        "detail": detail,
        # Where the address asks for too much, the page itself may still be had.
        "without": request.url.path if faults and request.method == "GET" else None,
    }
    answer = page("refused.html", shown, visit=visitor_of(request), status=status)
    if isinstance(error, errors.TooManyRequests):
        answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return answer


def _told(error: Exception, request: Request) -> Response:
    """Return the page that tells a person what went wrong."""
    if isinstance(error, RequestValidationError):
        return refusal(_unreadable(error), request)
    if isinstance(error, ServiceError):
        return refusal(error, request)
    log.error("request.failed", error=type(error).__name__, exc_info=error)
    shown = {"request_id": request.scope.get("state", {}).get("request_id", "unknown")}
    return page("failed.html", shown, status=HTTPStatus.INTERNAL_SERVER_ERROR)


def _place(fault: FieldFault) -> str:
    return fault.pointer.removeprefix("/query/")


def page(
    template: str,
    values: Mapping[str, object] | None = None,
    *,
    visit: Visit | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    """Return a page made from a template.

    Parameters
    ----------
    values : mapping
        What the template names. ``now`` is the present time unless given.
    visit : Visit or None
        Who reads it; their places, their name and a way to sign out stand in the header.
    """
    given = {"now": datetime.now(UTC), **(values or {}), "visit": visit}
    return Response(
        templates().get_template(template).render(given),
        status_code=status,
        media_type="text/html",
        headers=SECURITY_HEADERS | {"Cache-Control": "no-store"},
    )


def taken_away(figure: Figure, form: str) -> Response:
    """Return the numbers of a figure as a file.

    Raises
    ------
    NotFound
        If ``form`` is neither ``csv`` nor ``json``.
    """
    if form not in {"csv", "json"}:
        raise errors.NotFound("Numbers can be had as CSV or as JSON.")
    content, media_type = (
        (figure.as_csv(), "text/csv") if form == "csv" else (figure.as_json(), "application/json")
    )
    headers = {
        **SECURITY_HEADERS,
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="setwise-{figure.name}.{form}"',
    }
    return Response(content, media_type=media_type, headers=headers)


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    content: bytes
    media_type: str
    address: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files that pages refer to, by name."""
    folder: Traversable = files("setwise.service.pages").joinpath("static")
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    found: dict[str, Asset] = {}

    def asset(name: str) -> Asset:
        if name not in found:
            # A module names others by where they lie; browsers are told the version to take.
            content = _IMPORT.sub(
                lambda named: f'from "{asset(named[1].decode()).address}"'.encode(), contents[name]
            )
            digest = hashlib.sha256(content).hexdigest()[:12]
            media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            found[name] = Asset(content, media_type, f"/static/{name}?v={digest}")
        return found[name]

    for name in contents:
        asset(name)
    return found


_IMPORT = re.compile(rb'from "\./([\w.-]+\.js)"')


@cache
def templates() -> Environment:
    """Return the templates of the pages."""
    environment = Environment(
        loader=PackageLoader("setwise.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["share"] = numerals.share_of
    environment.filters["plain"] = numerals.plain
    environment.filters["percentage"] = numerals.percent
    environment.filters["exactly"] = numerals.exactly
    environment.filters["confidence"] = numerals.confidence
    environment.globals["static"] = lambda name: assets()[name].address
    environment.globals["places_for"] = places_for
    environment.globals["meaning_of"] = GLOSSARY.__getitem__
    return environment
