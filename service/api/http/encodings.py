"""How a request body may be encoded: plain or gzipped."""

import zlib
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers

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
