"""How fast a courier delivers messages that have waited, as after an outage.

    python -m benchmarks.bench_webhooks [--messages 5000] [--database sqlite|postgresql]
        [--seconds 60] [--delay-ms 0] [--record]

The endpoint is a separate process that accepts each message after ``--delay-ms``. A bare client
sends it as many messages before and after, one by one over one connection: the machine's other work
changes absolute rates, so compare how many times as long the courier takes.
"""

import argparse
import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import structlog

from benchmarks.loaded_servers import free_port, postgres
from benchmarks.rows import Figure, record
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.webhooks import EndpointChange, Message, MessageType
from setwise.service.settings import Settings
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.upkeep import migrate


async def accept_all(port: int, delay_s: float) -> None:
    """Accept every message on a port until killed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
                await reader.readexactly(length)
                await asyncio.sleep(delay_s)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                if b"connection: close" in head:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


@contextmanager
def endpoint(delay_ms: float) -> Iterator[str]:
    """Run an endpoint in a separate process; give its URL."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bench_webhooks", "--serve", str(port)]
    with subprocess.Popen(
        [*command, "--delay-ms", str(delay_ms)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def bare(url: str, n: int) -> tuple[float, float]:
    """Return how long a client takes that only sends so many messages, and its CPU time."""
    with httpx.Client() as client:
        client.post(url, json={"labels": ["a"]})
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(n):
            client.post(url, json={"labels": ["a"]})
        return time.perf_counter() - started, time.process_time() - cpu


def delivered(
    folder: Path, database_url: str, url: str, n: int, most_s: float
) -> tuple[int, float, float]:
    """Return how many of the waiting messages were delivered, in how many and CPU seconds."""
    application = build.build(
        Settings(data_dir=folder, database_url=database_url, webhook_allow_private=True)
    )
    migrate.upgrade(application.engine)
    webhooks = application.services.webhooks
    webhooks.add(SYSTEM, EndpointChange(url))
    messages = [
        Message(
            name, MessageType.PREDICTION_AUTO_SENT, SYSTEM.id, name, {"labels": ["a"]}, utc_now()
        )
        for name in (new_id() for _ in range(n))
    ]
    with application.begin() as transaction:
        transaction.outbox.add_all(messages)
    webhooks.route()
    application.courier.start()
    started, cpu = time.perf_counter(), time.process_time()
    waiting = n
    while waiting and time.perf_counter() - started < most_s:
        time.sleep(0.25)
        with application.begin(read_only=True) as transaction:
            line = transaction.backlog.read().deliveries["pending"]
        waiting = line.count
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    application.courier.stop()
    application.close()
    return n - waiting, elapsed, cpu


def main() -> None:
    """Measure one database."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--record", action="store_true", help="write a row of the results")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(accept_all(options.serve, options.delay_ms / 1_000))
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        database_url = (
            stack.enter_context(postgres())
            if options.database == "postgresql"
            else f"sqlite:///{folder}/setwise.db"
        )
        url = stack.enter_context(endpoint(options.delay_ms))
        before = bare(url, options.messages)
        sent, elapsed, cpu = delivered(folder, database_url, url, options.messages, options.seconds)
        after = bare(url, options.messages)
    alone, cpu_alone = ((one + other) / 2 for one, other in zip(before, after, strict=True))
    figures: dict[str, Figure] = {
        "seconds": round(elapsed, 1),
        "per_second": round(sent / elapsed, 1),
        "cpu_ms": round(1_000 * cpu / sent, 2),
        "times": round(elapsed / sent * options.messages / alone, 2),
        "cpu_times": round(cpu / sent * options.messages / cpu_alone, 2),
    }
    print(f"{options.database}: {sent} of {options.messages} sent, {figures}")
    if options.record:
        record("webhooks", f"{options.messages:,} waiting, {options.database}", figures)


if __name__ == "__main__":
    main()
