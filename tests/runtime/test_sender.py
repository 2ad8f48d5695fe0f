"""One signed call: what reaches the receiver, and where no call goes."""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpcore
import pytest
from httpcore._backends.auto import AutoBackend
from standardwebhooks import Webhook

from setwise.service.domain.webhooks import (
    Address,
    Parcel,
    ReceiverResponse,
    SigningSecret,
    payload,
    signing_secret,
)
from setwise.service.runtime import sender as sender_module
from setwise.service.runtime.sender import HttpSender, signed_headers
from setwise.service.stores.database import utc_now
from tests.ports import held_port
from tests.receiver import Receiver
from tests.samples import delivery, endpoint, message

NEW, OLD = signing_secret(b"n" * 32), signing_secret(b"o" * 32)
PATIENCE_S = 60.0  # for what is to happen, on a machine that is busy
LOOPBACK = ipaddress.ip_address("127.0.0.1")


def parcel(url: str, **fields: object) -> Parcel:
    to = endpoint(url, **{"secrets": (SigningSecret(NEW),), **fields})
    return Parcel(delivery(message(), to), to)


def resolving(*answers: str) -> Callable[[str, int], list[Address]]:
    """Return a resolver that gives each answer once, and then the last one."""
    left = list(answers)

    def resolve(host: str, port: int) -> list[Address]:
        name = left.pop(0) if len(left) > 1 else left[0]
        return [ipaddress.ip_address(one) for one in name.split()]

    return resolve


@pytest.fixture
def send() -> HttpSender:
    return HttpSender(allow_private=True, now=utc_now, patience_s=PATIENCE_S)


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve every connection with ``serve``; gives the port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with closing(connection):
                    serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_receiver_can_verify_what_it_gets(send: HttpSender) -> None:
    with Receiver(secrets=[NEW]) as receiver:
        sent_parcel = parcel(receiver.url)
        answer = send(sent_parcel)
    (call,) = receiver.calls
    assert (answer.status, answer.accepted, answer.error) == (204, True, None)
    assert 0 < answer.seconds < PATIENCE_S
    assert call.message == payload(sent_parcel.delivery.message)
    assert call.id == sent_parcel.delivery.message.id
    assert call.headers["content-type"] == "application/json"
    assert call.headers["user-agent"].startswith("setwise/")
    assert call.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert abs(int(call.headers["webhook-timestamp"]) - time.time()) < PATIENCE_S
    assert "נפיחות".encode() in call.body


def test_a_repetition_differs_in_its_time_only(send: HttpSender) -> None:
    instants = iter([datetime.now(UTC) - timedelta(minutes=1), datetime.now(UTC)])
    with Receiver(secrets=[NEW]) as receiver:
        sent_parcel = parcel(receiver.url)
        later = HttpSender(allow_private=True, now=lambda: next(instants))
        later(sent_parcel)
        later(sent_parcel)
    first, second = receiver.calls
    assert (first.id, first.body) == (second.id, second.body)
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]


@pytest.mark.parametrize("known", [NEW, OLD])
def test_during_a_rotation_either_secret_verifies(send: HttpSender, known: str) -> None:
    soon = utc_now() + timedelta(hours=1)
    with Receiver(secrets=[known]) as receiver:
        send(parcel(receiver.url, secrets=(SigningSecret(NEW), SigningSecret(OLD, soon))))
    assert receiver.forged == 0
    assert len(receiver.calls) == 1


def test_a_secret_past_its_time_signs_no_more(send: HttpSender) -> None:
    with Receiver(secrets=[OLD]) as receiver:
        answer = send(
            parcel(receiver.url, secrets=(SigningSecret(NEW), SigningSecret(OLD, utc_now())))
        )
    assert (receiver.forged, answer.status) == (1, 401)


def test_the_signature_is_that_of_the_library() -> None:
    at = datetime(2026, 11, 21, 9, 0, 0, 700_000, tzinfo=UTC)
    headers = signed_headers([NEW, OLD], "msg-1", at, '{"a":1}')
    assert headers["webhook-timestamp"] == str(int(at.timestamp()))
    expected = [Webhook(secret).sign("msg-1", at, '{"a":1}') for secret in (NEW, OLD)]
    assert headers["webhook-signature"].split(" ") == expected


def test_an_answer_is_kept_to_its_first_thousand_characters(send: HttpSender) -> None:
    body = "\x00\ud7ff é".encode() * 4_000
    with Receiver(lambda _: (500, {"Retry-After": "90"}, body), secrets=[NEW]) as receiver:
        answer = send(parcel(receiver.url))
    assert (answer.status, len(answer.excerpt)) == (500, 1_000)
    assert answer.excerpt.startswith("�\ud7ff é")
    assert "\x00" not in answer.excerpt
    assert answer.retry_after == timedelta(seconds=90)


@pytest.mark.parametrize("given", ["soon", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "9" * 30])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(
    send: HttpSender, given: str
) -> None:
    with Receiver(lambda _: (503, {"Retry-After": given}, b""), secrets=[NEW]) as receiver:
        answer = send(parcel(receiver.url))
    assert (answer.status, answer.retry_after) == (503, None)


def test_a_redirect_is_not_followed(send: HttpSender) -> None:
    with Receiver(secrets=[NEW]) as target:
        moved = (307, {"Location": target.url}, b"")
        with Receiver(lambda _: moved, secrets=[NEW]) as receiver:
            answer = send(parcel(receiver.url))
    assert (answer.status, answer.accepted) == (307, False)
    assert target.calls == []


def test_no_proxy_of_the_environment_is_asked(
    send: HttpSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Receiver(secrets=[NEW]) as receiver:
        assert send(parcel(receiver.url)).accepted


def test_a_closed_port_is_an_answer_too(send: HttpSender) -> None:
    with held_port() as port:
        answer = send(parcel(f"http://127.0.0.1:{port}/"))
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("no connection")


def test_an_unknown_name_is_an_answer_too() -> None:
    def nowhere(host: str, port: int) -> list[Address]:
        raise socket.gaierror(-2, "Name or service not known")

    sender = HttpSender(allow_private=False, now=utc_now, resolve=nowhere)
    answer = sender(parcel("https://nowhere.example/"))
    assert answer.error == "no connection: the name nowhere.example is unknown"


def _hang(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def _drip_head(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:  # until the sender hangs up
        connection.sendall(b"x")
        time.sleep(0.05)


def _drip_body(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 202 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:  # until the sender hangs up
        connection.sendall(b"x")
        time.sleep(0.05)


def _attempt(
    serve: Callable[[socket.socket], None], scheme: str = "http", *, patience_s: float = PATIENCE_S
) -> ReceiverResponse:
    def quietly(connection: socket.socket) -> None:
        with suppress(OSError):  # the sender hangs up
            serve(connection)

    sender = HttpSender(allow_private=True, now=utc_now, patience_s=patience_s)
    with listening(quietly) as port:
        return sender(parcel(f"{scheme}://127.0.0.1:{port}/"))


@pytest.mark.parametrize(
    ("serve", "scheme"), [(_hang, "http"), (_drip_head, "http"), (_hang, "https")]
)
def test_an_attempt_ends_in_time_however_slowly_the_answer_drips(
    serve: Callable[[socket.socket], None], scheme: str
) -> None:
    answer = _attempt(serve, scheme, patience_s=0.6)
    assert answer.error == "no answer within 0.6 s"
    assert 0.2 < answer.seconds < PATIENCE_S  # where the answer would drip for ever


def test_a_status_counts_although_the_body_never_ends() -> None:
    answer = _attempt(_drip_body, patience_s=1.5)  # within which the head must come
    assert (answer.status, answer.accepted, answer.error) == (202, True, None)
    assert 1.4 < answer.seconds < PATIENCE_S
    assert set(answer.excerpt) == {"x"}


def test_a_connection_that_breaks_is_an_answer_too() -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(65536)

    def babble(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    for serve in (hang_up, babble):
        error = _attempt(serve).error
        assert error is not None
        assert error.startswith("the connection broke")


PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::",
    "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_to_a_private_address_is_refused_unseen(
    address: str, addresses: list[str]
) -> None:
    """The name is public; only the look-up tells. Nothing is even connected to."""
    sender = HttpSender(allow_private=False, now=utc_now, resolve=resolving(address))
    answer = sender(parcel("https://hooks.example/"))
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("refused: hooks.example leads to ")
    assert addresses == []


def test_the_systems_own_answer_is_checked_too() -> None:
    sender = HttpSender(allow_private=False, now=utc_now)
    for host in ("localhost", "2130706433", "0x7f.1", "127.1"):
        answer = sender(parcel(f"https://{host}/"))
        assert answer.error is not None
        assert answer.error.startswith("refused: ")


def test_a_name_is_looked_up_once_and_the_checked_address_used() -> None:
    """DNS rebinding: the second answer is another machine's, and is never asked for."""
    asked: list[str] = []
    with Receiver(secrets=[NEW]) as receiver:

        def resolve(host: str, port: int) -> Sequence[Address]:
            asked.append(host)
            return [LOOPBACK if len(asked) == 1 else ipaddress.ip_address("192.0.2.1")]

        sender = HttpSender(allow_private=True, now=utc_now, resolve=resolve)
        answer = sender(parcel(f"http://hooks.example:{receiver.port}/x?y=1"))
    assert answer.accepted
    assert asked == ["hooks.example"]
    (call,) = receiver.calls
    assert (call.headers["host"], call.path) == (f"hooks.example:{receiver.port}", "/x?y=1")


def test_of_several_addresses_only_the_allowed_are_used(addresses: list[str]) -> None:
    sender = HttpSender(
        allow_private=False, now=utc_now, resolve=resolving("127.0.0.1 203.0.114.9 10.0.0.1")
    )
    sender(parcel("https://hooks.example/"))
    assert addresses == ["203.0.114.9"]


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let nothing be connected to; return the list that will hold what was tried."""
    hosts: list[str] = []

    async def connect(_: object, host: str, *__: object, **___: object) -> None:
        hosts.append(host)
        raise httpcore.ConnectError("nobody")

    monkeypatch.setattr(AutoBackend, "connect_tcp", connect)
    return hosts


def test_the_next_address_is_tried_when_one_is_dead(send: HttpSender) -> None:
    with Receiver(secrets=[NEW]) as receiver:
        sender = HttpSender(
            allow_private=True, now=utc_now, resolve=resolving("127.0.0.2 127.0.0.1")
        )
        answer = sender(parcel(f"http://hooks.example:{receiver.port}/"))
    assert answer.accepted


def test_an_encrypted_call_names_the_host_not_the_address() -> None:
    """What is checked is the name's certificate, although the address was chosen before."""
    hellos: list[bytes] = []

    def note(connection: socket.socket) -> None:
        hellos.append(connection.recv(65536))

    with listening(note) as port:
        sender = HttpSender(allow_private=True, now=utc_now, resolve=resolving("127.0.0.1"))
        answer = sender(parcel(f"https://hooks.example:{port}/"))
    assert answer.status is None
    assert b"hooks.example" in hellos[0]
    assert b"webhook-signature" not in b"".join(hellos)


def test_without_encryption_only_private_addresses_are_reached() -> None:
    public = HttpSender(allow_private=True, now=utc_now, resolve=resolving("203.0.114.9"))
    error = public(parcel("http://hooks.example/")).error
    assert error == "refused: hooks.example must begin with https:// to reach a public address"
    strict = HttpSender(allow_private=False, now=utc_now, resolve=resolving("203.0.114.9"))
    error = strict(parcel("http://hooks.example/")).error
    assert error == "refused: the URL must begin with https://"


def test_certificates_are_checked() -> None:
    trust = HttpSender(allow_private=True, now=utc_now)._trust
    assert trust.check_hostname
    assert trust.verify_mode is ssl.CERT_REQUIRED


def _accepted(connection: socket.socket) -> bool:
    """Accept a message; return False if the sender has hung up."""
    request = b""
    while not request.endswith(b"}"):  # headers and body may come one after the other
        part = connection.recv(65536)
        if not part:
            return False
        request += part
    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    return True


def test_calls_to_a_host_share_a_connection(send: HttpSender) -> None:
    with Receiver(secrets=[NEW]) as receiver:
        for _ in range(3):
            assert send(parcel(receiver.url)).accepted
    assert len({call.port for call in receiver.calls}) == 1


def test_a_connection_that_was_checked_for_one_name_serves_no_other() -> None:
    sender = HttpSender(allow_private=True, now=utc_now, resolve=resolving("127.0.0.1"))
    with Receiver(secrets=[NEW]) as receiver:
        for name in ("one.example", "two.example"):
            assert sender(parcel(f"http://{name}:{receiver.port}/")).accepted
    first, second = receiver.calls
    assert first.headers["host"].partition(":")[0] == "one.example"
    assert second.headers["host"].partition(":")[0] == "two.example"
    assert first.port != second.port


@pytest.mark.parametrize(
    ("later", "error"), [("127.0.0.2", "no connection"), ("203.0.114.9", "refused: ")]
)
def test_a_connection_is_not_used_once_its_name_leads_elsewhere(later: str, error: str) -> None:
    sender = HttpSender(allow_private=True, now=utc_now, resolve=resolving("127.0.0.1", later))
    with Receiver(secrets=[NEW]) as receiver:
        url = f"http://hooks.example:{receiver.port}/"
        assert sender(parcel(url)).accepted
        assert (sender(parcel(url)).error or "").startswith(error)
    assert len(receiver.calls) == 1


def test_a_kept_connection_that_the_receiver_closes_costs_no_attempt(send: HttpSender) -> None:
    """It reads the message and hangs up: whether it took it is unknown, so it gets it again."""
    connections: list[int] = []

    def close_after_one(connection: socket.socket) -> None:
        connections.append(connection.getpeername()[1])
        if _accepted(connection):
            connection.recv(65536)

    with listening(close_after_one) as port:
        for _ in range(3):
            assert send(parcel(f"http://127.0.0.1:{port}/")).accepted
        send.close()
    assert len(connections) == 3


def test_a_connection_whose_answer_is_too_long_is_not_kept(send: HttpSender) -> None:
    with Receiver(lambda _: (200, {}, b"x" * 1_000_000), secrets=[NEW]) as receiver:
        for _ in range(2):
            assert send(parcel(receiver.url)).accepted
    first, second = receiver.calls
    assert first.port != second.port


@pytest.mark.parametrize("end", ["idle", "closed"])
def test_an_idle_connection_is_closed(
    send: HttpSender, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "KEPT_S", 0.05 if end == "idle" else 9_999.0)
    hung_up = threading.Event()

    def serve(connection: socket.socket) -> None:
        while _accepted(connection):
            pass
        hung_up.set()

    with listening(serve) as port:
        assert send(parcel(f"http://127.0.0.1:{port}/")).accepted
        if end == "closed":
            send.close()
        assert hung_up.wait(PATIENCE_S)
