"""Review tasks, who may change them, and the answers that complete them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import NamedTuple, Self

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.annotators import DEFAULT_GROUP
from setwise.service.domain.predictions import Candidate, Document, Prediction
from setwise.service.domain.routing.audits import READING_TIME
from setwise.shown import Shown

SKIPS_BEFORE_ESCALATION = 2
"""A task that this many people have skipped waits for a lead."""

USUALLY_DUE = READING_TIME
"""A document without a due time is due so long after it came, as audits are."""

MOST_AHEAD = timedelta(days=365)
"""A due time in the far past puts a document ahead of this much of the queue at most."""

LONGEST_SKIP_REASON = 500
LONGEST_COMMENT = 4000


class ReviewState(StrEnum):
    """State of a review task."""

    WAITING = "waiting"
    LEASED = "leased"
    COMPLETED = "completed"
    SKIPPED = "skipped"


class ReviewKind(StrEnum):
    """Why a person reads the document.

    An audit checks the model and an overlap checks the first reviewer; both hide earlier answers.
    In an adjudication a lead sees the answers that differ and decides; where none differ, the lead
    reads the document afresh. A reopened document was decided before, and a person doubts the
    decision: the answer replaces what was sent, but is no evidence, since the document was not
    drawn.
    """

    REVIEW = "review"
    AUDIT = "audit"
    OVERLAP = "overlap"
    ADJUDICATION = "adjudication"
    REOPENED = "reopened"

    @property
    def blind(self) -> bool:
        """Whether the reviewer must not see any earlier answer."""
        return self in {ReviewKind.AUDIT, ReviewKind.OVERLAP}


@dataclass(frozen=True)
class Lease(Shown):
    """One reviewer's right to complete a task, until it expires."""

    holder: str
    """Id of the person or key."""
    expires_at: datetime
    claimed_at: datetime


@dataclass(frozen=True)
class Skip(Shown):
    """A reviewer who skipped a document, and why."""

    reviewer: str
    """Id of the person or key."""
    reason: str
    skipped_at: datetime


@dataclass(frozen=True)
class HeldDecision:
    """A decision that the reviewer can still undo."""

    labels: tuple[str, ...]
    """In the vocabulary's order."""
    comment: str | None
    by: str
    """Name of the reviewer, for the audit trail."""
    decided_at: datetime
    settles_at: datetime
    """When the decision becomes final."""


class QueueFilter(NamedTuple):
    """Which documents of the queue to claim; None for all."""

    segment: str | None = None
    """Its value, as in ``north``."""
    label: str | None = None
    """A label of the predicted set. It chooses among plain reviews; all other tasks come too, for
    it would tell what a blind task hides, and whose an answer is.
    """
    prioritized: bool | None = None
    """Whether to claim only what stands before the documents of normal priority."""


EVERYTHING = QueueFilter()


class ReadingOrder(StrEnum):
    """The order of documents that are neither due nor given priority.

    While nothing is sent, half of the readings go to the marked documents in order of arrival, what
    is read blind first, the others to those that the newest model is least sure of; near copies
    come last. Each claim picks one of the two at random, so reviewers cannot tell why they get a
    document.
    """

    AS_THEY_CAME = "as they came"
    MARKED_FIRST = "marked first"
    DOUBTFUL_FIRST = "doubtful first"


class QueueTier(IntEnum):
    """Part of the queue; every task of a tier comes before those of the next one."""

    PUT_FIRST = 0
    URGENT = 1
    HIGH = 2
    NORMAL = 3


class QueuePlace(NamedTuple):
    """Place of a task in the queue; places sort as tasks are claimed."""

    tier: QueueTier
    queued_at: datetime
    """In a tier the earliest comes first."""

    @classmethod
    def due(cls, priority: int, due_at: datetime | None, created_at: datetime) -> Self:
        """Return the place that a document's client asked for.

        It depends on nothing else. If it depended on the kind of the review, the order would reveal
        audits. A due time puts a document ahead of those that are due later, never behind those
        that came later: what nobody hurries is not put off for ever.

        >>> came = datetime(2026, 11, 27)
        >>> QueuePlace.due(1, datetime(2026, 11, 30), came)
        QueuePlace(tier=<QueueTier.HIGH: 2>, queued_at=datetime.datetime(2026, 11, 23, 0, 0))
        """
        hurry = timedelta(0) if due_at is None else created_at - due_at + USUALLY_DUE
        ahead = min(max(hurry, timedelta(0)), MOST_AHEAD)
        return cls(QueueTier(QueueTier.NORMAL - priority), created_at - ahead)


@dataclass(frozen=True)
class ReviewTask:
    """A prediction that waits for a person."""

    id: str
    prediction: Prediction
    kind: ReviewKind
    state: ReviewState
    version: int
    """Grows with every change of state, so that a reviewer who lost the lease changes nothing; the
    `ETag` carries it.
    """
    created_at: datetime
    lease: Lease | None = None
    skips: tuple[Skip, ...] = ()
    answers: tuple[tuple[str, ...], ...] = ()
    """The label sets that an adjudication decides between; see `rival_answers`."""
    round: int = 0
    """How often the document has been reopened, if this task is of that kind."""
    because: str | None = None
    """Why it was reopened, until its text is erased."""
    decision: HeldDecision | None = None
    """What the holder of a leased task decided and can still undo. The task stays with them even if
    the lease expires.
    """
    assigned_to: str | None = None
    """Id of the only person who is given it; None for any reviewer."""
    moved: QueuePlace | None = None
    """Its place in the queue if a person moved it."""
    marked: bool = False
    """Whether it was marked on arrival, see `MARKED`. No response contains it."""
    proposed: tuple[Candidate, ...] = ()
    """What a model says of the document that came before there was one, likeliest first."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The label sets to suggest, likeliest first; blind tasks hide them."""
        return self.prediction.scored.candidates or self.proposed

    @property
    def confidence(self) -> float:
        """How sure the model is; 1 without one."""
        sure = self.prediction.scored.confidence
        return 1.0 if sure is None else sure

    @property
    def due_at(self) -> datetime | None:
        """When the answer is needed, as the client says; None on reopened documents."""
        return None if self.round else self.prediction.document.due_at

    @property
    def place(self) -> QueuePlace:
        """Its place in the queue."""
        return self.moved or self._own_place

    @property
    def _own_place(self) -> QueuePlace:
        priority = self.prediction.document.priority
        return QueuePlace.due(priority, self.due_at, self.created_at)

    @property
    def blind(self) -> bool:
        """Whether the reviewer must not see any earlier answer.

        Besides audits and overlaps that is a lead's second reading of an audit that agreed with the
        model: there are no answers to decide between, and the one to see would be a suggestion.
        """
        return self.kind.blind or (self.kind is ReviewKind.ADJUDICATION and not self.answers)

    @property
    def suggests(self) -> bool:
        """Whether the reviewer sees an answer of the model, or answers of people."""
        return not self.blind and bool(self.candidates or self.answers or self.shown.answer)

    @property
    def shown(self) -> Document:
        """The document as its reviewer may see it.

        What another model answered is a suggestion: blind tasks hide it, and so do adjudications,
        where it would tell which answer is the model's.
        """
        document = self.prediction.document
        hidden = self.blind or self.kind is ReviewKind.ADJUDICATION
        return document._replace(answer=None) if hidden else document

    @property
    def escalated(self) -> bool:
        """Whether only a lead may claim the task.

        Leads take adjudications and tasks that were skipped too often.
        """
        return self.kind is ReviewKind.ADJUDICATION or self.skipped_often

    @property
    def awaited(self) -> str:
        """Say whom an open review of the document waits for, and what for."""
        match self.kind:
            case ReviewKind.ADJUDICATION if self.answers:
                what = "The answers to this document differ, and a lead decides."
            case ReviewKind.ADJUDICATION:
                what = "A lead reads this document again, without seeing an answer."
            case ReviewKind.AUDIT | ReviewKind.OVERLAP:
                what = "Another reviewer reads this document too, without seeing an answer."
            case ReviewKind.REOPENED:
                what = "This document was reopened, and a reviewer decides again."
            case _ if self.skipped_often:
                what = "Two reviewers skipped this document, and a lead decides."
            case _:
                what = "This document has no decision yet."
        return f"{what} {'It is being read.' if self.lease else 'It waits in the queue.'}"

    @property
    def skipped_often(self) -> bool:
        """Whether so many people skipped the task that a lead must decide."""
        return len({skip.reviewer for skip in self.skips}) >= SKIPS_BEFORE_ESCALATION

    def skipped_by(self, reviewer: str) -> bool:
        """Return whether ``reviewer`` skipped the task; they are not given it again."""
        return any(skip.reviewer == reviewer for skip in self.skips)

    def skips_shown_to(self, caller: Caller) -> tuple[Skip, ...] | None:
        """Return who skipped the task, and why; None to reviewers, whom a reason may lead."""
        return self.skips if caller.may(Permission.READ_ALL_PREDICTIONS) else None

    def claimable_by(self, reviewer: str, now: datetime, *, escalated: bool) -> bool:
        """Return whether ``reviewer`` may claim the task now; ``escalated`` for leads.

        The store also checks that the reviewer has no other task of the same prediction.
        """
        free = self.state in {ReviewState.WAITING, ReviewState.SKIPPED} or (
            self.lease is not None and self.lease.expires_at <= now and self.decision is None
        )
        return free and not self.skipped_by(reviewer) and (escalated or not self.escalated)

    def claimed(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task leased to ``holder``."""
        return replace(
            self,
            state=ReviewState.LEASED,
            lease=Lease(holder, now + duration, claimed_at=now),
            version=self.version + 1,
        )

    def extended(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task with its lease running from ``now``.

        An expired lease can be extended until another reviewer claims the task.
        """
        lease = self._require_holder(holder)
        return replace(self, lease=replace(lease, expires_at=now + duration))

    def released(self, holder: str) -> "ReviewTask":
        """Return the task to its place in the queue."""
        self._require_holder(holder)
        return self._returned(self.skips)

    def postponed(self, holder: str, now: datetime) -> "ReviewTask":
        """Return the task to the end of the queue."""
        return replace(self.released(holder), moved=QueuePlace(QueueTier.NORMAL, now))

    def prioritized(self, *, first: bool) -> "ReviewTask":
        """Return the task first in the queue, or back at its place."""
        moved = self._own_place._replace(tier=QueueTier.PUT_FIRST)
        return replace(self, moved=moved if first else None)

    def busy(self, now: datetime) -> bool:
        """Return whether a person is reviewing it."""
        lease = self.lease
        return lease is not None and (lease.expires_at > now or self.decision is not None)

    def expired(self) -> "ReviewTask":
        """Return the task to the queue because its lease expired."""
        return self._returned(self.skips)

    def skipped(self, holder: str, reason: str, now: datetime) -> "ReviewTask":
        """Return the task for another reviewer or, after two skips, a lead."""
        self._require_holder(holder)
        returned = self._returned((*self.skips, Skip(holder, reason, now)))
        return replace(returned, assigned_to=None)

    def unskipped(self, holder: str, now: datetime, within: timedelta) -> "ReviewTask":
        """Return the task without the skip of ``holder``, to claim again."""
        self._require_open()
        last = self.skips[-1]
        if last.reviewer != holder or self.busy(now):
            raise errors.LeaseLost("Another reviewer has taken this document since you skipped it.")
        if last.skipped_at + within <= now:
            raise errors.ReviewAlreadyDecided("The skip can no longer be undone.")
        return self._returned(self.skips[:-1])

    def completed(self, holder: str, expected_version: int) -> "ReviewTask":
        """Return the task completed by ``holder``, who saw ``expected_version``."""
        self._require_version(expected_version)
        self._require_holder(holder)
        return self.finished()

    def decided(
        self, holder: str, expected_version: int, decision: HeldDecision, duration: timedelta
    ) -> "ReviewTask":
        """Return the task with a decision that its holder can still undo."""
        self._require_version(expected_version)
        lease = self._require_holder(holder)
        return replace(
            self,
            lease=replace(lease, expires_at=decision.decided_at + duration),
            decision=decision,
            version=self.version + 1,
        )

    def decided_before(self, holder: str, labels: Sequence[str], comment: str | None) -> bool:
        """Return whether ``holder`` has already made this decision."""
        decision = self.decision
        return (
            decision is not None
            and self.lease is not None
            and self.lease.holder == holder
            and set(decision.labels) == set(labels)
            and decision.comment == comment
        )

    def reopened(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task without the decision that ``holder`` undoes."""
        final = self.state is ReviewState.COMPLETED
        if final or (self.decision is not None and self.decision.settles_at <= now):
            raise errors.ReviewAlreadyDecided("The decision can no longer be undone.")
        if self.decision is None or self.lease is None or self.lease.holder != holder:
            raise errors.LeaseLost("You have made no decision here that could be undone.")
        return replace(
            self,
            lease=replace(self.lease, expires_at=now + duration),
            decision=None,
            version=self.version + 1,
        )

    def finished(self) -> "ReviewTask":
        """Return the task completed; `completed` also checks the holder."""
        return replace(
            self,
            state=ReviewState.COMPLETED,
            lease=None,
            decision=None,
            version=self.version + 1,
        )

    def answer(
        self,
        annotation_id: str,
        reviewer: str,
        labels: Sequence[str],
        comment: str | None,
        now: datetime,
    ) -> "Annotation":
        """Return the annotation that completes the task."""
        chosen = set(labels)
        scored = self.prediction.scored
        ranks = (rank for rank, shown in enumerate(self.candidates) if set(shown.labels) == chosen)
        claimed_at = self.lease.claimed_at if self.lease else now
        decided_at = self.decision.decided_at if self.decision else now
        return Annotation(
            id=annotation_id,
            task_id=self.id,
            prediction_id=self.prediction.id,
            reviewer=reviewer,
            labels=tuple(labels),
            comment=comment,
            agreed=scored.agrees_with(chosen),
            chosen_rank=None if self.blind else next(ranks, None),
            suggestion_shown=self.suggests,
            # The clock may have been set back since the claim.
            seconds=max(0.0, (decided_at - claimed_at).total_seconds()),
            created_at=now,
            kind=self.kind,
            round=self.round,
            version=self.version,
        )

    def _require_version(self, expected: int) -> None:
        self._require_open()
        if expected != self.version:
            raise errors.StaleVersion(
                f"The task is at version {self.version}, not {expected}: it was claimed "
                "again or given back since you read it. Claim the next task."
            )

    def _require_open(self) -> None:
        if self.state is ReviewState.COMPLETED:
            raise errors.ReviewAlreadyDecided("This task is already submitted; claim the next one.")
        if self.decision is not None:
            raise errors.ReviewAlreadyDecided(
                "This task is decided; undo the decision to change it."
            )

    def _require_holder(self, holder: str) -> Lease:
        self._require_open()
        if self.lease is None or self.lease.holder != holder:
            raise errors.LeaseLost(
                "You do not hold this task: it is free or leased to another reviewer."
            )
        return self.lease

    def _returned(self, skips: tuple[Skip, ...]) -> "ReviewTask":
        returned = replace(self, lease=None, skips=skips, version=self.version + 1)
        state = ReviewState.SKIPPED if returned.skipped_often else ReviewState.WAITING
        return replace(returned, state=state)


@dataclass(frozen=True)
class Annotation:
    """The label set that a reviewer gave to a document."""

    id: str
    task_id: str
    prediction_id: str
    reviewer: str
    labels: tuple[str, ...]
    comment: str | None
    agreed: bool | None
    """Whether the labels are those that the model predicted; None if none did."""
    chosen_rank: int | None
    """Place, from 0, of the labels among the candidates shown; None if they were not among them."""
    suggestion_shown: bool
    """Whether the reviewer saw an answer of the model or of another person before deciding."""
    seconds: float
    """From claim to completion."""
    created_at: datetime
    kind: ReviewKind = ReviewKind.REVIEW
    """Kind of the task; an adjudication counts as the truth."""
    round: int = 0
    """That of the task."""
    settles: bool = True
    """Whether the labels are the service's answer for the document. Other programs receive them
    unless they already have them.
    """
    group: str = DEFAULT_GROUP
    """Id of the reviewer's group at that time."""
    version: int = 1
    """The task's version when it was completed."""
    reread_rate: float | None = None
    """Probability, whatever the answer, that a lead reads the document after an audit. None in
    other reviews, and where it is that of the policy.
    """
    reread_draw: float | None = None
    """What was drawn for it: a lead reads the document if it is below the rate."""
    written: tuple[str, ...] | None = None
    """The labels as the reviewer gave them, if one has been renamed or merged since."""

    def repeats(self, reviewer: str, labels: Sequence[str], comment: str | None) -> bool:
        """Return whether ``reviewer`` sent the same answer again."""
        return (
            self.reviewer == reviewer
            and set(self.labels) == set(labels)
            and self.comment == comment
        )


def rival_answers(
    predicted: tuple[str, ...] | None, annotations: Sequence[Annotation]
) -> tuple[tuple[str, ...], ...]:
    """Return the distinct answers that a lead decides between, sorted; none if all agree.

    Neither the order of the answers nor that of their labels reveals who gave which. An audit
    contradicts the model, an overlap the first reviewer.
    """
    audited = any(annotation.kind is ReviewKind.AUDIT for annotation in annotations)
    label_sets = [
        annotation.labels
        for annotation in annotations
        if annotation.kind is not ReviewKind.ADJUDICATION
    ]
    if audited and predicted is not None:
        label_sets.append(predicted)
    rivals = {tuple(sorted(labels)) for labels in label_sets}
    return tuple(sorted(rivals)) if len(rivals) > 1 else ()


def calls_for_adjudication(
    annotation: Annotation, others: Sequence[Annotation], *, reread: bool
) -> bool:
    """Return whether a lead must decide after ``annotation``.

    ``others``: Earlier annotations of the same prediction.
    ``reread``: Whether this document's audit is read again even if it agrees with the model.
    """
    match annotation.kind:
        case ReviewKind.AUDIT:
            return reread or annotation.agreed is False
        case ReviewKind.ADJUDICATION | ReviewKind.REOPENED:
            return False
        case ReviewKind.REVIEW | ReviewKind.OVERLAP:
            other = {ReviewKind.REVIEW, ReviewKind.OVERLAP} - {annotation.kind}
            return any(
                set(other_annotation.labels) != set(annotation.labels)
                for other_annotation in others
                if other_annotation.kind in other
            )


def adjudication(
    task_id: str, prediction: Prediction, annotations: Sequence[Annotation]
) -> ReviewTask:
    """Return the task in which a lead decides between annotations."""
    return ReviewTask(
        id=task_id,
        prediction=prediction,
        kind=ReviewKind.ADJUDICATION,
        state=ReviewState.WAITING,
        version=1,
        created_at=annotations[-1].created_at,
        answers=rival_answers(prediction.scored.labels, annotations),
    )


def is_final(annotation: Annotation, *, adjudicated: bool) -> bool:
    """Return whether the annotation's labels are the answer for the document.

    ``adjudicated``: Whether a lead decides on the document next.
    """
    match annotation.kind:
        case ReviewKind.REVIEW | ReviewKind.ADJUDICATION | ReviewKind.REOPENED:
            return True
        case ReviewKind.AUDIT:
            return not adjudicated
        case ReviewKind.OVERLAP:
            return False
