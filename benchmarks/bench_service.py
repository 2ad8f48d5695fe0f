"""How fast documents are predicted over HTTP, compared with an empty endpoint.

    python -m benchmarks.bench_service [--seconds 4] [--rounds 3] [--concurrency 32] [--sqlite]

Both servers read the same body at the same concurrency, in turns within one run. The empty endpoint
is FastAPI's fastest kind (``async def``): it validates the body and returns a response of the same
bytes. Setwise does everything: it authenticates, scores, decides, commits to the database and
counts. Batches of 256 documents take turns too. Compare ratios and CPU time a request; requests per
second depend on the machine.

PostgreSQL takes part, with its default durability, if its programs are installed; ``--sqlite``
leaves it out.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

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
from tests import database

PATIENCE_S = 180.0
BATCH_CALLERS = 4
"""One batch is stored while the next is scored, and others are on their way."""


@dataclass
class Server:
    """A process to load, and the requests that it takes."""

    name: str
    process_id: int
    port: int
    requests: list[bytes]
    batches: list[bytes] = field(default_factory=list)


@dataclass
class Measurement:
    """What one round showed; CPU time is that of a request, of the server and of its callers."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    callers_ms: float


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        print("training on generated notes …", flush=True)
        artifact, texts = trained_artifact(folder)
        databases = {"SQLite": f"sqlite:///{folder / 'bench.db'}"}
        if not options.sqlite:
            try:
                databases["PostgreSQL"] = stack.enter_context(_postgres())
            except database.NoPostgres as reason:
                print(f"without PostgreSQL: {reason}")
        for kind, url in databases.items():
            with ExitStack() as running:
                server, answer = running.enter_context(
                    _setwise(folder / kind, url, artifact, texts)
                )
                empty = running.enter_context(_empty(server.requests, answer))
                batches = Server("batches", server.process_id, server.port, server.batches)
                _compare(kind, server, empty, batches, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--sqlite", action="store_true", help="leave PostgreSQL out")
    return parser.parse_args()


def _compare(
    kind: str, server: Server, empty: Server, batches: Server, options: argparse.Namespace
) -> None:
    rounds: list[tuple[Measurement, Measurement]] = []
    batched: list[Measurement] = []
    for target in (empty, server, batches):  # connections, compiled code, caches
        asyncio.run(_load(target, 1.0, options.concurrency))
    for _ in range(options.rounds):
        pair = [
            asyncio.run(_load(target, options.seconds, options.concurrency))
            for target in (empty, server)
        ]
        rounds.append((pair[0], pair[1]))
        batched.append(asyncio.run(_load(batches, options.seconds, BATCH_CALLERS)))
    print(f"\n{kind}, concurrency {options.concurrency}, median of {options.rounds} rounds")
    print(
        f"{'':18}{'requests/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'CPU ms each':>13}"
        f"{'its callers':>13}"
    )
    for name, place in (("empty endpoint", 0), ("POST predictions", 1)):
        each = [pair[place] for pair in rounds]
        print(
            f"{name:18}{median(m.per_second for m in each):12.0f}"
            f"{median(m.p50_ms for m in each):10.1f}{median(m.p99_ms for m in each):10.1f}"
            f"{median(m.cpu_ms for m in each):13.3f}{median(m.callers_ms for m in each):13.3f}"
        )
    share = median(ours.per_second / nothing.per_second for nothing, ours in rounds)
    tail = median(ours.p99_ms / nothing.p99_ms for nothing, ours in rounds)
    print(f"{'ratio':18}{share:12.0%}{'':10}{tail:10.1f}")
    gain = median(
        MOST_DOCUMENTS * batch.per_second / ours.per_second
        for batch, (_, ours) in zip(batched, rounds, strict=True)
    )
    cheaper = median(
        MOST_DOCUMENTS * ours.cpu_ms / batch.cpu_ms
        for batch, (_, ours) in zip(batched, rounds, strict=True)
    )
    print(
        f"batches of {MOST_DOCUMENTS} by {BATCH_CALLERS} callers: "
        f"{MOST_DOCUMENTS * median(m.per_second for m in batched):.0f} documents/s, "
        f"{gain:.1f} times single calls; "
        f"CPU {median(m.cpu_ms for m in batched) / MOST_DOCUMENTS:.3f} ms a document, "
        f"of the callers {median(m.callers_ms for m in batched) / MOST_DOCUMENTS:.3f}; "
        f"a single call takes {cheaper:.1f} times the server's",
        flush=True,
    )


async def _load(
    server: Server, seconds: float, concurrency: int, *, pause_s: float = 0.0
) -> Measurement:
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
    """Return a model of generated notes, and texts to predict."""
    write_jsonl(read_notes()[:1_000], folder / "notes.jsonl")
    options = TrainingOptions(preset="paper", n_folds=2, alpha=1e-4)
    save(train(read_dataset(folder / "notes.jsonl"), options), folder / "artifact")
    return folder / "artifact", [note.text for note in read_notes()[-200:]]


@contextmanager
def _setwise(
    folder: Path, url: str, artifact: Path, texts: list[str]
) -> Iterator[tuple[Server, bytes]]:
    settings = Settings(data_dir=folder, database_url=url)
    application = build.build(settings)
    migrate.upgrade(application.engine)
    services = application.services
    services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifact)).id)
    _, key = services.keys.create(SYSTEM, "bench", Role.CLIENT)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.9)
    services.policy.change(SYSTEM, change, None)
    application.close()
    port = _free_port()
    environment = os.environ | {
        "SETWISE_DATA_DIR": str(folder),
        "SETWISE_DATABASE_URL": url,
        "SETWISE_LOG_LEVEL": "warning",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(Path(sys.executable).with_name("setwise")), "serve", "--port", str(port)]
    documents = [{"id": f"bench-{n}", "text": text} for n, text in enumerate(texts)]
    requests = [_request("/v1/predictions", {"document": one}, key) for one in documents]
    several = [documents[n % len(documents)] for n in range(MOST_DOCUMENTS)]
    batch = _request("/v1/predictions/batch", {"documents": several}, key)
    with _running(command, port, environment) as process_id:
        server = Server("setwise", process_id, port, requests, [batch])
        while b'"type":"/problems/' in (answer := _first_answer(server)):  # it is being loaded
            time.sleep(0.1)
        yield server, answer


@contextmanager
def _empty(requests: list[bytes], answer: bytes) -> Iterator[Server]:
    port = _free_port()
    environment = os.environ | {"BENCH_ANSWER": answer.decode()}
    command = [sys.executable, "-m", "benchmarks.bench_service", "--serve-empty", str(port)]
    with _running(command, port, environment) as process_id:
        yield Server("empty endpoint", process_id, port, requests)


def serve_empty(port: int) -> None:
    """Serve the endpoint that everything is compared with."""
    import uvicorn  # noqa: PLC0415 -- only this process needs it
    from fastapi import FastAPI, Response  # noqa: PLC0415 -- as above

    from setwise.service.api.schemas import PredictionRequest  # noqa: PLC0415 -- as above

    app = FastAPI()
    answer = os.environ["BENCH_ANSWER"].encode()

    @app.post("/v1/predictions", status_code=201)
    async def nothing(body: PredictionRequest) -> Response:  # noqa: ARG001 -- validated, no more
        return Response(answer, status_code=201, media_type="application/json")

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def _running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[int]:
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


def _request(path: str, content: object, key: str) -> bytes:
    body = json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _first_answer(server: Server) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(server.requests[0])
        stream = connection.makefile("rb")
        length = 0
        while (line := stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return stream.read(length)


@contextmanager
def _postgres() -> Iterator[str]:
    # The tests' server does without durability, for speed; this one keeps it.
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        database.SERVER_SETTINGS[name] = "on"
    with database.run_server(database.find_binaries()) as server:
        yield server.make().render_as_string(hide_password=False)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-empty"]:
        serve_empty(int(sys.argv[2]))
    else:
        main()
