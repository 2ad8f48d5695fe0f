"""A client that reads its files slowly, or not at all, keeps nothing from others."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import uvicorn
from sqlalchemy import Engine

from setwise.service.api.http.streams import MOST_OF_A_CALLER, files_at_once, ordinary_threads
from setwise.service.app import server_config
from setwise.service.build import _database_fault
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document
from setwise.service.settings import Settings
from setwise.service.stores.database import create
from setwise.service.stores.predictions import PredictionStore
from setwise.service.stores.transaction import Transactions
from tests.api.test_files import run_jobs, submit
from tests.kit.databases import ON_BOTH
from tests.kit.edge import Service, build_service
from tests.samples import add_predictions, prediction

CONNECTIONS = 3
"""Fewer than the files that are received at a time."""

SEVERAL = 8
"""Connections for everything."""

PATIENCE_S = 60.0

MORE_THAN_BUFFERS = 12_000_000
"""Bytes that no sockets between server and client hold."""


def close(engine: Engine) -> None:
    """Close the connections once readers that end with the server have given theirs back."""
    deadline = time.monotonic() + PATIENCE_S
    while engine.pool.checkedout():  # type: ignore[attr-defined]  # of a `QueuePool`
        assert time.monotonic() < deadline, engine.pool.status()
        time.sleep(0.01)
    engine.dispose()


@pytest.fixture
def service(database_url: str) -> Iterator[Service]:
    """Return a service that has few connections and much to send."""
    engine = create(database_url, pool_size=CONNECTIONS, patience_s=0.5)
    begin = Transactions(engine)
    settings = Settings(database_pool_size=CONNECTIONS)
    service = build_service(settings, begin=begin, key_cache_s=0.0)
    service.app.state.edge.checks["database"] = partial(_database_fault, engine)
    (client,) = (key for key in service.services.keys.all(SYSTEM) if key.name == "client")
    with begin() as transaction:
        for number in range(200):
            document = Document(f"note-{number}", "x" * (MORE_THAN_BUFFERS // 200))
            add_predictions(transaction, prediction(client_id=client.id, document=document))
    yield service
    close(engine)


@pytest.fixture
def port(service: Service) -> Iterator[int]:
    with served(service) as port:
        yield port


@contextmanager
def served(service: Service) -> Iterator[int]:
    """Serve a service; give its port."""
    server = uvicorn.Server(server_config(service.app, Settings()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


class Slow:
    """Requests that have begun to read, each on a connection, and end when they may."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Semaphore(0), threading.Event()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Let every list of predictions be slow."""
    slow, page = Slow(), PredictionStore.page

    def wait(store: PredictionStore, *filters: Any, **options: Any) -> Any:
        read = page(store, *filters, **options)
        slow.begun.release()
        slow.end.wait(PATIENCE_S)
        return read

    monkeypatch.setattr(PredictionStore, "page", wait)
    yield slow
    slow.end.set()


@pytest.fixture
def several(database_url: str) -> Iterator[Service]:
    """Return a service with several connections."""
    engine = create(database_url, pool_size=SEVERAL, patience_s=0.5)
    settings = Settings(database_pool_size=SEVERAL)
    service = build_service(settings, begin=Transactions(engine), key_cache_s=0.0)
    service.app.state.edge.checks["database"] = partial(_database_fault, engine)
    yield service
    close(engine)


@pytest.fixture
def port_of_several(several: Service) -> Iterator[int]:
    with served(several) as port:
        yield port


@contextmanager
def asked(port: int, path: str, secret: str) -> Iterator[socket.socket]:
    """Ask for a file on a connection that holds little of what nobody reads."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", port))
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()
        )
        yield connection


def status(connection: socket.socket) -> int:
    """Return the status of a response, read byte by byte."""
    content = b""
    while len(content) < 12:
        byte = connection.recv(1)
        assert byte
        content += byte
    return int(content[9:])


def job_result(service: Service) -> str:
    """Return the address of a result of many bytes."""
    path = submit(service).headers["location"]
    run_jobs(service)
    (name,) = (name for name in service.files.stored if path.rsplit("/", 1)[1] in name)
    with service.files.create(name) as sink:
        sink.write(b"{}\n" * (MORE_THAN_BUFFERS // 3))
    return f"{path}/result"


@ON_BOTH
@pytest.mark.parametrize(
    ("path", "by"),
    [
        ("/v1/exports/predictions?content=true", "client"),
        ("/v1/documents/export?content=true", "lead"),
        ("job result", "client"),
    ],
)
def test_unread_files_keep_nothing_from_others(
    service: Service, port: int, path: str, by: str
) -> None:
    path = job_result(service) if path == "job result" else path
    with ExitStack() as stack:
        readers = [
            stack.enter_context(asked(port, path, service.secrets[by]))
            for _ in range(MOST_OF_A_CALLER)
        ]
        assert [status(reader) for reader in readers] == [200] * MOST_OF_A_CALLER
        with asked(port, path, service.secrets[by]) as refused:
            assert status(refused) == 429
        # Another caller has places of its own.
        export = "/v1/exports/predictions?content=true"
        admin = stack.enter_context(asked(port, export, service.secrets["admin"]))
        assert status(admin) == 200
        for reader in [*readers, admin]:  # one byte at a time
            assert reader.recv(1)
            assert service.predict().status_code == 201
            assert service.get("/readyz").status_code == 200
        readers[0].close()
        while True:  # the server notices the end when it next writes
            with asked(port, path, service.secrets[by]) as another:
                if status(another) == 200:
                    break


def test_a_reader_that_goes_away_gives_its_place_back(service: Service, port: int) -> None:
    for _ in range(3 * MOST_OF_A_CALLER):
        while True:
            with asked(port, "/v1/exports/predictions", service.secrets["client"]) as reader:
                if status(reader) == 200:
                    break


def test_a_file_that_may_not_be_read_is_a_problem(service: Service) -> None:
    response = service.get("/v1/exports/audit-events", by="client")
    assert response.status_code == 403


@ON_BOTH
def test_slow_requests_leave_connections_to_predictions_and_readiness(
    slow: Slow, several: Service, port_of_several: int
) -> None:
    with ExitStack() as stack:
        for _ in range(4 * SEVERAL):  # far more than there are connections
            reader = asked(port_of_several, "/v1/predictions", several.secrets["client"])
            stack.enter_context(reader)
        for _ in range(ordinary_threads(SEVERAL)):
            assert slow.begun.acquire(timeout=PATIENCE_S)
        base = f"http://127.0.0.1:{port_of_several}"
        with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
            assert client.get("/readyz").status_code == 200
            assert client.get("/readyz/predictions").status_code == 200
            key = {"Authorization": f"Bearer {several.secrets['client']}"}
            one = {"document": {"text": "0.5"}}
            response = client.post("/v1/predictions", json=one, headers=key)
            assert response.status_code == 201
            many = {"documents": [{"text": "0.5"}] * 2}
            assert client.post("/v1/predictions/batch", json=many, headers=key).status_code == 200
        slow.end.set()


def test_of_few_connections_one_is_left_to_predictions() -> None:
    for connections in range(4, 100):
        files = files_at_once(connections)
        assert ordinary_threads(connections) + files <= connections - 1
