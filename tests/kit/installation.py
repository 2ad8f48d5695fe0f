"""A really started server on either database, whose model answers as documents state.

A pytest plugin.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from sqlalchemy import event

from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.services.all import Services
from setwise.service.settings import Settings
from tests.kit.databases import hurry
from tests.kit.waiting import PATIENCE_S, eventually
from tests.trained import LABELS, documents

SETWISE = Path(sys.executable).with_name("setwise")
LISTENS = "Setwise listens on "

ON_POSTGRES = pytest.mark.parametrize("database_kind", ["postgresql"])
"""For facts that do not depend on the database; PostgreSQL is the stricter one."""

SQLITE_FIRST = pytest.mark.parametrize(
    "database_kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)]
)
"""For facts that each database must prove; `tests/stores` proves them on PostgreSQL in small."""


def stated_documents(n: int, seed: int) -> list[dict[str, object]]:
    """Return documents with another model's scores: of every third 0.6 sure, else 0.95."""
    made = []
    for number, document in enumerate(documents(n, seed)):
        first, *rest = document["labels"]
        sure = 0.95 if number % 3 else 0.6
        scores = dict.fromkeys(LABELS, 0.0) | dict.fromkeys(rest, 1.0) | {first: sure}
        made.append({"id": document["id"], "text": document["text"], "scores": scores})
    return made


@pytest.fixture(scope="session")
def stated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return artifacts of two models that answer as the scores of a document state.

    Their confidence is the probability that the scores give to the set.
    """
    from setwise.models.calibration.calibrators import UncalibratedSets  # noqa: PLC0415 -- slow
    from setwise.models.sets.reranker import SetReranker  # noqa: PLC0415 -- as above
    from setwise.models.storage.artifacts import save  # noqa: PLC0415 -- as above
    from setwise.models.training_external import start_external  # noqa: PLC0415 -- as above

    folder = tmp_path_factory.mktemp("stated")
    for name, labels in (("first", LABELS), ("second", [*LABELS, "weather"])):
        started = start_external(list(labels))
        reranker = SetReranker(started.reranker.features, UncalibratedSets())
        save(replace(started, reranker=reranker), folder / name)
    return folder / "first", folder / "second"


@dataclass
class Installation:
    """A database, a folder and the processes that serve them."""

    settings: Settings
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    servers: list["Server"] = field(default_factory=list)
    application: Any = None
    models: list[ModelVersion] = field(default_factory=list)

    @property
    def services(self) -> Services:
        """The services on the database, in this process."""
        return self.application.services

    def key(self, name: str, role: Role) -> str:
        """Make a key and return its secret."""
        _, self.secrets[name] = self.services.keys.create(SYSTEM, name, role)
        return self.secrets[name]

    def fix_threshold(self, value: float) -> None:
        """Send every document with at least this confidence."""
        change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, value)
        self.services.policy.change(SYSTEM, change, None)

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
        """Start a server, on a free port unless one is given, and wait until it predicts."""
        server = self.start(port)
        server.wait_until("/readyz/predictions")
        return server

    def start(self, port: int = 0) -> "Server":
        """Start a server, and wait until it listens."""
        server = Server(self, self.folder / f"server-{len(self.servers)}.log", port)
        self.servers.append(server)
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
        eventually(lambda: self.process.poll() is not None or LISTENS in log.read_text(), log)
        lines = log.read_text().splitlines()
        urls = [line.removeprefix(LISTENS) for line in lines if line.startswith(LISTENS)]
        assert urls, f"the server did not start:\n{log.read_text()}"
        self.url = urls[0]

    def wait_until(self, ready: str) -> None:
        """Wait until a probe says that it is ready."""
        with self.client() as client:
            eventually(lambda: client.get(ready).status_code == 200, ready)

    def client(self, name: str | None = None) -> httpx.Client:
        """Return an HTTP client that calls as ``name``."""
        secret = self._installation.secrets[name] if name else None
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=False,  # certificates take as long to load as ten requests
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
def installed(
    data_dir: Path, database_url: str, *models: Path, roles: Iterable[Role] = Role, **parts: Any
) -> Iterator[Installation]:
    """Give an installation with a key of each of ``roles``; end it afterwards.

    ``models``: Artifacts to register; the first one serves.
    ``parts``: Its ``settings``, if not the usual ones, and a clock or another part.
    """
    settings = parts.pop("settings", None)
    settings = settings or Settings(data_dir=data_dir, database_url=database_url)
    made = Installation(settings, data_dir.parent, application=build.build(settings, **parts))
    if database_url.startswith("sqlite"):
        event.listen(made.application.engine, "connect", hurry)
    try:
        registry = made.services.models
        made.models = [registry.add(SYSTEM, str(artifact)) for artifact in models]
        for model in made.models[:1]:
            registry.activate(SYSTEM, model.id)
        for role in roles:
            made.key(role.value, role)
        yield made
    finally:
        for server in made.servers:
            if server.process.poll() is None:
                server.kill()
        made.application.close()


@pytest.fixture
def installation(
    database_url: str, stated: tuple[Path, Path], tmp_path: Path
) -> Iterator[Installation]:
    """Return an installation whose first stated model serves."""
    with installed(tmp_path / "data", database_url, stated[0]) as made:
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
