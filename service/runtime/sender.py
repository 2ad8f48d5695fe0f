"""Makes one signed HTTP call to a webhook endpoint.

Each call looks up the host name, checks its addresses, and connects to an address that passed.
There is no second look-up, which could give another result. The Host header and the certificate
still use the name. Redirects and proxies are not used, and no connection is kept: a later call to
the same address may name another host.
"""

import asyncio
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.metadata import version

import httpx
from standardwebhooks import Webhook

from setwise.service.domain.webhooks import (
    LONGEST_EXCERPT,
    Address,
    Parcel,
    ReceiverResponse,
    address_fault,
    payload,
    url_fault,
)
from setwise.service.stores.database import Clock

PATIENCE_S = 15.0
"""How long an attempt may take after the look-up, even if the response arrives slowly."""

_MOST_READ_BYTES = 4 * LONGEST_EXCERPT
"""Most bytes read of a response; a character takes up to four bytes."""

_LONGEST_RETRY_AFTER_S = 7 * 86_400

Resolve = Callable[[str, int], Iterable[Address]]
"""Returns the addresses of a host; raises OSError if there are none."""


def look_up(host: str, port: int) -> list[Address]:
    """Return the addresses of ``host`` in the system's order."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Drop the scope (fe80::1%eth0): only the address is checked.
    names = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in addresses)
    return [ipaddress.ip_address(name) for name in names]


class HttpSender:
    """Sends one message at a time per thread; threads may share it.

    ``allow_private``: Whether private, loopback and link-local addresses are allowed, also without
    encryption.
    ``now``: Clock for signatures; receivers tolerate a difference of minutes.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        now: Clock,
        patience_s: float = PATIENCE_S,
        resolve: Resolve = look_up,
    ) -> None:
        self._allow_private = allow_private
        self._now = now
        self._patience_s = patience_s
        self._resolve = resolve
        self._trust = ssl.create_default_context()
        self._agent = f"setwise/{version('setwise')}"

    def __call__(self, parcel: Parcel) -> ReceiverResponse:
        """Send the message once; return the response or error as an answer."""
        started_at, started = self._now(), time.monotonic()
        try:
            request = self._request(parcel, started_at)
            addresses = self._allowed(request.url)
            status, headers, excerpt = asyncio.run(self._send(request, addresses))
        except _AddressRefused as refusal:
            error = str(refusal)
        except (httpx.TimeoutException, TimeoutError):
            error = f"no answer within {self._patience_s:g} s"
        except (httpx.ConnectError, OSError) as fault:
            error = f"no connection: {_words(fault)}"
        except httpx.TransportError as fault:
            error = f"the connection broke: {_words(fault)}"
        else:
            return ReceiverResponse(
                started_at,
                time.monotonic() - started,
                status=status,
                excerpt=excerpt,
                retry_after=_retry_after(headers),
            )
        return ReceiverResponse(
            started_at, time.monotonic() - started, error=_storable(error)[:LONGEST_EXCERPT]
        )

    def _request(self, parcel: Parcel, at: datetime) -> httpx.Request:
        endpoint, message = parcel.endpoint, parcel.delivery.message
        # Checked again, because the settings may have become stricter since the endpoint was added.
        why = url_fault(endpoint.url, allow_private=self._allow_private)
        if why:
            raise _AddressRefused(f"refused: the URL {why}")
        body = json.dumps(
            payload(message), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        return httpx.Request(
            "POST",
            endpoint.url,
            headers={
                "Content-Type": "application/json",
                "User-Agent": self._agent,
                "Accept-Encoding": "identity",
                "Connection": "close",
                **signed_headers(endpoint.signing(at), message.id, at, body),
            },
            content=body.encode(),
        )

    def _allowed(self, url: httpx.URL) -> list[Address]:
        host, secure = url.raw_host.decode(), url.scheme == "https"
        try:
            addresses = list(self._resolve(host, url.port or (443 if secure else 80)))
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"the name {host} is unknown") from error
        faults = {
            address: address_fault(address, secure=secure, allow_private=self._allow_private)
            for address in addresses
        }
        allowed = [address for address in addresses if faults[address] is None]
        if not allowed:
            raise _AddressRefused(
                f"refused: {host} {next(iter(faults.values()), 'has no address')}"
            )
        return allowed

    async def _send(
        self, request: httpx.Request, addresses: Sequence[Address]
    ) -> tuple[int, httpx.Headers, str]:
        deadline = asyncio.get_running_loop().time() + self._patience_s
        async with _PinnedTransport(addresses, self._trust, self._patience_s) as transport:
            async with asyncio.timeout_at(deadline):
                response = await transport.handle_async_request(request)
            # The endpoint has the message, so a truncated response body does not matter.
            read = b""
            with suppress(httpx.TransportError, TimeoutError):
                async with asyncio.timeout_at(deadline):
                    async for part in response.aiter_raw():
                        read += part
                        if len(read) >= _MOST_READ_BYTES:
                            break
        excerpt = _storable(read[:_MOST_READ_BYTES].decode("utf-8", "replace"))
        return response.status_code, response.headers, excerpt[:LONGEST_EXCERPT]


class _PinnedTransport(httpx.AsyncHTTPTransport):
    """Connects to the first of a host's addresses that answers."""

    def __init__(
        self, addresses: Sequence[Address], trust: ssl.SSLContext, patience_s: float
    ) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._addresses = addresses
        # Leave time for the remaining addresses, and for encryption, which may take as long again:
        # a handshake that the caller's deadline cancels would leave its socket open.
        connect_s = 0.45 * patience_s / len(addresses)
        self._timeout = httpx.Timeout(patience_s, connect=connect_s).as_dict()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to an address, with the certificate checked for the host."""
        url = request.url
        name = {"sni_hostname": url.raw_host.decode(), "timeout": self._timeout}
        for place, address in enumerate(self._addresses, start=1):
            request.url = url.copy_with(host=str(address))
            request.extensions = {**request.extensions, **name}
            try:
                return await super().handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place == len(self._addresses):
                    raise
        raise httpx.ConnectError(f"{url.host} has no address")


def signed_headers(
    secrets: Iterable[str], message_id: str, at: datetime, body: str
) -> Mapping[str, str]:
    """Return the Standard Webhooks headers, with a signature for each secret."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(
            Webhook(secret).sign(message_id, at, body) for secret in secrets
        ),
    }


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _storable(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    value = headers.get("retry-after", "").strip()
    if not (value.isascii() and value.isdigit()) or len(value) > 9:  # a date is ignored
        return None
    return timedelta(seconds=min(int(value), _LONGEST_RETRY_AFTER_S))


class _AddressRefused(Exception):
    """Sending to this address is not allowed."""
