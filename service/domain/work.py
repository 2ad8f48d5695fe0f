"""Durable background jobs: a lease, a fencing token, a retry rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Job:
    """Work that outlives the process which asked for it.

    Attributes
    ----------
    key : str or None
        At most one job with the same key is queued or running.
    token : int
        Grows with each claim; a worker that lost its lease writes with a stale token and is
        refused.
    attempt : int
        Claims so far.
    """

    id: str
    kind: str
    key: str | None
    payload: Mapping[str, object]
    state: JobState
    progress: float
    message: str
    attempt: int
    token: int
    due_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lease_expires_at: datetime | None = None
    result: Mapping[str, object] | None = None
    error: str | None = None


@dataclass(frozen=True)
class RetryRule:
    """How often, and after how long, a failed job is tried again."""

    attempts: int = 5
    first_delay: timedelta = timedelta(seconds=5)
    factor: float = 4.0
    longest_delay: timedelta = timedelta(hours=6)

    def delay_after(self, attempt: int) -> timedelta | None:
        """Return the wait after failed attempt number ``attempt`` (from 1), None to give up.

        >>> RetryRule().delay_after(2)
        datetime.timedelta(seconds=20)
        """
        if attempt >= self.attempts:
            return None
        return min(self.first_delay * self.factor ** (attempt - 1), self.longest_delay)
