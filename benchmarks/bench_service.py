"""How fast documents are predicted over HTTP, compared with an empty endpoint.

    python -m benchmarks.bench_service [--seconds 4] [--rounds 3] [--concurrency 32] [--sqlite]
        [--beside-batches [--record]]

Both servers read the same body at the same concurrency, in turns within one run. The empty endpoint
is FastAPI's fastest kind (``async def``): it validates the body and returns a response of the same
bytes. Setwise does everything: it authenticates, scores, decides, commits to the database and
counts. Batches of 256 documents take turns too. Compare ratios and CPU time a request; requests per
second depend on the machine.

PostgreSQL takes part, with its default durability, if its programs are installed; ``--sqlite``
leaves it out. ``--beside-batches`` measures a lone caller alone and beside 16 callers with batches
of 2 MB instead.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.loaded_servers import (
    Measurement,
    Server,
    free_port,
    load,
    postgres,
    request,
    running,
    setwise_server,
    trained_artifact,
)
from benchmarks.rows import Figure, record
from setwise.service.services.predictions import MOST_DOCUMENTS
from tests.kit.postgres import NoPostgres

LONG_CALLERS, LONG_BATCH_BYTES, LONG_BYTES = 16, 1_900_000, 19_000
"""A hundred long documents in a batch of nearly the largest size, from several callers."""

BATCH_CALLERS = 4
"""One batch is stored while the next is scored, and others are on their way."""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        print("training on generated notes …", flush=True)
        artifact, texts = trained_artifact(folder)
        databases = {"SQLite": f"sqlite:///{folder / 'bench.db'}"}
        if not options.sqlite:
            try:
                databases["PostgreSQL"] = stack.enter_context(postgres())
            except NoPostgres as reason:
                print(f"without PostgreSQL: {reason}")
        for kind, url in databases.items():
            with ExitStack() as servers:
                server, answer = servers.enter_context(
                    setwise_server(folder / kind, url, artifact, texts)
                )
                if options.beside_batches:
                    _beside_batches(kind, server, texts, options)
                    continue
                empty = servers.enter_context(_empty(server.requests, answer))
                batches = Server("batches", server.process_id, server.port, server.batches)
                _compare(kind, server, empty, batches, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--sqlite", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--beside-batches", action="store_true", help="a lone caller beside others")
    parser.add_argument("--record", action="store_true", help="write rows of --beside-batches")
    return parser.parse_args()


def _beside_batches(
    kind: str, server: Server, texts: list[str], options: argparse.Namespace
) -> None:
    """Print what a lone caller waits alone, and beside batches of long documents."""
    words = " ".join(texts)
    long = (words * (LONG_BYTES // len(words) + 1))[:LONG_BYTES]
    documents = [{"text": long} for _ in range(LONG_BATCH_BYTES // LONG_BYTES)]
    body = request("/v1/predictions/batch", {"documents": documents}, server.key)
    batches = Server("batches", server.process_id, server.port, [body])

    async def both() -> tuple[Measurement, Measurement]:
        loaded = asyncio.create_task(load(batches, options.seconds, LONG_CALLERS))
        await asyncio.sleep(0.2)
        lone = await load(server, options.seconds, 1, pause_s=0.05)
        return lone, await loaded

    alone = asyncio.run(load(server, options.seconds, 1, pause_s=0.05))
    beside, batched = asyncio.run(both())
    for name, measured in (("alone", alone), ("beside batches", beside), ("the batches", batched)):
        print(
            f"{kind}, {name}: median {measured.p50_ms:.0f} ms, worst {measured.worst_ms:.0f} ms, "
            f"{measured.per_second:.1f} requests/s",
            flush=True,
        )
        if options.record:
            figures: dict[str, Figure] = {
                "p50_ms": round(measured.p50_ms, 1),
                "worst_ms": round(measured.worst_ms, 1),
                "per_second": round(measured.per_second, 2),
            }
            record("beside_batches", f"{kind}, {name}", figures)


def _compare(
    kind: str, server: Server, empty: Server, batches: Server, options: argparse.Namespace
) -> None:
    rounds: list[tuple[Measurement, Measurement]] = []
    batched: list[Measurement] = []
    for target in (empty, server, batches):  # connections, compiled code, caches
        asyncio.run(load(target, 1.0, options.concurrency))
    for _ in range(options.rounds):
        pair = [
            asyncio.run(load(target, options.seconds, options.concurrency))
            for target in (empty, server)
        ]
        rounds.append((pair[0], pair[1]))
        batched.append(asyncio.run(load(batches, options.seconds, BATCH_CALLERS)))
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


@contextmanager
def _empty(requests: list[bytes], answer: bytes) -> Iterator[Server]:
    port = free_port()
    environment = os.environ | {"BENCH_ANSWER": answer.decode()}
    command = [sys.executable, "-m", "benchmarks.bench_service", "--serve-empty", str(port)]
    with running(command, port, environment) as process_id:
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


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-empty"]:
        serve_empty(int(sys.argv[2]))
    else:
        main()
