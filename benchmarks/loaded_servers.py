"""Servers in processes of their own, and what they take to answer many callers."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from setwise.models.data.dataset_files import read_dataset
from setwise.models.demo_notes import read_notes, write_jsonl
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.services.predictions import MOST_DOCUMENTS
from setwise.service.settings import Settings
from setwise.service.stores.upkeep import migrate
from tests.kit.postgres import SERVER_SETTINGS, find_binaries, run_server

PATIENCE_S = 180.0

N_NOTES = 120
"""Notes that texts are made of, two and two."""


@dataclass
class Server:
    """A process to load, and the requests that it takes."""

    name: str
    process_id: int
    port: int
    requests: list[bytes]
    batches: list[bytes] = field(default_factory=list)
    key: str | None = None
    """Of a client."""


@dataclass
class Measurement:
    """What one round showed; CPU time is that of a request, of the server and of its callers."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    callers_ms: float
    worst_ms: float


async def load(
    server: Server, seconds: float, concurrency: int, *, pause_s: float = 0.0
) -> Measurement:
    """Return what callers, each with one request at a time, see of a server."""
    latencies: list[float] = []
    deadline = time.perf_counter() + seconds
    before, callers_before = _cpu_s(server.process_id), time.process_time()
    started = time.perf_counter()
    await asyncio.gather(
        *(
            _caller(server, place, concurrency, deadline, latencies, pause_s)
            for place in range(concurrency)
        )
    )
    elapsed = time.perf_counter() - started
    cpu = _cpu_s(server.process_id) - before
    callers = time.process_time() - callers_before
    latencies.sort()
    return Measurement(
        per_second=len(latencies) / elapsed,
        p50_ms=1_000 * latencies[len(latencies) // 2],
        p99_ms=1_000 * latencies[int(len(latencies) * 0.99)],
        cpu_ms=1_000 * cpu / len(latencies),
        callers_ms=1_000 * callers / len(latencies),
        worst_ms=1_000 * latencies[-1],
    )


async def _caller(  # noqa: PLR0917 -- one after the other, called once
    server: Server,
    place: int,
    step: int,
    deadline: float,
    latencies: list[float],
    pause_s: float,
) -> None:
    # By hand: a comfortable HTTP client would cost more than the servers.
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while (sent_at := time.perf_counter()) < deadline:
        writer.write(server.requests[place % len(server.requests)])
        place += step
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 201", b"HTTP/1.1 200")):
            raise RuntimeError(f"{server.name} answered {head!r}")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        answered = await reader.readexactly(length)
        if b'"type":"/problems/' in answered:
            raise RuntimeError(f"{server.name} answered with a problem")
        latencies.append(time.perf_counter() - sent_at)
        if pause_s:
            await asyncio.sleep(pause_s)
    writer.close()
    await writer.wait_closed()


def _cpu_s(process_id: int) -> float:
    """Return the CPU time that a process has used, in seconds (proc(5): fields 14 and 15)."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trained_artifact(folder: Path) -> tuple[Path, list[str]]:
    """Return a model of generated notes, and texts to predict, which differ as real ones do.

    Each is half of one note and half of another: of repeated texts the service counts versions.
    """
    write_jsonl(read_notes()[:1_000], folder / "notes.jsonl")
    options = TrainingOptions(preset="paper", n_folds=2, alpha=1e-4)
    save(train(read_dataset(folder / "notes.jsonl"), options), folder / "artifact")
    halves = [(note.text[: len(note.text) // 2], note.text) for note in read_notes()[-N_NOTES:]]
    return folder / "artifact", [
        begin + text[len(text) // 2 :] for begin, _ in halves for _, text in halves
    ]


def set_up(application: build.Application, artifact: Path) -> str:
    """Activate a model in an empty database, under a fixed threshold; return a client's key."""
    migrate.upgrade(application.engine)
    services = application.services
    services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifact)).id)
    _, key = services.keys.create(SYSTEM, "bench", Role.CLIENT)
    services.policy.change(
        SYSTEM, PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.9, reason="a benchmark"), None
    )
    return key


@contextmanager
def setwise_server(
    folder: Path, url: str, artifact: Path, texts: list[str]
) -> Iterator[tuple[Server, bytes]]:
    """Serve an artifact with Setwise; yield the server and its first answer."""
    application = build.build(Settings(data_dir=folder, database_url=url))
    key = set_up(application, artifact)
    application.close()
    port = free_port()
    environment = os.environ | {
        "SETWISE_DATA_DIR": str(folder),
        "SETWISE_DATABASE_URL": url,
        "SETWISE_LOG_LEVEL": "warning",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(Path(sys.executable).with_name("setwise")), "serve", "--port", str(port)]
    documents = [{"id": f"bench-{n}", "text": text} for n, text in enumerate(texts)]
    requests = [request("/v1/predictions", {"document": one}, key) for one in documents]
    several = [documents[n % len(documents)] for n in range(MOST_DOCUMENTS)]
    batch = request("/v1/predictions/batch", {"documents": several}, key)
    with running(command, port, environment) as process_id:
        server = Server("setwise", process_id, port, requests, [batch], key)
        while b'"type":"/problems/' in (answer := first_answer(server)):  # it is being loaded
            time.sleep(0.1)
        yield server, answer


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[int]:
    """Run a server until the block ends; yield its process id once it listens."""
    with subprocess.Popen(command, env=environment) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{' '.join(command)} did not start")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()


def request(path: str, content: object, key: str | None = None) -> bytes:
    """Return the bytes of a POST request with a JSON body."""
    body = json.dumps(content).encode()
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"{authorization}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def first_answer(server: Server) -> bytes:
    """Return the body of the answer to a server's first request."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(server.requests[0])
        stream = connection.makefile("rb")
        length = 0
        while (line := stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return stream.read(length)


@contextmanager
def postgres() -> Iterator[str]:
    """Run PostgreSQL with its default durability; yield the address of a database."""
    # The tests' server does without durability, for speed; this one keeps it.
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        SERVER_SETTINGS[name] = "on"
    with run_server(find_binaries()) as server:
        yield server.make().render_as_string(hide_password=False)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
