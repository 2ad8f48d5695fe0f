"""What surrounds a server fails: a clear answer, nothing lost, nothing twice, and on it goes."""

import contextlib
import resource
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.settings import Settings
from setwise.service.stores.database import sqlite_path
from setwise.service.stores.upkeep import migrate
from tests.database import LocalPostgres, server_or_skip
from tests.system.conftest import PATIENCE_S, Installation, Server, eventually
from tests.trained import Artifacts

pytestmark = pytest.mark.system


def predict(client: httpx.Client, number: int) -> httpx.Response:
    return client.post(
        "/v1/predictions",
        json={"document": {"id": f"note-{number}", "text": "orbit rocket " + "judge " * 200}},
        headers={"Idempotency-Key": f"note-{number}"},
    )


def assert_each_stored_once(installation: Installation, client: httpx.Client, count: int) -> None:
    """Send everything again; then each document has one prediction, task or message, audit row."""
    ids = {number: predict(client, number) for number in range(count)}
    assert {response.status_code for response in ids.values()} == {201}
    engine = installation.application.engine
    with engine.connect() as connection:
        for table in ("predictions", "idempotency_keys"):
            query = f"SELECT count(*) FROM {table}"
            assert connection.exec_driver_sql(query).scalar_one() == count
        followers = sum(
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("review_tasks", "outbox_messages")
        )
        audited = connection.exec_driver_sql(
            "SELECT count(*) FROM predictions WHERE actor_name IS NOT NULL"
        ).scalar_one()
    assert (followers, audited) == (count, count)
    assert len({response.json()["id"] for response in ids.values()}) == count


@pytest.fixture
def on_own_postgres(
    artifacts: Artifacts, tmp_path: Path
) -> Iterator[tuple[Installation, LocalPostgres]]:
    """Return an installation on a PostgreSQL server that nobody else uses."""
    with server_or_skip() as server:
        url = server.make().render_as_string(hide_password=False)
        settings = Settings(data_dir=tmp_path / "data", database_url=url)
        installed = Installation(settings, tmp_path, application=build.build(settings))
        migrate.upgrade(installed.application.engine)
        services = installed.application.services
        services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifacts.text)).id)
        installed.key("client", Role.CLIENT)
        yield installed, server
        for process in installed.servers:
            if process.process.poll() is None:
                process.kill()
        installed.application.close()


@pytest.mark.verify  # test_worker.py waits for a database that is away in its twin
def test_a_database_that_goes_away_costs_no_write_and_doubles_none(
    on_own_postgres: tuple[Installation, LocalPostgres],
) -> None:
    installation, postgres = on_own_postgres
    server = installation.serve()
    with server.client("client") as client:
        assert [predict(client, number).status_code for number in range(3)] == [201] * 3
        postgres.stop()
        gone_at, number = time.monotonic(), 3
        while time.monotonic() - gone_at < 2.0 or number < 6:
            refused = predict(client, number)
            number += 1
            assert refused.status_code == 503, refused.text
            assert refused.json()["type"] == "/problems/storage-unavailable"
            assert int(refused.headers["retry-after"]) > 0
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 503
            time.sleep(0.2)
        assert server.process.poll() is None
        postgres.start()
        eventually(lambda: client.get("/readyz").status_code == 200, "it is ready again by itself")
        assert_each_stored_once(installation, client, number)
    server.stop()
    assert server.process.returncode == 0


@pytest.fixture
def on_sqlite(sqlite_url: str, artifacts: Artifacts, tmp_path: Path) -> Iterator[Installation]:
    settings = Settings(data_dir=tmp_path / "data", database_url=sqlite_url)
    installed = Installation(settings, tmp_path, application=build.build(settings))
    services = installed.application.services
    services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifacts.text)).id)
    for role in (Role.CLIENT, Role.ADMIN):
        installed.key(role.value, role)
    yield installed
    for server in installed.servers:
        if server.process.poll() is None:
            server.kill()
    installed.application.close()


@pytest.mark.verify  # `stores/test_database` is its twin
def test_a_full_disk_is_told_and_what_was_accepted_is_kept(on_sqlite: Installation) -> None:
    server = on_sqlite.serve()
    path = sqlite_path(on_sqlite.application.engine)
    log = path.with_name(f"{path.name}-wal")
    with server.client("client") as client:
        assert predict(client, 0).status_code == 201
        # No file of the server may grow from here, as on a disk without room.
        room = log.stat().st_size + 60_000
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, hard))
        number, accepted = 1, [0]
        while (response := predict(client, number)).status_code == 201:
            accepted.append(number)
            number += 1
            assert number < 200
        assert response.status_code == 503, response.text
        assert response.json()["type"] == "/problems/storage-unavailable"
        assert int(response.headers["retry-after"]) > 0
        assert predict(client, accepted[-1]).status_code == 201  # stored, and can be read
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert_each_stored_once(on_sqlite, client, number + 1)
    server.stop()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_callers_outlast_a_lock_stalled_clients_and_the_stop_of_the_server(
    on_sqlite: Installation,
) -> None:
    """One test, because each server takes seconds to start."""
    server = on_sqlite.serve()
    a_lock_held_by_another_process_holds_up_predictions_alone(on_sqlite, server)
    clients_that_stall_keep_nobody_waiting(on_sqlite, server)
    a_server_that_is_stopped_finishes_what_it_began(on_sqlite, server)


def a_lock_held_by_another_process_holds_up_predictions_alone(
    on_sqlite: Installation, server: Server
) -> None:
    path = sqlite_path(on_sqlite.application.engine)
    with (
        server.client("client") as client,
        ThreadPoolExecutor(8) as callers,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        assert predict(client, 0).status_code == 201
        other.execute("BEGIN IMMEDIATE")
        waiting = [callers.submit(predict, client, number) for number in range(1, 9)]
        locked_at, answered = time.monotonic(), 0
        # Not for long: those who wait are refused after five seconds.
        while time.monotonic() - locked_at < 1 or answered < 3:
            assert client.get("/healthz").status_code == 200
            answered += 1
        assert not any(call.done() for call in waiting)  # each answer came while they waited
        other.execute("ROLLBACK")
        assert [call.result(PATIENCE_S).status_code for call in waiting] == [201] * 8
        assert_each_stored_once(on_sqlite, client, 9)


@pytest.mark.verify
def test_artifacts_that_vanish_stop_nobody_who_serves(on_sqlite: Installation) -> None:
    first = on_sqlite.serve()
    shutil.rmtree(on_sqlite.settings.data_dir / "artifacts")
    with first.client("client") as client:
        assert predict(client, 0).status_code == 201
        assert client.get("/readyz").status_code == 200
        late = Server(on_sqlite, on_sqlite.folder / "late.log")
        on_sqlite.servers.append(late)
        eventually(lambda: "Setwise listens on " in late.log.read_text(), "it listens")
        late.url = next(
            line.removeprefix("Setwise listens on ")
            for line in late.log.read_text().splitlines()
            if line.startswith("Setwise listens on ")
        )
        with late.client("client") as unlucky:
            assert predict(unlucky, 1).status_code == 503
            assert unlucky.get("/readyz").status_code == 503
            # It loads after the port opens.
            eventually(lambda: "model.failed" in late.log.read_text(), "it tries to load")
            refused = predict(unlucky, 1)
            assert (refused.status_code, refused.json()["type"]) == (
                503,
                "/problems/model-unreadable",
            )
            assert unlucky.get("/readyz").status_code == 503
        assert predict(client, 1).status_code == 201


def clients_that_stall_keep_nobody_waiting(on_sqlite: Installation, server: Server) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    place = (address.hostname, address.port or 80)
    secret = on_sqlite.secrets["client"]
    head = (
        f"POST /v1/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
        'Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"document":'
    ).encode()
    with contextlib.ExitStack() as stack, server.client("client") as client:
        stalled = [
            stack.enter_context(socket.create_connection(place, timeout=PATIENCE_S))
            for _ in range(100)
        ]
        for number, connection in enumerate(stalled):
            connection.sendall(head if number % 2 else head[:40])
        for number in range(10):
            assert predict(client, number).status_code == 201
        # All are answered while those who stall are still at it.
        for connection in stalled:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
    with server.client("client") as client:
        assert_each_stored_once(on_sqlite, client, 10)


def a_server_that_is_stopped_finishes_what_it_began(
    on_sqlite: Installation, server: Server
) -> None:
    address = urlsplit(server.url)
    body = b'{"document": {"id": "last", "text": "orbit rocket"}}'
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    head = (
        f"POST /v1/predictions HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {on_sqlite.secrets['client']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Expect: 100-continue\r\n\r\n"
    ).encode()
    assert address.hostname is not None
    place = (address.hostname, address.port or 80)
    with socket.create_connection(place, timeout=PATIENCE_S) as slow:
        slow.sendall(head)
        assert slow.recv(len(go_on), socket.MSG_WAITALL) == go_on  # it has begun
        slow.sendall(body[:10])
        server.process.terminate()
        waits = "Waiting for connections to close"
        eventually(lambda: waits in server.log.read_text(), "it waits for the request")
        slow.sendall(body[10:])
        assert slow.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 201"
    assert server.process.wait(PATIENCE_S) == 0
