"""A whole service on a port of its own, for real browsers; its model answers as texts state."""

import re
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import uvicorn
from pydantic import SecretStr
from sqlalchemy import event

from setwise.service import app as main
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.labels import NO_ADDITIONS, Additions
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import (
    Candidate,
    Document,
    Marginal,
    Prediction,
    ScoredSet,
)
from setwise.service.domain.reviews import Annotation, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.webhooks import EndpointChange
from setwise.service.services.all import Services
from setwise.service.settings import Settings
from setwise.service.sign_in.passwords import Argon2Passwords
from setwise.service.stores.upkeep import migrate
from tests.building import predict_one
from tests.fakes import FakeIds, FakePredictor
from tests.kit.databases import hurry
from tests.samples import CLIENT
from tests.trained import FILLER, LABELS

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
NUMBER = re.compile(r"[01]\.\d+")
STATED = ("stated", "stated-otherwise")
"""Versions of the two models, the one that serves first."""

# A decision stands only when a test says so, however long that takes.
TIMING = build.Timing(model_poll_s=0.2, job_poll_s=0.2, key_cache_s=0.0, undo=timedelta(minutes=10))
PATIENCE_S = 180.0  # a machine may be busy


@dataclass
class StatedPredictor(FakePredictor):
    """Answers with the labels that a text names or speaks of, as sure as the number in it.

    Without a number, it is 0.6 sure; always ``share`` of that. Of two labels, the second candidate
    lacks one.
    """

    version: str = STATED[0]
    labels: Sequence[str] = tuple(LABELS)
    share: float = 1.0

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        return [self._answer((document.text or "").split()) for document in documents]

    def _answer(self, words: Sequence[str]) -> ScoredSet:
        named = [label for label in LABELS if {label, *LABELS[label]} & set(words)]
        numbers = [float(word) for word in words if NUMBER.fullmatch(word)]
        sure = self.share * (numbers[0] if numbers else 0.6)
        sets = [named, named[:-1] if named else ["court"]]
        sets += [each for each in ([], ["harvest"], ["music", "space"]) if each not in sets]
        return ScoredSet(
            candidates=tuple(
                Candidate(tuple(labels), chance, chance / 2)
                for labels, chance in zip(
                    sets, [sure, *((1 - sure) / 2 ** (n + 1) for n in range(4))], strict=False
                )
            ),
            marginals=tuple(Marginal(each, 0.9 if each in named else 0.05) for each in LABELS),
            out_of_domain=not named and not {*words} & {*FILLER},
            model_version=self.version,
            calibrator_version=self.calibrator_version,
        )

    def calibrated(self, calibrator: None) -> "StatedPredictor":
        return self

    def warm_up(self) -> None:
        pass


def settings_of(folder: Path) -> Settings:
    return Settings(
        data_dir=folder,
        pepper=SecretStr("the same documents are audited in each run of the browser tests"),
        webhook_allow_private=True,
        log_level="warning",
        attachment_hosts="files.example",
    )


def application_of(settings: Settings, **options: object) -> build.Application:
    """Build a service whose registry knows the stated models beside those with an artifact."""
    quick = Argon2Passwords(time_cost=1, memory_kib=64)
    application = build.build(settings, timing=TIMING, passwords=quick, **options)
    event.listen(application.engine, "connect", hurry)
    registry = application.registry
    registry._freeze = lambda: None  # what it has loaded goes with its test
    load = registry._load
    stated = {
        version: StatedPredictor(version, share=share)
        for version, share in zip(STATED, (1.0, 0.8), strict=True)
    }
    registry._load = lambda location: stated.get(location) or load(location)
    return application


def found(folder: Path) -> None:
    """Make an installation of people alone: no model, and the policy of a new one."""
    application = application_of(settings_of(folder), ids=FakeIds())
    migrate.upgrade(application.engine)
    _hire(application.services)
    application.close()


def _hire(services: Services) -> None:
    for login, name in PEOPLE.items():
        services.people.create(SYSTEM, login=login, name=name, role=Role(login), password=PASSWORD)


def prepare(folder: Path) -> None:
    """Make an installation: two models, people, and a policy by which everything is reviewed."""
    application = application_of(settings_of(folder), ids=FakeIds())
    migrate.upgrade(application.engine)
    services = application.services
    models = [
        ModelVersion(
            FakeIds(0x7300_0000_0000 + place)(),
            version,
            location=version,
            summary={"method": "br-rerank", "n_labels": len(LABELS)},
            active=False,
            created_at=datetime.now(UTC),
        )
        for place, version in enumerate(STATED)
    ]
    with application.begin() as transaction:
        for model in models:
            transaction.models.add(model)
    services.models.activate(SYSTEM, models[0].id)
    _hire(services)
    change_policy(services, threshold=1.0)
    application.close()


def remember(folder: Path) -> None:
    """Add a history to an installation: documents, sent, audited or reviewed, and a webhook."""
    application = application_of(settings_of(folder), ids=FakeIds(0x7400_0000_0000))
    services = application.services
    application.registry.follow()
    change_policy(
        services,
        audits=AuditPlan(certification_rate=0.1, training_rate=0.05),
        rules=[{"kind": "label", "label": "storm", "name": "storms are read"}],
    )
    client = services.keys.create(SYSTEM, "intake", Role.CLIENT)[0].calling()
    for place in range(N_DOCUMENTS):
        metadata = {"source": SOURCES[place % len(SOURCES)]}
        document = Document(f"doc-{place}", past_text(place), metadata=metadata)
        predict_one(services.predictions, client, document)
    people = people_of(services)
    for turn in range(N_REVIEWED):
        caller = people[("reviewer", "lead")[turn % 2]]
        task = services.queue.claim(caller)
        assert task is not None
        labels = task.prediction.scored.labels
        answer = labels if turn % 5 else ["finance"]
        services.reviews.complete(caller, task.id, answer, None, task.version)
    # All messages before have gone nowhere: a served copy does not spend its time on deliveries.
    while services.webhooks.route():
        pass
    endpoint, _ = services.webhooks.add(
        SYSTEM, EndpointChange("http://127.0.0.1:9/hooks", "nobody listens there")
    )
    services.webhooks.try_out(SYSTEM, endpoint.id)
    application.close()


def past_text(place: int) -> str:
    """Return a text of the history, as sure as its place says, from 0.3 to 0.98."""
    names = sorted(LABELS)
    labels = {names[place % 6], names[place // 6 % 6]} if place % 3 else {names[place % 5]}
    words = [LABELS[label][place % 4] for label in sorted(labels)]
    return f"{' '.join(words)} {FILLER[place % 10]} {FILLER[place // 10 % 10]} {sureness(place)}"


def sureness(place: int) -> float:
    return 0.3 + 0.02 * (place * 7 % 35)


def change_policy(services: Services, threshold: float = 0.7, **rest: object) -> None:
    """Send what is at least so sure; nothing is audited unless ``rest`` says so."""
    rest.setdefault("audits", AuditPlan())
    rest.setdefault("reason", "a test says so")
    change = PolicyChange(0.9, 0.1, True, ThresholdMode.FIXED, threshold, **rest)
    services.policy.change(SYSTEM, change, None)


def people_of(services: Services) -> dict[str, Caller]:
    """Return whoever has an account, by login name."""
    return {one.login: Caller(one.id, one.name, one.role) for one in services.people.all(SYSTEM)}


def copied(folder: Path, to: Path) -> Path:
    """Return a copy of an installation that has not been served yet."""
    shutil.copytree(folder, to)
    return to


class Site:
    """A running service, in a thread of the tests.

    Attributes
    ----------
    url : str
        Where it listens, such as ``http://127.0.0.1:40001``.
    services : Services
        What the service itself calls, to look behind the pages and to arrange things.
    """

    def __init__(
        self, folder: Path, *, ready: str = "/readyz/predictions", **changed: object
    ) -> None:
        settings = Settings.model_validate(settings_of(folder).model_dump() | changed)
        self.application = application_of(settings)
        self.services = self.application.services
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(main.serving(self.application), log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="site", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + PATIENCE_S
        # The socket listens already; the server answers when it has started. Certificates, which
        # nothing here needs, would load for longer than that.
        with httpx.Client(timeout=PATIENCE_S, trust_env=False, verify=False) as client:
            while client.get(f"{self.url}{ready}").is_error:
                assert self._thread.is_alive(), "the server ended at once"
                assert time.monotonic() < deadline, "the server did not become ready"
                time.sleep(0.02)

    def _serve(self) -> None:
        with self._socket:
            self._server.run(sockets=[self._socket])

    def caller(self, login: str) -> Caller:
        """Return one of the people as whoever calls a verb."""
        return people_of(self.services)[login]

    def token(self, login: str) -> str:
        """Sign somebody in and return what their browser keeps."""
        return self.services.sessions.sign_in(login, PASSWORD)[1]

    def predict(self, document: Document) -> Prediction:
        """Let a document come in."""
        return predict_one(self.services.predictions, CLIENT, document)

    def come_in(self, document: Document) -> str:
        """Let a document come in that is reviewed; return the id of its task."""
        made = self.predict(document)
        with self.services.reviews.begin(read_only=True) as transaction:
            tasks = transaction.reviews.tasks_of(made.id)
        (task,) = tasks
        return task.id

    def audited(self, document: Document) -> str:
        """Let a document come in that is drawn for an audit; return the id of its task."""
        before = self.services.policy.get(SYSTEM)
        change_policy(self.services, 0.0, audits=AuditPlan(1.0, 0.0))
        task_id = self.come_in(document)
        change_policy(self.services, before.fixed_threshold, audits=before.audits)
        return task_id

    def claim(self, login: str, task_id: str) -> ReviewTask:
        """Give one of the people a task of its own, whatever else waits."""
        caller = self.caller(login)
        prediction = self.task(task_id).prediction.id
        self.services.selections.assign(self.caller("admin"), [prediction], caller.id)
        task = self.services.queue.claim(caller, only=task_id)
        assert task is not None
        return task

    def answer(
        self,
        login: str,
        task_id: str,
        labels: Sequence[str],
        additions: Additions = NO_ADDITIONS,
    ) -> ReviewTask:
        """Let one of the people answer a task."""
        task = self.claim(login, task_id)
        caller = self.caller(login)
        self.services.reviews.complete(
            caller, task.id, labels, None, task.version, additions=additions
        )
        return task

    def task(self, task_id: str) -> ReviewTask:
        return self.services.queue.get(SYSTEM, task_id)

    def annotation(self, task_id: str) -> Annotation | None:
        """Return the answer that stands, which a decision is only after the time to undo it."""
        with self.services.reviews.begin(read_only=True) as transaction:
            return transaction.reviews.annotation_of(task_id)

    def leave(self) -> None:
        """Let the service end, which takes it a third of a second."""
        self._server.should_exit = True

    def stop(self) -> None:
        """End the service."""
        self.leave()
        self._thread.join(PATIENCE_S)
