"""What is needed of jobs from the world outside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from setwise.service.domain.jobs import Job, JobState
from setwise.service.domain.paging import Page


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None does not restrict."""

    owner_id: str | None = None
    kind: str | None = None
    state: JobState | None = None


class Jobs(Protocol):
    """Durable jobs with leases."""

    def enqueue(self, job: Job) -> bool:
        """Store a job; False when one with the same key is queued or running.

        False also when its owner has asked for one under the same request key before.
        """

    def get(self, job_id: str, *, for_update: bool = False) -> Job | None: ...

    def unfinished(self, key: str) -> Job | None:
        """Return the queued or running job with this key."""

    def requested(self, owner_id: str, request_key: str) -> Job | None:
        """Return the job that an owner asked for under a key of their own."""

    def page(self, wanted: "JobFilter", *, after: str | None, limit: int) -> Page[Job]:
        """List newest first."""

    def any_due(self, kinds: Sequence[str], now: datetime) -> bool:
        """Tell, without a lock, whether `claim` finds a job."""

    def claim(self, kinds: Sequence[str], now: datetime, lease: timedelta) -> Job | None:
        """Lease the next due job of these kinds, or one whose worker has gone silent."""

    def save(self, job: Job, *, token: int) -> bool:
        """Store a claimed job's new state; False when the lease has passed to another worker.

        The checkpoint stays as it is stored: only `checkpoint` changes it.
        """

    def checkpoint(self, job_id: str, state: Mapping[str, object], *, token: int) -> bool:
        """Store how far a claimed job is; False as above."""

    def change(self, job: Job) -> None:
        """Store a job that this transaction has locked; raises `JobUnfinished`, as `enqueue`."""
