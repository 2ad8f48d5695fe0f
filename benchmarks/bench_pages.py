"""How long the server takes for each page, with many predictions.

    python -m benchmarks.bench_pages [--sqlite 100000] [--postgresql 100000] [--page /cockpit …]
        [--times 40] [--seed 0] [--folder FOLDER] [--record]

Fills a fresh database by bulk insert with as many predictions over ten weeks; 0 leaves a database
out. Half of them were sent, 6 % are audits, and the others were reviewed except for the newest;
some have outcomes. Few words and labels are frequent and most are rare, by Zipf's law. ``--folder``
keeps the databases there, and uses those that an earlier call filled. Then it requests each page in
this process, one after another, as an account that may see it. It reports the 50th and 95th
percentile and the median of this process's CPU time in milliseconds, the ratio to ``/healthz``, and
the compressed size of the page.
"""

import argparse
import asyncio
import gc
import gzip
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from fastapi import FastAPI
from sqlalchemy import Engine, Table, func, insert, select, text

from benchmarks.rows import Figure, record
from setwise.service import app as service_main
from setwise.service.build import Application, build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Priority
from setwise.service.domain.reviews import QueueTier
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.logs import configure_logging
from setwise.service.settings import Settings
from setwise.service.stores.columns.types import InRow
from setwise.service.stores.database import new_id
from setwise.service.stores.tables import annotations, outcomes, predictions, review_tasks
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.truth.search_index import SearchIndex
from setwise.service.stores.upkeep import checks, migrate
from tests.kit import postgres

PAGES: dict[str, str] = {
    "/": "lead",
    "/cockpit": "lead",
    "/cockpit?days=91&pace=week": "lead",
    "/cockpit/details?threshold=0.8": "lead",
    "/cockpit/details?threshold=0.8&days=91&pace=week": "lead",
    "/cockpit/labels": "lead",
    "/board": "admin",
    "/board/policy": "admin",
    "/board/people": "admin",
    "/board/audit": "admin",
}
"""Addresses, each with who asks for it."""

SEARCHES: dict[str, str] = {
    "all documents": "",
    "a word in nearly every text": "?text=A00.0",
    "two frequent words": "?text=A00.1+A00.9",
    "two frequent words side by side": "?text=%22A00.1+A00.9%22",
    "a rare word": "?text=E11.2",
    "a rare word, waiting, least confident first": (
        "?text=E11.2&order=least-confident&state=waiting"
    ),
    "a frequent label": "?label=A00.0",
    "a rare label, least confident first": "?label=J18.9&order=least-confident",
    "contradicted, from a confidence and a day on": (
        "?state=contradicted&confidence_from=0.9&created_from=2026-01-01T00:00"
    ),
    "with a label, contradicted, from a confidence on": (
        "?label=A00.1&state=contradicted&confidence_from=0.5"
    ),
    "with a label, without another one, audit contradicted": (
        "?label=E11.2&without_label=A00.0&audited=contradicted"
    ),
    "answered by a person, audit contradicted, below a confidence": (
        "?reviewer={reviewer}&audited=contradicted&confidence_to=0.95"
    ),
    "waiting, below a confidence, least confident first": (
        "?state=waiting&confidence_to=0.8&order=least-confident"
    ),
    "audit contradicted, least confident first": "?order=least-confident&audited=contradicted",
    "a document's page": "/{document}",
}
"""What a lead looks for, each with what follows the address of the documents."""

THRESHOLD, DRAWN = 0.9, 0.06
WARM = 2
"""Calls of each page that are not counted: they fill caches that a server has filled."""


DAYS = 70
UNREAD = 500
PASSWORD = "correct horse battery"
LABELS = [
    f"{letter}{number:02}.{digit}"
    for letter in "ABCDEFGHIJ"
    for number in range(100)
    for digit in range(10)
]


def main() -> None:
    """Run the benchmark and print its table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sqlite", type=int, default=100_000)
    options.add_argument("--postgresql", type=int, default=100_000)
    options.add_argument("--page", action="append", help="only these addresses")
    options.add_argument("--times", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--folder", type=Path, help="keep the databases here")
    options.add_argument("--record", action="store_true", help="write rows of the results")
    given = options.parse_args()
    pages = given.page or [*PAGES, *map(_address, SEARCHES)]
    figures: dict[str, dict[str, Figure]] = defaultdict(dict)
    configure_logging("error", "console")
    print(f"{'':61}p50 ms   p95 ms   CPU ms  x health     KB")
    for kind, documents in (("sqlite", given.sqlite), ("postgresql", given.postgresql)):
        if not documents:
            continue
        with _service(kind, given.folder) as application:
            started = time.monotonic()
            if not _count(application.engine, predictions):
                fill(application, documents, seed=given.seed)
            print(f"{kind}: filled in {time.monotonic() - started:.0f} s", flush=True)
            for page, row in measure(application, pages, given.times):
                print(
                    f"{kind:12}{page:46}{row.p50_ms:9.1f}{row.p95_ms:9.1f}{row.cpu_ms:9.1f}"
                    f"{row.ratio:10.0f}{row.kb:7.1f}",
                    flush=True,
                )
                figures[page] |= {
                    f"{kind} p50": round(row.p50_ms, 1),
                    f"{kind} p95": round(row.p95_ms, 1),
                    f"{kind} cpu": round(row.cpu_ms, 1),
                }
    if given.record:
        for page in PAGES:
            if page in figures:
                record("pages", f"`{page}`", figures[page], seed=given.seed)
        for search in SEARCHES:
            if _address(search) in figures:
                record("searches", search, figures[_address(search)], seed=given.seed)


def _address(search: str) -> str:
    return f"/documents{SEARCHES[search]}"


@contextmanager
def _service(kind: str, kept: Path | None) -> Iterator[Application]:
    with ExitStack() as stack:
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        url = f"sqlite:///{folder / 'bench.db'}"
        if kind == "postgresql":
            server = postgres.run_server(postgres.find_binaries(), kept=folder)
            admin = stack.enter_context(server).admin
            url = admin.render_as_string(hide_password=False)
        settings = Settings(
            data_dir=folder, database_url=url, embedded_worker=False, log_level="error"
        )
        application = build(settings)
        migrate.upgrade(application.engine)
        yield application
        application.close()


def fill(
    application: Application,
    documents: int,
    *,
    seed: int,
    made: type["FilledDocuments"] | None = None,
) -> None:
    """Store documents as if they had come in over the last weeks."""
    services = application.services
    for role in ("reviewer", "lead", "admin"):
        services.people.create(
            SYSTEM, login=role, name=role.title(), role=Role(role), password=PASSWORD
        )
    key, _ = services.keys.create(SYSTEM, "bench", Role.CLIENT)
    reviewers = [
        services.keys.create(SYSTEM, f"reviewer {n}", Role.REVIEWER)[0].id for n in range(8)
    ]
    audits = AuditPlan(certification_rate=DRAWN - 0.02, training_rate=0.02)
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, THRESHOLD, audits=audits)
    policy = services.policy.change(SYSTEM, change, None)
    source = (made or FilledDocuments)(key.id, policy.version, reviewers, seed)
    for start in range(0, documents, 5000):
        rows = source.rows(range(start, min(start + 5000, documents)), of=documents)
        with application.engine.begin() as connection:
            for table, of_table in rows.items():
                if of_table:
                    connection.execute(insert(table), of_table)
            _index(SearchIndex(connection), rows)
    checks.rebuild(Transactions(application.engine), lambda _share, _message: None)
    if application.engine.dialect.name == "postgresql":
        engine = application.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("VACUUM ANALYZE"))  # as autovacuum does by then
    _check(application.engine, documents)


def _index(index: SearchIndex, rows: dict[Table, list[dict[str, Any]]]) -> None:
    predicted = {row["id"]: row["candidates"][0]["labels"] for row in rows[predictions]}
    sent = [row["id"] for row in rows[predictions] if row["decision"] == "auto"]
    index.add(predicted, sent=sent, with_texts=predicted)
    index.add_words(len(predicted))


def _check(engine: Engine, documents: int) -> None:
    if _count(engine, predictions) != documents:
        raise RuntimeError("not every prediction was stored")
    if not documents // 3 < _count(engine, annotations) < documents:
        raise RuntimeError("reviews are missing")


def _count(engine: Engine, table: Table) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


class FilledDocuments:
    """Makes rows of documents: about half are confident, and confidence is honest."""

    def __init__(self, client: str, policy: str, reviewers: Sequence[str], seed: int) -> None:
        self._client, self._policy, self._reviewers = client, policy, reviewers
        self._draw = random.Random(seed)
        self._now = datetime.now(UTC)

    def rows(self, numbers: range, *, of: int) -> dict[Table, list[dict[str, object]]]:
        """Return the rows of some documents, for each table, in the order of their keys."""
        found: dict[Table, list[dict[str, object]]] = {
            predictions: [],
            review_tasks: [],
            annotations: [],
            outcomes: [],
        }
        for number in numbers:
            at = self._now - timedelta(days=DAYS * (1 - number / of))
            self._document(found, number, at, read=number < of - min(UNREAD, of // 20))
        return found

    def _document(
        self,
        found: dict[Table, list[dict[str, object]]],
        number: int,
        at: datetime,
        *,
        read: bool,
    ) -> None:
        draw = self._draw
        confidence = draw.betavariate(6, 0.8)
        right, sure = draw.random() < confidence, confidence >= THRESHOLD
        drawn = draw.random()
        audited = drawn < DRAWN
        labels = self._labels(draw.choice([1, 2, 2, 3, 4]))
        held = not sure or audited
        row = self._prediction(number, at, labels, confidence)
        role = "certification" if drawn < DRAWN - 0.02 else "training" if audited else "none"
        row |= {
            "decision": "review" if held else "auto",
            "reason": "audit"
            if sure and audited
            else "above_threshold"
            if sure
            else "below_threshold",
            "audit_role": role if sure or role == "certification" else "none",
            "draw": drawn,
            "inclusion_probability": DRAWN if sure else 1.0,
            "in_rest": False,
        }
        found[predictions].append(row)
        truth = labels if right else [*labels[1:], *self._labels(1)]
        if held:
            self._review(found, row, truth, agreed=right, read=read)
        elif draw.random() < 0.1:
            found[outcomes].append(
                {
                    "id": new_id(), "prediction_id": row["id"], "number": 1, "labels": truth,
                    "source": "billing", "agreed": right, "reported_by": self._client,
                    "created_at": at + timedelta(hours=5), "sampling": "all", "echoes": 0,
                }
            )  # fmt: skip

    def _words(self, number: int) -> list[str]:
        """Return words by Zipf's law: the chance of each is one over its rank."""
        return [LABELS[int(len(LABELS) ** self._draw.random()) - 1] for _ in range(number)]

    def _labels(self, number: int) -> list[str]:
        return list(dict.fromkeys(self._words(number)))

    def _prediction(
        self, number: int, at: datetime, labels: Sequence[str], confidence: float
    ) -> dict[str, object]:
        others = [self._labels(3) for _ in range(9)]
        candidates = [
            {"labels": each, "confidence": confidence / (place + 1), "score": 0.5}
            for place, each in enumerate([labels, *others])
        ]
        marginals = [
            {"label": label, "probability": 0.9 / (place + 1)}
            for place, label in enumerate(self._labels(25))
        ]
        row = new_id(), self._client
        metadata = {"site": f"site {number % 6}", "kind": f"kind {number % 4}"}
        return {
            "id": row[0], "client_id": self._client, "document_id": f"note-{number}",
            "text": InRow(" ".join(self._words(90)), row), "features": None,
            "metadata": InRow(metadata, row),
            "candidates": candidates, "marginals": marginals, "confidence": confidence,
            "out_of_domain": False, "threshold": THRESHOLD, "model_version": "sha256:bench",
            "calibrator_version": "sha256:bench", "policy_version": self._policy,
            "created_at": at, "rule": None, "purged_at": None, "uncalibrated": False,
            "priority": Priority.NORMAL.value,
            "actor_name": "bench", "request_id": None, "address": "127.0.0.1",
            "earlier_versions": 0,
        }  # fmt: skip

    def _review(
        self,
        found: dict[Table, list[dict[str, object]]],
        row: dict[str, object],
        truth: Sequence[str],
        *,
        agreed: bool,
        read: bool,
    ) -> None:
        kind = "review" if row["audit_role"] == "none" else "audit"
        at = row["created_at"]
        task = {
            "id": new_id(), "prediction_id": row["id"], "kind": kind,
            "state": "completed" if read else "waiting", "version": 3 if read else 1,
            "escalated": False, "created_at": at, "queued_at": at, "round": 0,
            "tier": QueueTier.NORMAL.value, "marked": False, "confidence": row["confidence"],
        }  # fmt: skip
        found[review_tasks].append(task)
        if read and isinstance(at, datetime):
            found[annotations].append(
                {
                    "id": new_id(), "task_id": task["id"], "prediction_id": row["id"],
                    "reviewer": self._draw.choice(self._reviewers), "labels": truth,
                    "comment": None, "agreed": agreed, "chosen_rank": 0 if agreed else None,
                    "suggestion_shown": kind == "review", "seconds": self._draw.uniform(8, 60),
                    "created_at": at + timedelta(hours=2), "kind": kind, "settles": True,
                    "round": 0, "group": "default", "version": 3,
                }
            )  # fmt: skip


class Measured(NamedTuple):
    """What a page took."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float
    ratio: float
    """How often ``/healthz`` would be answered."""
    kb: float


def measure(
    application: Application, pages: Sequence[str], times: int
) -> Iterator[tuple[str, Measured]]:
    """Yield what each page took."""
    app = service_main.serving(application)
    visitors = {role: _signed_in(app, role) for role in ("lead", "admin")}
    health, _, _ = _timed(app, "/healthz", httpx.Cookies(), times * 5)
    with application.engine.connect() as connection:
        query = select(annotations.c.prediction_id, annotations.c.reviewer).limit(1)
        document, reviewer = connection.execute(query).one()
    for page in pages:
        address = page.format(document=document, reviewer=reviewer)
        wall, cpu, size = _timed(app, address, visitors[PAGES.get(page, "lead")], times)
        p50, p95 = np.percentile(wall, [50, 95])
        yield (
            page,
            Measured(p50, p95, float(np.median(cpu)), p50 / np.median(health), size / 1_000),
        )


def _timed(
    app: FastAPI, address: str, cookies: httpx.Cookies, times: int
) -> tuple[list[float], list[float], int]:
    """Return milliseconds by the wall and of this process, and the compressed size in bytes."""

    async def ask() -> tuple[list[float], list[float], int]:
        wall, cpu, size = [], [], 0
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://bench", cookies=cookies
        ) as client:
            for number in range(times + WARM):
                if number == WARM:
                    gc.collect()
                    gc.freeze()  # as a server does once it has started
                before, used = time.perf_counter(), time.process_time()
                answer = await client.get(address)
                if number >= WARM:
                    wall.append(1e3 * (time.perf_counter() - before))
                    cpu.append(1e3 * (time.process_time() - used))
                if answer.status_code != 200:
                    raise RuntimeError(
                        f"{address} answered {answer.status_code}: {answer.text[:500]}"
                    )
                size = len(gzip.compress(answer.content))
        return wall, cpu, size

    return asyncio.run(ask())


def _signed_in(app: FastAPI, login: str) -> httpx.Cookies:
    async def enter() -> httpx.Cookies:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
            page = (await client.get("/login")).text
            token = re.search(r'name="csrf" value="([^"]+)"', page)
            if token is None:
                raise RuntimeError("the sign-in page has no form")
            fields = {"csrf": token[1], "login": login, "password": PASSWORD}
            answer = await client.post("/login", data=fields)
            if answer.status_code != 303:
                raise RuntimeError(f"{login} was not let in: {answer.status_code}")
            return client.cookies

    return asyncio.run(enter())


if __name__ == "__main__":
    main()
