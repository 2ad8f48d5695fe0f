"""Small stand-ins for what the verbs need: a database in memory, a clock, ids, a predictor.

`FakeDatabase` passes the same contract tests as the real databases (`tests/db/contract`).
"""

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

from setwise.service.domain.accounts import Attempts, Person, Session
from setwise.service.domain.annotators import DEFAULT_GROUP, Annotator, Group
from setwise.service.domain.audit_trail import Event, EventFilter, Origin, prediction_created
from setwise.service.domain.audits import Lottery
from setwise.service.domain.breaker import Reset, Trip
from setwise.service.domain.callers import ApiKey
from setwise.service.domain.certification import Certification
from setwise.service.domain.errors import (
    DuplicateModel,
    JobUnfinished,
    ModelDamaged,
    ModelUnavailable,
    ShadowTaken,
    StaleVersion,
)
from setwise.service.domain.jobs import Job, JobFilter, JobState
from setwise.service.domain.models import Comparison, ModelVersion, Shadow, Tally
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.paging import Item, Page
from setwise.service.domain.policy import RoutingPolicy, first_policy
from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Marginal,
    Prediction,
    PredictionFilter,
    Reason,
    ScoredSet,
    TermWeight,
)
from setwise.service.domain.recalibration import Calibration
from setwise.service.domain.reports import Backlog, Line, Span
from setwise.service.domain.reviews import Annotation, ReviewState, ReviewTask
from setwise.service.domain.verdicts import Evidence, deciding, last_told
from setwise.service.stores.outcomes import OutcomeRaced
from setwise.service.stores.predictions import IdempotencyKeyTaken, NewPrediction, Recording
from tests.fake_annotators import FakeAnnotators
from tests.fake_breaker import FakeBreakers
from tests.fake_calibrations import FakeCalibrations
from tests.fake_certifications import FakeCertifications
from tests.fake_outbox import FakeDeliveries, FakeEndpoints, FakeOutbox, Outgoing
from tests.fake_people import FakePeople, FakeSessions, FakeSignInAttempts
from tests.fake_reports import FakeReports
from tests.fake_texts import FakeTexts

Said = TypeVar("Said", Annotation, Outcome)

LOTTERY = Lottery(b"draws for tests")
START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self.instant = start

    def __call__(self) -> datetime:
        return self.instant

    def advance(self, **span: float) -> None:
        """Move on, or back, by ``timedelta(**span)``."""
        self.instant += timedelta(**span)


class FakeIds:
    """UUIDv7 strings that count up, the same ones in every run."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            number = self._next
            self._next += 1
        return f"019b7a0b-0000-7000-8000-{number:012x}"


def scored_set(
    confidence: float = 0.9, *, labels: Sequence[str] = ("a", "b"), out_of_domain: bool = False
) -> ScoredSet:
    """Return an answer with three candidates, the first as given."""
    return ScoredSet(
        candidates=(
            Candidate(tuple(labels), confidence, confidence / 2),
            Candidate(("a",), confidence / 8, 0.1),
            Candidate((), 0.0, 1e-12),
        ),
        marginals=(Marginal("a", 0.98), Marginal("b", 0.7), Marginal("old-code", 0.125)),
        out_of_domain=out_of_domain,
        model_version="sha256:model",
        calibrator_version="sha256:calibrator",
    )


@dataclass
class FakePredictor:
    """Answers each document with what its text says: a number is the confidence.

    Other text gets 0.9, and ``unknown`` is out of domain.
    """

    version: str = "sha256:model"
    calibrator_version: str = "sha256:calibrator"
    own_calibrator_version: str = "sha256:calibrator"
    labels: Sequence[str] = ("a", "b", "c", "d")
    scored: int = 0

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        self.scored += len(documents)
        return [self._score(document.text or "") for document in documents]

    def seen(self, sets: Sequence[Sequence[str]]) -> list[bool]:
        """Say that training documents have at most two labels."""
        return [len(labels) <= 2 for labels in sets]

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Say that the first word speaks for every label and the last one against it."""
        words = (document.text or "").split()
        return [(TermWeight(words[0], 1.5), TermWeight(words[-1], -0.5)) for _ in labels]

    @staticmethod
    def _score(text: str) -> ScoredSet:
        try:
            return scored_set(float(text))
        except ValueError:
            return scored_set(out_of_domain=text == "unknown")


@dataclass
class FakePredictors:
    """A registry that serves one predictor, or none."""

    predictor: FakePredictor | None = field(default_factory=FakePredictor)

    def active(self) -> FakePredictor:
        if self.predictor is None:
            raise ModelUnavailable("No model is active.")
        return self.predictor


@dataclass
class FakeLoader:
    """Loads every model but those whose version is ``damaged``."""

    predictor: FakePredictor = field(default_factory=FakePredictor)
    damaged: set[str] = field(default_factory=set)
    followed: int = 0

    def load(self, model: ModelVersion) -> FakePredictor:
        if model.version in self.damaged:
            raise ModelDamaged(f"The model {model.location} cannot be loaded.")
        return replace(self.predictor, version=model.version)

    def follow(self) -> None:
        self.followed += 1


class FakeStore:
    """An artifact store in which every source is a sound artifact with itself as content."""

    def __init__(self, now: FakeClock, new_id: FakeIds) -> None:
        self._now = now
        self._new_id = new_id

    def add(self, source: str) -> ModelVersion:
        return ModelVersion(
            id=self._new_id(),
            version=f"sha256:{source}",
            location=source,
            summary={"method": "br-rerank", "n_labels": 4},
            active=False,
            created_at=self._now(),
        )

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        return self.add(archive.read().decode())


@dataclass
class _Contents:
    """All that is stored. Values are immutable, so a copy of the containers is a snapshot."""

    predictions: dict[str, Prediction] = field(default_factory=dict)
    idempotency: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    reviews: dict[str, ReviewTask] = field(default_factory=dict)
    annotations: dict[str, Annotation] = field(default_factory=dict)
    outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)
    policies: list[RoutingPolicy] = field(default_factory=lambda: [first_policy(START)])
    certifications: dict[str, Certification] = field(default_factory=dict)
    annotators: dict[str, Annotator] = field(default_factory=dict)
    groups: dict[str, Group] = field(
        default_factory=lambda: {
            DEFAULT_GROUP: Group(DEFAULT_GROUP, "Everybody", None, 1, START, "system")
        }
    )
    trips: dict[str, Trip] = field(default_factory=dict)
    resets: dict[str, Reset] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    calibration_activations: list[tuple[str, str | None, datetime]] = field(default_factory=list)
    models: dict[str, ModelVersion] = field(default_factory=dict)
    activations: list[tuple[str, datetime]] = field(default_factory=list)
    shadows: dict[str, Shadow] = field(default_factory=dict)
    comparisons: dict[tuple[str, str], Comparison] = field(default_factory=dict)
    keys: dict[str, ApiKey] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    attempts: dict[bytes, Attempts] = field(default_factory=dict)
    purged: dict[str, datetime] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    outgoing: Outgoing = field(default_factory=Outgoing)

    def snapshot(self) -> "_Contents":
        return _Contents(**{name: copy.copy(value) for name, value in vars(self).items()})


class FakeDatabase:
    """Opens transactions on contents in memory: one writer at a time, readers on a snapshot."""

    def __init__(self) -> None:
        self.contents = _Contents()
        self.writer = threading.Lock()

    def __call__(self, *, read_only: bool = False, snapshot: bool = False) -> "FakeUnitOfWork":
        return FakeUnitOfWork(self, read_only=read_only)


class FakeUnitOfWork:
    """Works on a snapshot, which `commit` puts in place of the contents."""

    def __init__(self, database: FakeDatabase, *, read_only: bool) -> None:
        self._database = database
        self._read_only = read_only

    def __enter__(self) -> Self:
        if not self._read_only and not self._database.writer.acquire(timeout=10):
            raise AssertionError("a transaction was opened inside another one")
        contents = self._contents = self._database.contents.snapshot()
        self.predictions = FakePredictions(contents)
        self.reviews = FakeReviews(contents)
        self.outcomes = FakeOutcomes(contents)
        self.policies = FakePolicies(contents)
        self.certifications = FakeCertifications(contents)
        self.breakers = FakeBreakers(contents)
        self.annotators = FakeAnnotators(contents)
        self.calibrations = FakeCalibrations(contents)
        self.models = FakeModels(contents)
        self.keys = FakeKeys(contents)
        self.people = FakePeople(contents)
        self.sessions = FakeSessions(contents)
        self.attempts = FakeSignInAttempts(contents)
        self.audit_trail = FakeAuditTrail(contents)
        self.jobs = FakeJobs(contents)
        self.texts = FakeTexts(contents)
        self.outbox = FakeOutbox(contents.outgoing)
        self.endpoints = FakeEndpoints(contents.outgoing)
        self.deliveries = FakeDeliveries(contents.outgoing)
        self.history = FakeHistory(contents)
        self.comparisons = FakeComparisons(contents)
        self.backlog = FakeBacklog(contents)
        self.reports = FakeReports(contents)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._read_only:
            self._database.writer.release()

    def adding(self, recording: Recording) -> Callable[[], None]:
        def add() -> None:
            made = {one.id: one for one in recording.predictions}
            self.predictions.add_all([*zip(made.values(), recording.submissions, strict=True)])
            self.reviews.add_all(
                [
                    ReviewTask(id_, made[of], kind, ReviewState.WAITING, 1, created_at)
                    for id_, of, kind, created_at in recording.tasks
                ]
            )
            self.outbox.add_all(recording.messages)

        return add

    def commit(self) -> None:
        if not self._read_only:
            self._database.contents = self._contents.snapshot()


@dataclass
class _Repository:
    contents: _Contents


class FakePredictions(_Repository):
    """Stored predictions."""

    def add_all(self, predictions: Sequence[NewPrediction]) -> None:
        for prediction, (caller, _, idempotency, request_id) in predictions:
            if idempotency is not None:
                name = (prediction.client_id, idempotency.key)
                if name in self.contents.idempotency:
                    raise IdempotencyKeyTaken(idempotency.key)
                self.contents.idempotency[name] = (prediction.id, idempotency.request_digest)
            self.contents.predictions[prediction.id] = prediction
            self.contents.events[prediction.id] = prediction_created(
                Origin(caller.name, request_id, caller.address),
                id=prediction.id,
                client_id=prediction.client_id,
                at=prediction.created_at,
                rule=prediction.rule,
                decision=prediction.decision.value,
                reason=prediction.reason.value,
                confidence=prediction.scored.confidence,
                threshold=prediction.threshold,
                model_version=prediction.scored.model_version,
                calibrator_version=prediction.scored.calibrator_version,
                policy_version=prediction.policy_version,
                audit_role=prediction.selection.role.value,
                draw=prediction.selection.draw,
            )

    def get(self, prediction_id: str) -> Prediction | None:
        return self.contents.predictions.get(prediction_id)

    def replayed(self, client_id: str, key: str) -> tuple[Prediction, str] | None:
        found = self.contents.idempotency.get((client_id, key))
        return None if found is None else (self.contents.predictions[found[0]], found[1])

    def page(self, wanted: PredictionFilter, *, after: str | None, limit: int) -> Page[Prediction]:
        found = [p for p in self.contents.predictions.values() if _matches(p, wanted)]
        return _page(found, after, limit, newest_first=True)

    def counts(self) -> Mapping[tuple[Decision, Reason], int]:
        return Counter((p.decision, p.reason) for p in self.contents.predictions.values())


def _matches(prediction: Prediction, wanted: PredictionFilter) -> bool:
    return (
        wanted.client_id in {None, prediction.client_id}
        and wanted.decision in {None, prediction.decision}
        and wanted.document_id in {None, prediction.document.id}
        and (wanted.created_from is None or prediction.created_at >= wanted.created_from)
        and (wanted.created_before is None or prediction.created_at < wanted.created_before)
    )


class FakeReviews(_Repository):
    """The review queue."""

    def add(self, task: ReviewTask) -> None:
        self.contents.reviews[task.id] = task

    def add_all(self, tasks: Sequence[ReviewTask]) -> None:
        for task in tasks:
            self.add(task)

    def get(self, task_id: str, *, for_update: bool = False) -> ReviewTask | None:
        return self.contents.reviews.get(task_id)

    def lock(self, prediction_id: str) -> None:
        """Writers come one at a time as it is."""

    def next_for(
        self, reviewer: str, now: datetime, *, escalated: bool, only: str | None = None
    ) -> ReviewTask | None:
        claimable = [
            task
            for task in self.contents.reviews.values()
            if only in {None, task.id}
            and task.claimable_by(reviewer, now, escalated=escalated)
            and not self._reads(reviewer, task.prediction.id, now)
        ]
        return min(claimable, key=lambda task: (not task.escalated, task.id), default=None)

    def _reads(self, reviewer: str, prediction_id: str, now: datetime) -> bool:
        return any(one.reviewer == reviewer for one in self.annotations_of(prediction_id)) or any(
            task.lease.holder == reviewer
            and (task.lease.expires_at > now or task.decision is not None)
            for task in self.contents.reviews.values()
            if task.prediction.id == prediction_id and task.lease
        )

    def save(self, task: ReviewTask) -> None:
        stored = self.contents.reviews[task.id]
        if stored.version > task.version or stored.state is ReviewState.COMPLETED:
            raise StaleVersion(f"Review task {task.id} has changed since it was read.")
        self.contents.reviews[task.id] = task

    def held_by(self, reviewer: str, now: datetime) -> int:
        return len(self.leased_to(reviewer, now))

    def leased_to(self, reviewer: str, now: datetime) -> list[ReviewTask]:
        held = [
            (task.lease.claimed_at, task.id, task)
            for task in self.contents.reviews.values()
            if task.lease is not None
            and task.lease.holder == reviewer
            and task.lease.expires_at > now
            and task.decision is None
        ]
        return [task for *_, task in sorted(held, key=lambda one: one[:2])]

    def decided(
        self, *, reviewer: str | None = None, before: datetime | None = None, limit: int
    ) -> list[str]:
        found = [
            (task.decision.settles_at, task.id)
            for task in self.contents.reviews.values()
            if task.decision is not None
            and task.lease is not None
            and reviewer in {None, task.lease.holder}
            and (before is None or task.decision.settles_at <= before)
        ]
        return [task_id for _, task_id in sorted(found)[:limit]]

    def settled_by(self, reviewer: str, since: datetime) -> int:
        said = self.contents.annotations.values()
        return sum(one.reviewer == reviewer and one.created_at >= since for one in said)

    def page(
        self, *, state: ReviewState | None, reason: Reason | None, after: str | None, limit: int
    ) -> Page[ReviewTask]:
        found = [
            task
            for task in self.contents.reviews.values()
            if state in {None, task.state}
            and (reason is None or (reason is task.prediction.reason and not task.kind.blind))
        ]
        return _page(found, after, limit, newest_first=False)

    def counts(self) -> Mapping[ReviewState, int]:
        return Counter(task.state for task in self.contents.reviews.values())

    def annotate(self, annotation: Annotation) -> None:
        self.contents.annotations[annotation.task_id] = annotation

    def annotation_of(self, task_id: str) -> Annotation | None:
        return self.contents.annotations.get(task_id)

    def annotations_of(self, prediction_id: str) -> list[Annotation]:
        found = self.contents.annotations.values()
        return sorted((a for a in found if a.prediction_id == prediction_id), key=_id)

    def expire_leases(self, now: datetime, *, limit: int) -> list[ReviewTask]:
        silent = [
            task
            for task in self.contents.reviews.values()
            if task.lease is not None and task.lease.expires_at <= now and task.decision is None
        ]
        expired = [task.expired() for task in sorted(silent, key=lambda task: task.id)[:limit]]
        self.contents.reviews.update({task.id: task for task in expired})
        return expired


class FakeOutcomes(_Repository):
    """Label sets that turned out to be right."""

    def add(self, outcome: Outcome) -> None:
        place = (outcome.prediction_id, outcome.number)
        if place in self.contents.outcomes:
            raise OutcomeRaced(outcome.prediction_id)
        self.contents.outcomes[place] = outcome

    def of(self, prediction_id: str) -> list[Outcome]:
        found = (
            one for one in self.contents.outcomes.values() if one.prediction_id == prediction_id
        )
        return sorted(found, key=lambda outcome: outcome.number)


class FakePolicies(_Repository):
    """Versions of the routing policy."""

    def lock(self) -> None:
        """Writers come one at a time as it is."""

    def current(self) -> RoutingPolicy:
        return self.contents.policies[-1]

    def get(self, version: str) -> RoutingPolicy:
        return next(one for one in self.contents.policies if one.version == version)

    def add(self, policy: RoutingPolicy, *, replacing: str) -> None:
        if self.current().version != replacing:
            raise StaleVersion(f"Version {replacing} is no longer in force.")
        self.contents.policies.append(policy)


class FakeModels(_Repository):
    """Registered artifacts."""

    def add(self, model: ModelVersion) -> None:
        if any(known.version == model.version for known in self.contents.models.values()):
            raise DuplicateModel("The artifact is registered already.")
        self.contents.models[model.id] = model

    def get(self, model_id: str) -> ModelVersion | None:
        model = self.contents.models.get(model_id)
        return None if model is None else self._seen(model)

    def active(self) -> ModelVersion | None:
        return self.get(self._active) if self._active else None

    @property
    def _active(self) -> str | None:
        return self.contents.activations[-1][0] if self.contents.activations else None

    def previous(self) -> ModelVersion | None:
        others = [one for one, _ in self.contents.activations if one != self._active]
        return self.get(others[-1]) if others else None

    def all(self) -> list[ModelVersion]:
        models = self.contents.models.values()
        return [self._seen(m) for m in sorted(models, key=lambda m: m.id, reverse=True)]

    def activate(self, model_id: str, now: datetime, activation_id: str) -> None:
        self.contents.activations.append((model_id, now))

    def _seen(self, model: ModelVersion) -> ModelVersion:
        return replace(model, active=self._active == model.id)


class FakeComparisons(_Repository):
    """Candidates beside the model that serves."""

    def begin_shadow(self, shadow: Shadow) -> None:
        if self.shadow() is not None:
            raise ShadowTaken("Another model is shadowing; end that first.")
        self.contents.shadows[shadow.id] = shadow

    def shadow(self) -> Shadow | None:
        present = (one for one in self.contents.shadows.values() if one.ended_at is None)
        return next(present, None)

    def end_shadow(self, model_id: str, now: datetime) -> bool:
        present = self.shadow()
        if present is None or present.model_id != model_id:
            return False
        self.contents.shadows[present.id] = replace(present, ended_at=now)
        return True

    def add_all(self, comparisons: Sequence[Comparison]) -> None:
        for one in comparisons:
            self.contents.comparisons.setdefault((one.model_id, one.prediction_id), one)

    def tally(self, model_id: str) -> Tally:
        found = [one for one in self.contents.comparisons.values() if one.model_id == model_id]
        ways = Counter((one.decision, one.same_decision) for one in found)
        return Tally(
            compared=len(found),
            same_labels=sum(one.same_labels for one in found),
            auto_both=ways[Decision.AUTO, True],
            auto_serving=ways[Decision.REVIEW, False],
            auto_candidate=ways[Decision.AUTO, False],
            review_both=ways[Decision.REVIEW, True],
        )

    def differing(
        self, model_id: str, *, routes_only: bool, after: str | None, limit: int
    ) -> Page[tuple[Comparison, Prediction]]:
        found = [
            one
            for one in self.contents.comparisons.values()
            if one.model_id == model_id
            and not (one.same_decision and (routes_only or one.same_labels))
        ]
        page = _page(found, after, limit, newest_first=True)
        predictions = self.contents.predictions
        return Page(
            tuple((one, predictions[one.prediction_id]) for one in page.items), page.next_after
        )


class FakeKeys(_Repository):
    """Stored API keys."""

    def add(self, key: ApiKey) -> None:
        self.contents.keys[key.id] = key

    def get(self, key_id: str) -> ApiKey | None:
        return self.contents.keys.get(key_id)

    def by_digest(self, digest: bytes) -> ApiKey | None:
        return next((k for k in self.contents.keys.values() if k.digest == digest), None)

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        return sorted(self.contents.keys.values(), key=lambda key: key.id, reverse=True)

    def revoke(self, key_id: str, now: datetime) -> None:
        key = self.contents.keys[key_id]
        if not key.revoked:
            self.contents.keys[key_id] = replace(key, revoked_at=now)


class FakeAuditTrail(_Repository):
    """The append-only record of what was done."""

    def add(self, event: Event) -> None:
        self.contents.events[event.id] = event

    def add_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.add(event)

    def page(
        self, wanted: EventFilter | None = None, *, after: str | None, limit: int
    ) -> Page[Event]:
        found = [e for e in self.contents.events.values() if _wanted(e, wanted or EventFilter())]
        return _page(found, after, limit, newest_first=True)


def _wanted(event: Event, wanted: EventFilter) -> bool:
    prefix = wanted.action or ""
    return (
        wanted.actor_id in {None, event.actor_id}
        and wanted.subject in {None, event.subject}
        and (
            event.action.startswith(prefix) if prefix[-1:] in {"", "."} else event.action == prefix
        )
        and (wanted.since is None or event.at >= wanted.since)
        and (wanted.before is None or event.at < wanted.before)
    )


class FakeBacklog(_Repository):
    """Work that waits."""

    def read(self) -> Backlog:
        contents, outgoing = self.contents, self.contents.outgoing
        reviews = contents.reviews.values()
        deliveries = outgoing.deliveries.values()
        return Backlog(
            reviews={
                "waiting": _line(t.created_at for t in reviews if t.state is ReviewState.WAITING),
                "leased": _line(t.lease.claimed_at for t in reviews if t.lease),
                "skipped": _line(t.created_at for t in reviews if t.state is ReviewState.SKIPPED),
            },
            deliveries={
                "unrouted": _line(
                    m.created_at for m in outgoing.messages.values() if m.id not in outgoing.routed
                ),
                **{
                    state: _line(d.created_at for d in deliveries if d.state.value == state)
                    for state in ("pending", "dead")
                },
            },
            jobs={
                "queued": _line(
                    job.due_at for job in contents.jobs.values() if job.state is JobState.QUEUED
                ),
                "running": _line(
                    job.started_at
                    for job in contents.jobs.values()
                    if job.state is JobState.RUNNING
                ),
            },
        )


def _line(since: Iterable[datetime | None]) -> Line:
    instants = [instant for instant in since if instant is not None]
    return Line(len(instants), min(instants, default=None))


class FakeJobs(_Repository):
    """The leased job table."""

    def enqueue(self, job: Job) -> bool:
        unfinished = {JobState.QUEUED, JobState.RUNNING}
        if job.key is not None and any(
            other.key == job.key and other.state in unfinished
            for other in self.contents.jobs.values()
        ):
            return False
        if job.request_key and self.requested(str(job.owner_id), job.request_key):
            return False
        self.contents.jobs[job.id] = job
        return True

    def get(self, job_id: str, *, for_update: bool = False) -> Job | None:
        return self.contents.jobs.get(job_id)

    def unfinished(self, key: str) -> Job | None:
        jobs = self.contents.jobs.values()
        return next((job for job in jobs if job.key == key and not job.finished), None)

    def requested(self, owner_id: str, request_key: str) -> Job | None:
        asked = (owner_id, request_key)
        jobs = self.contents.jobs.values()
        return next((job for job in jobs if (job.owner_id, job.request_key) == asked), None)

    def page(self, wanted: JobFilter, *, after: str | None, limit: int) -> Page[Job]:
        found = [
            job
            for job in self.contents.jobs.values()
            if wanted.owner_id in {None, job.owner_id}
            and wanted.kind in {None, job.kind}
            and wanted.state in {None, job.state}
        ]
        return _page(found, after, limit, newest_first=True)

    def checkpoint(self, job_id: str, state: Mapping[str, object], *, token: int) -> bool:
        stored = self.contents.jobs.get(job_id)
        if stored is None or stored.token != token or stored.state is not JobState.RUNNING:
            return False
        self.contents.jobs[job_id] = replace(stored, checkpoint=state)
        return True

    def change(self, job: Job) -> None:
        others = [other for other in self.contents.jobs.values() if other.id != job.id]
        if job.key and any(other.key == job.key and not other.finished for other in others):
            raise JobUnfinished("Another job with the same key is queued or running.")
        self.contents.jobs[job.id] = job

    def any_due(self, kinds: Sequence[str], now: datetime) -> bool:
        return any(self._claimable(kinds, now))

    def _claimable(self, kinds: Sequence[str], now: datetime) -> list[Job]:
        jobs = self.contents.jobs.values()
        return [job for job in jobs if job.kind in kinds and job.claimable(now)]

    def claim(self, kinds: Sequence[str], now: datetime, lease: timedelta) -> Job | None:
        claimable = self._claimable(kinds, now)
        if not claimable:
            return None
        first = min(claimable, key=lambda job: (job.lease_expires_at is None, job.due_at, job.id))
        claimed = self.contents.jobs[first.id] = first.claimed(now, lease)
        return claimed

    def save(self, job: Job, *, token: int) -> bool:
        stored = self.contents.jobs.get(job.id)
        if stored is None or stored.token != token or stored.state is not JobState.RUNNING:
            return False
        self.contents.jobs[job.id] = replace(job, checkpoint=stored.checkpoint)
        return True


class FakeHistory(_Repository):
    """What is stored, in the order of its ids."""

    def predictions(self, span: Span, *, after: str | None, limit: int) -> list[Prediction]:
        found = [p for p in self.contents.predictions.values() if _within(p.created_at, span)]
        mine = [p for p in found if span.client_id in {None, p.client_id}]
        return list(_page(mine, after, limit, newest_first=False).items)

    def annotations(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Annotation, Prediction]]:
        return self._beside(self.contents.annotations.values(), span, after, limit)

    def outcomes(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Outcome, Prediction]]:
        return self._beside(self.contents.outcomes.values(), span, after, limit)

    def events(self, span: Span, *, after: str | None, limit: int) -> list[Event]:
        found = [event for event in self.contents.events.values() if _within(event.at, span)]
        return list(_page(found, after, limit, newest_first=False).items)

    def evidence(self, limit: int, *, with_labels: bool) -> list[Evidence]:
        newest = _page(self.contents.predictions.values(), None, limit, newest_first=True).items
        found = []
        for one in newest:
            said = deciding(FakeReviews(self.contents).annotations_of(one.id))
            told = last_told(FakeOutcomes(self.contents).of(one.id))
            found.append(
                Evidence(
                    confidence=one.scored.confidence,
                    sent=one.decision is Decision.AUTO,
                    reason=one.reason,
                    created_at=one.created_at,
                    inclusion_probability=one.selection.inclusion_probability,
                    said=said.agreed if said else None,
                    told=told.agreed if told else None,
                    labels=list(one.scored.labels) if with_labels else (),
                    metadata=one.document.metadata if with_labels else {},
                )
            )
        return found

    def _beside(
        self, items: Iterable[Said], span: Span, after: str | None, limit: int
    ) -> list[tuple[Said, Prediction]]:
        predictions = self.contents.predictions
        found = [
            item
            for item in items
            if _within(item.created_at, span)
            and span.client_id in {None, predictions[item.prediction_id].client_id}
        ]
        page = _page(found, after, limit, newest_first=False).items
        return [(item, predictions[item.prediction_id]) for item in page]


def _within(at: datetime, span: Span) -> bool:
    return (span.created_from is None or at >= span.created_from) and (
        span.created_before is None or at < span.created_before
    )


def _page(
    items: Iterable[Item], after: str | None, limit: int, *, newest_first: bool
) -> Page[Item]:
    ordered = sorted(items, key=_id, reverse=newest_first)
    if after is not None:
        ordered = [
            item for item in ordered if (_id(item) < after if newest_first else _id(item) > after)
        ]
    shown = ordered[:limit]
    return Page(tuple(shown), _id(shown[-1]) if len(ordered) > limit else None)


def _id(item: object) -> str:
    identity: str = item.id  # type: ignore[attr-defined]  # whatever is listed has an id
    return identity
