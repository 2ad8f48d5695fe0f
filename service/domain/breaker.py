"""The breaker: automatic sending stops when audits contradict the target.

It watches audits of label sets that were sent, or that only the audit held back. Once tripped, it
stays tripped until a person resets it. The policy in force records the trip, so every process
follows at once and each decision can be derived again from the policy version that made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Gate
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.reports import Share
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import READING_TIME
from setwise.shown import Probability, Shown


class TripCause(StrEnum):
    """Why the breaker tripped: audits contradict the target, or audits are missing."""

    DRIFT = "drift"
    STALE = "stale"


class Position(StrEnum):
    """State of the breaker; it is idle while the policy sends nothing."""

    TRIPPED = "tripped"
    WATCHING = "watching"
    IDLE = "idle"


def ends_audit(annotation: Annotation) -> bool:
    """Return whether an annotation is the last one of an audit."""
    return annotation.kind is ReviewKind.ADJUDICATION or (
        annotation.kind is ReviewKind.AUDIT and annotation.settles
    )


def would_be_sent(prediction: Prediction) -> bool:
    """Return whether a set was sent or only an audit stopped it."""
    return prediction.decision is Decision.AUTO or prediction.reason is Reason.AUDIT


@dataclass(frozen=True)
class AuditCounts:
    """Numbers of audits, by what became of them."""

    audits: int
    right: int
    wrong: int
    reread: int
    overlooked: int
    unfinished: int
    overdue: int
    copies: int


@dataclass(frozen=True)
class TripEvidence(Shown):
    """Everything needed to derive a trip again."""

    audits: int
    """Of what was sent, or would have been; since the reset."""
    right: int
    wrong: int
    reread: int
    """Read by a lead although the auditor agreed. One that is found wrong also counts for those
    that were not read again.
    """
    overlooked: int
    """Those of them that the lead found wrong."""
    unfinished: int
    """They count as right until they are read or overdue."""
    overdue: int
    """Unfinished for more than `SETWISE_AUDIT_READING_DAYS`: counted as wrong."""
    copies: int
    """Further audits of documents with the same id or the same content. They do not count: if there
    are many, clients send documents repeatedly or reuse ids.
    """
    target_accuracy: Probability
    run_length: float
    """The statistic that raises the alarm."""
    statistic: float
    """At the alarm or, without one, after the last audit."""
    alarm_at: str | None
    """Id of the prediction with whose audit it was raised; null without an alarm."""
    first: str | None
    """Id of the prediction of the first audit; null without audits."""
    last: str | None
    """The same of the last one."""
    outcomes: str
    """The audits by prediction: right 1, wrong 0, unfinished ?, overdue -."""
    stands_for: Mapping[str, float]
    """By place among them, how many audits a second reading of an agreement stands for."""
    last_finished_at: datetime | None
    overdue_since: datetime | None
    """When the set of the oldest overdue audit was predicted."""
    sent_since: int
    """Documents sent since then, or else since the last finished audit."""
    oldest_sent_at: datetime | None
    """When the first of them was sent."""
    most_documents: int
    """How many may be sent without a finished audit; 0 for no limit."""
    longest_days: float | None
    """The same in days; null for no limit."""


@dataclass(frozen=True)
class Trip:
    """A trip of the breaker; immutable once stored."""

    id: str
    cause: TripCause
    """`drift`: audits contradict the target; `stale`: too much was sent unaudited, or too many
    audits are overdue.
    """
    scorer: Scorer
    """The model and calibrator that were watched."""
    policy_version: str
    """The version in force until the trip."""
    target_accuracy: Probability
    evidence: TripEvidence
    created_at: datetime
    segment: str | None = None
    """Key of the segment that stops; None for all documents."""


@dataclass(frozen=True)
class Reset:
    """A person's decision to send again after a trip."""

    id: str
    trip_id: str
    certificate_id: str | None
    """The certificate that proves the threshold; None if the person vouches for it instead."""
    created_by: str
    created_at: datetime


class Unvouched(NamedTuple):
    """Documents sent that no audit vouches for, under the current policy.

    These are the ones since the oldest overdue audit, else since the last one that ended.
    """

    documents: int
    """Counted only up to the limit that matters."""
    oldest_at: datetime | None
    """When the first of them was sent; None without any."""


NOTHING_SENT = Unvouched(0, None)


@dataclass(frozen=True)
class Freshness:
    """How much may be sent without a finished audit."""

    most_documents: int = 20_000
    """0 for any number."""
    longest: timedelta | None = timedelta(days=30)
    """Time since the first of them was sent; None for any."""

    @property
    def longest_days(self) -> float | None:
        """That time in days."""
        return None if self.longest is None else self.longest.total_seconds() / 86_400

    def lost(self, since: Unvouched, now: datetime) -> bool:
        """Return whether too much was sent, or for too long."""
        if self.most_documents and since.documents > self.most_documents:
            return True
        return (
            self.longest is not None
            and since.oldest_at is not None
            and now - since.oldest_at > self.longest
        )


RUN_LENGTH = 5_000.0
"""Least number of audits until a false alarm, on average."""


@dataclass(frozen=True)
class BreakerRule:
    """When the breaker trips."""

    run_length: float = RUN_LENGTH
    """Least number of audits until a false alarm, on average. The probability of one within n
    audits is at most ``n / run_length``.
    """
    freshness: Freshness = field(default_factory=Freshness)
    """How much may be sent without a finished audit."""
    reading_time: timedelta = READING_TIME
    """After it, an unfinished audit is overdue."""


@dataclass(frozen=True)
class Watch:
    """What the breaker sees of a gate's documents at one instant."""

    gate: Gate
    scorer: Scorer | None
    """The model and calibrator that serve; None before the first prediction."""
    run_length: float
    read_by: datetime
    """Audits of predictions from before it should be finished by now."""
    audits: tuple[CheckedDocument, ...] = ()
    """Those since the last reset whose policy had the present target, one for each document, by
    prediction.
    """
    copies: int = 0
    """Further audits of the same documents; they do not count."""
    path: tuple[float, ...] = ()
    """The detector's statistic after each audit; it raises the alarm at ``run_length``."""
    last_finished_at: datetime | None = None
    """When the last audit ended or the breaker was reset."""
    overdue_since: datetime | None = None
    """When the set of the oldest overdue audit was predicted; None if none is overdue."""
    unvouched: Unvouched = NOTHING_SENT
    """Documents sent since then."""

    @property
    def position(self) -> Position:
        """Whether the breaker has tripped, watches, or is idle."""
        if self.gate.tripped:
            return Position.TRIPPED
        sends = self.gate.sends and self.scorer is not None
        return Position.WATCHING if sends else Position.IDLE

    @property
    def alarm(self) -> int | None:
        """Place of the audit with which the statistic first reaches the alarm."""
        reached = (place for place, value in enumerate(self.path) if value >= self.run_length)
        return next(reached, None)

    def counts(self) -> AuditCounts:
        """Return the numbers of audits, by what became of them."""
        verdicts = [audit.found_right for audit in self.audits]
        return AuditCounts(
            audits=len(verdicts),
            right=verdicts.count(True),
            wrong=verdicts.count(False),
            reread=sum(audit.read_again for audit in self.audits),
            overlooked=sum(audit.overlooked for audit in self.audits),
            unfinished=verdicts.count(None),
            overdue=sum(audit.overdue(self.read_by) for audit in self.audits),
            copies=self.copies,
        )

    def evidence(self, freshness: Freshness) -> TripEvidence:
        """Return the evidence for a trip now."""
        symbols = {True: "1", False: "0", None: "?"}
        ids, place = [audit.id for audit in self.audits], self.alarm
        last = self.path[-1] if self.path else 0.0
        return TripEvidence(
            **vars(self.counts()),
            target_accuracy=self.gate.policy.target_accuracy,
            run_length=self.run_length,
            statistic=last if place is None else self.path[place],
            alarm_at=None if place is None else ids[place],
            first=ids[0] if ids else None,
            last=ids[-1] if ids else None,
            outcomes="".join(
                "-" if audit.overdue(self.read_by) else symbols[audit.found_right]
                for audit in self.audits
            ),
            stands_for={
                str(place): audit.stands_for
                for place, audit in enumerate(self.audits)
                if audit.stands_for > 1.0
            },
            last_finished_at=self.last_finished_at,
            overdue_since=self.overdue_since,
            sent_since=self.unvouched.documents,
            oldest_sent_at=self.unvouched.oldest_at,
            most_documents=freshness.most_documents,
            longest_days=freshness.longest_days,
        )


@dataclass(frozen=True)
class DetectionDelay(Shown):
    """How long the breaker takes to find a drop of the accuracy."""

    drop: Probability
    """How far below the target the accuracy falls."""
    audits: int | None
    """Audits of what is sent until it trips, in half of the cases; null: too many."""
    weeks: int | None
    """The same in weeks at the present `certification_rate` and volume, while auditors find the
    errors; null without audits.
    """
    thrice: Probability | None
    """The `certification_rate` at which it takes a third of that; null if none is."""


DROPS = (0.02, 0.05)
"""Drops below the target whose delays are shown."""


@dataclass(frozen=True)
class BreakerState:
    """The breaker as leads see it."""

    watch: Watch
    accuracy: Share
    """Accuracy of the watched sets."""
    rule: BreakerRule
    trip: Trip | None
    """Set while the breaker stops sending."""
    trips: tuple[tuple[Trip, Reset | None], ...]
    """The newest trips, newest first, each with its reset."""
    further_audits: int | None
    """How many audits the last certification since the trip lacked."""
    segments: tuple[str, ...] = ()
    """Values of the policy's segments; none if nothing divides documents."""

    @property
    def false_alarm_bound(self) -> float:
        """Largest probability of a false alarm among the watched audits."""
        return min(1.0, len(self.watch.audits) / self.watch.run_length)
