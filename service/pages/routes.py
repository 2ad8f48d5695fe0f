"""Routes of pages: what a route raises becomes a page, or a problem for a script."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from setwise.service.api.http.prefix import placed
from setwise.service.api.http.problems import http_error
from setwise.service.api.http.validation import worded
from setwise.service.domain import errors
from setwise.service.domain.errors import FieldFault, ServiceError, Unauthenticated
from setwise.service.domain.text import legible, nearest, sentence
from setwise.service.pages.rendering import FOR_PROGRAMS, PLACES, compressed, go, page
from setwise.service.pages.visitors import LOGIN, SignInFirst, visitor_of

log = structlog.get_logger(__name__)

# The status and heading of a refusal; the first class that matches counts.
_REFUSALS: tuple[tuple[type[ServiceError], HTTPStatus, str], ...] = (
    (errors.ForgedRequest, HTTPStatus.FORBIDDEN, "This request did not come from this site"),
    (errors.Forbidden, HTTPStatus.FORBIDDEN, "Your role does not allow this"),
    (errors.Unauthenticated, HTTPStatus.FORBIDDEN, "Sign-in failed"),
    (
        errors.ProviderUnavailable,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Sign-in is not available right now",
    ),
    (errors.NotFound, HTTPStatus.NOT_FOUND, "Page not found"),
    (errors.StaleVersion, HTTPStatus.PRECONDITION_FAILED, "This has changed since you loaded it"),
    (errors.Conflict, HTTPStatus.CONFLICT, "This is not possible right now"),
    (errors.TooManyRequests, HTTPStatus.TOO_MANY_REQUESTS, "Too many attempts"),
    (errors.ModelLoading, HTTPStatus.SERVICE_UNAVAILABLE, "The model is being loaded"),
    (
        errors.ModelUnreadable,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The active model cannot be loaded",
    ),
    (errors.NoModel, HTTPStatus.SERVICE_UNAVAILABLE, "No model is active"),
    (errors.ModelUnavailable, HTTPStatus.SERVICE_UNAVAILABLE, "The model cannot be reached"),
    (ServiceError, HTTPStatus.UNPROCESSABLE_ENTITY, "This is not possible"),
)


class PageRoute(APIRoute):
    """A route for people at a browser: refusals become pages, or problems for scripts."""

    # Any: FastAPI's own types for a handler.
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler that FastAPI calls."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            return compressed(request, below_prefix(request, await answered(request)))

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except SignInFirst as first:
                if _is_script(request):
                    raise Unauthenticated("You are signed out. Sign in again.") from first
                return to_sign_in(first.back)
            except Exception as error:
                if _is_script(request) or isinstance(error, HTTPException):
                    raise
                return _error_page(error, request)

        return guarded


def below_prefix(request: Request, response: Response) -> Response:
    """Put the service's path before the addresses in a page, in place."""
    if response.headers.get("Content-Type", "").startswith("text/html"):
        response.body = placed(request, bytes(response.body).decode()).encode()
        response.headers["Content-Length"] = str(len(response.body))
    return response


def _is_script(request: Request) -> bool:
    destination = request.headers.get("Sec-Fetch-Dest")
    return destination == "empty" or "application/json" in request.headers.get("Accept", "")


def to_sign_in(back: str) -> Response:
    """Take the browser to the sign-in page, and afterwards to ``back``."""
    address = LOGIN if back == "/" else f"{LOGIN}?{urlencode({'next': back})}"
    return go(address)


def _unreadable(error: RequestValidationError) -> errors.InvalidRequest:
    """Return the refusal of an address or a form whose values are not what they must be."""
    faults = []
    for entry in error.errors():
        value = entry.get("input")
        shown = f", not {value[:_LONGEST_SHOWN]!r}" if isinstance(value, str) else ""
        faults.append(FieldFault("/" + "/".join(map(str, entry["loc"])), worded(entry) + shown))
    return errors.InvalidRequest("The address or the form is invalid.", faults)


_LONGEST_SHOWN = 40


def refusal(error: ServiceError, request: Request) -> Response:
    """Return the page that tells a person of a refusal, in the frame that is theirs."""
    if isinstance(error, errors.StorageUnavailable | errors.StorageDamaged):
        # Its words may name files and hosts, which are for the operator.
        log.warning("page.unavailable", reason=error.detail)
        return page("unavailable.html", status=HTTPStatus.SERVICE_UNAVAILABLE)
    status, title = next((s, t) for kind, s, t in _REFUSALS if isinstance(error, kind))
    faults = error.faults if isinstance(error, errors.InvalidRequest) else ()
    detail = " ".join(
        [error.detail, *(sentence(f"{_place(fault)} {fault.detail}") for fault in faults)]
    )
    shown = {
        "heading": title,
        "detail": detail,
        # Where the address asks for too much, the page itself may still be had.
        "without": request.url.path if faults and request.method == "GET" else None,
        "near": None,
    }
    answer = page("refused.html", shown, visit=visitor_of(request), status=status)
    if isinstance(error, errors.TooManyRequests):
        answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return answer


async def unknown_address(request: Request, error: Exception) -> Response:
    """Return a page to a browser that asks for an address that does not exist, or not for GET."""
    if "text/html" not in request.headers.get("Accept", "") or _is_script(request):
        return await http_error(request, error)
    status = HTTPStatus(getattr(error, "status_code", HTTPStatus.NOT_FOUND))
    near = nearest(request.url.path, [place.address for place in (*PLACES, *FOR_PROGRAMS)])
    shown = {
        "heading": _UNKNOWN[status],
        "detail": legible(f"The address {request.url.path} may be outdated or misspelt."),
        "without": None,
        "near": near[0] if near else None,
    }
    return below_prefix(request, page("refused.html", shown, status=status))


_UNKNOWN = {
    HTTPStatus.NOT_FOUND: "Page not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address cannot be opened",
}


def _error_page(error: Exception, request: Request) -> Response:
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
