"""How long predictions wait while a label of many documents is renamed.

    python -m benchmarks.bench_renaming [--documents 100000] [--database sqlite] [--seconds 5]
        [--seed 0] [--record]

Fills a database with predictions, to which reviewers answered with one label that no model knows.
A server with its worker in the process then answers one caller, and four, each with one request at
a time: at first alone, then while the label is renamed, in turns until all documents follow. Prints
the median and the 99th percentile of the milliseconds that a request took over HTTP, and how many
documents followed a second. PostgreSQL keeps its default durability.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import cast

from sqlalchemy import Table

from benchmarks.bench_pages import FilledDocuments, fill
from benchmarks.loaded_servers import (
    Measurement,
    Server,
    load,
    postgres,
    setwise_server,
    trained_artifact,
)
from benchmarks.rows import Figure, record
from setwise.service.build import build
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.jobs import JobFilter, JobState
from setwise.service.domain.labels import FOLLOW_LABEL, LabelChange, LabelState
from setwise.service.logs import configure_logging
from setwise.service.services.jobs import Jobs
from setwise.service.settings import Settings
from setwise.service.stores.tables import annotations
from setwise.service.stores.upkeep import migrate

LABEL = "a late label"
CALLERS = (1, 4)
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class _Relabelled(FilledDocuments):
    """Reviewers gave each document a label more."""

    def rows(self, numbers: range, *, of: int) -> dict[Table, list[dict[str, object]]]:
        rows = super().rows(numbers, of=of)
        for row in rows[annotations]:
            labels = row["labels"]
            assert isinstance(labels, Sequence)
            row |= {"labels": [*labels, LABEL], "agreed": False, "chosen_rank": None}
        return rows


def main() -> None:
    """Measure one database."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--database", choices=NAMES, default="sqlite")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write rows of the results")
    options = parser.parse_args()
    configure_logging("error", "console")
    with tempfile.TemporaryDirectory(prefix="setwise-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        url = f"sqlite:///{folder / 'bench.db'}"
        if options.database == "postgresql":
            url = stack.enter_context(postgres())
        artifact, texts = trained_artifact(folder)
        application = build(Settings(data_dir=folder, database_url=url, embedded_worker=False))
        stack.callback(application.close)
        migrate.upgrade(application.engine)
        started = time.monotonic()
        fill(application, options.documents, seed=options.seed, made=_Relabelled)
        print(f"filled in {time.monotonic() - started:.0f} s", flush=True)
        services = application.services
        key, _ = services.keys.create(SYSTEM, "lead", Role.LEAD)
        lead = Caller(key.id, key.name, key.role)
        services.labels.add(lead, LABEL)
        server, _ = stack.enter_context(setwise_server(folder, url, artifact, texts))
        asyncio.run(load(server, options.seconds, max(CALLERS)))  # connections, caches
        label = LABEL
        for callers in CALLERS:
            alone = asyncio.run(load(server, options.seconds, callers))
            other = f"{LABEL} beside {callers}"
            version = services.labels.versions(SYSTEM, [label])[label]
            services.labels.change(
                lead, label, LabelChange(LabelState.ACCEPTED, other, insist=True), version
            )
            renamed = time.monotonic()
            turns, followed = asyncio.run(_turns(services.jobs, server, options.seconds, callers))
            label, elapsed = other, time.monotonic() - renamed
            figures: dict[str, Figure] = {"documents_per_second": round(followed / elapsed, 1)}
            for when, each in (("alone", [alone]), ("renaming", turns)):
                figures |= {
                    f"{when} p50": round(median(one.p50_ms for one in each), 1),
                    f"{when} p99": round(median(one.p99_ms for one in each), 1),
                    f"{when} per_second": round(median(one.per_second for one in each), 1),
                }
            subject = f"{NAMES[options.database]}, {callers} caller{'s' * (callers > 1)}"
            print(f"{subject}: {len(turns)} turns, {figures}", flush=True)
            if options.record:
                record("renaming", subject, figures, seed=options.seed)


async def _turns(
    jobs: Jobs, server: Server, seconds: float, callers: int
) -> tuple[list[Measurement], int]:
    """Return what callers saw in each turn while documents followed, and how many did."""
    turns: list[Measurement] = []
    while True:
        turn = await load(server, seconds, callers)
        job = jobs.page(SYSTEM, JobFilter(kind=FOLLOW_LABEL), limit=1).items[0]
        if job.finished:
            if job.state is not JobState.SUCCEEDED or not turns:
                raise RuntimeError(f"the job ended {job.state} after {len(turns)} turns")
            return turns, cast("int", (job.result or {})["documents"])
        turns.append(turn)


if __name__ == "__main__":
    main()
