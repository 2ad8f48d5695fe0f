"""A service below a path, such as ``https://host.example/setwise``: inside, all paths begin at /.

Requests lose the prefix before they are routed. What browsers follow gets it back: redirects here,
and the addresses in pages where these are made, before they are compressed.
"""

import re
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ADDRESSES = re.compile(r'(?<= )(href|src|action|data-source)="/(?!/)')
"""Attributes of pages that hold an address of this service; text has no bare quotation marks."""


def prefix_of(public_url: str) -> str:
    """Return the path of the service's URL, without a slash at its end.

    >>> prefix_of("https://host.example/setwise"), prefix_of("https://host.example"), prefix_of("")
    ('/setwise', '', '')
    """
    return urlsplit(public_url).path.rstrip("/")


def placed(request: Request, html: str) -> str:
    r"""Return a page with its addresses below the prefix.

    >>> _ADDRESSES.sub(r'\1="/setwise/', '<a href="/desk">href="/x</a><a class="b" href="//y">')
    '<a href="/setwise/desk">href="/x</a><a class="b" href="//y">'
    """
    prefix = request.app.state.edge.prefix
    return _ADDRESSES.sub(rf'\1="{prefix}/', html) if prefix else html


class PathPrefix:
    """ASGI middleware that takes the prefix from requests and puts it before redirects.

    A request without the prefix is served too: a proxy may have removed it, and probes call the
    process itself.
    """

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            scope = {**scope, "path": path.removeprefix(self._prefix) or "/"}
            raw: bytes = scope.get("raw_path") or path.encode()
            scope["raw_path"] = raw.removeprefix(self._prefix.encode()) or b"/"

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                location = headers.get("location", "")
                if location.startswith("/") and not location.startswith("//"):
                    headers["location"] = self._prefix + location
            await send(message)

        await self._app(scope, receive, send_below)
