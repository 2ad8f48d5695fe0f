"""A billing program as an integrator writes it from the OpenAPI document: it knows nothing of us.

It posts documents, takes webhooks, verifies each with the Standard Webhooks library, and keeps what
it learns in a file, a line a message, before it answers. It may be killed at any time: it starts
again with the same file and the same arguments.

Arguments: the service's address, its API key, the webhook's secret, a port to listen on, the file
of documents (JSON Lines), and the file to keep.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

SERVICE, KEY, SECRET, PORT, DOCUMENTS, BOOK = sys.argv[1:]


class Book:
    """What was learnt, once each, on disk before anybody hears of it."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._file = open(path, "a+", encoding="utf-8")  # noqa: PTH123, SIM115
        self._file.seek(0)
        # A line that a kill cut short was never acknowledged, and comes again.
        whole = [line for line in self._file if line.endswith("}\n")]
        self._known = {json.loads(line)["id"] for line in whole}
        self._file.seek(0, os.SEEK_END)
        self._file.write("\n")

    def keep(self, message_id: str, message: dict[str, object]) -> None:
        with self._lock:
            if message_id in self._known:
                return
            self._file.write(json.dumps({"id": message_id, **message}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self._known.add(message_id)


class Hooks(BaseHTTPRequestHandler):
    """Takes webhooks."""

    protocol_version = "HTTP/1.1"
    calls = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            message = Webhook(SECRET).verify(body, dict(self.headers))
        except WebhookVerificationError:
            self._answer(401)
            return
        Hooks.calls += 1
        if Hooks.calls % 10 == 3:  # a bad day
            self._answer(503)
            return
        book.keep(self.headers["webhook-id"], message)
        self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def post(document: dict[str, object]) -> None:
    """Post until it is accepted; the key makes repeating harmless."""
    request = urllib.request.Request(
        f"{SERVICE}/v1/predictions",
        data=json.dumps({"document": document}).encode(),
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(document["id"]),
        },
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 201
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        pass  # a sender that was killed has hung up


book = Book(BOOK)
server = Server(("127.0.0.1", int(PORT)), Hooks)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(DOCUMENTS, encoding="utf-8") as lines:  # noqa: PTH123
    for line in lines:
        post(json.loads(line))
sys.stdout.write("posted\n")
sys.stdout.flush()
threading.Event().wait()
