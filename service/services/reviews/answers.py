"""What a person answered and became of it, and having a document decided again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.documents import Comment, CommentKind, OwnAnswer, check_comment
from setwise.service.domain.labels import NO_ADDITIONS, Additions
from setwise.service.domain.outcomes import resolution
from setwise.service.domain.reviews import (
    Annotation,
    ReviewKind,
    ReviewState,
    ReviewTask,
)
from setwise.service.domain.text import Page, check_page
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.reviews.decisions import Reviews
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction


@dataclass(frozen=True)
class Answers(Recorded):
    """Answers that stand."""

    now: LeaseClock
    reviews: Reviews

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
            task = task.claimed(caller.id, now, self.reviews.queue.lease)
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
        self.reviews.queue.record(
            transaction, caller, "review.reopened", task, prediction_id=prediction.id
        )
        if labels is None:
            return task
        given = additions.given(labels)
        checked = self.reviews.checked(transaction, caller, task, given, additions)
        self.reviews.complete_in(transaction, task, caller, checked, None)
        return task.finished()

    def recent(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[OwnAnswer]:
        """Return a page of the caller's answers, newest first.

        An answer comes with the decision only if no open review concerns the document, and no blind
        one a copy of it: otherwise the decision could reach a reviewer who must not know it yet.
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
