"""Decide a review task so that the decision can be taken back for a moment.

A decision is stored at once, so nothing that happens to the browser loses it; it becomes final,
and other programs are told, when its maker decides the next task or when its window has passed.
Until then it is no annotation: nothing has been said that would have to be unsaid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from setwise.service.domain.callers import Caller, Permission, Role
from setwise.service.domain.errors import ReviewNotFound, VersionRequired
from setwise.service.domain.reviews import HeldDecision, ReviewState, ReviewTask
from setwise.service.services.reviews import LEASE, CompleteReview, Desk, repeats
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transaction, Transactions

WINDOW = timedelta(seconds=20)
"""How long a decision may be taken back."""

_SETTLED_AT_ONCE = 100


@dataclass(frozen=True)
class SettleDecisions:
    """Make decisions final."""

    begin: Transactions
    now: Clock
    complete: CompleteReview

    def __call__(self) -> int:
        """Settle what nobody took back in time; returns how many decisions that were."""
        total = 0
        while True:
            with self.begin(read_only=True) as transaction:
                due = transaction.reviews.decided(before=self.now(), limit=_SETTLED_AT_ONCE)
            settled = sum(self._settle(task_id, early=False) for task_id in due)
            total += settled
            # Those that another worker settled meanwhile do not count, and are not found again.
            if len(due) < _SETTLED_AT_ONCE or not settled:
                return total

    def of(self, reviewer: str, *, but: str | None = None) -> int:
        """Settle what ``reviewer`` has decided, except ``but``, however young; returns how many."""
        with self.begin(read_only=True) as transaction:
            decided = transaction.reviews.decided(reviewer=reviewer, limit=_SETTLED_AT_ONCE)
        return sum(self._settle(task_id, early=True) for task_id in decided if task_id != but)

    def _settle(self, task_id: str, *, early: bool) -> bool:
        with self.begin() as transaction:
            task = transaction.reviews.get(task_id, for_update=True)
            decision = task.decision if task else None
            if task is None or task.lease is None or decision is None:
                return False
            if not early and decision.settles_at > self.now():
                return False
            maker = Caller(task.lease.holder, decision.by, Role.REVIEWER)
            self.complete.settle(transaction, task, maker, decision.labels, decision.comment)
            transaction.commit()
        return True


@dataclass(frozen=True)
class Decided:
    """A decision as it is stored now.

    Attributes
    ----------
    task : ReviewTask
    undo_s : float
        For how many seconds more it may be taken back; 0 when it is final.
    """

    task: ReviewTask
    undo_s: float


@dataclass(frozen=True)
class DecideReview(Desk):
    """Decide a claimed task; the decision that the caller made before becomes final."""

    complete: CompleteReview
    settle: SettleDecisions
    window: timedelta = WINDOW
    lease: timedelta = LEASE

    def __call__(
        self,
        caller: Caller,
        task_id: str,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int | None,
        *,
        request_id: str | None = None,
    ) -> Decided:
        """Return the decided task. The same decision sent again changes nothing.

        Takes and raises what `setwise.service.services.reviews.CompleteReview` does.
        """
        caller.require(Permission.REVIEW)
        if expected_version is None:
            raise VersionRequired("Name the version that you decided on.")
        with self.begin() as transaction:
            task = self._load(transaction, task_id)
            if not self._said_before(transaction, task, caller, labels, comment):
                task = self._decided(task, caller, labels, comment, expected_version)
                transaction.reviews.save(task)
                self._note(transaction, caller, "review.decided", task, request_id)
                transaction.commit()
        self.settle.of(caller.id, but=None if self.window <= timedelta(0) else task.id)
        return Decided(task, self._left_s(task))

    def _decided(
        self,
        task: ReviewTask,
        caller: Caller,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int,
    ) -> ReviewTask:
        now = self.now()
        # First whether it is the caller's to decide, as completing does.
        task.completed(caller.id, expected_version)
        decision = HeldDecision(
            labels=self.complete.checked(task, labels, comment),
            comment=comment,
            by=caller.name,
            decided_at=now,
            settles_at=now + self.window,
        )
        return task.decided(caller.id, expected_version, decision, self.lease)

    def _said_before(
        self,
        transaction: Transaction,
        task: ReviewTask,
        caller: Caller,
        labels: Sequence[str],
        comment: str | None,
    ) -> bool:
        before = transaction.reviews.annotation_of(task.id)
        if before is not None:
            return repeats(before, caller, labels, comment)
        decision = task.decision
        return (
            decision is not None
            and task.lease is not None
            and task.lease.holder == caller.id
            and set(decision.labels) == set(labels)
            and decision.comment == comment
        )

    def _left_s(self, task: ReviewTask) -> float:
        if task.decision is None or task.state is ReviewState.COMPLETED:
            return 0.0
        return max(0.0, (task.decision.settles_at - self.now()).total_seconds())


@dataclass(frozen=True)
class UndoDecision(Desk):
    """Take the caller's decision back, within its window."""

    lease: timedelta = LEASE

    def __call__(
        self, caller: Caller, task_id: str, *, request_id: str | None = None
    ) -> ReviewTask:
        """Return the task, leased to the caller again.

        Raises
        ------
        ReviewAlreadyDecided
            If the window has passed or the decision became final with the next one.
        LeaseLost
            If there is no decision of the caller's.
        """
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            task = self._load(transaction, task_id)
            reopened = task.reopened(caller.id, self.now(), self.lease)
            transaction.reviews.save(reopened)
            self._note(transaction, caller, "review.undone", reopened, request_id)
            transaction.commit()
        return reopened


@dataclass(frozen=True)
class MyReviews:
    """What a person has on their desk, and what they have done."""

    begin: Transactions
    now: Clock

    def __call__(self, caller: Caller) -> list[ReviewTask]:
        """Return the tasks that the caller holds and has not decided, first claimed first."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            return transaction.reviews.leased_to(caller.id, self.now())

    def one(self, caller: Caller, task_id: str) -> ReviewTask:
        """Return one of these tasks; raises `ReviewNotFound`."""
        for task in self(caller):
            if task.id == task_id:
                return task
        raise ReviewNotFound(f"You hold no review task with the id {task_id!r}.")

    def left_s(self, task: ReviewTask) -> float:
        """Return for how many seconds more a task is its holder's."""
        if task.lease is None:
            return 0.0
        return max(0.0, (task.lease.expires_at - self.now()).total_seconds())

    def settled(self, caller: Caller, within: timedelta) -> int:
        """Count what the caller has settled in the time until now, decisions under way included."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            settled = transaction.reviews.settled_by(caller.id, self.now() - within)
            return settled + len(transaction.reviews.decided(reviewer=caller.id, limit=10))
