"""What surrounds a server fails: a clear answer, nothing lost, nothing twice, and on it goes."""

import contextlib
import resource
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from setwise.service.stores.database import create, sqlite_path
from setwise.service.stores.upkeep import migrate
from tests.kit.installation import Installation, Server, installed
from tests.kit.postgres import LocalPostgres, server_or_skip
from tests.kit.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.system


ANSWER = {"scores": {"court": 0.9}}


def predict(client: httpx.Client, number: int) -> httpx.Response:
    return client.post(
        "/v1/predictions",
        json={"document": {"id": f"note-{number}", "text": "judge " * 200} | ANSWER},
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
    stated: tuple[Path, Path], tmp_path: Path
) -> Iterator[tuple[Installation, LocalPostgres]]:
    """Return an installation on a PostgreSQL server that nobody else uses."""
    with server_or_skip() as server:
        url = server.make().render_as_string(hide_password=False)
        migrate.upgrade(engine := create(url))
        engine.dispose()
        with installed(tmp_path / "data", url, stated[0]) as installation:
            yield installation, server


@pytest.mark.verify  # test_worker.py waits for a database that is away in its twin
def test_a_database_that_goes_away_costs_no_write_and_doubles_none(
    on_own_postgres: tuple[Installation, LocalPostgres],
) -> None:
    installation, postgres = on_own_postgres
    server = installation.serve()
    with server.client("client") as client:
        assert [predict(client, number).status_code for number in range(3)] == [201] * 3
        postgres.stop()
        for number in range(3, 9):
            response = predict(client, number)
            assert response.status_code == 503, response.text
            assert response.json()["type"] == "/problems/storage-unavailable"
            assert int(response.headers["retry-after"]) > 0
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 503
        assert server.process.poll() is None
        postgres.start()
        server.wait_until("/readyz")
        assert_each_stored_once(installation, client, 9)
    server.stop()
    assert server.process.returncode == 0


@pytest.mark.verify  # `stores/test_database` is its twin
def test_a_full_disk_is_told_and_what_was_accepted_is_kept(installation: Installation) -> None:
    server = installation.serve()
    path = sqlite_path(installation.application.engine)
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
        assert_each_stored_once(installation, client, number + 1)
    server.stop()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_callers_outlast_a_lock_stalled_clients_and_the_stop_of_the_server(
    installation: Installation,
) -> None:
    """One test, because each server takes seconds to start."""
    server = installation.serve()
    a_lock_held_by_another_process_holds_up_predictions_alone(installation, server)
    clients_that_stall_keep_nobody_waiting(installation, server)
    a_server_that_is_stopped_finishes_what_it_began(installation, server)


def a_lock_held_by_another_process_holds_up_predictions_alone(
    installation: Installation, server: Server
) -> None:
    path = sqlite_path(installation.application.engine)
    with (
        server.client("client") as client,
        ThreadPoolExecutor(8) as callers,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        assert predict(client, 0).status_code == 201
        other.execute("BEGIN IMMEDIATE")
        waiting = [callers.submit(predict, client, number) for number in range(1, 9)]
        for _ in range(9):  # not for long: those who wait are refused after five seconds
            assert client.get("/healthz").status_code == 200
        assert not any(call.done() for call in waiting)  # each answer came while they waited
        other.execute("ROLLBACK")
        assert [call.result(PATIENCE_S).status_code for call in waiting] == [201] * 8
        assert_each_stored_once(installation, client, 9)


@pytest.mark.verify
def test_artifacts_that_vanish_stop_nobody_who_serves(installation: Installation) -> None:
    first = installation.serve()
    shutil.rmtree(installation.settings.data_dir / "artifacts")
    with first.client("client") as client:
        assert predict(client, 0).status_code == 201
        assert client.get("/readyz/predictions").status_code == 200
        late = installation.start()
        with late.client("client") as unlucky:
            assert predict(unlucky, 1).status_code == 503
            assert unlucky.get("/readyz/predictions").status_code == 503
            # It loads after the port opens.
            eventually(lambda: "model.failed" in late.log.read_text(), "it tries to load")
            response = predict(unlucky, 1)
            assert (response.status_code, response.json()["type"]) == (
                503,
                "/problems/model-unreadable",
            )
            assert unlucky.get("/readyz/predictions").status_code == 503
        assert predict(client, 1).status_code == 201


def clients_that_stall_keep_nobody_waiting(installation: Installation, server: Server) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    place = (address.hostname, address.port or 80)
    secret = installation.secrets["client"]
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
        assert_each_stored_once(installation, client, 10)


def a_server_that_is_stopped_finishes_what_it_began(
    installation: Installation, server: Server
) -> None:
    address = urlsplit(server.url)
    body = b'{"document": {"id": "last", "scores": {"court": 0.9}}}'
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    head = (
        f"POST /v1/predictions HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {installation.secrets['client']}\r\n"
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
