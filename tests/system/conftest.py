"""A really started server on either database, and people and programs who call it."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.settings import Settings
from tests.trained import Artifacts

collect_ignore = ["third_program.py"]  # a program that a test starts

SETWISE = Path(sys.executable).with_name("setwise")
PATIENCE_S = 300.0  # a machine may be busy

ON_POSTGRES = pytest.mark.parametrize("database_kind", ["postgresql"])
"""For facts that do not depend on the database; PostgreSQL is the stricter one."""

SQLITE_FIRST = pytest.mark.parametrize(
    "database_kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)]
)
"""For facts that each database must prove; `tests/stores` proves them on PostgreSQL in small."""


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.05)


@dataclass
class Installation:
    """A database, a folder and the processes that serve them."""

    settings: Settings
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    servers: list["Server"] = field(default_factory=list)
    application: Any = None

    def key(self, name: str, role: Role) -> str:
        """Make a key and return its secret."""
        _, self.secrets[name] = self.application.services.keys.create(SYSTEM, name, role)
        return self.secrets[name]

    def fix_threshold(self, value: float) -> None:
        """Send every document with at least this confidence."""
        change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, value)
        self.application.services.policy.change(SYSTEM, change, None)

    def environment(self) -> dict[str, str]:
        """Return the environment of the processes."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SETWISE_")}
        if self.settings.encryption_keys is not None:
            kept["SETWISE_ENCRYPTION_KEYS"] = self.settings.encryption_keys.get_secret_value()
        return kept | {
            "SETWISE_DATA_DIR": str(self.settings.data_dir),
            "SETWISE_DATABASE_URL": self.settings.database_url,
            "SETWISE_LOG_FORMAT": "json",
            "OMP_NUM_THREADS": "1",
        }

    def serve(self, port: int = 0) -> "Server":
        """Start a server, on a free port unless one is given, and wait until it is ready."""
        server = Server(self, self.folder / f"server-{len(self.servers)}.log", port)
        self.servers.append(server)
        server.wait_until_ready()
        return server


class Server:
    """One process of ``setwise serve``."""

    def __init__(self, installation: Installation, log: Path, port: int = 0) -> None:
        self._installation = installation
        self.log = log
        output: IO[str]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [SETWISE, "serve", "--port", str(port)],
                env=installation.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=installation.folder,
            )
        self.url = ""

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if line.startswith("Setwise listens on "):
                    self.url = line.removeprefix("Setwise listens on ")
                    with self.client() as client:
                        while client.get("/readyz").status_code != 200:
                            assert time.monotonic() < deadline, "the model was not loaded"
                            time.sleep(0.05)
                    return
            time.sleep(0.05)
        raise AssertionError(f"the server did not start:\n{self.log.read_text()}")

    def client(self, name: str | None = None) -> httpx.Client:
        """Return an HTTP client that calls as ``name``."""
        secret = self._installation.secrets[name] if name else None
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def stop(self) -> None:
        """Ask the server to stop, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End the server at once, in the middle of whatever it does."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextmanager
def installed(data_dir: Path, database_url: str, artifacts: Artifacts) -> Iterator[Installation]:
    """Give an installation with an active model and a key of each role; end it afterwards."""
    settings = Settings(data_dir=data_dir, database_url=database_url)
    made = Installation(settings, data_dir.parent, application=build.build(settings))
    try:
        services = made.application.services
        services.models.activate(SYSTEM, services.models.add(SYSTEM, str(artifacts.text)).id)
        for role in Role:
            made.key(role.value, role)
        yield made
    finally:
        for server in made.servers:
            if server.process.poll() is None:
                server.kill()
        made.application.close()


@pytest.fixture
def installation(database_url: str, artifacts: Artifacts, tmp_path: Path) -> Iterator[Installation]:
    """Return an installation with an active model and a key of each role."""
    with installed(tmp_path / "data", database_url, artifacts) as made:
        yield made


def pages(client: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Yield every item of a list, page by page."""
    cursor: dict[str, str] = {}
    while True:
        response = client.get(path, params={"limit": "200", **cursor})
        assert response.status_code == 200, response.text
        yield from response.json()["items"]
        if response.json()["next_cursor"] is None:
            return
        cursor = {"cursor": response.json()["next_cursor"]}


@dataclass
class Work:
    """What reviewers who work at once did: tasks settled, and tasks that two held at once."""

    settled: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)


def review_together(
    installation: Installation, server: Server, *, n_reviewers: int, release_each: int
) -> Work:
    """Let many people empty the queue; each gives back every ``release_each``-th task."""
    names = [f"reviewer {n}" for n in range(n_reviewers)]
    for name in names:
        installation.key(name, Role.REVIEWER)
    work, held, lock = Work(), set[str](), threading.Lock()

    def review(name: str) -> None:
        with server.client(name) as reviewer:
            for turn in itertools.count(1):
                claimed = reviewer.post("/v1/reviews/claim")
                if claimed.status_code == 204:
                    return
                assert claimed.status_code == 200, claimed.text
                task = claimed.json()
                with lock:
                    if task["id"] in held:
                        work.shared.append(task["id"])
                    held.add(task["id"])
                time.sleep(0.005)  # to read it; meanwhile nobody else may get it
                with lock:
                    held.discard(task["id"])
                if turn % release_each == 0:
                    done = reviewer.post(f"/v1/reviews/{task['id']}/release")
                else:
                    done = reviewer.post(
                        f"/v1/reviews/{task['id']}/complete",
                        json={"labels": task["candidates"][0]["labels"]},
                        headers={"If-Match": claimed.headers["etag"]},
                    )
                    with lock:
                        work.settled.append(task["id"])
                assert done.status_code == 200, done.text

    with ThreadPoolExecutor(n_reviewers) as pool:
        for future in [pool.submit(review, name) for name in names]:
            future.result()
    return work
