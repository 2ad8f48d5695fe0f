"""Durable jobs: states, leases, fencing tokens, retries, file folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from setwise.service.domain.errors import INTERNAL_ERROR, JobFinished, JobNeeded, JobUnfinished
from setwise.shown import Probability

ERASE_TRACES = "erase_traces"
"""Kind of the jobs that remove an erased document from files and logs."""

ALONE = (ERASE_TRACES,)
"""Kinds of which one job runs at a time: two that rewrote a file would undo each other's work."""

WORKERS_LOST = "workers-lost"
"""Code of the error of a job whose workers died, one after the other."""


class JobState(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class RetryRule:
    """How often a failed job is retried, and after which delays."""

    attempts: int = 5
    first_delay: timedelta = timedelta(seconds=5)
    factor: float = 4.0
    longest_delay: timedelta = timedelta(hours=6)

    def delay_after(self, attempt: int) -> timedelta | None:
        """Return the delay after attempt ``attempt`` (from 1); None to give up.

        >>> RetryRule().delay_after(2)
        datetime.timedelta(seconds=20)
        """
        if attempt >= self.attempts:
            return None
        try:
            return min(self.first_delay * self.factor ** (attempt - 1), self.longest_delay)
        except OverflowError:  # the factor grows beyond what a timedelta holds
            return self.longest_delay


@dataclass(frozen=True)
class Job:
    """Work that outlives the process that requested it."""

    id: str
    kind: str
    key: str | None
    """At most one job with the same key is queued or running."""
    due_at: datetime
    created_at: datetime
    payload: Mapping[str, object] = field(default_factory=dict)
    state: JobState = JobState.QUEUED
    progress: Probability = 0.0
    """Share of the work that is done."""
    message: str = ""
    """What is done now, what a queued job waits for, or what a job that has succeeded could not do.
    """
    attempt: int = 0
    """Number of claims since the checkpoint last advanced."""
    token: int = 0
    """Grows with each claim. A worker that lost its lease writes with a stale token, which is
    refused.
    """
    started_at: datetime | None = None
    """When the last attempt began."""
    finished_at: datetime | None = None
    lease_expires_at: datetime | None = None
    result: Mapping[str, object] | None = None
    """The result; it depends on the kind."""
    error: str | None = None
    """Why the last attempt failed; a queued job with an error is retried."""
    error_code: str | None = None
    """The kind of that error, for programs: the last part of a problem's `type`, or `workers-lost`
    if workers died on the job. Treat a code that you do not know as a failure.
    """
    owner_id: str | None = None
    """The caller that requested the job and may see it; None for a duty of the service itself."""
    request_key: str | None = None
    """The owner's idempotency key: repeating the request makes no second job."""
    checkpoint: Mapping[str, object] | None = None
    """State from which another worker can resume."""

    @property
    def finished(self) -> bool:
        """Whether the job succeeded, failed or was cancelled."""
        return self.state in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}

    def claimed(self, now: datetime, lease: timedelta) -> "Job":
        """Return the job leased to a worker."""
        return replace(
            self,
            state=JobState.RUNNING,
            attempt=self.attempt + 1,
            token=self.token + 1,
            started_at=now,
            lease_expires_at=now + lease,
        )

    def continued(
        self, now: datetime, lease: timedelta, *, progress: float | None, message: str | None
    ) -> "Job":
        """Return the job with a renewed lease; None keeps the stored value."""
        return replace(
            self,
            lease_expires_at=now + lease,
            progress=self.progress if progress is None else progress,
            message=self.message if message is None else message,
        )

    def advanced(self, checkpoint: Mapping[str, object]) -> "Job":
        """Return the job with a new checkpoint, from which the attempts count again.

        So a job whose workers die gives up only where it does not get any further.
        """
        if checkpoint == self.checkpoint:
            return self
        return replace(self, checkpoint=checkpoint, attempt=1)

    def succeeded(self, result: Mapping[str, object] | None, now: datetime) -> "Job":
        """Return the job as succeeded."""
        return replace(
            self,
            state=JobState.SUCCEEDED,
            progress=1.0,
            result=result,
            error=None,
            error_code=None,
            finished_at=now,
            lease_expires_at=None,
        )

    def failed(
        self,
        error: str,
        now: datetime,
        rule: RetryRule,
        *,
        code: str = INTERNAL_ERROR,
        hopeless: bool = False,
    ) -> "Job":
        """Return the job queued for its next attempt, or failed with ``error``.

        A ``hopeless`` job is not retried, because it would fail in the same way.
        """
        delay = None if hopeless else rule.delay_after(self.attempt)
        ended = replace(self, error=error, error_code=code, lease_expires_at=None)
        if delay is None:
            return replace(ended, state=JobState.FAILED, finished_at=now)
        return replace(ended, state=JobState.QUEUED, due_at=now + delay)

    def cancelled(self, now: datetime) -> "Job":
        """Return the job cancelled; its worker's next write is refused.

        Raises `JobFinished` if it has ended already; `JobNeeded` if it is a duty of the service.
        """
        if self.owner_id is None:
            raise JobNeeded("The service itself needs this job; it cannot be cancelled.")
        if self.finished:
            raise JobFinished(f"The job has {self.state} already.")
        return replace(self, state=JobState.CANCELLED, finished_at=now, lease_expires_at=None)

    def retried(self, now: datetime) -> "Job":
        """Return a failed or cancelled job queued again, from its checkpoint.

        Raises `JobFinished` if it has succeeded; `JobUnfinished` if it is queued or running.
        """
        if self.state is JobState.SUCCEEDED:
            raise JobFinished("The job has succeeded; there is nothing to retry.")
        if not self.finished:
            raise JobUnfinished(f"The job is {self.state}; it is retried automatically.")
        return replace(
            self,
            state=JobState.QUEUED,
            attempt=0,
            due_at=now,
            finished_at=None,
            error=None,
            error_code=None,
        )

    def returned(
        self, now: datetime, *, after: timedelta = timedelta(0), message: str | None = None
    ) -> "Job":
        """Return the job requeued, due ``after`` from ``now``, without counting the attempt.

        ``message``: What it waits for; None keeps the last message.
        """
        return replace(
            self,
            state=JobState.QUEUED,
            attempt=self.attempt - 1,
            due_at=now + after,
            lease_expires_at=None,
            message=self.message if message is None else message,
        )

    def repeated(self, now: datetime, interval: timedelta) -> "Job":
        """Return a recurring job queued for its next run, ``interval`` from ``now``.

        A recurring job keeps one row; ``started_at`` is when it last ran.
        """
        return replace(
            self,
            state=JobState.QUEUED,
            progress=0.0,
            message="",
            attempt=0,
            error=None,
            error_code=None,
            due_at=now + interval,
            lease_expires_at=None,
        )


def job_folder(job_id: str) -> str:
    """Return the folder that holds the files of a job."""
    return f"jobs/{job_id}"


def upload_folder(job_id: str) -> str:
    """Return the folder of the files uploaded with a job."""
    return f"{job_folder(job_id)}/upload"


def result_folder(job_id: str) -> str:
    """Return the folder of the files that a job made."""
    return f"{job_folder(job_id)}/result"


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None does not restrict."""

    owner_id: str | None = None
    kind: str | None = None
    state: JobState | None = None
