"""Connections that say nothing, or say it slowly, end; the server answers others meanwhile.

The server's clock stands still until a test moves it, so a busy machine makes nobody slow.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import uvicorn

from setwise.service.api.http.connections import MOST_HEADER_BYTES, ConnectionLimits
from setwise.service.app import server_config
from setwise.service.settings import Settings
from tests.kit.edge import Service, build_service
from tests.kit.waiting import PATIENCE_S as REAL_PATIENCE_S

PATIENCE_S = 0.3
MOST = 20
GET = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"


@pytest.fixture(scope="module")
def service() -> Service:
    return build_service(Settings())


@pytest.fixture(scope="module")
def post(service: Service) -> bytes:
    """Return the head of a request with a key: without one, no body is read."""
    return (
        b"POST /v1/predictions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\nAuthorization: Bearer %s\r\n\r\n"
    ) % service.secrets["client"].encode()


class Clock(asyncio.SelectorEventLoop):
    """The loop of a server, whose time passes only when somebody says so."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Let the server read what it was sent, and then some time pass."""

        async def move() -> None:
            for _ in range(9):  # to accept a connection and to read from it takes some turns
                await asyncio.sleep(0)
            self.now += seconds

        asyncio.run_coroutine_threadsafe(move(), self).result(REAL_PATIENCE_S)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def port(service: Service, clock: Clock) -> Iterator[int]:
    """Serve on a free port, with short limits."""
    limits = ConnectionLimits(patience_s=PATIENCE_S, idle_s=2 * PATIENCE_S, most=MOST)
    config = server_config(service.app, Settings(trusted_proxies="127.0.0.1,10.0.0.1"), limits)
    config.log_config = None
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        run = clock.run_until_complete
        thread = threading.Thread(target=lambda: run(server.serve(sockets=[listener])))
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        while thread.is_alive():
            clock.call_soon_threadsafe(setattr, clock, "now", clock.now + 1)
            thread.join(0.01)
    clock.close()


def connect(port: int, said: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=REAL_PATIENCE_S)
    connection.sendall(said)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Return all that the server says before it closes the connection."""
    said = b""
    with connection:
        try:
            while content := connection.recv(65_536):
                said += content
        except ConnectionResetError:
            pass
    return said


def status(port: int) -> bytes:
    return answer(connect(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[9:12]


@pytest.mark.parametrize(
    "said",
    [b"", b"GE", GET[:-2], b"\r\n\r\n", GET[:-2] + b"X-Endless: 1\r\n"],
    ids=["silence", "half a line", "headers without an end", "empty lines", "one more header"],
)
def test_a_connection_without_a_whole_request_ends(port: int, clock: Clock, said: bytes) -> None:
    silent = connect(port, said)
    assert status(port) == b"200"
    clock.pass_by(PATIENCE_S)
    assert answer(silent).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_byte_at_a_time_does_not_keep_a_connection_open(
    port: int, clock: Clock, post: bytes, part: str
) -> None:
    with connect(port, post if part == "body" else b"GET /") as connection:
        for _ in range(4):
            clock.pass_by(PATIENCE_S / 5)
            connection.sendall(b"x")
        clock.pass_by(PATIENCE_S / 5)
        assert answer(connection).startswith(b"HTTP/1.1 408")


def test_a_slow_but_steady_body_is_read_to_its_end(port: int, clock: Clock, post: bytes) -> None:
    connection = connect(port, post)
    for _ in range(10):  # three times the patience
        clock.pass_by(PATIENCE_S / 3)
        connection.sendall(b"x" * 100)
    assert connection.recv(12) == b"HTTP/1.1 422"
    connection.close()


def test_a_connection_that_idles_after_a_response_ends(port: int, clock: Clock) -> None:
    connection = connect(port, GET)
    assert connection.recv(12) == b"HTTP/1.1 200"
    clock.pass_by(2 * PATIENCE_S)
    assert b"408" not in answer(connection)


def test_half_a_request_after_a_response_ends(port: int, clock: Clock) -> None:
    connection = connect(port, GET + GET[:5])
    assert connection.recv(12) == b"HTTP/1.1 200"
    clock.pass_by(2 * PATIENCE_S)
    assert answer(connection)


def test_headers_have_a_longest_size(port: int) -> None:
    head = GET[:-2] + b"X-Long: " + b"x" * (MOST_HEADER_BYTES + 1)
    assert answer(connect(port, head)).startswith(b"HTTP/1.1 431")


def test_a_connection_too_many_is_told_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    enter = ConnectionLimits.enter
    with monkeypatch.context() as patched:
        patched.setattr(ConnectionLimits, "enter", lambda *given: enter(*given) and False)
        assert status(port) == b"429"
    assert status(port) == b"200"


def test_idle_connections_shut_nobody_out(port: int) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(port, GET)) for _ in range(MOST)]
        assert {connection.recv(12) for connection in idle} == {b"HTTP/1.1 200"}
        assert status(port) == b"200"
        assert b"HTTP" not in answer(idle[0])  # the oldest is closed without a word
        idle[1].sendall(HELLO)
        assert b"HTTP/1.1 200" in answer(idle[1])


def test_networks_are_counted_apart_and_proxies_are_not_bounded() -> None:
    limits = ConnectionLimits(1, 1, 1, most=2, exempt="10.0.0.0/8, 192.0.2.9")
    same = ["2001:db8::1", "2001:db8:0:5::1", "2001:db8:0:6::1"]
    assert [limits.enter(address) for address in same] == [True, True, False]
    assert limits.enter("192.0.2.1")
    assert all(limits.enter("10.1.2.3") for _ in range(9))
    limits.leave(same[2])
    limits.leave(same[1])
    assert limits.enter(same[1])


def test_the_oldest_half_open_connection_gives_way_to_a_new_one() -> None:
    limits, items = ConnectionLimits(most=3), []
    for name in ("first", "second", "third"):
        assert limits.enter("192.0.2.1")
        limits.begin("192.0.2.1", name, partial(items.append, name))
    limits.complete("192.0.2.1", "first")
    assert limits.enter("192.0.2.1")
    assert items == ["second"]
    limits.leave("192.0.2.1")
    assert limits.enter("192.0.2.1")
    assert items == ["second", "third"]
    limits.leave("192.0.2.1")
    assert not limits.enter("192.0.2.1"), "all have sent complete requests"
    assert limits.enter("198.51.100.1"), "other networks are counted apart"


def test_an_idle_connection_gives_way_before_one_with_half_a_request() -> None:
    limits, items = ConnectionLimits(most=2), []
    for name, note in (("half", limits.begin), ("idle", limits.rest)):
        assert limits.enter("192.0.2.1")
        note("192.0.2.1", name, partial(items.append, name))
    limits.begin("192.0.2.1", "half", partial(items.append, "half"))
    for _ in range(2):
        assert limits.enter("192.0.2.1")
        limits.leave("192.0.2.1")
    assert items == ["idle", "half"]
    assert not limits.enter("192.0.2.1")


def test_silent_connections_shut_nobody_out(port: int) -> None:
    with ExitStack() as stack:
        for said in (b"", b"GET /") * MOST:
            stack.enter_context(connect(port, said))
        assert status(port) == b"200"


HELLO = b"GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
BODY = b'{"document": {"text": "Fever and cough."}}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAI\r\n"
FRAMED = {
    "length": (b"Content-Length: %d\r\n" % len(BODY), BODY),
    "chunks": (
        b"Transfer-Encoding: chunked\r\n",
        b"7\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (BODY[:7], len(BODY) - 7, BODY[7:]),
    ),
    "on demand": (b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(BODY), BODY),
}


OFFERS = {
    "h2c": OFFER,
    "websocket": OFFER.replace(b"h2c", b"websocket"),
    "a list": b"Connection: keep-alive,uPGRADE , HTTP2-Settings\r\nUPGRADE: websocket, H2C\r\n",
    "lines": b"Connection: a\r\nUpgrade: TLS/1.0\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n",
    "and an end": OFFER.replace(b"HTTP2-Settings\r", b"HTTP2-Settings, close\r", 1),
    "an end and": b"Connection: Close\r\n" + OFFER,
}


def sent_in_pieces(port: int, said: bytes, pieces: int) -> list[bytes]:
    """Return the statuses of the responses to requests, of which the last ends the connection."""
    connection = connect(port)
    for place in range(0, len(said), step := -(-len(said) // pieces)):
        connection.sendall(said[place : place + step])
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answer(connection))
    return [status for status in statuses if status != b"100"]


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("pieces", [1, 2, 400], ids="in {} pieces".format)
@pytest.mark.parametrize("framing", FRAMED)
@pytest.mark.parametrize("call", [b"POST /v1/predictions", b"PUT /v1/admin/policy"])
def test_an_offer_of_another_protocol_is_ignored_and_the_body_is_read(
    port: int, service: Service, call: bytes, framing: str, pieces: int, offer: str
) -> None:
    """Java's clients offer HTTP/2 with every request over plain HTTP."""
    content, body = FRAMED[framing]
    secret = service.secrets["client" if call.startswith(b"POST") else "admin"].encode()
    request = b"%b HTTP/1.1\r\nHost: test\r\n%b" % (call, OFFERS[offer])
    request += b"Authorization: Bearer %b\r\n" % secret
    request += b"Content-Type: application/json\r\n%b\r\n%b" % (content, body)
    expected = b"201" if call.startswith(b"POST") else b"422"  # its body is no policy
    if offer.endswith("end") or offer.startswith("an end"):
        assert sent_in_pieces(port, request, pieces) == [expected]
    else:
        statuses = sent_in_pieces(port, 2 * request + HELLO, pieces)
        assert statuses == [expected, expected, b"200"]


def test_an_offer_without_a_body_is_ignored(port: int) -> None:
    content = GET[:-2] + OFFER + b"\r\n"
    assert sent_in_pieces(port, 999 * content + HELLO, 1) == 1_000 * [b"200"]
    assert sent_in_pieces(port, content[:-2] + b"Connection: close\r\n\r\n", 1) == [b"200"]


def test_a_tunnel_is_refused(port: int) -> None:
    content = answer(connect(port, b"CONNECT example.org:443 HTTP/1.1\r\nHost: test\r\n\r\n"))
    assert content.startswith(b"HTTP/1.1 4")


def asked(port: int, path: bytes, headers: bytes) -> tuple[int, bytes]:
    """Return the status and the headers of the response."""
    request = b"GET %b HTTP/1.1\r\nHost: test\r\n%bConnection: close\r\n\r\n" % (path, headers)
    head = answer(connect(port, request)).partition(b"\r\n\r\n")[0].lower()
    return int(head[9:12]), head


def test_a_list_on_several_lines_is_read_as_one(port: int) -> None:
    lines = b"Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n"
    _, head = asked(port, b"/openapi.json", lines)
    assert b"content-encoding: gzip" in head
    etag = re.findall(rb"etag: (.*)\r", head)[0]
    lines = b'If-None-Match: %b\r\nIf-None-Match: "another"\r\n'
    assert asked(port, b"/openapi.json", lines % etag)[0] == 304
    lines = b'If-None-Match: "another"\r\nIF-NONE-MATCH: %b\r\n'
    assert asked(port, b"/openapi.json", lines % etag)[0] == 304


def test_a_version_among_several_lines_is_a_list(port: int, service: Service) -> None:
    path = "/v1/admin/groups/readers"
    first = service.send("PUT", path, by="admin", json={"name": "Readers"})
    etag = first.headers["etag"].encode()
    body = b'{"name": "Nurses"}'
    for lines, status in (
        (b'If-Match: "99"\r\nIf-Match: %b\r\n' % etag, b"200"),
        (b'If-Match: "98"\r\nIf-Match: "99"\r\n', b"412"),
    ):
        request = b"PUT %b HTTP/1.1\r\nHost: test\r\nConnection: close\r\n" % path.encode()
        request += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        request += b"Authorization: Bearer %b\r\n" % service.secrets["admin"].encode() + lines
        assert answer(connect(port, request + b"\r\n" + body))[9:12] == status


def test_the_addresses_that_proxies_name_are_one_list(port: int, service: Service) -> None:
    """Some proxies append a line of their own; the last that is not trusted is the client."""
    lines = b"X-Forwarded-For: 192.0.2.1, 192.0.2.9\r\nX-Forwarded-For: 10.0.0.1\r\n"
    key = b"Authorization: Bearer %b\r\n" % service.secrets["admin"].encode()
    assert asked(port, b"/v1/exports/audit-events", lines + key)[0] == 200
    trail = service.get("/v1/admin/audit?action=export.read", by="admin").json()["items"]
    assert trail[0]["address"] == "192.0.2.9"


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Idempotency-Key"])
def test_a_header_that_counts_once_is_refused_twice(port: int, service: Service, name: str) -> None:
    key = f"Authorization: Bearer {service.secrets['client']}"
    lines = ["POST /v1/predictions HTTP/1.1", "Host: test", "Connection: close", key]
    lines += ["Idempotency-Key: first", "Content-Type: application/json", f"{name}: another"]
    head = "\r\n".join([*lines, f"Content-Length: {len(BODY)}", "", ""])
    content = answer(connect(port, head.encode() + BODY))
    assert content.startswith(b"HTTP/1.1 422")
    assert f"The header {name} is given twice." in content.decode()
