"""Threads of requests, and streamed files: a few for each caller, in threads of their own.

Ordinary requests run in the framework's threads, fewer than there are connections, each with at
most one connection. What must not wait for them, such as readiness and the keys of those who send
documents, runs in others.

Whoever receives a file decides how long that takes. So a file holds neither a connection to the
database nor a thread between two of its parts, and all files together never use more than a small
share of the connections.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass

from anyio.to_thread import current_default_thread_limiter
from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import TooManyRequests

MOST_OF_A_CALLER = 4
"""Files that one key or person may receive at a time from one server process."""

RETRY_AFTER_S = 5.0

MOST_AT_ONCE = 4
"""Parts that are read at a time."""

SHARE_OF_CONNECTIONS = 4
"""Files use at most one of so many connections to the database."""


def files_at_once(connections: int) -> int:
    """Return how many parts of files are read at a time."""
    return max(1, min(MOST_AT_ONCE, connections // SHARE_OF_CONNECTIONS))


SHARE_KEPT = 4
"""One of so many connections is kept for predictions, readiness, jobs and messages."""

run_soon = asyncio.to_thread
"""Runs a short function in a thread that no ordinary request holds."""


def ordinary_threads(connections: int) -> int:
    """Return how many ordinary requests may be served at a time.

    >>> ordinary_threads(40)
    26
    """
    return max(1, connections - files_at_once(connections) - connections // SHARE_KEPT)


def limit_threads(number: int) -> None:
    """Let the event loop serve at most so many ordinary requests at a time; others wait."""
    current_default_thread_limiter().total_tokens = number


@dataclass(frozen=True)
class StreamedFile:
    """A file to send, part by part."""

    name: str
    media_type: str
    parts: Iterator[bytes]


class Streams:
    """Sends files and limits how many at a time.

    ``connections``: Most connections to the database that this process has.
    """

    def __init__(self, connections: int, *, most_of_a_caller: int = MOST_OF_A_CALLER) -> None:
        self._most_of_a_caller = most_of_a_caller
        self._callers: Counter[str] = Counter()  # used by the event loop only
        self._threads = ThreadPoolExecutor(files_at_once(connections), thread_name_prefix="streams")

    def send(self, caller: Caller, opened: Callable[[], StreamedFile]) -> Response:
        """Return a response with a file, which is opened when it is sent.

        ``opened``: Opens the file, or raises why the caller cannot have it.
        """
        return _FileResponse(self, caller, opened)

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Hold one of the caller's places; raises `TooManyRequests` if all are taken."""
        if self._callers[caller.id] >= self._most_of_a_caller:
            raise TooManyRequests(
                f"You are receiving {self._most_of_a_caller} files already. Read one to its end, "
                "or close its connection, before you ask for the next.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._callers[caller.id] += 1
        try:
            yield
        finally:
            self._callers[caller.id] -= 1
            if not self._callers[caller.id]:
                del self._callers[caller.id]

    async def parts(self, file: StreamedFile) -> AsyncIterator[bytes]:
        """Yield the parts of a file; each is read when the one before is sent."""
        context, loop = copy_context(), asyncio.get_running_loop()

        def read() -> bytes | None:
            return context.run(next, file.parts, None)

        while (part := await loop.run_in_executor(self._threads, read)) is not None:
            yield part


class _FileResponse(Response):
    def __init__(
        self, streams: Streams, caller: Caller, opened: Callable[[], StreamedFile]
    ) -> None:
        super().__init__()
        self._streams, self._caller, self._opened = streams, caller, opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(self._caller):
            file = await run_in_threadpool(self._opened)
            response = StreamingResponse(
                self._streams.parts(file),
                media_type=file.media_type,
                headers={
                    "Content-Disposition": f'attachment; filename="{file.name}"',
                    "Cache-Control": "no-store",
                },
            )
            await response(scope, receive, send)
