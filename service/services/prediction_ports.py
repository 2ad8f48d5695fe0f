"""What is needed from the world outside for predictions, and for what decides on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from setwise.service.domain.callers import Caller
from setwise.service.domain.certification import AuditedPrediction, Certification, Scorer
from setwise.service.domain.columns import Rows
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.paging import Page
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import NewTask
from setwise.service.domain.webhooks import Message


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

    def add_all(self, predictions: "Sequence[NewPrediction]") -> None:
        """Store each, with the event that it was made.

        Raises `IdempotencyKeyTaken` when a client used a key before.
        """

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


class Submission(NamedTuple):
    """One document that somebody wants predicted."""

    caller: Caller
    document: Document
    idempotency: IdempotencyKey | None = None
    request_id: str | None = None


NewPrediction = tuple[Prediction, Submission]
"""A prediction that is to be stored, and what it answers."""


class Recording(NamedTuple):
    """Predictions that are stored together, what each answers, and what follows from them."""

    predictions: Rows[Prediction]
    submissions: Rows[Submission]
    tasks: Rows[NewTask]
    messages: Rows[Message]


class IdempotencyKeyTaken(Exception):
    """Another request was stored under the same key first; this transaction is lost."""


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
