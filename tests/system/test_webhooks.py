"""A third program learns of exactly what the database says was sent, whoever is killed."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.webhooks import DeliveryState, EndpointChange
from tests.kit.installation import ON_POSTGRES, Installation, Server, pages, stated_documents
from tests.kit.waiting import eventually
from tests.ports import held_port
from tests.receiver import Receiver

pytestmark = [pytest.mark.system, pytest.mark.slow]

THRESHOLD = 0.7
PROGRAM = Path(__file__).with_name("third_program.py")


@pytest.fixture(autouse=True)
def private_webhooks(monkeypatch: pytest.MonkeyPatch, installation: Installation) -> None:
    """Let started servers deliver to this machine, and look for work often."""
    environment = installation.environment()
    allowed = {"SETWISE_WEBHOOK_ALLOW_PRIVATE": "true"}
    monkeypatch.setattr(installation, "environment", lambda: environment | allowed)
    installation.fix_threshold(THRESHOLD)


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Return two ports where servers can come and go."""
    with held_port() as one, held_port() as other:
        yield one, other


def add_webhook(server: Server, url: str, **fields: Any) -> dict[str, Any]:
    with server.client("admin") as admin:
        response = admin.post("/v1/admin/webhooks", json={"url": url, **fields})
    assert response.status_code == 201, response.text
    webhook: dict[str, Any] = response.json()
    return webhook


def delivered(installation: Installation) -> Counter[str]:
    """Return how many deliveries are in each state, asked of the database itself."""
    with installation.application.engine.connect() as connection:
        rows = connection.execute(text("SELECT state FROM deliveries")).scalars().all()
        unrouted = connection.execute(
            text("SELECT count(*) FROM outbox_messages WHERE routed_at IS NULL")
        ).scalar_one()
    return Counter(rows) + Counter({"unrouted": unrouted})


def hurry(server: Server) -> None:
    """Have everything that waits for its next attempt sent now, as an administrator may."""
    with server.client("admin") as admin:
        for delivery in list(pages(admin, "/v1/admin/deliveries")):
            if delivery["state"] != DeliveryState.PENDING:
                continue
            response = admin.post(f"/v1/admin/deliveries/{delivery['id']}/replay")
            assert response.status_code == 202, response.text


def settled_down(installation: Installation, server: Server) -> bool:
    left = set(delivered(installation)) - {DeliveryState.DELIVERED.value}
    if left:
        hurry(server)
    return not left


def complete(server: Server, n: int) -> dict[str, list[str]]:
    """Settle ``n`` tasks; returns the labels by prediction."""
    settled = {}
    with server.client("reviewer") as reviewer:
        for _ in range(n):
            response = reviewer.post("/v1/reviews/claim")
            task = response.json()
            done = reviewer.post(
                f"/v1/reviews/{task['id']}/complete",
                json={"labels": task["candidates"][-1]["labels"]},
                headers={"If-Match": response.headers["etag"]},
            )
            assert done.status_code == 200, done.text
            settled[task["prediction_id"]] = done.json()["labels"]
    return settled


@contextmanager
def third_program(server: Server, key: str, secret: str, folder: Path, port: int) -> Iterator[Any]:
    command = [sys.executable, PROGRAM, server.url, key, secret, str(port)]
    program = subprocess.Popen(
        [*command, folder / "documents.jsonl", folder / "book.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        yield program
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def book(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / "book.jsonl"
    if not path.exists():
        return {}
    lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
    kept = [json.loads(line) for line in lines]
    assert len({message["id"] for message in kept}) == len(kept)
    return {message["id"]: message for message in kept}


@ON_POSTGRES
@pytest.mark.verify
def test_a_third_program_ends_with_exactly_what_was_sent(
    installation: Installation, tmp_path: Path, ports: tuple[int, int]
) -> None:
    """Both the program and the server are killed on the way, and each starts again."""
    sample = stated_documents(120, seed=21)
    folder = tmp_path / "billing"
    folder.mkdir()
    with (folder / "documents.jsonl").open("w") as file:
        file.writelines(json.dumps(document) + "\n" for document in sample)
    port, api_port = ports
    server = installation.serve(port=api_port)
    secret = add_webhook(server, f"http://127.0.0.1:{port}/setwise")["secret"]
    key = installation.secrets["client"]

    with third_program(server, key, secret, folder, port) as program:
        eventually(lambda: len(book(folder)) > 10, "the program hears of the first documents")
        program.kill()
    with third_program(server, key, secret, folder, port) as program:
        eventually(lambda: len(book(folder)) > 20, "the program hears of more")
        server.kill()
        server = installation.serve(port=api_port)
        assert program.stdout.readline() == "posted\n"
        settled = complete(server, 5)
        eventually(lambda: settled_down(installation, server), "everything is delivered")
    with server.client("lead") as lead:
        items = list(pages(lead, "/v1/predictions"))
    assert len(items) == len(sample)
    by_id = {p["id"]: p["labels"] for p in items if p["decision"] == "auto"}
    learnt = book(folder).values()
    heard = {
        kind: {m["data"]["prediction_id"]: m["data"]["labels"] for m in learnt if m["type"] == kind}
        for kind in ("prediction.auto_sent", "review.completed")
    }
    assert len(by_id) == 80
    assert heard == {"prediction.auto_sent": by_id, "review.completed": settled}
    assert len(learnt) == len(by_id) + len(settled)
    assert not any(d["text"] in server.log.read_text() for d in sample)


@ON_POSTGRES
@pytest.mark.verify  # test_courier.py kills a courier in its twin
def test_what_was_committed_before_a_kill_is_delivered_after_it(
    installation: Installation,
) -> None:
    """The server dies between the commit and the delivery."""
    release = threading.Event()
    with Receiver() as receiver:
        receiver.answer = lambda _: 204 if release.is_set() else 503
        server = installation.serve()
        receiver.secrets.append(add_webhook(server, receiver.url)["secret"])
        answers = []
        with server.client("client") as client:
            for document in stated_documents(40, seed=22):
                body = {"document": document}
                answers.append(client.post("/v1/predictions", json=body).json())
        server.kill()
        ids = {answer["id"] for answer in answers if answer["decision"] == "auto"}
        assert len(ids) == 26
        assert DeliveryState.DELIVERED not in delivered(installation)
        release.set()
        again = installation.serve()
        eventually(lambda: settled_down(installation, again), "everything is delivered")
        assert delivered(installation) == {DeliveryState.DELIVERED.value: len(ids)}
        heard = {call.message["data"]["prediction_id"] for call in receiver.calls}
    assert heard == ids


@ON_POSTGRES
@pytest.mark.verify
def test_a_server_without_permission_calls_nothing_on_its_own_network(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even an endpoint that was added while it was allowed."""
    environment = installation.environment() | {"SETWISE_WEBHOOK_ALLOW_PRIVATE": "false"}
    monkeypatch.setattr(installation, "environment", lambda: environment)
    with Receiver() as receiver:
        services = installation.services
        object.__setattr__(services.webhooks, "allow_private", True)
        names = ("http://127.0.0.1", "https://127.0.0.1", "https://localhost")
        hooks = [
            services.webhooks.add(SYSTEM, EndpointChange(f"{name}:{receiver.port}/"))[0]
            for name in names
        ]
        server = installation.serve()
        with server.client("admin") as admin:
            response = admin.post("/v1/admin/webhooks", json={"url": receiver.url})
            assert response.status_code == 422
            assert response.json()["errors"][0]["pointer"] == "/url"
            tried = [admin.post(f"/v1/admin/webhooks/{hook.id}/test").json() for hook in hooks]
            items: list[dict[str, Any]] = []

            def attempted() -> bool:
                items[:] = [admin.get(f"/v1/admin/deliveries/{t['id']}").json() for t in tried]
                return all(one["log"] for one in items)

            eventually(attempted, "each is attempted")
        assert all(one["log"][0]["error"].startswith("refused: ") for one in items)
        assert receiver.calls == []
        assert receiver.forged == 0
