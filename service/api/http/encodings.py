"""Encodings of bodies: requests may be gzipped, and long responses are where clients read it."""

import zlib
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.api.http.problem_kinds import MALFORMED_JSON, UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.http.problems import HttpFault

_PLAIN, _GZIP = {"", "identity"}, {"gzip", "x-gzip"}

MOST_MEMBERS = 1_000
"""Parts of a gzipped body: each costs time, also if it is empty."""


class BodyDecoder:
    """Decodes a body as its Content-Encoding says, chunk by chunk.

    ``scope``: Of the request; the header is taken out, because what follows reads a plain body.
    """

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self._encoding = Headers(scope=scope).get("content-encoding", "").strip().lower()
        self._inflate = zlib.decompressobj(wbits=31)
        self._began = False
        self._members = 1
        if self._encoding in _GZIP:
            left = [item for item in scope["headers"] if item[0] != b"content-encoding"]
            scope["headers"] = left

    def decode(self, chunk: bytes, limit: int, *, last: bool) -> bytes:
        """Return the next plain bytes, more than ``limit`` of them if the body is too large.

        Raises `HttpFault` if the body is not encoded as declared, or in a way that is not read.
        """
        self._began = self._began or bool(chunk)
        if self._encoding in _PLAIN or not self._began:
            return chunk
        if self._encoding not in _GZIP:
            raise HttpFault(
                UNSUPPORTED_MEDIA_TYPE,
                f"The body's Content-Encoding is {self._encoding[:60]}: send it plain or as gzip.",
            )
        plain = bytearray()
        try:
            while chunk and len(plain) <= limit:
                plain += self._inflate.decompress(chunk, limit + 1 - len(plain))
                chunk = self._inflate.unconsumed_tail
                if self._inflate.eof and self._inflate.unused_data:  # another member follows
                    self._members += 1
                    if self._members > MOST_MEMBERS:
                        raise HttpFault(MALFORMED_JSON, _DAMAGED)
                    chunk = self._inflate.unused_data
                    self._inflate = zlib.decompressobj(wbits=31)
        except zlib.error as error:
            raise HttpFault(MALFORMED_JSON, _DAMAGED) from error
        if last and len(plain) <= limit and not self._inflate.eof:
            raise HttpFault(MALFORMED_JSON, _DAMAGED)
        return bytes(plain)


_DAMAGED = "The body is declared as gzip, but it is cut off, damaged or none: send it again."


LEAST_COMPRESSED = 4_096
"""Bytes from which a response is compressed. Responses that show a secret are shorter: the length
of a compressed response tells of what is repeated in it.
"""
_LEVEL = 5
_COMPRESSIBLE = (
    "application/json", "application/problem+json", "application/x-ndjson", "text/csv",
    "text/plain", "text/javascript", "text/css", "image/svg+xml",
)  # fmt: skip
_REFERENCE = ("/docs", "/problems")
"""Pages without secrets; other pages choose for themselves."""


def reads_gzip(accepted: str) -> bool:
    """Return whether a header ``Accept-Encoding`` allows gzip.

    >>> [reads_gzip(each) for each in ("gzip, br", "br", "br;q=1.0, GZIP;q=0.5", "gzip;q=0", "")]
    [True, False, True, False, False]
    """
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        if name.strip() == "gzip":
            weight = parameter.partition("=")[2].strip()
            return not weight or weight.strip("0.") != ""
    return False


class Compressing:
    """ASGI middleware that compresses long responses of data."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            accepted = reads_gzip(Headers(scope=scope).get("accept-encoding", ""))
            send = _Compressor(send, scope["path"], accepted=accepted).send
        await self._app(scope, receive, send)


class _Compressor:
    """Sends one response, compressed if that pays."""

    def __init__(self, send: Send, path: str, *, accepted: bool) -> None:
        self._send, self._path, self._accepted = send, path, accepted
        self._start: Message | None = None
        self._deflate: Any = None  # zlib does not name its type

    async def send(self, message: Message) -> None:
        """Send the next part; the start waits for the first part of the body."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            headers = MutableHeaders(raw=list(self._start["headers"]))
            if self._pays(headers, len(body), more=more):
                headers.add_vary_header("Accept-Encoding")
                if self._accepted:
                    self._deflate = zlib.compressobj(_LEVEL, wbits=31)
                    headers["Content-Encoding"] = "gzip"
                    del headers["content-length"]
            start, self._start = self._start, None
            if self._deflate is not None and not more:
                body = self._deflate.compress(body) + self._deflate.flush()
                headers["Content-Length"] = str(len(body))
                self._deflate = None
            await self._send({**start, "headers": headers.raw})
        if self._deflate is not None:
            flushed = zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
            body = self._deflate.compress(body) + self._deflate.flush(flushed)
        await self._send({**message, "body": body})

    def _pays(self, headers: MutableHeaders, size: int, *, more: bool) -> bool:
        kind = headers.get("content-type", "")
        data = kind.startswith(_COMPRESSIBLE) or (
            kind.startswith("text/html") and self._path.startswith(_REFERENCE)
        )
        return data and "content-encoding" not in headers and (more or size >= LEAST_COMPRESSED)
