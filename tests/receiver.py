"""A program that takes webhooks, as a stranger writes it with the Standard Webhooks library."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from standardwebhooks import Webhook, WebhookVerificationError


@dataclass(frozen=True)
class Received:
    """One call, its signature checked."""

    path: str
    headers: dict[str, str]
    body: bytes
    message: dict[str, Any]
    port: int
    """Of the caller: the same for calls on one connection."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Reply = tuple[int, dict[str, str], bytes]
Answers = Callable[[Received], int | Reply]


@dataclass
class Receiver:
    """Listens on a port of its own; refuses what is not signed with one of its secrets."""

    answer: Answers = lambda received: 204
    secrets: list[str] = field(default_factory=list)
    port: int = 0
    calls: list[Received] = field(default_factory=list)
    forged: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._open: set[socket.socket] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._serve(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def finish_request(self, request: Any, client_address: Any) -> None:
                with receiver._lock:
                    receiver._open.add(request)
                try:
                    super().finish_request(request, client_address)
                finally:
                    with receiver._lock:
                        receiver._open.discard(request)

            def handle_error(self, *_: object) -> None:
                pass  # whoever hung up has had enough

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Be gone as a killed process is: no port, and every connection cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def ids(self) -> list[str]:
        """Return the ids of all calls, repetitions included."""
        with self._lock:
            return [call.id for call in self.calls]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        message = self._verified(body, headers)
        if message is None:
            self.forged += 1
            self._reply(handler, (401, {}, b"bad signature"))
            return
        received = Received(handler.path, headers, body, message, handler.client_address[1])
        with self._lock:
            self.calls.append(received)
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
        try:
            answer = self.answer(received)
        finally:
            with self._lock:
                self._inside -= 1
        self._reply(handler, answer if isinstance(answer, tuple) else (answer, {}, b""))

    def _verified(self, body: bytes, headers: dict[str, str]) -> dict[str, Any] | None:
        for secret in self.secrets:
            try:
                verified: dict[str, Any] = Webhook(secret).verify(body, headers)
            except WebhookVerificationError:
                continue
            return verified
        return None

    @staticmethod
    def _reply(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        status, headers, body = reply
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if status != 204:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
