"""The short way of predictions: the ordinary request, spared all that it does not need.

FastAPI and the middlewares take longer over a request than its prediction does, and they read a
body in the event loop, where a large one holds up everybody else. An ordinary request, which is
well-formed and comes with a key that is known already, is therefore read and answered here, to the
same effect. Every other one goes the long way, and there alone is found out and said what is wrong
with it. A refusal that comes up only later is left for the long way to put in words.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from setwise.service.api import batches, predictions
from setwise.service.api.bodies import is_at_most, read_as, receive_soon
from setwise.service.api.dependencies import Edge
from setwise.service.api.headers import RATE_HEADERS, headers_of_data
from setwise.service.api.problems import answer_to
from setwise.service.api.schemas import PredictionRequest, written_prediction
from setwise.service.domain.callers import Caller
from setwise.service.telemetry import REQUEST_ID, REQUEST_ID_HEADER, STARTED_AT, RequestLog

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

    way: "_Way"
    caller: Caller
    given_id: str
    idempotency_key: str | None


class _Ordinary(NamedTuple):
    """An ordinary request, which has a name and has been read."""

    edge: Edge
    scope: Scope
    head: _Head
    request_id: str
    body: bytes

    def accept(self) -> None:
        """Count the request, whose body is sound; raises `TooManyRequests`."""
        caller = self.head.caller
        self.scope["route"] = self.head.way.route
        self.scope["state"][RATE_HEADERS] = self.edge.limits.take(caller.id, caller.per_minute)


class _Answer(NamedTuple):
    """An answer, and the headers that not every answer has."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Way(NamedTuple):
    """How the requests of one address are answered.

    Attributes
    ----------
    route : BaseRoute
        Of the long way: its template stands for the request in logs and metrics.
    answer : callable
        Gives the answer once everything is committed; None where the body is not sound.
    """

    route: BaseRoute
    answer: Callable[[_Ordinary], Awaitable[_Answer | None]]


async def _predict(asked: _Ordinary) -> _Answer | None:
    body = read_as(PredictionRequest, asked.body)
    if body is None:
        return None
    asked.accept()
    prediction = await predictions.predicted(
        asked.edge, asked.head.caller, body, asked.request_id, asked.head.idempotency_key
    )
    location = b"location", predictions.address(prediction).encode("ascii")
    return _Answer(201, written_prediction(prediction), (location,))


async def _predict_batch(asked: _Ordinary) -> _Answer | None:
    # In threads: the body alone takes longer to read than a whole single request.
    stages = asked.edge.batches
    with bound_contextvars(request_id=asked.request_id):
        if asked.head.idempotency_key is not None:
            # Looks for each document in the database first: others must not wait for that.
            store = await run_in_threadpool(_prepared_batch, asked)
        else:
            store = await stages.prepare(partial(_prepared_batch, asked))
        return None if store is None else _Answer(200, await stages.store(store))


def _prepared_batch(asked: _Ordinary) -> Callable[[], bytes] | None:
    body = read_as(batches.BatchRequest, asked.body)
    if body is None:
        return None
    asked.accept()
    return batches.prepared(
        asked.edge, asked.head.caller, body, asked.request_id, asked.head.idempotency_key
    )


_WAYS: Mapping[str, _Way] = {
    predictions.ADDRESS: _Way(predictions.ROUTE, _predict),
    batches.ADDRESS: _Way(batches.ROUTE, _predict_batch),
}
"""The calls that have a short way."""


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
        state[REQUEST_ID] = request_id = self._log.name(head.given_id)
        try:
            read = await self._read(receive)
            body = _whole(read)
            answer = None
            if body is not None:
                asked = _Ordinary(self._edge, scope, head, request_id, body)
                answer = await head.way.answer(asked)
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
        headers = [
            (b"content-type", _JSON),
            (b"content-length", b"%d" % len(answer.body)),
            *answer.headers,
            *headers_of_data(scope, https=self._edge.https),
            (REQUEST_ID_HEADER, request_id.encode("ascii")),
        ]
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
        finally:
            self._log.ended(scope, answer.status)

    def _head(self, scope: Scope) -> _Head | None:
        """Return what the head says, None if it is not that of an ordinary request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return None
        way = _WAYS.get(scope["path"])
        if way is None:
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
            way,
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


def _whole(read: list[Message]) -> bytes | None:
    """Return the body, None unless all of it is there."""
    last = read[-1]
    if last["type"] != "http.request" or last.get("more_body", False):
        return None
    return b"".join([message.get("body", b"") for message in read])


def _from(read: list[Message], receive: Receive) -> Receive:
    """Return what gives once more what was read, before what comes after it."""
    again = iter(read)

    async def receive_again() -> Message:
        message = next(again, None)
        return await receive() if message is None else message

    return receive_again
