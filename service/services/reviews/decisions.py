"""Decide and complete review tasks.

A decision is stored at once. It becomes final after a short time in which it can be undone, or when
the reviewer has decided some more tasks. Only then does it become an annotation that other programs
see.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission, Role
from setwise.service.domain.certification import Scorer
from setwise.service.domain.labels import NO_ADDITIONS, Additions
from setwise.service.domain.outcomes import sent_labels
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import (
    EVERYTHING,
    LONGEST_COMMENT,
    Annotation,
    HeldDecision,
    ReviewKind,
    ReviewState,
    ReviewTask,
    adjudication,
    calls_for_adjudication,
    is_final,
)
from setwise.service.domain.routing.audits import (
    AuditRole,
    Lottery,
    plausible_threshold,
    reread_rate,
)
from setwise.service.domain.text import text_faults
from setwise.service.domain.truth import AnswerFacts
from setwise.service.domain.webhooks import document_corrected, review_completed
from setwise.service.services.labels import TakesLabels
from setwise.service.services.reviews.queue import Queue, locked
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction

UNDO = timedelta(minutes=1)
"""How long a decision can be undone."""

MOST_UNDOABLE = 5
"""Decisions that a reviewer can undo, the newest; older ones are final."""

MOST_USUAL = 1_000
"""Most other documents, the newest, that say how many lie above the threshold."""

_AT_ONCE = 100
"""Bounds how long submitting decisions keeps rows locked."""


def _ignore(transaction: Transaction, prediction: Prediction, annotation: Annotation) -> None:
    pass


@dataclass(frozen=True)
class StoredDecision:
    """A stored decision."""

    task: ReviewTask
    undo_s: float
    """Seconds in which it can still be undone; 0 if it is final."""


@dataclass(frozen=True)
class Reviews(TakesLabels):
    """What people decide on the tasks that they claimed."""

    now: LeaseClock
    queue: Queue
    lottery: Lottery
    """Draws the audits for a second reading."""
    undo_window: timedelta = UNDO
    annotated: Callable[[Transaction, Prediction, Annotation], None] = _ignore
    """Called with each annotation in the transaction that stores it."""

    def done_within(self, caller: Caller, within: timedelta) -> int:
        """Count the caller's recent annotations and decisions."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            completed = transaction.reviews.count_answers(caller.id, self.now() - within)
            return completed + len(transaction.reviews.decided(reviewer=caller.id, limit=10))

    def complete(
        self,
        caller: Caller,
        task_id: str,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int | None,
        *,
        additions: Additions = NO_ADDITIONS,
    ) -> Annotation:
        """Complete a claimed task with the right label set.

        A review is final. An audit that agrees with the model is final unless it was drawn for a
        second reading. Otherwise, and if two reviewers differ, a lead decides. Repeating the same
        request returns the same annotation.

        Raises `VersionRequired`, `StaleVersion`, `LeaseLost` or `ReviewAlreadyDecided` if the task
        cannot be completed by the caller in that version; `InvalidRequest` if a label is unknown or
        repeated, or the comment cannot be stored; `SimilarLabels` if a new one has near-duplicates.

        ``labels``: Distinct labels of the active model, of the task's prediction or of the
        catalogue, or new ones; empty for the empty set.
        ``expected_version``: The version of the task that the caller read; required.
        """
        labels, version = _given(caller, labels, additions, expected_version)
        with self.begin() as transaction:
            task = locked(transaction, task_id)
            before = transaction.reviews.annotation_of(task.id)
            if before is not None and before.repeats(caller.id, labels, comment):
                return before
            task.completed(caller.id, version)
            labels = self.checked(transaction, caller, task, labels, additions, comment=comment)
            return self.complete_in(transaction, task, caller, labels, comment)

    def decide(
        self,
        caller: Caller,
        task_id: str,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int | None,
        *,
        additions: Additions = NO_ADDITIONS,
        then_claim: bool = False,
    ) -> StoredDecision:
        """Decide a claimed task; the caller's decisions before the newest few become final.

        Parameters and errors are those of `complete`. Repeating the same request changes nothing.

        ``then_claim``: Whether to claim the next task with it, unless the caller holds one.
        """
        labels, version = _given(caller, labels, additions, expected_version)
        with self.begin() as transaction:
            task = locked(transaction, task_id)
            if not _answered_before(transaction, task, caller, labels, comment):
                # First check that the caller may decide the task, as `complete` does.
                task.completed(caller.id, version)
                labels = self.checked(transaction, caller, task, labels, additions, comment=comment)
                task = self._decided(task, caller, labels, comment, version)
                transaction.reviews.save(task)
                self.queue.record(transaction, caller, "review.decided", task)
            if then_claim and not transaction.reviews.leased_to(caller.id, self.now()):
                self.queue.claim_in(transaction, caller, EVERYTHING, None)
        no_undo = self.undo_window <= timedelta(0)
        self.submit_decisions_of(caller.id, keep=0 if no_undo else MOST_UNDOABLE)
        return StoredDecision(task, self._undo_left_s(task))

    def undo(self, caller: Caller, task_id: str) -> ReviewTask:
        """Undo the caller's decision or skip; the task is leased to them again.

        Raises `ReviewAlreadyDecided` if the decision or skip is final; `LeaseLost` if the caller
        has not decided the task, or another reviewer has taken it since the skip.
        """
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            task = locked(transaction, task_id)
            if task.skipped_by(caller.id):
                again = self._unskipped(transaction, caller, task)
            else:
                again = task.reopened(caller.id, self.now(), self.queue.lease)
                transaction.reviews.save(again)
            self.queue.record(transaction, caller, "review.undone", again)
        return again

    def _unskipped(self, transaction: Transaction, caller: Caller, task: ReviewTask) -> ReviewTask:
        transaction.reviews.save(task.unskipped(caller.id, self.now(), self.undo_window))
        transaction.reviews.withdraw_skip(task.id, caller.id)
        # Claiming it checks again what the caller has read in the meantime.
        again = self.queue.claim_in(transaction, caller, EVERYTHING, task.id)
        if again is None:
            raise errors.LeaseLost("You cannot take this document back.")
        return again

    def submit_decisions(self) -> int:
        """Make decisions final whose time to undo is over; return their number."""
        total = 0
        while True:
            with self.begin(read_only=True) as transaction:
                due = transaction.reviews.decided(before=self.now(), limit=_AT_ONCE)
            submitted = sum(self._submit(task_id, early=False) for task_id in due)
            total += submitted
            # Another worker may have submitted some of them, which are not counted.
            if len(due) < _AT_ONCE or not submitted:
                return total

    def submit_decisions_of(self, reviewer: str, *, keep: int = 0) -> int:
        """Make a reviewer's decisions final except the ``keep`` newest; return their number."""
        with self.begin(read_only=True) as transaction:
            decided = transaction.reviews.decided(reviewer=reviewer, limit=_AT_ONCE)
        return sum(
            self._submit(task, early=True) for task in decided[: max(0, len(decided) - keep)]
        )

    def _submit(self, task_id: str, *, early: bool) -> bool:
        with self.begin() as transaction:
            task = transaction.reviews.get(task_id, for_update=True)
            decision = task.decision if task else None
            if task is None or task.lease is None or decision is None:
                return False
            if not early and decision.settles_at > self.now():
                return False
            maker = Caller(task.lease.holder, decision.by, Role.REVIEWER)
            self.complete_in(transaction, task, maker, decision.labels, decision.comment)
        return True

    def complete_in(
        self,
        transaction: Transaction,
        task: ReviewTask,
        caller: Caller,
        labels: Sequence[str],
        comment: str | None,
    ) -> Annotation:
        """Complete a locked task with checked labels on behalf of its holder."""
        completed = task.finished()
        facts = transaction.truth.facts(task.prediction.id)
        others = facts.annotations
        annotation = task.answer(self.new_id(), caller.id, labels, comment, self.now())
        chance, drawn = self._reread(transaction, task)
        adjudicated = calls_for_adjudication(annotation, others, reread=drawn < chance)
        audit = task.kind is ReviewKind.AUDIT
        annotation = replace(
            annotation,
            reread_rate=chance if audit else None,
            reread_draw=drawn if audit else None,
            settles=is_final(annotation, adjudicated=adjudicated),
            group=transaction.annotators.group_of(caller.id),
        )
        transaction.reviews.save(completed)
        transaction.reviews.annotate(annotation, facts)
        if annotation.settles:
            self._send(transaction, task.prediction, annotation, facts)
        if adjudicated:
            transaction.reviews.add(
                adjudication(self.new_id(), task.prediction, [*others, annotation])
            )
        self.queue.record(
            transaction,
            caller,
            "review.completed",
            completed,
            annotation_id=annotation.id,
            kind=annotation.kind.value,
            agreed=annotation.agreed,
            chosen_rank=annotation.chosen_rank,
            seconds=annotation.seconds,
            adjudicated=adjudicated,
        )
        self.annotated(transaction, task.prediction, annotation)
        return annotation

    def _reread(self, transaction: Transaction, task: ReviewTask) -> tuple[float, float]:
        """Return with which probability a lead reads an audit again, and what was drawn.

        The answer must not decide on it, or it would not tell how many errors auditors miss.
        """
        prediction = task.prediction
        draw = self.lottery.reread(prediction.client_id, prediction.name)
        share = transaction.policies.get(prediction.policy_version).audits.gold_reread_rate
        proves = prediction.selection.role is AuditRole.CERTIFICATION
        if task.kind is not ReviewKind.AUDIT or not proves or share in {0.0, 1.0}:
            return share, draw
        if prediction.selection.in_rest:
            return 1.0, draw  # see `setwise.models.guarantees.strata`
        scored = prediction.scored
        scorer = Scorer(scored.model_version or "", scored.calibrator_version or "")
        usual = transaction.certifications.unaudited(scorer, limit=MOST_USUAL)
        policy = transaction.policies.current()
        least = policy.gate_of(prediction.segment).least_of(scorer)
        thresholds = (least, plausible_threshold(usual, policy.target_accuracy))
        threshold = min((each for each in thresholds if each is not None), default=None)
        return reread_rate(share, scored.best.confidence, threshold, usual), draw

    def _send(
        self,
        transaction: Transaction,
        prediction: Prediction,
        annotation: Annotation,
        before: AnswerFacts,
    ) -> None:
        """Queue a message unless these labels have been sent already."""
        sent = sent_labels(prediction, before.annotations, before.outcomes)
        if sent is None:
            transaction.outbox.add(review_completed(prediction, annotation, self.new_id()))
        elif set(sent) != set(annotation.labels):
            transaction.outbox.add(document_corrected(prediction, annotation, sent, self.new_id()))

    def checked(
        self,
        transaction: Transaction,
        caller: Caller,
        task: ReviewTask,
        labels: Sequence[str],
        additions: Additions,
        *,
        comment: str | None = None,
    ) -> tuple[str, ...]:
        """Return an answer's labels as they are stored; raises `InvalidRequest`."""
        faults = text_faults(comment or "", "/comment", longest=LONGEST_COMMENT, blank_allowed=True)
        prediction = task.prediction
        return self._resolved(transaction, caller, prediction, labels, additions, faults=faults)

    def _decided(
        self,
        task: ReviewTask,
        caller: Caller,
        labels: Sequence[str],
        comment: str | None,
        expected_version: int,
    ) -> ReviewTask:
        now = self.now()
        decision = HeldDecision(
            labels=tuple(labels),
            comment=comment,
            by=caller.name,
            decided_at=now,
            settles_at=now + self.undo_window,
        )
        return task.decided(caller.id, expected_version, decision, self.queue.lease)

    def _undo_left_s(self, task: ReviewTask) -> float:
        if task.decision is None or task.state is ReviewState.COMPLETED:
            return 0.0
        return max(0.0, (task.decision.settles_at - self.now()).total_seconds())


def _given(
    caller: Caller, labels: Sequence[str], additions: Additions, expected_version: int | None
) -> tuple[tuple[str, ...], int]:
    """Return the labels that a reviewer gives, and the version of the task that they are for."""
    caller.require(Permission.REVIEW)
    if expected_version is None:
        raise errors.VersionRequired("Name the version that you decided on, as in If-Match.")
    return additions.given(labels), expected_version


def _answered_before(
    transaction: Transaction,
    task: ReviewTask,
    caller: Caller,
    labels: Sequence[str],
    comment: str | None,
) -> bool:
    before = transaction.reviews.annotation_of(task.id)
    if before is not None:
        return before.repeats(caller.id, labels, comment)
    return task.decided_before(caller.id, labels, comment)
