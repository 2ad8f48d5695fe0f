"""Review tasks: waiting, leased, completed or skipped; and who may do what to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.annotators import DEFAULT_GROUP
from setwise.service.domain.errors import LeaseLost, ReviewAlreadyDecided, StaleVersion
from setwise.service.domain.predictions import Prediction

SKIPS_BEFORE_ESCALATION = 2
"""A task that this many people have skipped waits for a lead."""


class ReviewState(StrEnum):
    """Where a task is in its life."""

    WAITING = "waiting"
    LEASED = "leased"
    COMPLETED = "completed"
    SKIPPED = "skipped"


class ReviewKind(StrEnum):
    """Why a person reads the document.

    An audit checks the model and an overlap the first reviewer, both without seeing an answer. In
    an adjudication a lead sees the answers that differ, and decides.
    """

    REVIEW = "review"
    AUDIT = "audit"
    OVERLAP = "overlap"
    ADJUDICATION = "adjudication"

    @property
    def blind(self) -> bool:
        """Whoever does it must not know what the model or somebody else answered."""
        return self in {ReviewKind.AUDIT, ReviewKind.OVERLAP}


@dataclass(frozen=True)
class Lease:
    """The right of one reviewer to settle a task, until it expires."""

    holder: str
    expires_at: datetime
    claimed_at: datetime


@dataclass(frozen=True)
class Skip:
    """A reviewer who passed a task on, and why."""

    reviewer: str
    reason: str
    skipped_at: datetime


@dataclass(frozen=True)
class HeldDecision:
    """What the holder of a task decided, kept for a while in which they may take it back.

    Attributes
    ----------
    labels : tuple of str
        In the vocabulary's order.
    by : str
        The holder's name, for the audit trail.
    settles_at : datetime
        When the decision becomes final by itself.
    """

    labels: tuple[str, ...]
    comment: str | None
    by: str
    decided_at: datetime
    settles_at: datetime


@dataclass(frozen=True)
class ReviewTask:
    """A prediction that waits for a person.

    Attributes
    ----------
    version : int
        Grows with every change of state, so it fences off a reviewer whose lease was lost.
    decision : HeldDecision or None
        Of a leased task: what its holder decided and may still take back. No lease that ran out
        takes such a task away from them.
    answers : tuple of tuple of str
        The label sets between which an adjudication decides, whoever gave them; `rival_answers`.
    """

    id: str
    prediction: Prediction
    kind: ReviewKind
    state: ReviewState
    version: int
    created_at: datetime
    lease: Lease | None = None
    skips: tuple[Skip, ...] = ()
    answers: tuple[tuple[str, ...], ...] = ()
    decision: HeldDecision | None = None

    @property
    def escalated(self) -> bool:
        """Only a lead may claim the task: to adjudicate, or since too many people skipped it."""
        return self.kind is ReviewKind.ADJUDICATION or self.passed_on

    @property
    def passed_on(self) -> bool:
        """So many people have skipped the task that it waits for a lead."""
        return len({skip.reviewer for skip in self.skips}) >= SKIPS_BEFORE_ESCALATION

    def claimable_by(self, reviewer: str, now: datetime, *, escalated: bool) -> bool:
        """Tell whether ``reviewer`` may claim the task now; ``escalated`` is a lead's right.

        Nobody may read one document twice; who holds or has done another task of the same
        prediction is not known here.
        """
        free = self.state in {ReviewState.WAITING, ReviewState.SKIPPED} or (
            self.lease is not None and self.lease.expires_at <= now and self.decision is None
        )
        mine = any(skip.reviewer == reviewer for skip in self.skips)
        return free and not mine and (escalated or not self.escalated)

    def claimed(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task leased to ``holder``."""
        return replace(
            self,
            state=ReviewState.LEASED,
            lease=Lease(holder, now + duration, claimed_at=now),
            version=self.version + 1,
        )

    def extended(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task with its lease running from ``now`` again.

        A lease that ran out may be extended as long as nobody else has claimed the task.
        """
        lease = self._require_holder(holder)
        return replace(self, lease=replace(lease, expires_at=now + duration))

    def released(self, holder: str) -> "ReviewTask":
        """Return the task given back to the queue."""
        self._require_holder(holder)
        return self._returned(self.skips)

    def expired(self) -> "ReviewTask":
        """Return the task back in the queue, because its holder was not heard of in time."""
        return self._returned(self.skips)

    def skipped(self, holder: str, reason: str, now: datetime) -> "ReviewTask":
        """Return the task passed on: to another reviewer, or to a lead after two skips."""
        self._require_holder(holder)
        return self._returned((*self.skips, Skip(holder, reason, now)))

    def completed(self, holder: str, expected_version: int) -> "ReviewTask":
        """Return the task settled by ``holder``, who saw it at ``expected_version``."""
        self._require_version(expected_version)
        self._require_holder(holder)
        return self.settled()

    def decided(
        self, holder: str, expected_version: int, decision: HeldDecision, duration: timedelta
    ) -> "ReviewTask":
        """Return the task with a decision that its holder may take back for a while."""
        self._require_version(expected_version)
        lease = self._require_holder(holder)
        return replace(
            self,
            lease=replace(lease, expires_at=decision.decided_at + duration),
            decision=decision,
            version=self.version + 1,
        )

    def reopened(self, holder: str, now: datetime, duration: timedelta) -> "ReviewTask":
        """Return the task without the decision that ``holder`` takes back."""
        final = self.state is ReviewState.COMPLETED
        if final or (self.decision is not None and self.decision.settles_at <= now):
            raise ReviewAlreadyDecided("The time in which the decision could be undone is over.")
        if self.decision is None or self.lease is None or self.lease.holder != holder:
            raise LeaseLost("You have decided nothing here that could be undone.")
        return replace(
            self,
            lease=replace(self.lease, expires_at=now + duration),
            decision=None,
            version=self.version + 1,
        )

    def settled(self) -> "ReviewTask":
        """Return the task completed."""
        return replace(
            self,
            state=ReviewState.COMPLETED,
            lease=None,
            decision=None,
            version=self.version + 1,
        )

    def _require_version(self, expected: int) -> None:
        self._require_open()
        if expected != self.version:
            raise StaleVersion(
                f"The task is at version {self.version}, not {expected}: it was claimed "
                "again or given back since you read it. Claim the next task."
            )

    def _require_open(self) -> None:
        if self.state is ReviewState.COMPLETED:
            raise ReviewAlreadyDecided("This task is completed; claim the next one.")
        if self.decision is not None:
            raise ReviewAlreadyDecided("This task is decided; undo the decision to change it.")

    def _require_holder(self, holder: str) -> Lease:
        self._require_open()
        if self.lease is None or self.lease.holder != holder:
            raise LeaseLost("You do not hold this task: it is free or leased to somebody else.")
        return self.lease

    def _returned(self, skips: tuple[Skip, ...]) -> "ReviewTask":
        returned = replace(self, lease=None, skips=skips, version=self.version + 1)
        state = ReviewState.SKIPPED if returned.passed_on else ReviewState.WAITING
        return replace(returned, state=state)


class NewTask(NamedTuple):
    """A task that waits from the moment in which its prediction is made."""

    id: str
    prediction_id: str
    kind: ReviewKind
    created_at: datetime


@dataclass(frozen=True)
class Annotation:
    """The label set that a reviewer gave to a document.

    Attributes
    ----------
    agreed : bool
        The labels are those that the model predicted.
    chosen_rank : int or None
        Place, from 0, of the labels among the candidates shown; None when they were not there.
    suggestion_shown : bool
        Whether the reviewer saw the model's or another person's answer before deciding.
    seconds : float
        From claim to completion.
    kind : ReviewKind
        Of the task; an adjudication is taken for the truth.
    settles : bool
        The labels are the service's answer for the document: other programs are told them unless
        they know them already.
    group : str
        The reviewer's at the time, by id.
    version : int or None
        Of the task when it was settled; None for answers from before it was kept.
    """

    id: str
    task_id: str
    prediction_id: str
    reviewer: str
    labels: tuple[str, ...]
    comment: str | None
    agreed: bool
    chosen_rank: int | None
    suggestion_shown: bool
    seconds: float
    created_at: datetime
    kind: ReviewKind = ReviewKind.REVIEW
    settles: bool = True
    group: str = DEFAULT_GROUP
    version: int | None = None


def rival_answers(
    predicted: tuple[str, ...], annotations: Sequence[Annotation]
) -> tuple[tuple[str, ...], ...]:
    """Return the distinct answers between which a lead decides, in an order that tells nothing.

    An audit contradicts the model, an overlap the first reviewer.
    """
    audited = any(annotation.kind is ReviewKind.AUDIT for annotation in annotations)
    given = [one.labels for one in annotations if one.kind is not ReviewKind.ADJUDICATION]
    return tuple(sorted({*given, predicted} if audited else {*given}))


def calls_for_adjudication(
    annotation: Annotation, others: Sequence[Annotation], *, reread: bool
) -> bool:
    """Tell whether a lead must decide now that ``annotation`` is made.

    Parameters
    ----------
    others : sequence of Annotation
        What was said of the same prediction before.
    reread : bool
        Whether this document's audit is read again even if it agrees with the model.
    """
    match annotation.kind:
        case ReviewKind.AUDIT:
            return reread or not annotation.agreed
        case ReviewKind.ADJUDICATION:
            return False
        case ReviewKind.REVIEW | ReviewKind.OVERLAP:
            other = {ReviewKind.REVIEW, ReviewKind.OVERLAP} - {annotation.kind}
            return any(
                set(one.labels) != set(annotation.labels) for one in others if one.kind in other
            )
