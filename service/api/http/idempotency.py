"""``Idempotency-Key`` on every POST: a repeated request gets the first response."""

import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import Message

from setwise.service.api.http.dependencies import caller_of, edge_of
from setwise.service.domain.errors import IdempotencyMismatch, ServiceError, UploadTooLarge
from setwise.service.domain.text import ids_in
from setwise.service.services.all import Services

HEADER = "idempotency-key"
REPLAYED = "Idempotent-Replayed"
_KEPT_HEADERS = ("content-type", "location", "etag")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]  # Any: what FastAPI's handlers have


_Owner = TypeVar("_Owner")


def once(handle: Handler, *, reads_body: bool) -> Handler:
    """Return a handler of POST requests that honours ``Idempotency-Key``.

    The key is committed in the same transaction as the request's effect, so a crash between the
    two is impossible. The response is stored after it; `shown_once` stores it together with it.

    ``reads_body``: Whether the handler reads the body, which is then part of what a key stands for.
    """

    async def handle_once(received: Request) -> Response:
        key = received.headers.get(HEADER)
        if key is None:
            return await handle(received)
        edge, caller = edge_of(received), await caller_of(received)
        service, size = edge.services.idempotency, 0
        address = f"{received.method} {received.url.path}?".encode()
        request = service.open(caller.id, key, address + received.scope["query_string"] + b"\0")

        async def receive() -> Message:
            nonlocal size
            message = await received.receive()
            body = message.get("body", b"")
            request.digest.update(body)
            size += len(body)
            if size > edge.max_upload_bytes:
                raise UploadTooLarge(
                    f"The body has more than the {edge.max_upload_bytes} bytes allowed."
                )
            return message

        first = await run_in_threadpool(service.made_before, request)
        if first is not None:
            if reads_body:
                async for _ in Request(received.scope, receive).stream():
                    pass
            if request.digest.hexdigest() != first.request_digest:
                raise IdempotencyMismatch(
                    "This Idempotency-Key was used before for another request; use a new key."
                )
            return _replayed(await run_in_threadpool(service.response, request, first))
        with service.claiming(request):
            handled = await handle(Request(received.scope, receive))
        with suppress(ServiceError):  # the effect is stored, and its response is at hand
            written = _written(handled, received.url.path)
            await run_in_threadpool(service.finish, request, written)
        return handled

    return handle_once


def shown_once(
    services: Services,
    respond: Callable[[_Owner, str], Response],
    change: Callable[[], tuple[_Owner, str]],
) -> Response:
    """Make a change, and return the response that shows its secret.

    A request with an idempotency key stores the response with the change, so that it can be
    repeated even after a crash between the two.
    """
    with services.idempotency.showing(lambda owner, secret: _written(respond(owner, secret))):
        return respond(*change())


def _written(response: Response, path: str = "") -> bytes:
    """Return a response in bytes, with all ids that say which documents it is about."""
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    content = bytes(response.body)
    about = sorted(ids_in(path.encode()) | ids_in(content))
    return json.dumps([response.status_code, headers, about]).encode() + b"\n" + content


def _replayed(written: bytes) -> Response:
    head, _, content = written.partition(b"\n")
    status, headers, _ = json.loads(head)
    return Response(content, status, headers={**headers, REPLAYED: "true"})
