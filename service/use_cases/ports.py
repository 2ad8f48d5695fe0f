"""What the verbs need from the world outside, as Protocols.

Ids are UUIDv7 strings, so ordering by id is ordering by time and an id serves as a list's cursor.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import BinaryIO, Generic, Protocol, Self, TypeVar

from service.domain.accounts import Attempts, Person, Session
from service.domain.backlog import Backlog
from service.domain.certification import AuditedPrediction, Certification, Scorer
from service.domain.comparison import Comparison, Shadow, Tally
from service.domain.delivery import Attempt, Delivery, DeliveryState, Endpoint, Message
from service.domain.history import Event
from service.domain.outcomes import Outcome
from service.domain.people import ApiKey
from service.domain.predictions import (
    Decision,
    Document,
    Prediction,
    Reason,
    ScoredSet,
    TermWeight,
)
from service.domain.reviews import Annotation, ReviewState, ReviewTask
from service.domain.routing import RoutingPolicy
from service.domain.verdicts import CheckedSet, Counted, Evidence, ReviewDay
from service.domain.versions import ModelVersion
from service.domain.work import Job, JobState
from service.use_cases.annotator_ports import Annotators
from service.use_cases.breaker_ports import Breakers
from service.use_cases.calibration_ports import Calibrations

Stage = Callable[[str], AbstractContextManager[object]]
"""Watches how long a part of the work takes: ``with stage("score"): …``."""


def unwatched(name: str) -> AbstractContextManager[object]:  # noqa: ARG001 -- a `Stage`
    """Watch nothing."""
    return _UNWATCHED


_UNWATCHED: AbstractContextManager[object] = nullcontext()

Clock = Callable[[], datetime]
NewId = Callable[[], str]

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """One page of a list, and the id after which the next one starts (None at the end)."""

    items: tuple[Item, ...]
    next_after: str | None


class Predictor(Protocol):
    """A loaded model."""

    @property
    def version(self) -> str: ...

    @property
    def calibrator_version(self) -> str:
        """Of the calibrator whose confidences it gives now."""

    @property
    def own_calibrator_version(self) -> str:
        """Of the calibrator that the model was trained with."""

    @property
    def labels(self) -> Sequence[str]:
        """Every label that the model can predict."""

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        """Score documents together; raises `InvalidRequest` where one cannot be scored."""

    def seen(self, sets: Sequence[Sequence[str]]) -> list[bool]:
        """Tell of each label set whether a training document has it; True if that is unknown."""

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Return what the document's terms add to each label, weightiest first.

        Raises `InvalidRequest` where the document cannot be scored or a label is unknown.
        """


class PredictorSource(Protocol):
    """Hands out the predictor that serves now."""

    def active(self) -> Predictor:
        """Return it; raises `ModelUnavailable` when there is none."""


class ModelLoader(Protocol):
    """Loads registered models beside the one that serves."""

    def load(self, model: ModelVersion) -> Predictor:
        """Return the model, ready to predict; raises `ModelDamaged` when it cannot be."""

    def follow(self) -> None:
        """Let this process serve at once what the database says; others follow by themselves."""


class ArtifactStore(Protocol):
    """Keeps model artifacts, in a folder or in an object store."""

    def add(self, source: str) -> ModelVersion:
        """Verify the artifact folder ``source``, keep a copy and describe it (not yet recorded).

        Raises `InvalidRequest` when it is not a sound artifact.
        """

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        """Add an artifact folder that comes as a ZIP file, as `add` does."""


@dataclass(frozen=True)
class PredictionFilter:
    """Which predictions to list; None does not restrict."""

    client_id: str | None = None
    decision: Decision | None = None
    document_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class Predictions(Protocol):
    """Stored predictions."""

    def add(self, prediction: Prediction, *, idempotency: "IdempotencyKey | None" = None) -> None:
        """Store one; raises `IdempotencyKeyTaken` when its client used the key before."""

    def add_all(self, predictions: "Sequence[tuple[Prediction, IdempotencyKey | None]]") -> None:
        """Store many, as `add` does each."""

    def get(self, prediction_id: str) -> Prediction | None: ...

    def replayed(self, client_id: str, key: str) -> "tuple[Prediction, str] | None":
        """Return the prediction made under an idempotency key, and its request digest."""

    def page(self, wanted: PredictionFilter, *, after: str | None, limit: int) -> Page[Prediction]:
        """List newest first."""

    def counts(self) -> Mapping[tuple[Decision, Reason], int]: ...


@dataclass(frozen=True)
class IdempotencyKey:
    """A client's own name for a request, with a digest of its body."""

    key: str
    request_digest: str


class IdempotencyKeyTaken(Exception):
    """Another request was stored under the same key first; this transaction is lost."""


class Reviews(Protocol):
    """The review queue."""

    def add(self, task: ReviewTask) -> None: ...

    def add_all(self, tasks: Sequence[ReviewTask]) -> None: ...

    def get(self, task_id: str, *, for_update: bool = False) -> ReviewTask | None:
        """Return one; ``for_update`` locks it and the other tasks of its prediction."""

    def lock(self, prediction_id: str) -> None:
        """Let whoever settles a task of this prediction wait until this transaction ends."""

    def next_for(self, reviewer: str, now: datetime, *, escalated: bool) -> ReviewTask | None:
        """Lock and return the oldest task that ``reviewer`` may claim now.

        That is one that waits or whose lease has run out, that ``reviewer`` has not skipped, and of
        whose prediction ``reviewer`` neither holds nor has settled another task; with
        ``escalated``, tasks for leads come first. Tasks locked by a concurrent claim are passed
        over, so no task is ever claimed twice.
        """

    def save(self, task: ReviewTask) -> None:
        """Store a changed task; raises `StaleVersion` when a newer or settled one is stored."""

    def held_by(self, reviewer: str, now: datetime) -> int:
        """Count the live leases of ``reviewer``, whose other claims wait until this one ends."""

    def page(
        self,
        *,
        state: ReviewState | None,
        reason: Reason | None,
        after: str | None,
        limit: int,
    ) -> Page[ReviewTask]:
        """List oldest first; a blind task has no ``reason`` that anybody may ask for."""

    def counts(self) -> Mapping[ReviewState, int]: ...

    def annotate(self, annotation: Annotation) -> None: ...

    def annotation_of(self, task_id: str) -> Annotation | None: ...

    def annotations_of(self, prediction_id: str) -> list[Annotation]:
        """List what people said of one prediction, oldest first."""

    def expire_leases(self, now: datetime, *, limit: int) -> list[ReviewTask]:
        """Return up to ``limit`` tasks whose lease has run out to the queue, but no decided ones.

        Gives the changed tasks, oldest first.
        """

    def leased_to(self, reviewer: str, now: datetime) -> list[ReviewTask]:
        """List what ``reviewer`` holds and has not decided, first claimed first."""

    def decided(
        self, *, reviewer: str | None = None, before: datetime | None = None, limit: int
    ) -> list[str]:
        """List tasks whose decision could be taken back until now, or ``before``; oldest first."""

    def settled_by(self, reviewer: str, since: datetime) -> int:
        """Count the annotations that ``reviewer`` made since."""


class OutcomeRaced(Exception):
    """Another outcome got the same number first; this transaction is lost."""


class Outcomes(Protocol):
    """Label sets that turned out to be right."""

    def add(self, outcome: Outcome) -> None:
        """Store one; raises `OutcomeRaced` when its number is taken."""

    def of(self, prediction_id: str) -> list[Outcome]:
        """List the outcomes of one prediction by number."""


class Policies(Protocol):
    """Versions of the routing policy; the newest is in force."""

    def lock(self) -> None:
        """Let others that change the policy wait until this transaction ends.

        So do those that weigh audits: of two that end at once neither would be seen by the other.
        """

    def current(self) -> RoutingPolicy: ...

    def get(self, version: str) -> RoutingPolicy:
        """Return a version that a stored prediction names."""

    def add(self, policy: RoutingPolicy, *, replacing: str) -> None:
        """Store a new version; raises `StaleVersion` unless ``replacing`` is in force."""


class Certifications(Protocol):
    """Attempts to prove a threshold, and what they rest on."""

    def add(self, certification: Certification) -> None: ...

    def get(self, certification_id: str) -> Certification | None: ...

    def page(self, *, after: str | None, limit: int) -> Page[Certification]:
        """List newest first."""

    def newest(self, scorer: Scorer) -> Certification | None: ...

    def proved(self, scorer: Scorer) -> list[Certification]:
        """List those that proved a threshold, newest first."""

    def attempts(self, scorer: Scorer) -> int: ...

    def serving(self) -> Scorer | None:
        """Return what made the newest prediction; None if there is none."""

    def audited(self, scorer: Scorer) -> list[AuditedPrediction]:
        """List the predictions drawn to certify, oldest first."""

    def unaudited(self, scorer: Scorer, *, limit: int) -> list[float]:
        """Return confidences of the newest predictions that could be sent and were not drawn."""


class Models(Protocol):
    """Registered artifacts."""

    def add(self, model: ModelVersion) -> None:
        """Record one; raises `DuplicateModel` for content that is registered already."""

    def get(self, model_id: str) -> ModelVersion | None: ...

    def active(self) -> ModelVersion | None: ...

    def previous(self) -> ModelVersion | None:
        """Return the model that was active before the present one became so."""

    def all(self) -> list[ModelVersion]:
        """List newest first."""

    def activate(self, model_id: str, now: datetime, activation_id: str) -> None: ...


class Keys(Protocol):
    """Stored API keys."""

    def add(self, key: ApiKey) -> None: ...

    def get(self, key_id: str) -> ApiKey | None: ...

    def by_digest(self, digest: bytes) -> ApiKey | None: ...

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        """List newest first; ``for_update`` keeps others from changing them until the commit."""

    def revoke(self, key_id: str, now: datetime) -> None: ...


class Passwords(Protocol):
    """Slow hashes of passwords."""

    def hash(self, password: str) -> str:
        """Return what to store of a password."""

    def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether a password is the stored one; without one, take as long and say no."""

    def outdated(self, stored: str) -> bool:
        """Tell whether what is stored was made with other parameters than today's."""


class People(Protocol):
    """Those who sign in."""

    def add(self, person: Person) -> None:
        """Store an account; raises `LoginTaken`."""

    def get(self, person_id: str, *, for_update: bool = False) -> Person | None: ...

    def by_login(self, login: str, *, for_update: bool = False) -> Person | None: ...

    def by_external_id(self, external_id: str) -> Person | None: ...

    def all(self, *, for_update: bool = False) -> list[Person]:
        """List by login name; ``for_update`` keeps others from changing them until the commit."""

    def save(self, person: Person) -> None:
        """Store a changed account."""


class Sessions(Protocol):
    """Browsers in which somebody signed in."""

    def add(self, session: Session) -> None: ...

    def by_digest(self, digest: bytes) -> tuple[Session, Person] | None: ...

    def see(self, session_id: str, now: datetime) -> None:
        """Note that the session was used."""

    def delete(self, session_id: str) -> None: ...

    def delete_of(self, person_id: str, *, but: str | None = None) -> int:
        """End every session of a person, except ``but``; returns how many there were."""

    def delete_ended(self, now: datetime, last_seen_before: datetime) -> int:
        """Forget sessions that have expired or were not used since; returns how many."""


class SignInAttempts(Protocol):
    """Counts of sign-ins that went wrong."""

    def lock(self, key: bytes, now: datetime) -> Attempts:
        """Return the count under a key, made where there is none; others wait for the commit."""

    def save(self, attempts: Attempts) -> None: ...

    def uncount(self, key: bytes) -> None:
        """Take one attempt back: it went well."""

    def forget(self, key: bytes, *, before: datetime) -> None:
        """Forget a count, and all that have not changed since ``before``."""


@dataclass(frozen=True)
class EventFilter:
    """Which events to list; None does not restrict.

    Attributes
    ----------
    action : str or None
        A whole action or, with a dot at the end, the beginning of several: ``review.``.
    """

    actor_id: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    before: datetime | None = None


class AuditTrail(Protocol):
    """Append-only record of what was done."""

    def add(self, event: Event) -> None: ...

    def add_all(self, events: Sequence[Event]) -> None: ...

    def page(
        self, wanted: EventFilter | None = None, *, after: str | None, limit: int
    ) -> Page[Event]:
        """List newest first."""


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None does not restrict."""

    owner_id: str | None = None
    kind: str | None = None
    state: JobState | None = None


class Jobs(Protocol):
    """Durable jobs with leases."""

    def enqueue(self, job: Job) -> bool:
        """Store a job; False when one with the same key is queued or running.

        False also when its owner has asked for one under the same request key before.
        """

    def get(self, job_id: str, *, for_update: bool = False) -> Job | None: ...

    def unfinished(self, key: str) -> Job | None:
        """Return the queued or running job with this key."""

    def requested(self, owner_id: str, request_key: str) -> Job | None:
        """Return the job that an owner asked for under a key of their own."""

    def page(self, wanted: "JobFilter", *, after: str | None, limit: int) -> Page[Job]:
        """List newest first."""

    def claim(self, kinds: Sequence[str], now: datetime, lease: timedelta) -> Job | None:
        """Lease the next due job of these kinds, or one whose worker has gone silent."""

    def save(self, job: Job, *, token: int) -> bool:
        """Store a claimed job's new state; False when the lease has passed to another worker.

        The checkpoint stays as it is stored: only `checkpoint` changes it.
        """

    def checkpoint(self, job_id: str, state: Mapping[str, object], *, token: int) -> bool:
        """Store how far a claimed job is; False as above."""

    def change(self, job: Job) -> None:
        """Store a job that this transaction has locked; raises `JobUnfinished`, as `enqueue`."""


class Texts(Protocol):
    """What people wrote: documents, their metadata, comments. Numbers and labels stay."""

    def purgeable(
        self, decision: Decision, *, before: datetime, after: str | None, limit: int
    ) -> list[str]:
        """Return the oldest predictions of that age with texts whose reviews are all done.

        Gives ids, in order, beginning behind ``after``.
        """

    def of_document(self, document_id: str) -> list[str]:
        """Return the predictions of a document, whoever posted it."""

    def purge(self, prediction_ids: Sequence[str], now: datetime) -> int:
        """Take text, features, metadata, comments and reasons of skips away; returns how many."""

    def forget_name(self, document_id: str) -> None:
        """Take a document's own id away, also from messages, except those still on their way."""

    def purge_answers(self, before: datetime, limit: int) -> int:
        """Take away what receivers of webhooks answered; returns how many answers."""


class Outbox(Protocol):
    """Messages to other programs, in the order in which they were written."""

    def add(self, message: Message) -> None: ...

    def add_all(self, messages: Sequence[Message]) -> None:
        """Write messages in this order."""

    def unrouted(self, limit: int) -> list[Message]:
        """Lock and return the oldest messages that have no deliveries yet, in order.

        Whoever else asks waits until this transaction ends, so that nobody makes deliveries of a
        later message while those of an earlier one are not there yet.
        """

    def mark_routed(self, message_ids: Sequence[str], now: datetime) -> None: ...

    def unacknowledged(self, client_id: str, *, after: str | None, limit: int) -> Page[Message]:
        """List, oldest first, what a client has not acknowledged."""

    def acknowledge(self, client_id: str, message_ids: Sequence[str], now: datetime) -> int:
        """Note that a client has these of its messages; returns how many were new to it."""


class Endpoints(Protocol):
    """Webhook endpoints that are not deleted."""

    def add(self, endpoint: Endpoint) -> None: ...

    def get(self, endpoint_id: str, *, for_update: bool = False) -> Endpoint | None: ...

    def all(self) -> list[Endpoint]:
        """List oldest first."""

    def save(self, endpoint: Endpoint) -> None:
        """Store a changed endpoint; raises `StaleVersion` unless it is the next version."""

    def delete(self, endpoint_id: str, now: datetime) -> None:
        """Forget the endpoint and its secrets; its deliveries stay for the log."""


class Deliveries(Protocol):
    """Messages on their way to endpoints, and the log of attempts."""

    def add(self, deliveries: Sequence[Delivery]) -> None: ...

    def get(self, delivery_id: str, *, for_update: bool = False) -> Delivery | None: ...

    def work_waits(self, now: datetime) -> bool:
        """Tell whether a message has no deliveries yet or a delivery may be due."""

    def claim(
        self, endpoint_id: str, now: datetime, lease: timedelta, limit: int
    ) -> list[Delivery]:
        """Lease up to ``limit`` due deliveries, at most the first unfinished one of a document."""

    def save(self, delivery: Delivery, *, token: int) -> bool:
        """Store a changed delivery; False when it was claimed, replayed or cancelled since."""

    def cancel(self, endpoint_id: str, now: datetime) -> int:
        """End every pending delivery to an endpoint; returns how many there were."""

    def dead(self, endpoint_id: str, limit: int) -> list[Delivery]:
        """Lock and return the oldest deliveries to an endpoint that were given up."""

    def page(
        self,
        *,
        state: DeliveryState | None,
        endpoint_id: str | None,
        after: str | None,
        limit: int,
    ) -> Page[Delivery]:
        """List newest first."""

    def counts(self) -> Mapping[DeliveryState, int]:
        """Count the pending and the dead ones; those that ended well are too many to count."""

    def log(self, attempts: Sequence[Attempt]) -> None: ...

    def attempts(self, delivery_id: str) -> list[Attempt]:
        """List the attempts of a delivery, oldest first."""


@dataclass(frozen=True)
class Span:
    """Which rows of the past are meant; None does not restrict."""

    client_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class History(Protocol):
    """What is stored, in the order of its ids."""

    def predictions(self, span: Span, *, after: str | None, limit: int) -> list[Prediction]: ...

    def annotations(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Annotation, Prediction]]: ...

    def outcomes(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Outcome, Prediction]]: ...

    def events(self, span: Span, *, after: str | None, limit: int) -> list[Event]:
        """List the audit trail of all clients."""

    def evidence(self, limit: int, *, with_labels: bool) -> list[Evidence]:
        """Return what is known of the most recent predictions, newest first."""


class Comparisons(Protocol):
    """Candidates beside the model that serves."""

    def begin_shadow(self, shadow: Shadow) -> None:
        """Store the present shadow; raises `ShadowTaken` when there is one."""

    def shadow(self) -> Shadow | None:
        """Return the present one."""

    def end_shadow(self, model_id: str, now: datetime) -> bool:
        """End the present shadow; False unless it is this model."""

    def add_all(self, comparisons: Sequence[Comparison]) -> None:
        """Store what is not stored yet of a model and a prediction."""

    def tally(self, model_id: str) -> Tally: ...

    def differing(
        self, model_id: str, *, routes_only: bool, after: str | None, limit: int
    ) -> Page[tuple[Comparison, Prediction]]:
        """List, newest first, where a candidate differs; by id of the comparison."""


class Backlogs(Protocol):
    """Work that waits."""

    def read(self) -> Backlog: ...


class Reports(Protocol):
    """Aggregates of what was predicted and reviewed, by days in UTC."""

    def tally(self, since: datetime) -> Counted:
        """Return the predictions made from ``since`` on, counted by what they have in common."""

    def review_days(self, since: datetime) -> list[ReviewDay]:
        """Return what came to reviewers and what they completed, a row a day, oldest first."""

    def checked(self, since: datetime, limit: int) -> list[CheckedSet]:
        """Return predictions made and checked from ``since`` on, the last checked ones.

        At most ``limit`` that people read, and as many that only other programs reported on.
        """

    def certification_audits(self, scorer: Scorer) -> int:
        """Count the documents drawn to certify that auditors have read."""


class UnitOfWork(Protocol):
    """One transaction: all of it happens at `commit`, or nothing does."""

    predictions: Predictions
    reviews: Reviews
    outcomes: Outcomes
    policies: Policies
    certifications: Certifications
    breakers: Breakers
    annotators: Annotators
    calibrations: Calibrations
    models: Models
    keys: Keys
    people: People
    sessions: Sessions
    attempts: SignInAttempts
    audit_trail: AuditTrail
    jobs: Jobs
    texts: Texts
    outbox: Outbox
    endpoints: Endpoints
    deliveries: Deliveries
    history: History
    comparisons: Comparisons
    backlog: Backlogs
    reports: Reports

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def commit(self) -> None: ...


class Begin(Protocol):
    """Opens transactions."""

    def __call__(self, *, read_only: bool = False, snapshot: bool = False) -> UnitOfWork:
        """Return a unit of work; with ``snapshot`` all its reads see one state."""
