"""Makes one signed HTTP call to a webhook endpoint, and to nowhere else.

A name is looked up for each connection, its addresses are checked, and the connection goes to the
very address that passed; a second look-up, which could answer otherwise, never happens. Host and
certificate are still the name's. Redirects are not followed, and no proxy is asked.
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
    address_fault,
    payload,
    url_fault,
)
from setwise.service.services.deliver import Parcel
from setwise.service.stores.clock import Clock

PATIENCE_S = 15.0
"""How long one attempt may take from the connection on, however slowly the answer drips."""

_MOST_READ_BYTES = 4 * LONGEST_EXCERPT
"""Of an answer; a character takes up to four bytes."""

_LONGEST_RETRY_AFTER_S = 7 * 86_400

Resolve = Callable[[str, int], Iterable[Address]]
"""Finds the addresses of a host; raises OSError when there are none."""


def look_up(host: str, port: int) -> list[Address]:
    """Ask the system for the addresses of ``host``, its favourite first."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A scope (fe80::1%eth0) is the interface's; the address is what is judged.
    names = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(name) for name in names]


class HttpSender:
    """Fills the port `setwise.service.services.deliver.Sender`; threads may share it.

    Parameters
    ----------
    allow_private : bool
        Private, loopback and link-local addresses may be reached, also without encryption.
    now : callable
        The time that signatures carry; receivers allow for minutes of difference.
    resolve : callable
        Looks names up.
    trust : ssl.SSLContext or None
        Whose certificates are believed; those that the system believes when None.
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
                max_connections=None,  # whoever shares the sender bounds them
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
        """Send the message once and return what came of it."""
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
        """Close every idle connection; another call opens new ones."""
        for pool in self._pools.values():
            pool.close()

    def _post(self, parcel: Parcel, at: datetime) -> tuple[int, Mapping[bytes, bytes], str]:
        endpoint, message = parcel.endpoint, parcel.delivery.message
        # Checked again: the endpoint may have been added while the settings were laxer.
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
    """Return the headers of Standard Webhooks, with a signature by each of ``secrets``."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(
            Webhook(secret).sign(message_id, at, body) for secret in secrets
        ),
    }


def _excerpt(response: httpcore.Response) -> str:
    # The message has arrived by now, so a body that breaks off changes nothing.
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
    if not given.isdigit() or len(given) > 9:  # a date is left to the schedule
        return None
    return timedelta(seconds=min(int(given), _LONGEST_RETRY_AFTER_S))


class _Refused(Exception):
    """Nothing may be sent there."""


_deadline: ContextVar[float] = ContextVar("deadline")
"""When, by the monotonic clock, the attempt of this thread ends."""


def _remaining() -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    return left


_SocketOptions = Iterable[Any]  # Any: httpcore's own type for setsockopt's arguments


class _CheckingBackend(NetworkBackend):
    """Connects to addresses that passed the check, and within the deadline."""

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
                    # None may use up the time of those after it.
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
    """A connection on which every wait ends with the deadline of the attempt."""

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
