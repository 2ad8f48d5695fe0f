"""What is needed of the queue of reviews from the world outside."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Reason
from setwise.service.domain.reviews import Annotation, ReviewState, ReviewTask


class Reviews(Protocol):
    """The review queue."""

    def add(self, task: ReviewTask) -> None: ...

    def add_all(self, tasks: Sequence[ReviewTask]) -> None: ...

    def get(self, task_id: str, *, for_update: bool = False) -> ReviewTask | None:
        """Return one; ``for_update`` locks it and the other tasks of its prediction."""

    def lock(self, prediction_id: str) -> None:
        """Let whoever settles a task of this prediction wait until this transaction ends."""

    def next_for(
        self, reviewer: str, now: datetime, *, escalated: bool, only: str | None = None
    ) -> ReviewTask | None:
        """Lock and return the oldest task that ``reviewer`` may claim now.

        That is one that waits or whose lease has run out, that ``reviewer`` has not skipped, and of
        whose prediction ``reviewer`` neither holds nor has settled another task; with
        ``escalated``, tasks for leads come first. Tasks locked by a concurrent claim are passed
        over, so no task is ever claimed twice. With ``only``, an id, no other task will do.
        """

    def save(self, task: ReviewTask) -> None:
        """Store a changed task; raises `StaleVersion` when a newer or settled one is stored."""

    def held_by(self, reviewer: str, now: datetime) -> int:
        """Count the live leases of ``reviewer``, whose other claims wait until this one ends."""

    def page(
        self,
        *,
        state: ReviewState | None,
        reason: Reason | None,
        after: str | None,
        limit: int,
    ) -> Page[ReviewTask]:
        """List oldest first; a blind task has no ``reason`` that anybody may ask for."""

    def counts(self) -> Mapping[ReviewState, int]: ...

    def annotate(self, annotation: Annotation) -> None: ...

    def annotation_of(self, task_id: str) -> Annotation | None: ...

    def annotations_of(self, prediction_id: str) -> list[Annotation]:
        """List what people said of one prediction, oldest first."""

    def expire_leases(self, now: datetime, *, limit: int) -> list[ReviewTask]:
        """Return up to ``limit`` tasks whose lease has run out to the queue, but no decided ones.

        Gives the changed tasks, oldest first.
        """

    def leased_to(self, reviewer: str, now: datetime) -> list[ReviewTask]:
        """List what ``reviewer`` holds and has not decided, first claimed first."""

    def decided(
        self, *, reviewer: str | None = None, before: datetime | None = None, limit: int
    ) -> list[str]:
        """List tasks whose decision could be taken back until now, or ``before``; oldest first."""

    def settled_by(self, reviewer: str, since: datetime) -> int:
        """Count the annotations that ``reviewer`` made since."""
