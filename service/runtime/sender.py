"""Makes signed HTTP calls to webhook endpoints.

Each call looks up the host name, checks its addresses, and connects to an address that passed.
There is no second look-up, which could give another result. The Host header and the certificate
still use the name. Redirects and proxies are not used. A connection is kept for a few seconds, for
calls to the same host alone, and only while the look-up still gives its address.
"""

import asyncio
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
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

KEPT_S = 5.0
"""How long an idle connection is kept; receivers close theirs after as long, or later."""

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
        self._agent = f"setwise/{version('setwise')}"
        self._hosts: dict[str, _Host] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        # It takes 30 ms to load, for which a command that sends nothing need not wait.
        return ssl.create_default_context()

    def __call__(self, parcel: Parcel) -> ReceiverResponse:
        """Send the message once; return the response or error as an answer."""
        started_at, started = self._now(), time.monotonic()
        try:
            request = self._request(parcel, started_at)
            addresses = self._allowed(request.url)
            sending = self._send(request, addresses)
            sent = asyncio.run_coroutine_threadsafe(sending, self._running_loop())
            status, headers, excerpt = sent.result()
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

    def close(self) -> None:
        """Close kept connections; no call may be in progress."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close_hosts(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of all calls, in a thread that starts with the first."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=(self._loop,), name="sender", daemon=True
                ).start()
            return self._loop

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
        async with self._host(request.url.raw_host.decode()) as transport:
            async with asyncio.timeout_at(deadline):
                response = await transport.send(request, addresses, self._patience_s)
            # The endpoint has the message, so a truncated response body does not matter.
            read = b""
            with suppress(httpx.TransportError, TimeoutError):
                async with asyncio.timeout_at(deadline), aclosing(response):
                    async for part in response.aiter_raw():
                        read += part
                        if len(read) >= _MOST_READ_BYTES:
                            break
        excerpt = _storable(read[:_MOST_READ_BYTES].decode("utf-8", "replace"))
        return response.status_code, response.headers, excerpt[:LONGEST_EXCERPT]

    @asynccontextmanager
    async def _host(self, name: str) -> AsyncIterator["_PinnedTransport"]:
        """Give the connections to a host, which are closed soon after their last call."""
        loop = asyncio.get_running_loop()
        host = self._hosts.setdefault(name, _Host(_PinnedTransport(self._trust)))
        host.calls += 1
        if host.closes is not None:
            host.closes.cancel()
        try:
            yield host.transport
        finally:
            host.calls -= 1
            if not host.calls:
                host.closes = loop.call_later(KEPT_S, self._forget, name)

    def _forget(self, name: str) -> None:
        closing = asyncio.ensure_future(self._hosts.pop(name).transport.aclose())
        self._closing.add(closing)  # the loop itself holds no task
        closing.add_done_callback(self._closing.discard)

    async def _close_hosts(self) -> None:
        while self._hosts:
            await self._hosts.popitem()[1].transport.aclose()


class _PinnedTransport(httpx.AsyncHTTPTransport):
    """Connections to one host: none serves another one that has the same address."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_S)
        super().__init__(verify=trust, trust_env=False, limits=limits)

    async def send(
        self, request: httpx.Request, addresses: Sequence[Address], patience_s: float
    ) -> httpx.Response:
        """Send the request to the first of the host's addresses that answers.

        The certificate is checked for the host, whatever the address.
        """
        url = request.url
        # Leave time for the remaining addresses, and for encryption, which may take as long again:
        # a handshake that the caller's deadline cancels would leave its socket open.
        connect_s = 0.45 * patience_s / len(addresses)
        timeout = httpx.Timeout(patience_s, connect=connect_s).as_dict()
        request.extensions = {"sni_hostname": url.raw_host.decode(), "timeout": timeout}
        for place, address in enumerate(addresses, start=1):
            request.url = url.copy_with(host=str(address))
            try:
                return await self._send(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place == len(addresses):
                    raise
        raise httpx.ConnectError(f"{url.host} has no address")

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send the request; again, if a kept connection turns out to be closed."""
        while True:
            steps: set[str] = set()

            async def note(step: str, _: object, steps: set[str] = steps) -> None:
                steps.add(step)

            request.extensions["trace"] = note
            try:
                return await self.handle_async_request(request)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if "connection.connect_tcp.started" in steps:  # it was new
                    raise


@dataclass
class _Host:
    """Connections to a host, and when they close."""

    transport: _PinnedTransport
    calls: int = 0
    """In progress."""
    closes: asyncio.TimerHandle | None = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


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
