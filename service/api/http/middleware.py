"""The one middleware: what every request and every response has in common."""

import asyncio
import logging
import re
import time
from collections.abc import Collection
from contextlib import nullcontext

import structlog
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.api.http.callers import RATE_HEADERS
from setwise.service.api.http.conditions import has_version
from setwise.service.api.http.dependencies import Edge
from setwise.service.api.http.encodings import BodyDecoder
from setwise.service.api.http.problem_kinds import BODY_TOO_LARGE, BODY_TOO_SLOW
from setwise.service.api.http.problems import HttpFault, failure_response, problem_response
from setwise.service.api.http.streams import limit_threads
from setwise.service.tracing import describe

REQUEST_ID_HEADER = b"x-request-id"

_ACCEPTABLE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OF_CONTENT = (b"content-length", b"content-type")
_UNMATCHED = "unmatched"

_USUAL = (
    # For data, which loads nothing; pages set their own policy.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")

log = structlog.get_logger(__name__)


class EdgeMiddleware:
    """ASGI middleware around all routes.

    It gives each request an id, a log line, metrics and a span; limits and unpacks its body; adds
    the security headers that a response lacks; answers unexpected errors with a bare 500, HEAD like
    GET, and with 304 what the client has.

    ``exempt``: Paths that count and unpack their bodies themselves.
    """

    def __init__(self, app: ASGIApp, *, edge: Edge, exempt: Collection[str] = frozenset()) -> None:
        self._app = app
        self._edge = edge
        self._exempt = exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":  # the loop of all requests runs
            limit_threads(self._edge.threads)
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        exchange = _Exchange(self._edge, scope, receive, send)
        scope, spans = exchange.scope, self._edge.spans
        with spans.request(scope) if spans else nullcontext() as span:
            tokens = structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
            try:
                await exchange.serve(self._app, limited=scope["path"] not in self._exempt)
            finally:
                self._record(exchange, time.perf_counter() - started_at)
                structlog.contextvars.reset_contextvars(**tokens)
                if span is not None:
                    describe(span, scope, exchange.status)

    def _record(self, exchange: "_Exchange", elapsed_s: float) -> None:
        """Count a finished request, and log it."""
        scope = exchange.scope
        # The template, not the path, so that each route has one time series.
        route = getattr(scope.get("route"), "path", None) or _UNMATCHED
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        outcome = str(exchange.status or "aborted")
        self._edge.metrics.answered(method, route, outcome, elapsed_s)
        if not logging.getLogger(__name__).isEnabledFor(logging.INFO):
            return  # structlog would check only after building the line
        log.info(
            "request",
            method=method,
            route=route,
            # Still percent-encoded, so that no path can break a line; the query names documents.
            path=scope.get("raw_path", b"").decode("ascii", "backslashreplace")[:200],
            status=outcome,
            milliseconds=round(1_000 * elapsed_s, 2),
            request_id=exchange.request_id,
        )


class _Exchange:
    """One request and its response.

    ``status``: Of the response; 0 before it begins.
    """

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        name = headers.get("x-request-id", "")
        # Any other id could forge log lines.
        self.request_id = name if _ACCEPTABLE_REQUEST_ID.fullmatch(name) else edge.new_id()
        self._encoded = "content-encoding" in headers
        self._declared = headers.get("content-length", "0")
        self._silent = scope["method"] == "HEAD"
        self._versions = None
        if scope["method"] in {"GET", "HEAD"}:
            self._versions = headers.get("if-none-match")
            scope = {**scope, "method": "GET"}  # the server below must see the HEAD
        scope.setdefault("state", {})["request_id"] = self.request_id
        self.scope = scope
        self.status = 0
        self._edge, self._receive, self._send = edge, receive, send

    async def serve(self, app: ASGIApp, *, limited: bool) -> None:
        """Call the application; answer for it where it fails."""
        receive = self._receive
        problem = None
        if limited and not _is_at_most(self._declared, self._edge.max_body_bytes):
            problem = problem_response(BODY_TOO_LARGE, self._too_large, self.scope)
        else:
            receive = self._limited() if limited else receive
            try:
                await app(self.scope, receive, self._respond)
            except ClientDisconnect:  # no error: the line of the request says 408
                cut = "The connection ended in the middle of the body."
                problem = problem_response(BODY_TOO_SLOW, cut, self.scope)
            except Exception as error:
                log.exception("request.failed", error=type(error).__name__)
                if self.status:
                    raise  # too late for a response: the server closes the connection
                problem = failure_response(self.scope)
        if problem is not None and not self.status:
            await problem(self.scope, receive, self._respond)

    def _limited(self) -> Receive:
        """Return a function that receives the unpacked body, as far as it is not too large."""
        decoder = BodyDecoder(self.scope) if self._encoded else None
        read, complete = 0, False

        async def receive() -> Message:
            nonlocal read, complete
            if complete:  # the next message, at any time, is the end of the connection
                return await self._receive()
            message = await self._receive_soon()
            complete = not message.get("more_body", False)
            if message["type"] != "http.request":  # the client hung up
                return message
            chunk, limit = message.get("body", b""), self._edge.max_body_bytes
            body = decoder.decode(chunk, limit - read, last=complete) if decoder else chunk
            read += len(body)
            if read > limit:
                raise HttpFault(BODY_TOO_LARGE, self._too_large)
            return {**message, "body": body}

        return receive

    async def _receive_soon(self) -> Message:
        patience_s = self._edge.body_patience_s
        try:
            async with asyncio.timeout(patience_s):
                return await self._receive()
        except TimeoutError as error:
            fault = f"Nothing of the body came for {patience_s:g} s."
            raise HttpFault(BODY_TOO_SLOW, fault) from error

    @property
    def _too_large(self) -> str:
        limit = self._edge.max_body_bytes
        return f"The body has more than the {limit} bytes that this server reads."

    async def _respond(self, message: Message) -> None:
        """Send a part of the response: with all headers, and only what the client lacks."""
        if message["type"] == "http.response.start":
            self.status, headers = message["status"], self._all(message["headers"])
            message = {**message, "headers": headers}
            if self.status == 200 and self._versions is not None:
                etag = Headers(raw=headers).get("etag", "")
                if has_version(self._versions, etag):
                    rest = [each for each in headers if each[0] not in _OF_CONTENT]
                    message, self._silent = {**message, "status": 304, "headers": rest}, True
        elif self._silent and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    def _all(self, sent: Collection[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers of the response, with those that it lacks."""
        present = {name for name, _ in sent}
        usual = [*_USUAL, *self.scope["state"].get(RATE_HEADERS, ())]
        if self._edge.https or self.scope["scheme"] == "https":
            usual.append(_TLS_ONLY)
        named = (REQUEST_ID_HEADER, self.request_id.encode("ascii"))
        return [*sent, *(header for header in usual if header[0] not in present), named]


def _is_at_most(declared: str, limit: int) -> bool:
    """Return whether a declared length is a number up to ``limit``."""
    # Python refuses to read numbers of thousands of digits.
    return declared.isdecimal() and len(declared) < 16 and int(declared) <= limit
