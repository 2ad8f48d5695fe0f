"""Claim, decide and complete review tasks.

A decision is stored at once. It becomes final after a short time in which it can be undone, or when
the reviewer has decided some more tasks. Only then does it become an annotation that other programs
see.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission, Role
from setwise.service.domain.certification import Scorer
from setwise.service.domain.documents import Comment, CommentKind, OwnAnswer, check_comment
from setwise.service.domain.labels import NO_ADDITIONS, Additions
from setwise.service.domain.outcomes import resolution, sent_labels
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Prediction, Reason, TermWeight
from setwise.service.domain.reviews import (
    EVERYTHING,
    LONGEST_COMMENT,
    LONGEST_SKIP_REASON,
    Annotation,
    HeldDecision,
    QueueFilter,
    ReadingOrder,
    ReviewKind,
    ReviewState,
    ReviewTask,
    adjudication,
    calls_for_adjudication,
    is_final,
)
from setwise.service.domain.routing.audits import (
    MARKED,
    AuditRole,
    Lottery,
    plausible_threshold,
    reread_rate,
)
from setwise.service.domain.routing.rules import Rule, constraints_broken, parents_beside
from setwise.service.domain.routing.segments import ALL_DOCUMENTS
from setwise.service.domain.text import Page, check_page, text_faults
from setwise.service.domain.truth import AnswerFacts
from setwise.service.domain.webhooks import document_corrected, review_completed
from setwise.service.services.labels import TakesLabels
from setwise.service.services.predictions import disclose, disclose_one
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction

LEASE = timedelta(minutes=15)
"""How long a reviewer keeps a claimed task without extending the lease."""

MOST_LEASES = 10
"""Most tasks that a reviewer may hold, so that no one empties the queue alone."""

UNDO = timedelta(minutes=1)
"""How long a decision can be undone."""

MOST_UNDOABLE = 5
"""Decisions that a reviewer can undo, the newest; older ones are final."""

MOST_SEGMENTS = 100
"""Most segments to choose a queue from."""

MOST_EXPLAINED_LABELS = 20
"""Most labels explained in one call."""

MOST_USUAL = 1_000
"""Most other documents, the newest, that say how many lie above the threshold."""

_CHANGED_PER_TRANSACTION = 100
"""Bounds how long expiring leases and submitting decisions keep rows locked."""


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
    """The review queue."""

    now: LeaseClock
    lottery: Lottery
    """Draws the audits for a second reading."""
    lease: timedelta = LEASE
    most_leases: int = MOST_LEASES
    undo_window: timedelta = UNDO
    annotated: Callable[[Transaction, Prediction, Annotation], None] = _ignore
    """Called with each annotation in the transaction that stores it."""

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

    def done_within(self, caller: Caller, within: timedelta) -> int:
        """Count the caller's recent annotations and decisions."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            completed = transaction.reviews.count_answers(caller.id, self.now() - within)
            return completed + len(transaction.reviews.decided(reviewer=caller.id, limit=10))

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
            return self._claim(transaction, caller, filters, only)

    def _claim(
        self, transaction: Transaction, caller: Caller, filters: QueueFilter, only: str | None
    ) -> ReviewTask | None:
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
        self._log(transaction, caller, "review.claimed", claimed, taken_from=taken_from)
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
            extended = _locked(transaction, task_id).extended(caller.id, self.now(), self.lease)
            transaction.reviews.save(extended)
        return extended

    def release(self, caller: Caller, task_id: str, *, later: bool = False) -> ReviewTask:
        """Return a task to its place in the queue or, if ``later``, to the end."""
        caller.require(Permission.REVIEW)
        with self.begin() as transaction:
            held = _locked(transaction, task_id)
            released = held.postponed(caller.id, self.now()) if later else held.released(caller.id)
            transaction.reviews.save(released)
            action = "review.postponed" if later else "review.released"
            self._log(transaction, caller, action, released)
        return released

    def skip(self, caller: Caller, task_id: str, reason: str) -> ReviewTask:
        """Pass a task to another reviewer; after two skips, to a lead."""
        caller.require(Permission.REVIEW)
        faults = text_faults(reason, "/reason", longest=LONGEST_SKIP_REASON)
        if faults:
            raise errors.InvalidRequest("A skip needs a reason that can be kept.", faults)
        with self.begin() as transaction:
            skipped = _locked(transaction, task_id).skipped(caller.id, reason, self.now())
            transaction.reviews.save(skipped)
            self._log(transaction, caller, "review.skipped", skipped, escalated=skipped.escalated)
        return skipped

    def expire_leases(self) -> int:
        """Return tasks with expired leases to the queue; return their number."""
        total = 0
        while True:
            with self.begin() as transaction:
                expired = transaction.reviews.expire_leases(
                    self.now(), limit=_CHANGED_PER_TRANSACTION
                )
                for task in expired:
                    self._log(transaction, SYSTEM, "review.lease_expired", task)
            total += len(expired)
            if len(expired) < _CHANGED_PER_TRANSACTION:
                return total

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
        caller.require(Permission.REVIEW)
        if expected_version is None:
            raise errors.VersionRequired("Name the version that you decided on in If-Match.")
        labels = additions.given(labels)
        with self.begin() as transaction:
            task = _locked(transaction, task_id)
            before = transaction.reviews.annotation_of(task.id)
            if before is not None and before.repeats(caller.id, labels, comment):
                return before
            task.completed(caller.id, expected_version)
            labels = self._checked(transaction, caller, task, labels, additions, comment=comment)
            return self._complete(transaction, task, caller, labels, comment)

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
        caller.require(Permission.REVIEW)
        if expected_version is None:
            raise errors.VersionRequired("Name the version that you decided on.")
        labels = additions.given(labels)
        with self.begin() as transaction:
            task = _locked(transaction, task_id)
            if not _answered_before(transaction, task, caller, labels, comment):
                # First check that the caller may decide the task, as `complete` does.
                task.completed(caller.id, expected_version)
                labels = self._checked(
                    transaction, caller, task, labels, additions, comment=comment
                )
                task = self._decided(task, caller, labels, comment, expected_version)
                transaction.reviews.save(task)
                self._log(transaction, caller, "review.decided", task)
            if then_claim and not transaction.reviews.leased_to(caller.id, self.now()):
                self._claim(transaction, caller, EVERYTHING, None)
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
            task = _locked(transaction, task_id)
            if task.skipped_by(caller.id):
                again = self._unskipped(transaction, caller, task)
            else:
                again = task.reopened(caller.id, self.now(), self.lease)
                transaction.reviews.save(again)
            self._log(transaction, caller, "review.undone", again)
        return again

    def _unskipped(self, transaction: Transaction, caller: Caller, task: ReviewTask) -> ReviewTask:
        transaction.reviews.save(task.unskipped(caller.id, self.now(), self.undo_window))
        transaction.reviews.withdraw_skip(task.id, caller.id)
        # Claiming it checks again what the caller has read in the meantime.
        again = self._claim(transaction, caller, EVERYTHING, task.id)
        if again is None:
            raise errors.LeaseLost("You cannot take this document back.")
        return again

    def reopen(
        self,
        caller: Caller,
        prediction_id: str,
        reason: str,
        labels: Sequence[str] | None = None,
        *,
        additions: Additions = NO_ADDITIONS,
    ) -> ReviewTask:
        """Have a document decided again; return the new task.

        The answer replaces what was sent, and is no evidence of how good the model is:
        certificates, the breaker and reports keep to the answers before. Who may not read all
        documents corrects their own answer, while it is the one that counts.

        Raises `PredictionNotFound`; `ReviewOpen` if a review of the document is open;
        `ReviewAlreadyDecided` if another person decided after the caller, who may read no others;
        `InvalidRequest` if the reason or a label cannot be stored; `SimilarLabels`.

        ``labels``: The caller's answer, at once; None to leave it to the next reviewer.
        """
        caller.require(Permission.REVIEW)
        check_comment(reason, "/reason")
        with self.begin() as transaction:
            return self.reopen_in(
                transaction, caller, prediction_id, reason, labels, additions=additions
            )

    def reopen_in(
        self,
        transaction: Transaction,
        caller: Caller,
        prediction_id: str,
        reason: str,
        labels: Sequence[str] | None = None,
        *,
        additions: Additions = NO_ADDITIONS,
    ) -> ReviewTask:
        """Do as `reopen` in a transaction; errors leave it unchanged."""
        prediction = transaction.predictions.get(prediction_id)
        if prediction is not None:
            transaction.reviews.lock(prediction.id)
        annotations = transaction.reviews.annotations_of(prediction_id) if prediction else []
        if prediction is None or not _may_reopen(caller, annotations, labels):
            raise errors.PredictionNotFound(f"You may reopen no document {prediction_id!r}.")
        tasks = transaction.reviews.tasks_of(prediction.id)
        for task in tasks:
            if task.state is not ReviewState.COMPLETED:
                raise errors.ReviewOpen(f"Wait for the open review. {_awaited(caller, task)}")
        now = self.now()
        task = ReviewTask(
            id=self.new_id(),
            prediction=prediction,
            kind=ReviewKind.REOPENED,
            state=ReviewState.WAITING,
            version=1,
            created_at=now,
            round=max((task.round for task in tasks), default=0) + 1,
            because=reason,
        )
        if labels is not None:
            task = task.claimed(caller.id, now, self.lease)
        transaction.reviews.add(task)
        comment_id = self.new_id()
        transaction.comments.add(
            Comment(
                comment_id,
                prediction.id,
                comment_id,
                CommentKind.REOPENED,
                caller.id,
                reason,
                now,
                task.id,
            )
        )
        self._log(transaction, caller, "review.reopened", task, prediction_id=prediction.id)
        if labels is None:
            return task
        given = additions.given(labels)
        checked = self._checked(transaction, caller, task, given, additions)
        self._complete(transaction, task, caller, checked, None)
        return task.finished()

    def recent(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[OwnAnswer]:
        """Return a page of the caller's answers, newest first.

        Each comes with what was decided once nobody reads the document any more, nor blindly a copy
        of it: the decision would reach whoever must answer without it.
        """
        caller.require(Permission.REVIEW)
        check_page(after, limit)
        with self.begin(read_only=True, snapshot=True) as transaction:
            page = transaction.reviews.answers_by(caller.id, after=after, limit=limit)
            return replace(page, items=tuple(_resolved(transaction, page.items)))

    def own(self, caller: Caller, prediction_id: str) -> OwnAnswer:
        """Return the caller's last answer to a document, as `recent` does.

        Raises `PredictionNotFound`.
        """
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True, snapshot=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
            annotations = transaction.reviews.annotations_of(prediction.id) if prediction else []
            mine = [annotation for annotation in annotations if annotation.reviewer == caller.id]
            if prediction is None or not mine:
                raise errors.PredictionNotFound(f"You have answered no document {prediction_id!r}.")
            tasks = transaction.reviews.tasks_of(prediction.id)
            (own,) = _resolved(transaction, [OwnAnswer(mine[-1], prediction)])
        obstacles = [
            _awaited(caller, task) for task in tasks if task.state is not ReviewState.COMPLETED
        ]
        if not _decided_last(caller, annotations):
            obstacles.append("Another person decided on this document.")
        return own._replace(obstacle=next(iter(obstacles), None))

    def submit_decisions(self) -> int:
        """Make decisions final whose time to undo is over; return their number."""
        total = 0
        while True:
            with self.begin(read_only=True) as transaction:
                due = transaction.reviews.decided(before=self.now(), limit=_CHANGED_PER_TRANSACTION)
            submitted = sum(self._submit(task_id, early=False) for task_id in due)
            total += submitted
            # Another worker may have submitted some of them, which are not counted.
            if len(due) < _CHANGED_PER_TRANSACTION or not submitted:
                return total

    def submit_decisions_of(self, reviewer: str, *, keep: int = 0) -> int:
        """Make a reviewer's decisions final except the ``keep`` newest; return their number."""
        with self.begin(read_only=True) as transaction:
            decided = transaction.reviews.decided(reviewer=reviewer, limit=_CHANGED_PER_TRANSACTION)
        return sum(
            self._submit(task, early=True) for task in decided[: max(0, len(decided) - keep)]
        )

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

    def _submit(self, task_id: str, *, early: bool) -> bool:
        with self.begin() as transaction:
            task = transaction.reviews.get(task_id, for_update=True)
            decision = task.decision if task else None
            if task is None or task.lease is None or decision is None:
                return False
            if not early and decision.settles_at > self.now():
                return False
            maker = Caller(task.lease.holder, decision.by, Role.REVIEWER)
            self._complete(transaction, task, maker, decision.labels, decision.comment)
        return True

    def _complete(
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
        self._log(
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

    def _checked(
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
        return task.decided(caller.id, expected_version, decision, self.lease)

    def _undo_left_s(self, task: ReviewTask) -> float:
        if task.decision is None or task.state is ReviewState.COMPLETED:
            return 0.0
        return max(0.0, (task.decision.settles_at - self.now()).total_seconds())

    def _log(
        self,
        transaction: Transaction,
        caller: Caller,
        action: str,
        task: ReviewTask,
        **detail: object,
    ) -> None:
        self._note(transaction, caller, action, task.id, version=task.version, **detail)


def _locked(transaction: Transaction, task_id: str) -> ReviewTask:
    task = transaction.reviews.get(task_id, for_update=True)
    if task is None:
        raise errors.ReviewNotFound(f"No review task has the id {task_id!r}.")
    return task


def _may_reopen(
    caller: Caller, annotations: Sequence[Annotation], labels: Sequence[str] | None
) -> bool:
    """Return whether the caller may see the document, or corrects their answer."""
    if caller.may(Permission.READ_ALL_PREDICTIONS):
        return True
    if labels is None or all(annotation.reviewer != caller.id for annotation in annotations):
        return False
    if not _decided_last(caller, annotations):
        raise errors.ReviewAlreadyDecided("Another person decided last; write a comment instead.")
    return True


def _resolved(transaction: Transaction, answers: Sequence[OwnAnswer]) -> Iterator[OwnAnswer]:
    """Yield answers with what was decided, where that reveals nothing."""
    documents = [own.prediction for own in answers]
    undecided = transaction.reviews.undecided(documents)
    ids = [prediction.id for prediction in documents]
    annotations, outcomes = transaction.documents.answers(ids)
    for own in answers:
        id_ = own.prediction.id
        if id_ in undecided:
            yield own
        else:
            decided = resolution(own.annotation, annotations[id_], outcomes[id_])
            yield own._replace(resolution=decided)


def _awaited(caller: Caller, task: ReviewTask) -> str:
    """Say whom an open review waits for; whose own answer it checks is told nothing of that."""
    if caller.may(Permission.READ_ALL_PREDICTIONS) or task.kind is ReviewKind.REOPENED:
        return task.awaited
    return "This document is not decided yet."


def _decided_last(caller: Caller, annotations: Sequence[Annotation]) -> bool:
    return [annotation.reviewer for annotation in annotations if annotation.settles][-1:] in (
        [],
        [caller.id],
    )


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
