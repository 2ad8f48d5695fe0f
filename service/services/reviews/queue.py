"""Claim review tasks, give them back, and read what is in the queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Reason, TermWeight
from setwise.service.domain.reviews import (
    EVERYTHING,
    LONGEST_SKIP_REASON,
    QueueFilter,
    ReadingOrder,
    ReviewState,
    ReviewTask,
)
from setwise.service.domain.routing.audits import (
    MARKED,
    Lottery,
)
from setwise.service.domain.routing.rules import Rule, constraints_broken, parents_beside
from setwise.service.domain.routing.segments import ALL_DOCUMENTS
from setwise.service.domain.text import Page, check_page, text_faults
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import PredictorSource
from setwise.service.services.predictions import disclose, disclose_one
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction

LEASE = timedelta(minutes=15)
"""How long a reviewer keeps a claimed task without extending the lease."""

MOST_LEASES = 10
"""Most tasks that a reviewer may hold, so that no one empties the queue alone."""

MOST_SEGMENTS = 100
"""Most segments to choose a queue from."""

MOST_EXPLAINED_LABELS = 20
"""Most labels explained in one call."""

_AT_ONCE = 100
"""Bounds how long expiring leases keep rows locked."""


@dataclass(frozen=True)
class Queue(Recorded):
    """The review queue."""

    now: LeaseClock
    predictors: PredictorSource
    """The active model explains its suggestions."""
    lottery: Lottery
    """Tosses which documents a reviewer gets while nothing is proved."""
    lease: timedelta = LEASE
    most_leases: int = MOST_LEASES

    def get(self, caller: Caller, task_id: str) -> ReviewTask:
        """Return a task in any state; raises `ReviewNotFound`, `BlindReviewHeld`."""
        caller.require(Permission.READ_QUEUE)
        with self.begin(read_only=True) as transaction:
            task = transaction.reviews.get(task_id)
            if task is None:
                raise errors.ReviewNotFound(f"No review task has the id {task_id!r}.")
        if not task.blind:
            disclose_one(self.begin, self.now, caller, task.prediction.id)
        return task

    def page(
        self,
        caller: Caller,
        *,
        state: ReviewState | None = None,
        reason: Reason | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[ReviewTask]:
        """Return a page of tasks, oldest first.

        A task that would show the suggestion for a document whose blind review the caller holds is
        left out.
        """
        caller.require(Permission.READ_QUEUE)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            page = transaction.reviews.page(state=state, reason=reason, after=after, limit=limit)
        read = [task.prediction.id for task in page.items if not task.blind]
        hidden = disclose(self.begin, self.now, caller, read)
        shown = (task for task in page.items if task.blind or task.prediction.id not in hidden)
        return replace(page, items=tuple(shown))

    def mine(self, caller: Caller) -> list[ReviewTask]:
        """Return the caller's undecided tasks, earliest claim first."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            return transaction.reviews.leased_to(caller.id, self.now())

    def my_task(self, caller: Caller, task_id: str) -> ReviewTask:
        """Return one of the caller's undecided tasks; raises `ReviewNotFound`."""
        for task in self.mine(caller):
            if task.id == task_id:
                return task
        raise errors.ReviewNotFound(f"You hold no review task with the id {task_id!r}.")

    def lease_left_s(self, task: ReviewTask) -> float:
        """Return the remaining time of a task's lease, in seconds."""
        if task.lease is None:
            return 0.0
        return max(0.0, (task.lease.expires_at - self.now()).total_seconds())

    def count_for_leads(self, caller: Caller) -> int:
        """Count the open tasks that only a lead may claim; leads alone see how many."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            return transaction.reviews.count_escalated()

    def segments(self, caller: Caller) -> list[str]:
        """Return the segments of which documents are in the queue, for a choice."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            keys = transaction.reviews.segments(most=MOST_SEGMENTS)
        gates = (policy.gate_of_stored(key, None) for key in keys)
        return sorted({gate.segment.value for gate in gates if gate} & {*policy.values})

    def claim(
        self, caller: Caller, filters: QueueFilter = EVERYTHING, *, only: str | None = None
    ) -> ReviewTask | None:
        """Lease and return the first task that the caller may claim, or None.

        Leads and administrators first get adjudications and tasks that were skipped twice; other
        reviewers never get those. A reviewer gets at most one task of each prediction, and no blind
        one after reading its suggestion.

        Raises `TooManyLeases` if the caller already holds as many tasks as allowed.

        ``only``: Id of a task; no other task is claimed then.
        """
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            return self.claim_in(transaction, caller, filters, only)

    def claim_in(
        self, transaction: Transaction, caller: Caller, filters: QueueFilter, only: str | None
    ) -> ReviewTask | None:
        """Do as `claim` in a transaction."""
        now = self.now()
        held = transaction.reviews.held_by(caller.id, now)
        if held >= self.most_leases:
            raise errors.TooManyLeases(
                f"You hold {held} tasks, the most that one person may; "
                "complete, skip or release one first."
            )
        policy = transaction.policies.current()
        task = transaction.reviews.next_for(
            caller.id,
            now,
            escalated=caller.may(Permission.REPORT),
            only=only,
            filters=filters,
            segment=ALL_DOCUMENTS
            if filters.segment is None
            else policy.segment_of(filters.segment),
            order=self._order(policy, caller, now),
        )
        if task is None:
            return None
        claimed = task.claimed(caller.id, now, self.lease)
        taken_from = task.lease.holder if task.lease else None
        transaction.reviews.save(claimed)
        if not claimed.blind:
            transaction.reviews.note_reader(caller.id, [claimed.prediction.id], now)
        self.record(transaction, caller, "review.claimed", claimed, taken_from=taken_from)
        return claimed

    def _order(self, policy: Policy, caller: Caller, now: datetime) -> ReadingOrder:
        if policy.has_threshold:
            return ReadingOrder.AS_THEY_CAME
        marked = self.lottery.toss(caller.id, now) < MARKED
        return ReadingOrder.MARKED_FIRST if marked else ReadingOrder.DOUBTFUL_FIRST

    def extend(self, caller: Caller, task_id: str) -> ReviewTask:
        """Restart the lease of a task; the audit trail omits this."""
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            extended = locked(transaction, task_id).extended(caller.id, self.now(), self.lease)
            transaction.reviews.save(extended)
        return extended

    def release(self, caller: Caller, task_id: str, *, later: bool = False) -> ReviewTask:
        """Return a task to its place in the queue or, if ``later``, to the end."""
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            held = locked(transaction, task_id)
            released = held.postponed(caller.id, self.now()) if later else held.released(caller.id)
            transaction.reviews.save(released)
            action = "review.postponed" if later else "review.released"
            self.record(transaction, caller, action, released)
        return released

    def skip(self, caller: Caller, task_id: str, reason: str) -> ReviewTask:
        """Pass a task to another reviewer; after two skips, to a lead."""
        caller.require(Permission.REVIEW)
        faults = text_faults(reason, "/reason", longest=LONGEST_SKIP_REASON)
        if faults:
            raise errors.InvalidRequest("A skip needs a reason that can be kept.", faults)
        with self.begin() as transaction:
            skipped = locked(transaction, task_id).skipped(caller.id, reason, self.now())
            transaction.reviews.save(skipped)
            self.record(transaction, caller, "review.skipped", skipped, escalated=skipped.escalated)
        return skipped

    def expire_leases(self) -> int:
        """Return tasks with expired leases to the queue; return their number."""
        total = 0
        while True:
            with self.begin() as transaction:
                expired = transaction.reviews.expire_leases(self.now(), limit=_AT_ONCE)
                for task in expired:
                    self.record(transaction, SYSTEM, "review.lease_expired", task)
            total += len(expired)
            if len(expired) < _AT_ONCE:
                return total

    def check(
        self, caller: Caller, task: ReviewTask, sets: Sequence[Sequence[str]]
    ) -> list[tuple[Rule, ...]]:
        """Return the rules of the policy about labels that each label set for the task breaks."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            rules = transaction.policies.current().rules
        metadata = task.prediction.document.metadata
        return [constraints_broken(rules, labels, metadata) for labels in sets]

    def parents(self, caller: Caller) -> Mapping[str, str]:
        """Return the parent that the policy requires beside each label."""
        caller.require(Permission.READ_QUEUE)
        with self.begin(read_only=True) as transaction:
            return parents_beside(transaction.policies.current().rules)

    def explain(
        self, caller: Caller, task: ReviewTask, labels: Sequence[str]
    ) -> list[tuple[TermWeight, ...]]:
        """Return the active model's most important terms of the document for each label.

        Raises `Forbidden` if the task is blind; `ModelUnavailable` if no model is active;
        `InvalidRequest` if the active model cannot score the document, or does not know a label.
        """
        caller.require(Permission.REVIEW)
        if task.blind:
            raise errors.Forbidden("This document must be read without the model's opinion.")
        document = task.prediction.document
        return self.predictors.active().explain(document, labels[:MOST_EXPLAINED_LABELS])

    def record(
        self,
        transaction: Transaction,
        caller: Caller,
        action: str,
        task: ReviewTask,
        **detail: object,
    ) -> None:
        """Record what happened to a task in the audit trail."""
        self._note(transaction, caller, action, task.id, version=task.version, **detail)


def locked(transaction: Transaction, task_id: str) -> ReviewTask:
    """Return a task, locked until the transaction ends; raises `ReviewNotFound`."""
    task = transaction.reviews.get(task_id, for_update=True)
    if task is None:
        raise errors.ReviewNotFound(f"No review task has the id {task_id!r}.")
    return task
