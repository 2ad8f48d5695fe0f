"""Makes one signed HTTP call to a webhook endpoint.

Each connection looks up the host name, checks its addresses, and connects to an address that
passed. There is no second look-up, which could give another result. The Host header and the
certificate still use the name. Redirects and proxies are not used.
"""

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

import httpcore
from httpcore import NetworkBackend, NetworkStream
from standardwebhooks import Webhook

from setwise.service.domain.webhooks import (
    LONGEST_EXCERPT,
    Address,
    Answer,
    Parcel,
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
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Drop the scope (fe80::1%eth0): only the address is checked.
    names = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(name) for name in names]


class HttpSender:
    """Sends one message at a time per thread; threads may share it.

    Parameters
    ----------
    allow_private : bool
        Whether private, loopback and link-local addresses are allowed, also without encryption.
    now : callable
        Clock for signatures; receivers tolerate a difference of minutes.
    resolve : callable
        Looks up host names.
    trust : ssl.SSLContext or None
        Trusted certificates; None uses the system's.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        now: Clock,
        patience_s: float = PATIENCE_S,
        resolve: Resolve = look_up,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._now = now
        self._patience_s = patience_s
        trust = trust or ssl.create_default_context()
        self._pools = {
            scheme: httpcore.ConnectionPool(
                ssl_context=trust,
                max_connections=None,  # the courier limits the number of threads
                max_keepalive_connections=20,
                keepalive_expiry=5.0,
                network_backend=_CheckingBackend(
                    resolve, secure=scheme == b"https", allow_private=allow_private
                ),
            )
            for scheme in (b"https", b"http")
        }
        self._agent = f"setwise/{version('setwise')}"

    def __call__(self, parcel: Parcel) -> Answer:
        """Send the message once; return the response or error as an answer."""
        started_at, started = self._now(), time.monotonic()
        _deadline.set(started + self._patience_s)
        try:
            status, headers, excerpt = self._post(parcel, started_at)
        except _Refused as refusal:
            error = str(refusal)
        except (httpcore.TimeoutException, TimeoutError):
            error = f"no answer within {self._patience_s:g} s"
        except httpcore.ConnectError as fault:
            error = f"no connection: {_words(fault)}"
        except (httpcore.NetworkError, httpcore.ProtocolError) as fault:
            error = f"the connection broke: {_words(fault)}"
        except OSError as fault:
            error = f"no connection: {_words(fault)}"
        else:
            return Answer(
                started_at,
                time.monotonic() - started,
                status=status,
                excerpt=excerpt,
                retry_after=_retry_after(headers),
            )
        return Answer(
            started_at, time.monotonic() - started, error=_storable(error)[:LONGEST_EXCERPT]
        )

    def close(self) -> None:
        """Close all idle connections; later calls open new ones."""
        for pool in self._pools.values():
            pool.close()

    def _post(self, parcel: Parcel, at: datetime) -> tuple[int, Mapping[bytes, bytes], str]:
        endpoint, message = parcel.endpoint, parcel.delivery.message
        # Checked again, because the settings may have become stricter since the endpoint was added.
        why = url_fault(endpoint.url, allow_private=self._allow_private)
        if why:
            raise _Refused(f"refused: the URL {why}")
        body = json.dumps(
            payload(message), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        url = httpcore.URL(endpoint.url)
        with self._pools[url.scheme].stream(
            "POST",
            url,
            headers=[
                ("Content-Type", "application/json"),
                ("User-Agent", self._agent),
                ("Accept-Encoding", "identity"),
                *signed_headers(endpoint.signing(at), message.id, at, body).items(),
            ],
            content=body.encode(),
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), 15.0)},
        ) as response:
            headers = {name.lower(): value for name, value in response.headers}
            return response.status, headers, _excerpt(response)


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


def _excerpt(response: httpcore.Response) -> str:
    # The endpoint has the message, so a truncated response body does not matter.
    read = b""
    try:
        for part in response.iter_stream():
            read += part
            if len(read) >= _MOST_READ_BYTES:
                break
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
        pass
    return _storable(read[:_MOST_READ_BYTES].decode("utf-8", "replace"))[:LONGEST_EXCERPT]


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _storable(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def _retry_after(headers: Mapping[bytes, bytes]) -> timedelta | None:
    given = headers.get(b"retry-after", b"").strip()
    if not given.isdigit() or len(given) > 9:  # a date is ignored
        return None
    return timedelta(seconds=min(int(given), _LONGEST_RETRY_AFTER_S))


class _Refused(Exception):
    """Sending to this address is not allowed."""


_deadline: ContextVar[float] = ContextVar("deadline")
"""End of this thread's attempt, on the monotonic clock."""


def _remaining() -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    return left


_SocketOptions = Iterable[Any]  # Any: httpcore's own type for setsockopt's arguments


class _CheckingBackend(NetworkBackend):
    """Connects only to addresses that passed the check, within the deadline."""

    def __init__(self, resolve: Resolve, *, secure: bool, allow_private: bool) -> None:
        self._resolve = resolve
        self._secure = secure
        self._allow_private = allow_private
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline decides
        local_address: str | None = None,
        socket_options: _SocketOptions | None = None,
    ) -> NetworkStream:
        allowed = self._allowed(host, port)
        for place, address in enumerate(allowed):
            try:
                stream = self._plain.connect_tcp(
                    str(address),
                    port,
                    # Leave time for the remaining addresses.
                    timeout=_remaining() / (len(allowed) - place),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if address == allowed[-1]:
                    raise
            else:
                return _TimedStream(stream)
        raise httpcore.ConnectError(f"{host} has no address")

    def sleep(self, seconds: float) -> None:
        self._plain.sleep(seconds)

    def _allowed(self, host: str, port: int) -> list[Address]:
        try:
            addresses = list(self._resolve(host, port))
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} is unknown") from error
        faults = {
            address: address_fault(address, secure=self._secure, allow_private=self._allow_private)
            for address in addresses
        }
        allowed = [address for address in addresses if faults[address] is None]
        if not allowed and faults:
            raise _Refused(f"refused: {host} {next(iter(faults.values()))}")
        return allowed


class _TimedStream(NetworkStream):
    """A connection whose waits end at the attempt's deadline."""

    def __init__(self, stream: NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._stream.read(max_bytes, timeout=_remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._stream.write(buffer, timeout=_remaining())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> NetworkStream:
        return _TimedStream(
            self._stream.start_tls(ssl_context, server_hostname, timeout=_remaining())
        )

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's own signature
        return self._stream.get_extra_info(info)
