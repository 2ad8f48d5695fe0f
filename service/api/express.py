"""The short way of `POST /v1/predictions`: the ordinary request, spared all that it does not need.

FastAPI and the middlewares take longer over a request than its prediction does. An ordinary one,
which is well-formed and comes with a key that is known already, is therefore read and answered
here, to the same effect. Every other one goes the long way, and there alone is found out and said
what is wrong with it. A refusal that comes up only later is left for the long way to put in words.
"""

import asyncio
import time
from typing import NamedTuple

from pydantic_core import from_json
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import predictions
from service.api.bodies import is_at_most, receive_soon
from service.api.dependencies import Edge
from service.api.problems import answer_to
from service.api.schemas import PredictionRequest, written_prediction
from service.domain.people import Caller
from service.security.headers import RATE_HEADERS, headers_of_data
from service.telemetry import REQUEST_ID, REQUEST_ID_HEADER, STARTED_AT, RequestLog

_REFUSAL = "setwise.refusal"
"""Name in a request's scope of the error that is left for the long way to answer."""

_SCHEME = b"Bearer "
_JSON = b"application/json"


class Refusals:
    """ASGI middleware, the innermost: gives the answers that `Express` has left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal: Exception | None = scope.get(_REFUSAL)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        response = await answer_to(Request(scope, receive), refusal)
        await response(scope, receive, send)


class _Head(NamedTuple):
    """What the head of an ordinary request says."""

    caller: Caller
    given_id: str
    idempotency_key: str | None


class Express:
    """Answers ordinary requests, and hands the others to ``app``.

    Parameters
    ----------
    app : ASGI application
        The long way, with `Refusals` as its innermost middleware.
    """

    def __init__(self, app: ASGIApp, edge: Edge) -> None:
        self._app = app
        self._edge = edge
        self._log = RequestLog(edge.metrics, edge.new_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started_at = time.perf_counter()
        head = self._head(scope)
        if head is None:
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state[STARTED_AT] = started_at
        state[REQUEST_ID] = self._log.name(head.given_id)
        try:
            read = await self._read(receive)
            body = _body(read)
            answer = None if body is None else await self._answer(scope, head, body)
        except asyncio.CancelledError:
            self._log.ended(scope, 0)
            raise
        except Exception as error:  # noqa: BLE001 -- the long way knows what each one means
            scope[_REFUSAL] = error
            await self._app(scope, receive, send)
            return
        if answer is None:
            await self._app(scope, _from(read, receive), send)
            return
        headers, written = answer
        try:
            await send({"type": "http.response.start", "status": 201, "headers": headers})
            await send({"type": "http.response.body", "body": written})
        finally:
            self._log.ended(scope, 201)

    async def _answer(
        self, scope: Scope, head: _Head, body: PredictionRequest
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return the headers and the body of the answer, once the prediction is committed."""
        scope["route"] = predictions.ROUTE
        state = scope["state"]
        state[RATE_HEADERS] = self._edge.limits.take(head.caller.id, head.caller.per_minute)
        prediction = await predictions.predicted(
            self._edge, head.caller, body, state[REQUEST_ID], head.idempotency_key
        )
        written = written_prediction(prediction)
        headers = [
            (b"content-type", _JSON),
            (b"content-length", b"%d" % len(written)),
            (b"location", predictions.address(prediction).encode("ascii")),
            *headers_of_data(scope, https=self._edge.https),
            (REQUEST_ID_HEADER, state[REQUEST_ID].encode("ascii")),
        ]
        return headers, written

    def _head(self, scope: Scope) -> _Head | None:
        """Return what the head says, None if it is not that of an ordinary request."""
        if (
            scope["type"] != "http"
            or scope["path"] != predictions.ADDRESS
            or scope["method"] != "POST"
            or scope.get("root_path")
        ):
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):  # one is there twice; which of them counts?
            return None
        authorization = headers.get(b"authorization", b"")
        if (
            not authorization.startswith(_SCHEME)
            or headers.get(b"content-type") != _JSON
            or not is_at_most(
                _text(headers.get(b"content-length", b"-")), self._edge.max_body_bytes
            )
        ):
            return None
        caller = self._edge.callers.known(_text(authorization[len(_SCHEME) :]))
        if caller is None:
            return None
        client, key = scope.get("client"), headers.get(b"idempotency-key")
        return _Head(
            caller.calling_from(client[0] if client else None),
            _text(headers.get(REQUEST_ID_HEADER, b"")),
            None if key is None else _text(key),
        )

    async def _read(self, receive: Receive) -> list[Message]:
        """Return the messages of the body, up to one that the long way must judge."""
        read, size = [], 0
        while True:
            message = await receive_soon(receive)
            read.append(message)
            size += len(message.get("body", b""))
            if not message.get("more_body", False) or size > self._edge.max_body_bytes:
                return read


def _text(header: bytes) -> str:
    return header.decode("latin-1")


def _body(read: list[Message]) -> PredictionRequest | None:
    """Return the body, None unless it is there as a whole and sound."""
    last = read[-1]
    if last["type"] != "http.request" or last.get("more_body", False):
        return None
    whole = b"".join([message.get("body", b"") for message in read])
    try:
        return PredictionRequest.model_validate(from_json(whole, allow_inf_nan=False))
    except ValueError:
        return None


def _from(read: list[Message], receive: Receive) -> Receive:
    """Return what gives once more what was read, before what comes after it."""
    again = iter(read)

    async def receive_again() -> Message:
        message = next(again, None)
        return await receive() if message is None else message

    return receive_again
