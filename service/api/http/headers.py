"""Security headers: no scripts, no framing, no caching, only TLS."""

from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.api.http.callers import RATE_HEADERS

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""For pages: only files of this server, nothing inline, no framing."""

_Header = tuple[bytes, bytes]

_USUAL: tuple[_Header, ...] = (
    # For data, which loads nothing; pages set their own policy.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


class SecurityHeaders:
    """ASGI middleware that adds the security headers missing from a response.

    ``https``: Whether browsers reach the service by TLS, even if this process receives plain HTTP.
    """

    def __init__(self, app: ASGIApp, *, https: bool = False) -> None:
        self._app = app
        self._https = https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._all(scope, message["headers"])
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _all(
        self, scope: Scope, sent: Collection[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        present = {name for name, _ in sent}
        usual = [*_USUAL, *scope.get("state", {}).get(RATE_HEADERS, ())]
        if self._https or scope["scheme"] == "https":
            usual.append(_TLS_ONLY)
        return [*sent, *(header for header in usual if header[0] not in present)]
