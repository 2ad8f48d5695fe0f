"""A whole service with some history, served on a port of its own, for real browsers."""

import shutil
import socket
import threading
import time
from datetime import timedelta
from pathlib import Path
from random import Random

import httpx
import uvicorn
from pydantic import SecretStr

from setwise.service import app as main
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.webhooks import EndpointChange
from setwise.service.services.all import Services
from setwise.service.settings import Settings
from setwise.service.stores.upkeep import migrate
from tests.building import predict_one
from tests.trained import LABELS, Artifacts, documents

PASSWORD = "correct horse battery"
PEOPLE = {
    "reviewer": "Rosa Reyes",
    "lead": "Lena Lind",
    "admin": "Ada Ames",
    "auditor": "Otto Orr",
}
"""Login name, which is the role too, and what others see."""

N_DOCUMENTS, N_REVIEWED = 120, 40
SOURCES = ("clinic", "mail", "upload")
# A decision stands only when a test says so, however long that takes.
TIMING = build.Timing(model_poll_s=0.2, job_poll_s=0.2, key_cache_s=0.0, undo=timedelta(minutes=10))
PATIENCE_S = 180.0  # numba may have to compile, on a machine that is busy


def prepare(folder: Path, artifacts: Artifacts) -> Path:
    """Make an installation: two models, people, keys, documents, reviews, a webhook."""
    application = build.build(_settings(folder), timing=TIMING)
    migrate.upgrade(application.engine)
    services = application.services
    served = services.models.add(SYSTEM, str(artifacts.text))
    services.models.add(SYSTEM, str(artifacts.other_text))
    services.models.activate(SYSTEM, served.id)
    for login, name in PEOPLE.items():
        services.people.create(SYSTEM, login=login, name=name, role=Role(login), password=PASSWORD)
    services.policy.change(
        SYSTEM,
        PolicyChange(
            target_accuracy=0.9,
            risk=0.1,
            auto_send=True,
            threshold_mode=ThresholdMode.FIXED,
            threshold=0.7,
            audits=AuditPlan(certification_rate=0.1, training_rate=0.05, overlap_rate=0.1),
            rules=[{"kind": "label", "label": "storm", "name": "storms are read"}],
        ),
        None,
    )
    services.webhooks.add(
        SYSTEM, EndpointChange("http://127.0.0.1:9/hooks", "nobody listens there")
    )
    application.registry.start()
    try:
        _fill(services)
    finally:
        application.registry.stop()
        application.close()
    return folder


def _settings(folder: Path) -> Settings:
    return Settings(
        data_dir=folder,
        pepper=SecretStr("the same documents are audited in each run of the browser tests"),
        webhook_allow_private=True,
        log_level="warning",
        attachment_hosts="files.example",
    )


def _fill(services: Services) -> None:
    """Let documents come in, and two people review some, not always rightly."""
    client = services.keys.create(SYSTEM, "intake", Role.CLIENT)[0].calling()
    truth = {}
    draw = Random(7)
    for made in documents(N_DOCUMENTS, seed=11):
        document = Document(
            str(made["id"]), str(made["text"]), metadata={"source": draw.choice(SOURCES)}
        )
        truth[document.id] = list(made["labels"])
        predict_one(services.predictions, client, document)
    people = {person.login: person for person in services.people.all(SYSTEM)}
    callers = [
        Caller(people[login].id, people[login].name, people[login].role)
        for login in ("reviewer", "lead")
    ]
    for turn in range(N_REVIEWED):
        caller = callers[turn % 2]
        task = services.reviews.claim(caller)
        if task is None:
            return
        labels = truth[task.prediction.document.id]
        if draw.random() < 0.1:
            labels = sorted({*labels, draw.choice(sorted(LABELS))})
        services.reviews.complete(caller, task.id, labels, None, task.version)


class Site:
    """A running service, in a thread of the tests.

    Attributes
    ----------
    url : str
        Where it listens, such as ``http://127.0.0.1:40001``.
    services : Services
        What the service itself calls, to look behind the pages and to arrange things.
    """

    def __init__(self, folder: Path, **changed: object) -> None:
        settings = Settings.model_validate(_settings(folder).model_dump() | changed)
        self.application = build.build(settings, timing=TIMING)
        self.services = self.application.services
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(main.serving(self.application), log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="site", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + PATIENCE_S
        # The socket listens already; the server answers when it has started.
        while httpx.get(f"{self.url}/readyz", timeout=PATIENCE_S, trust_env=False).is_error:
            assert self._thread.is_alive(), "the server ended at once"
            assert time.monotonic() < deadline, "the server did not become ready"
            time.sleep(0.02)

    def caller(self, login: str) -> Caller:
        """Return one of the people as whoever calls a verb."""
        found = next(one for one in self.services.people.all(SYSTEM) if one.login == login)
        return Caller(found.id, found.name, found.role)

    def token(self, login: str) -> str:
        """Sign somebody in and return what their browser keeps."""
        return self.services.sessions.sign_in(login, PASSWORD)[1]

    @property
    def busy(self) -> bool:
        """Whether it handles a request."""
        return bool(self._server.server_state.tasks)

    def stop(self) -> None:
        """End the service."""
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._socket.close()


def copied(folder: Path, to: Path) -> Path:
    """Return a copy of an installation that has not been served yet."""
    shutil.copytree(folder, to)
    return to
