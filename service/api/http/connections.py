"""Limits on connections: how many, how long without a request, and how slow.

uvicorn limits only how long a connection idles between two requests. This protocol adds the limits
that servers in front of it have, such as Apache's ``mod_reqtimeout``.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address, ip_network
from typing import cast

import httptools
import structlog
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from setwise.service.domain.accounts import network_of

MOST_HEADER_BYTES = 65_536
_LISTS = {
    b"accept", b"accept-encoding", b"content-encoding", b"if-match", b"if-none-match",
    b"x-forwarded-for",
}  # fmt: skip
"""Headers that mean the same on several lines as on one (RFC 9110, section 5.3). What reads them
looks at one line.
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on the connections of one server process."""

    patience_s: float = 20.0
    """Seconds for the line and headers of a request, from the opening of the connection or the
    first byte after the last response.
    """
    body_rate: float = 500.0
    """Least bytes of a body in a second, on average over ``patience_s``."""
    idle_s: float = 125.0
    """Seconds after which an idle connection, or one whose client reads nothing, is closed. Proxies
    and clients close theirs after at most two minutes by default; a server that closed first could
    close it while a request is on its way.
    """
    most: int = 500
    """Most connections from one IPv4 address or IPv6 /48."""
    exempt: str = ""
    """Addresses and networks, separated by commas, that may open any number: proxies."""
    _open: Counter[str] = field(default_factory=Counter)
    _idle: "_Ends" = field(default_factory=lambda: defaultdict(dict))
    """How to end the connections of each network that wait for another request, oldest first."""
    _half_open: "_Ends" = field(default_factory=lambda: defaultdict(dict))
    """The same for those that wait for a request's rest."""

    def enter(self, address: str) -> bool:
        """Count a new connection; return False if there are too many.

        At the bound, the oldest idle connection gives way, which costs its client nothing; without
        one, the oldest with half a request: one client behind a NAT cannot shut out its neighbours
        by opening connections and saying nothing, or nothing more.
        """
        network = network_of(address)
        self._open[network] += 1
        if self._open[network] <= self.most or self._free(address):
            return True
        for waiting in (self._idle, self._half_open):
            if network in waiting:
                connection, end = next(iter(waiting[network].items()))
                self.complete(address, connection)
                end()
                return True
        return False

    def rest(self, address: str, connection: object, end: Callable[[], None]) -> None:
        """Note a connection that may bring another request; ``end`` ends it."""
        self._idle[network_of(address)][connection] = end

    def begin(self, address: str, connection: object, end: Callable[[], None]) -> None:
        """Note a connection whose request is not complete; ``end`` ends it."""
        _forget(self._idle, network_of(address), connection)
        self._half_open[network_of(address)].setdefault(connection, end)

    def complete(self, address: str, connection: object) -> None:
        """Forget a connection whose request is complete, or that has ended."""
        for waiting in (self._idle, self._half_open):
            _forget(waiting, network_of(address), connection)

    def leave(self, address: str) -> None:
        """Count a connection that has ended."""
        network = network_of(address)
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the protocol for uvicorn's setting ``http``."""
        return cast("type[asyncio.Protocol]", partial(LimitedProtocol, limits=self))

    def _free(self, address: str) -> bool:
        networks = (
            ip_network(network.strip()) for network in self.exempt.split(",") if network.strip()
        )
        try:
            return any(ip_address(address) in network for network in networks)
        except ValueError:
            return False


_Ends = dict[str, dict[object, Callable[[], None]]]


def _forget(waiting: _Ends, network: str, connection: object) -> None:
    if network in waiting:
        waiting[network].pop(connection, None)
        if not waiting[network]:
            del waiting[network]


class _WithoutUpgrades(httptools.HttpRequestParser):
    """Parses requests as HTTP/1.1 although they offer another protocol.

    httptools stops after the headers of a request with ``Upgrade``, which Java's clients send with
    every request over plain HTTP. A server may ignore the offer (RFC 9110, section 7.8), so the
    headers are read a second time without it, and then the body.
    """

    def __init__(self, protocol: HttpToolsProtocol) -> None:
        super().__init__(protocol)
        # The second response of a pipeline may follow a request to close (as uvicorn sets it).
        self.set_dangerous_leniencies(lenient_data_after_close=True)
        self._protocol = protocol

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # what uvicorn passes
        """Parse the next bytes; raises `HttpParserError`."""
        parser = self
        while data:
            try:
                httptools.HttpRequestParser.feed_data(parser, data)
            except httptools.HttpParserUpgrade as stop:
                if not parser.asks_to_upgrade():
                    raise
                data = parser._head() + data[stop.args[0] :]
                # After a request with ``Connection: close``, a parser reads nothing more.
                parser = self._protocol.parser = _WithoutUpgrades(self._protocol)
            else:
                return

    def asks_to_upgrade(self) -> bool:
        """Return whether a request offers another protocol; a tunnel is no offer."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def _head(self) -> bytes:
        version = self.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.get_method(), self._protocol.url, version)]
        headers = self._protocol.headers
        lines += [b"%b: %b" % header for header in headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that closes connections beyond the limits.

    ``limits``: Shared by all connections of the process.
    """

    parser: _WithoutUpgrades

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = _WithoutUpgrades(self)
        self._limits = limits
        self._address = ""
        self._head: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._body: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Start to wait for a request, or close a connection too many."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if self._limits.enter(self._address):
            self._expect_head()
        else:
            self._refuse("429 Too Many Requests", "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every clock."""
        self._limits.complete(self._address, self)
        self._limits.leave(self._address)
        for clock in (self._head, self._body, self._unread):
            if clock is not None:
                clock.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a request; bytes between two requests begin a new one."""
        if self.transport.is_closing():
            return  # what arrives after a refusal
        super().data_received(data)
        if self._head is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEADER_BYTES:
                self._refuse("431 Request Header Fields Too Large", "too long headers")
        elif self._body is None and not self._busy():
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Begin to wait for the body."""
        if self.parser.asks_to_upgrade():
            return  # the parser reads this request again
        if self._head is not None:
            self._head.cancel()
            self._head = None
        self.headers[:] = _on_one_line(self.headers)
        super().on_headers_complete()
        self._limits.begin(self._address, self, self._give_way)
        self._expect_body()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for nothing more."""
        if self.parser.asks_to_upgrade():
            return
        if self._body is not None:
            self._body.cancel()
            self._body = None
        self._limits.complete(self._address, self)
        super().on_message_complete()
        self._rest()

    def on_response_complete(self) -> None:
        """Wait for another request, unless one has arrived."""
        super().on_response_complete()
        self._rest()

    def pause_writing(self) -> None:
        """Begin to wait until the client has read more."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self._limits.idle_s, self._abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect_head(self) -> None:
        self._limits.begin(self._address, self, self._give_way)
        self._head_bytes = 0
        self._head = self.loop.call_later(
            self._limits.patience_s,
            lambda: self._refuse("408 Request Timeout", "no complete headers"),
        )

    def _rest(self) -> None:
        waited_for = self._head or self._body
        if waited_for is None and not self._busy() and not self.transport.is_closing():
            self._limits.rest(self._address, self, self.timeout_keep_alive_handler)

    def _give_way(self) -> None:
        self._refuse("429 Too Many Requests", "half a request among too many connections")

    def _expect_body(self) -> None:
        self._body_bytes = 0
        # A server that reads slowly, or has not asked for the body yet, cannot blame the client.
        excused = self.flow.read_paused or self.cycle.waiting_for_100_continue
        self._body = self.loop.call_later(self._limits.patience_s, self._check_body, excused)

    def _check_body(self, excused: bool) -> None:
        least = self._limits.body_rate * self._limits.patience_s
        excused = excused or self.flow.read_paused
        if excused or self._body_bytes >= least:
            self._expect_body()
        else:
            self._refuse("408 Request Timeout", "too slow a body")

    def _refuse(self, status: str, reason: str) -> None:
        if self.transport.is_closing():
            return
        log.info("connection.refused", reason=reason, address=self._address)
        if not (self._busy() and self.cycle.response_started):
            head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.transport.write(head.encode())
        self.transport.close()

    def _busy(self) -> bool:
        # uvicorn types the cycle as always there, and sets it with the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _abort(self) -> None:
        log.info("connection.refused", reason="an unread response", address=self._address)
        self.transport.abort()


def _on_one_line(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers with each list on one line, after the others."""
    others, lists = [], defaultdict(list)
    for name, value in headers:
        if name in _LISTS:
            lists[name].append(value)
        else:
            others.append((name, value))
    return [*others, *((name, b", ".join(values)) for name, values in lists.items())]
