"""Connections that say nothing, or say it slowly, end; the server answers others meanwhile."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvicorn

from setwise.service.api.http.connections import MOST_HEADER_BYTES, ConnectionLimits
from setwise.service.app import server_config
from setwise.service.settings import Settings
from tests.edge import Service, build_service

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


@pytest.fixture(scope="module")
def port(service: Service) -> Iterator[int]:
    """Serve on a free port, with short limits."""
    limits = ConnectionLimits(patience_s=PATIENCE_S, idle_s=2 * PATIENCE_S, most=MOST)
    config = server_config(service.app, Settings(), limits)
    config.log_config = None
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def connect(port: int, said: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
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
def test_a_connection_without_a_whole_request_ends(port: int, said: bytes) -> None:
    silent = connect(port, said)
    assert status(port) == b"200"
    assert answer(silent).startswith(b"HTTP/1.1 408")


def dribble(connection: socket.socket, content: bytes, pause_s: float) -> bytes:
    """Send a byte at a time until the server closes; return what it said."""
    try:
        for place in range(len(content)):
            connection.sendall(content[place : place + 1])
            connection.settimeout(pause_s)
            try:
                if said := connection.recv(65_536):
                    return said
                break
            except TimeoutError:
                continue
    except ConnectionError:
        pass
    return b""


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_byte_at_a_time_does_not_keep_a_connection_open(
    port: int, post: bytes, part: str
) -> None:
    started = time.monotonic()
    with connect(port, post if part == "body" else b"GET /") as connection:
        said = dribble(connection, b"x" * 900, PATIENCE_S / 5)
    assert said.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - started < 900 * PATIENCE_S / 5 / 4


def test_a_slow_but_steady_body_is_read_to_its_end(port: int, post: bytes) -> None:
    connection = connect(port, post)
    for _ in range(10):  # three times the patience
        time.sleep(PATIENCE_S / 3)
        connection.sendall(b"x" * 100)
    connection.settimeout(20)
    assert connection.recv(12) == b"HTTP/1.1 422"
    connection.close()


def test_a_connection_that_idles_after_a_response_ends(port: int) -> None:
    connection = connect(port, GET)
    said = answer(connection)
    assert said.startswith(b"HTTP/1.1 200")
    assert b"408" not in said


def test_half_a_request_after_a_response_ends(port: int) -> None:
    said = answer(connect(port, GET + GET[:5]))
    assert said.startswith(b"HTTP/1.1 200")


def test_headers_have_a_longest_size(port: int) -> None:
    head = GET[:-2] + b"X-Long: " + b"x" * (MOST_HEADER_BYTES + 1)
    assert answer(connect(port, head)).startswith(b"HTTP/1.1 431")


def test_one_address_has_a_most_of_connections_and_gets_others_once_they_end(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(connect(port))
        assert status(port) == b"429"
    deadline = time.monotonic() + 20
    while status(port) != b"200":
        assert time.monotonic() < deadline


def test_networks_are_counted_apart_and_proxies_are_not_bounded() -> None:
    limits = ConnectionLimits(1, 1, 1, most=2, exempt="10.0.0.0/8, 192.0.2.9")
    same = ["2001:db8::1", "2001:db8:0:5::1", "2001:db8:0:6::1"]
    assert [limits.enter(address) for address in same] == [True, True, False]
    assert limits.enter("192.0.2.1")
    assert all(limits.enter("10.1.2.3") for _ in range(9))
    limits.leave(same[2])
    limits.leave(same[1])
    assert limits.enter(same[1])
