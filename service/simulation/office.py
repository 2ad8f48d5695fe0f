"""The service on a temporary SQLite file, with a simulated clock, ids and people."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from setwise.service import build
from setwise.service.domain.annotators import GroupChange, Rates
from setwise.service.domain.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.recalibration import Noise
from setwise.service.domain.reviews import ReviewTask
from setwise.service.domain.routing.segments import Segmentation
from setwise.service.services.all import Services
from setwise.service.services.ports import Predictor
from setwise.service.settings import Settings
from setwise.service.simulation.plan import Plan
from setwise.service.simulation.streams import Labels, Stream
from setwise.service.stores import database as engines
from setwise.service.stores.upkeep import migrate
from setwise.service.telemetry import configure_logging

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""A Monday morning."""

_LEASE_MARGIN = 3.0  # reviews that fit in a lease


class SimulatedClock:
    """A clock that stands still until it is advanced."""

    def __init__(self) -> None:
        self._now = START

    def __call__(self) -> datetime:
        """Return the simulated time."""
        return self._now

    def advance(self, minutes: float) -> None:
        """Advance the clock."""
        self._now += timedelta(minutes=minutes)

    def reach(self, instant: datetime) -> None:
        """Advance to an instant, unless it has passed."""
        self._now = max(self._now, instant)


class SimulatedIds:
    """UUIDv7 strings that increase with simulated time, equal in every run."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._made = 0

    def __call__(self) -> str:
        """Return the next id, greater than all earlier ones."""
        self._made += 1
        moment = f"{int(self._clock().timestamp() * 1_000):012x}"
        return f"{moment[:8]}-{moment[8:]}-7000-8000-{self._made:012x}"


@dataclass(frozen=True)
class _Always:
    """Always returns the same predictor."""

    predictor: Predictor

    def active(self) -> Predictor:
        return self.predictor


@dataclass(frozen=True)
class Annotator:
    """A reviewer who errs at known rates, as the calibrators' noise model assumes."""

    caller: Caller
    noise: float
    """Probability, in [0, 1), of contradicting a right prediction, and of replacing a wrong one
    with another wrong set.
    """
    plan: Plan
    """Sets how often reviewers agree with a wrong prediction. Its seed determines each answer,
    together with the reviewer's name and the document.
    """

    def answer(
        self, task: ReviewTask, truth: Labels, labels: Sequence[str], week: int = 1
    ) -> Labels:
        """Return the reviewer's label set for a task in a week."""
        predicted = task.prediction.scored.labels
        name = f"{self.plan.seed}/{self.caller.name}/{task.prediction.name}/{task.kind}"
        draw = Random(name)  # noqa: S311 -- keeps no secret
        right = set(predicted) == set(truth)
        misses = self.plan.misses(task.prediction.scored.confidence, week)
        if not right and draw.random() < misses:
            return predicted
        return _mistaken(predicted, truth, labels, draw) if draw.random() < self.noise else truth


def _mistaken(predicted: Labels, truth: Labels, labels: Sequence[str], draw: Random) -> Labels:
    """Return the truth with one label changed, but not the predicted set."""
    while len(labels) > 1:  # with a single label, there may be no third set
        label = draw.choice(truth) if truth and draw.random() < 0.5 else draw.choice(labels)
        found = set(truth) ^ {label}
        if found != set(predicted) and found != set(truth):
            return tuple(known for known in labels if known in found)
    return truth


@dataclass(frozen=True)
class Office:
    """A service without a network, and its people."""

    services: Services
    clock: SimulatedClock
    owner: Caller
    client: Caller
    lead: Caller
    annotators: tuple[Annotator, ...]


@contextmanager
def opened(plan: Plan, stream: Stream) -> Iterator[Office]:
    """Open an office for a plan; delete its files at the end."""
    clock = SimulatedClock()
    with TemporaryDirectory(prefix="setwise-simulation-") as folder:
        settings = _settings(Path(folder), plan)
        configure_logging(settings.log_level, settings.log_format)
        source = None if stream.predictor is None else _Always(stream.predictor)
        built = build.build(settings, clock=clock, ids=SimulatedIds(clock), predictors=source)
        engines.hurry(built.engine)
        try:
            migrate.upgrade(built.engine)
            if stream.artifact is not None:
                model = built.services.models.add(SYSTEM, str(stream.artifact))
                built.services.models.activate(SYSTEM, model.id)
            yield _staffed(built.services, clock, plan)
        finally:
            built.close()


def _settings(folder: Path, plan: Plan) -> Settings:
    """Return settings that ignore those of the installation."""
    return Settings.read(
        data_dir=folder,
        database_url="",
        artifact_url="",
        files_url="",
        encryption_keys=None,
        otlp_endpoint="",
        oidc_issuer="",
        log_level="error",
        pepper=SecretStr(hashlib.sha256(f"simulation {plan.seed}".encode()).hexdigest()),
        breaker_run_length=plan.run_length,
        lease_s=max(900.0, 60.0 * _LEASE_MARGIN * plan.minutes),
    )


def _staffed(services: Services, clock: SimulatedClock, plan: Plan) -> Office:
    """Create a key for each person, the groups and the policy."""

    def hire(name: str, role: Role) -> Caller:
        key, _ = services.keys.create(SYSTEM, name, role)
        return key.calling()

    owner = hire("owner", Role.ADMIN)
    places = [(f"group-{place}", group) for place, group in enumerate(plan.groups, start=1)]
    noises = [(name, group.noise) for name, group in places for _ in range(group.size)]
    office = Office(
        services=services,
        clock=clock,
        owner=owner,
        client=hire("documents", Role.CLIENT),
        lead=hire("lead", Role.LEAD),
        annotators=tuple(
            Annotator(hire(f"annotator {place}", Role.REVIEWER), noise, plan)
            for place, (_, noise) in enumerate(noises, start=1)
        ),
    )
    for name, group in places:
        fixed = Rates(group.noise, plan.miss_rate) if plan.noise is Noise.KNOWN else None
        services.annotators.change_group(
            owner, name, GroupChange(f"errs at {group.noise:g}", fixed, fixed), None
        )
    for annotator, (name, _) in zip(office.annotators, noises, strict=True):
        services.annotators.place(owner, annotator.caller.id, name, None)
    services.policy.change(owner, _policy(plan), None)
    return office


def _policy(plan: Plan) -> PolicyChange:
    if plan.fixed_threshold is not None:
        return PolicyChange(plan.target, plan.risk, True, ThresholdMode.FIXED, plan.fixed_threshold)
    return PolicyChange(
        plan.target,
        plan.risk,
        True,
        ThresholdMode.CERTIFIED,
        None,
        audits=plan.audits,
        segmentation=Segmentation("site", most=plan.sites.number)
        if plan.sites is not None and plan.sites.divided
        else None,
    )
