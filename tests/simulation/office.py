"""The whole service on a temporary SQLite file, with a clock that tests move, and its people."""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.recalibration import Noise
from setwise.service.domain.reviews import ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.logs import configure_logging
from setwise.service.runtime.worker import Worker
from setwise.service.services.all import Services
from setwise.service.services.ports import Predictor
from setwise.service.settings import Settings
from tests.fakes import FakeClock, FakeIds
from tests.kit.databases import template
from tests.kit.installation import installed
from tests.simulation.streams import Drift, Labels, Stream

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""A Monday morning."""


AUDITS = AuditPlan(certification_rate=0.1, training_rate=0.02, gold_reread_rate=0.5)


@dataclass(frozen=True)
class Scenario:
    """What happens in a simulation."""

    weeks: int = 30
    documents: int = 1_000
    """Documents per week."""
    target: float = 0.9
    risk: float = 0.1
    annotators: tuple[float, ...] = (0.1, 0.3, 0.5)
    """How often each reviewer contradicts a right prediction; each is a group of one."""
    miss_rate: float = 0.02
    """Probability, in [0, 1), that a reviewer agrees with a wrong prediction."""
    audits: AuditPlan = AUDITS
    recertify_every: int = 4
    """Weeks between requests for a new certificate; 0 for never."""
    run_length: float = 5_000.0
    """Minimum average number of audits between false alarms of the breaker."""
    recalibrate_every: int = 0
    """Weeks between recalibrations without a valid certificate, because a new calibrator would
    need a new certificate; 0 for never.
    """
    new_calibrators: tuple[int, ...] = ()
    """Weeks at whose end a new calibrator is activated, whatever is certified."""
    noise: Noise = Noise.KNOWN
    """What recalibration assumes about the reviewers."""
    drift: Drift | None = None
    fixed_threshold: float | None = None
    """Sends all sets of at least this confidence, without audits, certificates or breaker."""
    seed: int = 0


@dataclass(frozen=True)
class Always:
    """Always returns the same predictor."""

    predictor: Predictor

    def active(self) -> Predictor:
        return self.predictor


@dataclass(frozen=True)
class Reviewer:
    """A reviewer who errs at known rates, as the calibrators' noise model assumes."""

    caller: Caller
    noise: float
    """Probability, in [0, 1), of contradicting a right prediction, of replacing a wrong one with
    another wrong set, and of an error where nothing is suggested.
    """
    miss_rate: float
    seed: int
    """Determines each answer, together with the reviewer's name and the document."""

    def answer(self, task: ReviewTask, truth: Labels, labels: Sequence[str]) -> Labels:
        """Return the reviewer's label set for a task."""
        predicted = task.candidates[0].labels if task.candidates else None
        draw = Random(f"{self.seed}/{self.caller.name}/{task.prediction.name}/{task.kind}")
        wrong = predicted is not None and set(predicted) != set(truth)
        if predicted is not None and wrong and draw.random() < self.miss_rate:
            return predicted
        return mistake(predicted, truth, labels, draw) if draw.random() < self.noise else truth


def mistake(predicted: Labels | None, truth: Labels, labels: Sequence[str], draw: Random) -> Labels:
    """Return the truth with one label changed, but not the predicted set."""
    while True:
        label = draw.choice(truth) if truth and draw.random() < 0.5 else draw.choice(labels)
        changed = set(truth) ^ {label}
        if predicted is None or changed != set(predicted):
            return tuple(each for each in labels if each in changed)


@dataclass(frozen=True)
class Office:
    """The people of the kit's installation, without a network."""

    services: Services
    worker: Worker
    clock: FakeClock
    owner: Caller
    client: Caller
    lead: Caller
    reviewers: tuple[Reviewer, ...]


@contextmanager
def open_office(scenario: Scenario, stream: Stream) -> Iterator[Office]:
    """Open an office; delete its files at the end."""
    clock = FakeClock(START)
    with TemporaryDirectory(prefix="setwise-simulation-") as folder:
        settings = _settings(Path(folder), scenario)
        shutil.copyfile(template(), Path(folder) / "setwise.db")
        configure_logging(settings.log_level, settings.log_format)
        with installed(
            settings.data_dir,
            settings.database_url,
            *([] if stream.artifact is None else [stream.artifact]),
            roles=(),
            settings=settings,
            clock=clock,
            ids=FakeIds(),
            predictors=None if stream.predictor is None else Always(stream.predictor),
            run_length=scenario.run_length,
        ) as site:
            yield _staff(site.services, site.application.worker, clock, scenario)


def _settings(folder: Path, scenario: Scenario) -> Settings:
    """Return settings that ignore those of the installation."""
    return Settings.read(
        data_dir=folder,
        database_url=f"sqlite:///{folder / 'setwise.db'}",
        artifact_url="",
        files_url="",
        encryption_keys=None,
        otlp_endpoint="",
        oidc_issuer="",
        log_level="error",
        pepper=SecretStr(hashlib.sha256(f"simulation {scenario.seed}".encode()).hexdigest()),
    )


def _staff(services: Services, worker: Worker, clock: FakeClock, scenario: Scenario) -> Office:
    """Create a key for each person, the groups and the policy."""

    def hire(name: str, role: Role) -> Caller:
        key, _ = services.keys.create(SYSTEM, name, role)
        return key.calling()

    owner = hire("owner", Role.ADMIN)
    reviewers = tuple(
        Reviewer(hire(f"reviewer {place}", Role.REVIEWER), noise, scenario.miss_rate, scenario.seed)
        for place, noise in enumerate(scenario.annotators, start=1)
    )
    for place, reviewer in enumerate(reviewers, start=1):
        known = scenario.noise is Noise.KNOWN
        rates = Rates(reviewer.noise, scenario.miss_rate) if known else None
        group = f"group-{place}"
        change = GroupChange(f"errs at {reviewer.noise:g}", rates, rates)
        services.annotators.change_group(owner, group, change, None)
        services.annotators.place(owner, reviewer.caller.id, group, None)
    services.policy.change(owner, _policy(scenario), None)
    return Office(
        services=services,
        worker=worker,
        clock=clock,
        owner=owner,
        client=hire("documents", Role.CLIENT),
        lead=hire("lead", Role.LEAD),
        reviewers=reviewers,
    )


def _policy(scenario: Scenario) -> PolicyChange:
    promise = (scenario.target, scenario.risk, True)
    if scenario.fixed_threshold is not None:
        return PolicyChange(*promise, ThresholdMode.FIXED, scenario.fixed_threshold)
    return PolicyChange(*promise, ThresholdMode.CERTIFIED, None, audits=scenario.audits)
