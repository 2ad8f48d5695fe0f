"""Claim, hold, give back, skip and complete review tasks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.audits import Lottery
from setwise.service.domain.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
    ReviewNotFound,
    TooManyLeases,
    VersionRequired,
)
from setwise.service.domain.outcomes import sent_labels
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.predictions import Prediction, Reason
from setwise.service.domain.reviews import (
    Annotation,
    ReviewKind,
    ReviewState,
    ReviewTask,
    calls_for_adjudication,
    rival_answers,
)
from setwise.service.domain.text import text_faults
from setwise.service.domain.webhooks import document_corrected, review_completed
from setwise.service.services.ports import PredictorSource
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transaction, Transactions

LEASE = timedelta(minutes=15)
"""How long a reviewer may be silent before a task goes to somebody else."""

MOST_LEASES = 10
"""Tasks that one reviewer may hold at once, so that nobody empties the queue alone."""

LONGEST_SKIP_REASON = 500
LONGEST_COMMENT = 4000

_EXPIRED_PER_TRANSACTION = 100
"""Bounds how long the reaper keeps rows locked."""


def nobody(transaction: Transaction, prediction: Prediction, annotation: Annotation) -> None:
    """Tell nobody of an annotation."""


@dataclass(frozen=True)
class Desk:
    """What every verb on a task needs."""

    begin: Transactions
    now: Clock
    new_id: NewId

    def _load(self, transaction: Transaction, task_id: str) -> ReviewTask:
        task = transaction.reviews.get(task_id, for_update=True)
        if task is None:
            raise ReviewNotFound(f"No review task has the id {task_id!r}.")
        return task

    def _note(
        self,
        transaction: Transaction,
        caller: Caller,
        action: str,
        task: ReviewTask,
        request_id: str | None = None,
        **detail: object,
    ) -> None:
        transaction.audit_trail.add(
            Event.by(
                caller,
                action,
                task.id,
                id=self.new_id(),
                at=self.now(),
                request_id=request_id,
                version=task.version,
                **detail,
            )
        )


@dataclass(frozen=True)
class ClaimReview(Desk):
    """Lease the next task to the caller; never the same task to two people at once."""

    lease: timedelta = LEASE
    most_leases: int = MOST_LEASES

    def __call__(
        self, caller: Caller, *, only: str | None = None, request_id: str | None = None
    ) -> ReviewTask | None:
        """Return the oldest task that the caller may claim, None when there is none.

        Leads and administrators get adjudications and tasks that were skipped twice first, others
        never. Nobody gets two tasks of one prediction.

        Parameters
        ----------
        only : str, optional
            The id of the one task that is wanted: somebody who was away goes on with it.

        Raises
        ------
        TooManyLeases
            If the caller already holds as many tasks as one person may.
        """
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            now = self.now()
            held = transaction.reviews.held_by(caller.id, now)
            if held >= self.most_leases:
                raise TooManyLeases(
                    f"You hold {held} tasks, the most that one person may; "
                    "complete, skip or release one first."
                )
            task = transaction.reviews.next_for(
                caller.id, now, escalated=caller.may(Permission.REPORT), only=only
            )
            if task is None:
                return None
            claimed = task.claimed(caller.id, now, self.lease)
            transaction.reviews.save(claimed)
            taken_from = task.lease.holder if task.lease else None
            self._note(
                transaction, caller, "review.claimed", claimed, request_id, taken_from=taken_from
            )
            transaction.commit()
        return claimed


@dataclass(frozen=True)
class ExtendLease(Desk):
    """Keep a claimed task for longer."""

    lease: timedelta = LEASE

    def __call__(self, caller: Caller, task_id: str) -> ReviewTask:
        """Return the task with its lease running from now.

        A sign of life is not an event worth an audit row, so none is written.
        """
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            task = self._load(transaction, task_id)
            extended = task.extended(caller.id, self.now(), self.lease)
            transaction.reviews.save(extended)
            transaction.commit()
        return extended


@dataclass(frozen=True)
class ReleaseReview(Desk):
    """Give a claimed task back to the queue."""

    def __call__(
        self, caller: Caller, task_id: str, *, request_id: str | None = None
    ) -> ReviewTask:
        """Return the task as it waits again."""
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            released = self._load(transaction, task_id).released(caller.id)
            transaction.reviews.save(released)
            self._note(transaction, caller, "review.released", released, request_id)
            transaction.commit()
        return released


@dataclass(frozen=True)
class SkipReview(Desk):
    """Pass a claimed task on to somebody else, with a reason."""

    def __call__(
        self, caller: Caller, task_id: str, reason: str, *, request_id: str | None = None
    ) -> ReviewTask:
        """Return the task, waiting for another reviewer or, after two skips, for a lead."""
        caller.require(Permission.REVIEW)
        faults = list(text_faults(reason, "/reason", longest=LONGEST_SKIP_REASON))
        if faults:
            raise InvalidRequest("A skip needs a reason that can be kept.", faults)
        with self.begin() as transaction:
            skipped = self._load(transaction, task_id).skipped(caller.id, reason, self.now())
            transaction.reviews.save(skipped)
            self._note(
                transaction,
                caller,
                "review.skipped",
                skipped,
                request_id,
                escalated=skipped.escalated,
            )
            transaction.commit()
        return skipped


@dataclass(frozen=True)
class CompleteReview(Desk):
    """Settle a claimed task with the label set that is right.

    An ordinary review settles the document. So does an audit that agrees with the model, unless it
    was drawn to be read again; otherwise a lead decides, as where two reviewers differ.

    Attributes
    ----------
    predictors : PredictorSource
        Its active model's vocabulary says which labels exist.
    lottery : Lottery
        Draws the audits that are read again.
    answered : callable
        Told of each annotation in the transaction that stores it.
    """

    predictors: PredictorSource
    lottery: Lottery
    answered: Callable[[Transaction, Prediction, Annotation], None] = nobody

    def __call__(
        self,
        caller: Caller,
        task_id: str,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int | None,
        *,
        request_id: str | None = None,
    ) -> Annotation:
        """Return the recorded annotation.

        The same completion sent again, because its answer was lost, gives the same annotation.

        Parameters
        ----------
        labels : sequence of str
            Distinct labels of the active model or of the task's prediction; empty for the empty
            set.
        expected_version : int or None
            The version of the task that the caller decided on; None is refused.

        Raises
        ------
        VersionRequired, StaleVersion, LeaseLost, ReviewAlreadyDecided
            If the task is not the caller's to settle in the state that they saw.
        InvalidRequest
            If a label is unknown or repeated, or the comment cannot be kept.
        """
        caller.require(Permission.REVIEW)
        if expected_version is None:
            raise VersionRequired("Name the version that you decided on in If-Match.")
        with self.begin() as transaction:
            task = self._load(transaction, task_id)
            before = transaction.reviews.annotation_of(task.id)
            if before is not None and repeats(before, caller, labels, comment):
                return before
            task.completed(caller.id, expected_version)
            annotation = self.settle(
                transaction,
                task,
                caller,
                self.checked(task, labels, comment),
                comment,
                request_id=request_id,
            )
            transaction.commit()
        return annotation

    def settle(
        self,
        transaction: Transaction,
        task: ReviewTask,
        caller: Caller,
        labels: Sequence[str],
        comment: str | None,
        *,
        request_id: str | None = None,
    ) -> Annotation:
        """Complete a task, which is locked and the caller's, with labels that are checked."""
        completed = task.settled()
        others = transaction.reviews.annotations_of(task.prediction.id)
        annotation = self._annotation(task, caller, labels, comment)
        adjudicated = calls_for_adjudication(
            annotation, others, reread=self._reread(transaction, task)
        )
        annotation = replace(
            annotation,
            settles=_settles(annotation, adjudicated=adjudicated),
            group=transaction.annotators.group_of(caller.id),
        )
        transaction.reviews.save(completed)
        transaction.reviews.annotate(annotation)
        if annotation.settles:
            self._tell(transaction, task.prediction, annotation, others)
        if adjudicated:
            transaction.reviews.add(self._adjudication(task.prediction, [*others, annotation]))
        self._note(
            transaction,
            caller,
            "review.completed",
            completed,
            request_id,
            annotation_id=annotation.id,
            kind=annotation.kind.value,
            agreed=annotation.agreed,
            chosen_rank=annotation.chosen_rank,
            seconds=annotation.seconds,
            adjudicated=adjudicated,
        )
        self.answered(transaction, task.prediction, annotation)
        return annotation

    def _reread(self, transaction: Transaction, task: ReviewTask) -> bool:
        prediction = task.prediction
        draws = self.lottery(prediction.client_id, prediction.name)
        # By the policy that drew the audit, whatever holds by now: certificates rest on that share.
        return transaction.policies.get(prediction.policy_version).audits.rereads(draws)

    def _tell(
        self,
        transaction: Transaction,
        prediction: Prediction,
        annotation: Annotation,
        others: Sequence[Annotation],
    ) -> None:
        """Write the message that other programs need, if they need one."""
        told = sent_labels(prediction, others, transaction.outcomes.of(prediction.id))
        if told is None:
            transaction.outbox.add(review_completed(prediction, annotation, self.new_id()))
        elif set(told) != set(annotation.labels):
            transaction.outbox.add(document_corrected(prediction, annotation, told, self.new_id()))

    def _adjudication(
        self, prediction: Prediction, annotations: Sequence[Annotation]
    ) -> ReviewTask:
        return ReviewTask(
            id=self.new_id(),
            prediction=prediction,
            kind=ReviewKind.ADJUDICATION,
            state=ReviewState.WAITING,
            version=1,
            created_at=annotations[-1].created_at,
            answers=rival_answers(prediction.scored.labels, annotations),
        )

    def checked(
        self, task: ReviewTask, labels: Sequence[str], comment: str | None
    ) -> tuple[str, ...]:
        """Return the labels in the vocabulary's order; raises `InvalidRequest`."""
        places = self._places(task.prediction)
        faults = list(_label_faults(labels, places))
        if comment is not None:
            faults += text_faults(comment, "/comment", longest=LONGEST_COMMENT, blank_allowed=True)
        if faults:
            raise InvalidRequest("The review cannot be completed like this.", faults)
        return tuple(sorted(labels, key=places.__getitem__))

    def _annotation(
        self, task: ReviewTask, caller: Caller, labels: Sequence[str], comment: str | None
    ) -> Annotation:
        chosen = set(labels)
        scored = task.prediction.scored
        ranks = (
            rank for rank, shown in enumerate(scored.candidates) if set(shown.labels) == chosen
        )
        now = self.now()
        claimed_at = task.lease.claimed_at if task.lease else now
        decided_at = task.decision.decided_at if task.decision else now
        return Annotation(
            id=self.new_id(),
            task_id=task.id,
            prediction_id=task.prediction.id,
            reviewer=caller.id,
            labels=tuple(labels),
            comment=comment,
            agreed=chosen == set(scored.labels),
            chosen_rank=None if task.kind.blind else next(ranks, None),
            suggestion_shown=not task.kind.blind,
            # A clock set back in between must not make a duration negative.
            seconds=max(0.0, (decided_at - claimed_at).total_seconds()),
            created_at=now,
            kind=task.kind,
            version=task.version,
        )

    def _places(self, prediction: Prediction) -> dict[str, int]:
        """Return every label that may be given, with its place in the vocabulary.

        The prediction's own labels count as well: another model may have been activated since.
        """
        scored = prediction.scored
        labels = [
            *self.predictors.active().labels,
            *(label for candidate in scored.candidates for label in candidate.labels),
            *(marginal.label for marginal in scored.marginals),
        ]
        return {label: place for place, label in enumerate(dict.fromkeys(labels))}


def _settles(annotation: Annotation, *, adjudicated: bool) -> bool:
    match annotation.kind:
        case ReviewKind.REVIEW | ReviewKind.ADJUDICATION:
            return True
        case ReviewKind.AUDIT:
            return not adjudicated
        case ReviewKind.OVERLAP:
            return False


def repeats(before: Annotation, caller: Caller, labels: Sequence[str], comment: str | None) -> bool:
    """Tell whether the caller says again what is recorded already."""
    return (
        before.reviewer == caller.id
        and set(before.labels) == set(labels)
        and before.comment == comment
    )


def _label_faults(labels: Sequence[str], known: dict[str, int]) -> Iterator[FieldFault]:
    seen: set[str] = set()
    for place, label in enumerate(labels):
        pointer = f"/labels/{place}"
        if label not in known:
            yield FieldFault(pointer, f"{label!r} is not a label of the model")
        elif label in seen:
            yield FieldFault(pointer, f"{label!r} is given twice")
        seen.add(label)


@dataclass(frozen=True)
class GetReview:
    """Read one review task."""

    begin: Transactions

    def __call__(self, caller: Caller, task_id: str) -> ReviewTask:
        """Return it, whatever its state; raises `ReviewNotFound`."""
        caller.require(Permission.READ_QUEUE)
        with self.begin(read_only=True) as transaction:
            task = transaction.reviews.get(task_id)
        if task is None:
            raise ReviewNotFound(f"No review task has the id {task_id!r}.")
        return task


@dataclass(frozen=True)
class ListReviews:
    """List review tasks, oldest first."""

    begin: Transactions

    def __call__(
        self,
        caller: Caller,
        *,
        state: ReviewState | None = None,
        reason: Reason | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[ReviewTask]:
        """Return one page of the tasks in ``state`` whose prediction has ``reason``."""
        caller.require(Permission.READ_QUEUE)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.reviews.page(state=state, reason=reason, after=after, limit=limit)


@dataclass(frozen=True)
class ExpireLeases(Desk):
    """Return tasks to the queue whose reviewers went silent."""

    def __call__(self) -> int:
        """Return how many tasks went back."""
        total = 0
        while True:
            with self.begin() as transaction:
                expired = transaction.reviews.expire_leases(
                    self.now(), limit=_EXPIRED_PER_TRANSACTION
                )
                for task in expired:
                    self._note(transaction, SYSTEM, "review.lease_expired", task)
                transaction.commit()
            total += len(expired)
            if len(expired) < _EXPIRED_PER_TRANSACTION:
                return total
