"""What came of jobs: read it, and forget it after a while."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import JobUnfinished, ResultNotFound
from setwise.service.domain.identity import is_id
from setwise.service.services.files import Files, folder_of
from setwise.service.services.oversee import visible_job
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transactions

CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Result:
    """A file that a job made."""

    name: str
    chunks: Iterator[bytes]


@dataclass(frozen=True)
class ReadResult:
    """Read what a job made, in constant memory."""

    begin: Transactions
    files: Files

    def __call__(self, caller: Caller, job_id: str) -> Result:
        """Return the result; of a job that failed or was cancelled, what there is of it.

        Raises
        ------
        JobNotFound
            If there is no such job, or somebody else asked for it.
        JobUnfinished
            If it has not ended yet.
        ResultNotFound
            If it made no file, or the file was removed after its time.
        """
        with self.begin(read_only=True) as transaction:
            job = visible_job(transaction, caller, job_id)
        if not job.finished:
            raise JobUnfinished(f"The job is {job.state}; wait until it has ended.")
        folder = f"{folder_of(job.id)}/result"
        parts = [f"{folder}/{name}" for name in self.files.names(folder)]
        if not parts:
            raise ResultNotFound(f"Job {job.id} ({job.kind}) has no result file, or no longer.")
        return Result(f"{job.kind}-{job.id}.{parts[0].rsplit('.', 1)[1]}", self._read(parts))

    def _read(self, parts: list[str]) -> Iterator[bytes]:
        for part in parts:
            with self.files.open(part) as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk


@dataclass(frozen=True)
class SweepFiles:
    """Remove the files of jobs that ended long ago, and of uploads that became no job."""

    begin: Transactions
    now: Clock
    files: Files
    keep: timedelta

    def __call__(self) -> int:
        """Return how many jobs lost their files."""
        swept = 0
        for job_id in self.files.names("jobs"):
            if is_id(job_id) and self._is_over(job_id):
                self.files.remove(folder_of(job_id))
                swept += 1
        return swept

    def _is_over(self, job_id: str) -> bool:
        with self.begin(read_only=True) as transaction:
            job = transaction.jobs.get(job_id)
        if job is None:
            return self.now() - _begun_at(job_id) > LONGEST_UPLOAD
        return job.finished_at is not None and self.now() - job.finished_at > self.keep


LONGEST_UPLOAD = timedelta(days=1)
"""A file that takes longer to come is not waited for."""


def _begun_at(job_id: str) -> datetime:
    """Return when an id was made: UUIDv7 begins with the milliseconds since 1970."""
    milliseconds = int(job_id.replace("-", "")[:12], 16)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
