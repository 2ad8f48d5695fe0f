"""How long a reviewer waits at the desk, in Chromium, by keyboard.

A server with a large database (100,000 predictions) and a model with many labels (10,000) runs in
its own process. A browser signs in and decides one document after another with the key 1; in
between it undoes decisions, adds labels and searches. The report has

- seconds a document, from the key until the next document can be decided, with the moment in which
  the desk ignores a second press, and with all decisions stored;
- the time from the key until the next document is painted;
- the time of each of the desk's requests, as the browser sees it, at the 95th percentile;
- for the pages of leads and administrators: browser errors, axe-core violations and bytes
  transferred.

    python -m benchmarks.bench_desk [--database sqlite] [--documents 100] [--predictions 100000]
        [--labels 10000] [--demo] [--json FILE] [--pictures FOLDER]

Without ``--database`` both databases are measured; PostgreSQL runs as its own server with its usual
durability. ``--demo`` decides documents of ``setwise demo`` instead, as its reviewer.
``--pictures`` keeps screenshots of the pages. The exit status is 1 if a document takes more than
1.5 s, a request more than 100 ms at the 95th percentile, or if a page has a fault.
"""

import argparse
import itertools
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlsplit

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.bench_pages import LABELS, PASSWORD, fill
from benchmarks.demo_notes import generate_notes
from benchmarks.loaded_servers import free_port, postgres, running
from benchmarks.look_at_pages import Seen, look
from setwise.models.data.dataset_files import read_dataset
from setwise.models.options import TrainingOptions
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.settings import Settings
from setwise.service.stores.upkeep import migrate
from tests.browser.screenshots import demo

MOST_S_A_DOCUMENT = 1.5
MOST_MS_A_REQUEST = 100.0
PAGE_LOADS, WARM_UPS = 40, 3
NOTES = 4  # seed of the notes that are sent besides those of the demo
SPARE = 20  # tasks that wait behind the last one to be submitted, so that a next one is painted
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
FILLER = ("patient", "seen", "today", "reports", "well", "since", "last", "visit", "was", "again")


@dataclass(frozen=True)
class Report:
    """What was measured.

    Attributes
    ----------
    seconds_a_document : float
        Of the whole run.
    painted_ms : sequence of float
        From key to picture, one a document.
    requests : mapping
        Milliseconds of each request, by what was asked for.
    pages : mapping
        What was seen of other pages, by address.
    """

    seconds_a_document: float
    painted_ms: Sequence[float]
    requests: Mapping[str, Sequence[float]]
    pages: Mapping[str, Seen]

    def as_json(self) -> dict[str, object]:
        """Return the figures."""
        return {
            "seconds_a_document": round(self.seconds_a_document, 3),
            "painted_ms": _summary(self.painted_ms),
            "requests_ms": {name: _summary(each) for name, each in sorted(self.requests.items())},
            "pages": {path: seen.as_json() for path, seen in self.pages.items()},
        }

    @property
    def passed(self) -> bool:
        """Whether a reviewer waits as little as was asked for."""
        slowest = max(_p95(times) for times in self.requests.values())
        return (
            self.seconds_a_document < MOST_S_A_DOCUMENT
            and slowest <= MOST_MS_A_REQUEST
            and all(seen.passed for seen in self.pages.values())
        )


def _summary(times: Sequence[float]) -> dict[str, float]:
    return {"n": len(times), "median": round(median(times), 1), "p95": _p95(times)}


def _p95(values: Sequence[float]) -> float:
    return round(float(np.quantile(values, 0.95)), 1)


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="setwise-desk-") as name:
        if options.demo:
            reports = {"demo": _of_demo(Path(name), options.documents)}
        else:
            reports = _of_large_databases(Path(name), options)
    figures = {kind: report.as_json() for kind, report in reports.items()}
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(report.passed for report in reports.values()) else 1


def _of_large_databases(folder: Path, options: argparse.Namespace) -> dict[str, Report]:
    reports: dict[str, Report] = {}
    artifact = _artifact(folder, options.labels)
    for kind in options.database or ["sqlite", "postgresql"]:
        with _settings(kind, folder / kind) as settings:
            tokens = _prepared(settings, artifact, options.predictions)
            with _served(settings) as address, chromium() as browser:
                measured = _measured(browser, address, tokens["reviewer"], options.documents)
                pages = look(browser, address, tokens, options.pictures)
                reports[kind] = Report(*measured, pages)
    return reports


def _of_demo(folder: Path, n_documents: int) -> Report:
    with demo(folder) as address:
        secrets = {
            of: json.loads((folder / f"demo-{of}.json").read_text()) for of in ("keys", "passwords")
        }
        send_until_waiting(address, secrets["keys"], n_documents + SPARE)
        token = signed_in(address, "reviewer", secrets["passwords"]["reviewer"])
        with chromium() as browser:
            return Report(*_measured(browser, address, token, n_documents), pages={})


# The service


def send_until_waiting(address: str, keys: Mapping[str, str], n_tasks: int) -> None:
    """Post further notes like the demo's own until ``n_tasks`` of them wait for a person."""
    headers = {role: {"Authorization": f"Bearer {key}"} for role, key in keys.items()}
    notes = (
        {"id": f"more-{note.id}", "text": note.text} for note in generate_notes(10_000, seed=NOTES)
    )
    with httpx.Client(base_url=address, timeout=60) as client:
        while True:
            summary = client.get("/v1/reports/summary", headers=headers["lead"]).raise_for_status()
            if summary.json()["reviews"].get("waiting", 0) >= n_tasks:
                return
            documents = list(itertools.islice(notes, 50))
            client.post(
                "/v1/predictions/batch", json={"documents": documents}, headers=headers["client"]
            ).raise_for_status()


def signed_in(address: str, login: str, password: str) -> str:
    """Return the session of a sign-in on the page."""
    with httpx.Client(base_url=address, timeout=60) as client:
        token = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)
        fields = {"csrf": token[1] if token else "", "login": login, "password": password}
        client.post("/login", data=fields)
        return client.cookies["setwise-session"]


@contextmanager
def _settings(kind: str, folder: Path) -> Iterator[Settings]:
    """Yield the settings of a service on an empty database."""
    folder.mkdir()
    with ExitStack() as stack:
        url = f"sqlite:///{folder / 'desk.db'}"
        if kind == "postgresql":
            url = stack.enter_context(postgres())
        yield Settings(data_dir=folder / "data", database_url=url, log_level="warning")


def _prepared(settings: Settings, artifact: Path, predictions: int) -> dict[str, str]:
    """Fill the database, and return a session for each login name."""
    application = build.build(settings)
    migrate.upgrade(application.engine)
    services = application.services
    services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifact)).id)
    started = perf_counter()
    fill(application, predictions, seed=3)
    print(f"# filled in {perf_counter() - started:.0f} s", file=sys.stderr)
    try:
        logins = ("reviewer", "lead", "admin")
        return {login: services.sessions.sign_in(login, PASSWORD)[1] for login in logins}
    finally:
        application.close()


def _artifact(folder: Path, n_labels: int) -> Path:
    """Train a model with many labels, each of which has a word of its own."""
    draw = random.Random(1)
    path = folder / "notes.jsonl"
    with path.open("w") as file:
        for number in range(max(600, n_labels)):
            # Every label occurs at least once, whatever else is drawn.
            text, labels = _text(draw, n_labels, number % n_labels)
            file.write(json.dumps({"id": str(number), "text": text, "labels": labels}) + "\n")
    options = TrainingOptions(method="br", preset="fast", n_folds=2)
    started = perf_counter()
    save(train(read_dataset(path), options), folder / "artifact")
    print(f"# trained in {perf_counter() - started:.0f} s", file=sys.stderr)
    return folder / "artifact"


def _text(draw: random.Random, n_labels: int, certain: int | None = None) -> tuple[str, list[str]]:
    chosen = {draw.randrange(n_labels) for _ in range(draw.randint(1, 3))}
    if certain is not None:
        chosen.add(certain)
    words = [f"term{label}" for label in chosen] + draw.choices(FILLER, k=60)
    draw.shuffle(words)
    return " ".join(words), [LABELS[label] for label in sorted(chosen)]


@contextmanager
def _served(settings: Settings) -> Iterator[str]:
    port = free_port()
    environment = os.environ | {
        "SETWISE_DATA_DIR": str(settings.data_dir),
        "SETWISE_DATABASE_URL": settings.database_url,
        "SETWISE_LOG_LEVEL": "warning",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(Path(sys.executable).with_name("setwise")), "serve", "--port", str(port)]
    with running(command, port, environment):
        yield f"http://127.0.0.1:{port}"


# The browser


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


def _measured(
    browser: Browser, address: str, token: str, n_documents: int
) -> tuple[float, Sequence[float], Mapping[str, Sequence[float]]]:
    """Return seconds a document, milliseconds until painted, and of each request."""
    # The pages' policy forbids evaluating, which Playwright needs to wait for a value.
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    context.add_cookies([{"name": "setwise-session", "value": token, "url": address}])
    page = context.new_page()
    requests: dict[str, list[float]] = defaultdict(list)
    for number in range(WARM_UPS + PAGE_LOADS):
        page.goto(f"{address}/desk")
        page.wait_for_selector("#work:not([hidden])")
        if number >= WARM_UPS:
            requests["GET /desk"].append(page.evaluate(_NAVIGATION))
    page.evaluate("performance.setResourceTimingBufferSize(10000)")
    page.evaluate(WATCH)
    started = perf_counter()
    painted = [_submit(page, number) for number in range(n_documents)]
    page.wait_for_function("document.querySelector('#saved').dataset.state === 'saved'")
    elapsed = perf_counter() - started
    for path, milliseconds in page.evaluate(_REQUESTS):
        requests[_kind(path)].append(milliseconds)
    context.close()
    return elapsed / n_documents, painted, requests


def _submit(page: Page, number: int) -> float:
    """Submit the open document by keyboard; every fifth one, and a blind one, with a change."""
    page.wait_for_function("performance.now() - window.shownAt > 260", polling=20)
    change = number % 5 == 1 or page.locator("#suggestions").is_hidden()
    if change:
        page.keyboard.press("/")
        page.keyboard.type("016"[number % 3], delay=10)
        page.wait_for_selector("#found [role=option]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
    elif number % 5 == 2:
        page.keyboard.press("w")
        page.wait_for_selector("#terms:not([hidden]), #notices .note")
    before = page.get_attribute("#work", "data-task")
    page.keyboard.press("Enter" if change else "1")
    page.wait_for_function("before => window.shown !== before", arg=before, polling=20)
    return float(page.evaluate("window.shownAt - window.pressedAt"))


# The picture that follows a change of the document is the one that shows it.
WATCH = """() => {
  const work = document.querySelector("#work");
  window.shown = work.dataset.task;
  window.shownAt = performance.now();
  addEventListener("keydown", ({key}) => {
    if (key === "1" || key === "Enter") window.pressedAt = performance.now();
  }, true);
  new MutationObserver(() => {
    const task = work.dataset.task;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.shown = task;
      window.shownAt = performance.now();
    }));
  }).observe(work, {attributeFilter: ["data-task"]});
}"""
_NAVIGATION = """() => {
  const [page] = performance.getEntriesByType("navigation");
  return page.responseEnd - page.requestStart;
}"""
_REQUESTS = """() => performance.getEntriesByType("resource")
  // A search that was overtaken by the next one has no times.
  .filter((one) => one.name.includes("/desk/") && one.requestStart > 0)
  .map((one) => [one.name, one.responseEnd - one.requestStart])"""


def _kind(address: str) -> str:
    parts = urlsplit(address).path.split("/")
    return "/".join("{id}" if len(part) == 36 else part for part in parts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--demo", action="store_true", help="measure on the demo only")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=len(LABELS), help=f"at most {len(LABELS):,}")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pictures", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
