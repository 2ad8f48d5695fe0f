"""Show, cancel, retry and run durable jobs, and read their results.

Each method is one short transaction; the work itself runs outside transactions. Every write after a
claim carries the job's fencing token, so a worker that lost its lease cannot overwrite its
successor.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.jobs import (
    WORKERS_LOST,
    Job,
    JobFilter,
    RetryRule,
    job_folder,
    result_folder,
)
from setwise.service.domain.labels import FOLLOW_LABEL, FORGET_LABEL
from setwise.service.domain.text import Page, check_page, is_id
from setwise.service.services import files
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import FileStore
from setwise.service.services.predictions import disclose_all
from setwise.service.stores.database import LeaseClock, WallClock
from setwise.service.stores.transaction import Transaction

JOB_LEASE = timedelta(seconds=60)
"""A worker renews its lease several times in this time, or loses the job."""

PAUSE = timedelta(seconds=5)
"""After this time, look again for what a job lacks."""

RETRIES = RetryRule()
"""How often a job is tried."""

CHUNK_BYTES = 1 << 16

LONGEST_UPLOAD = timedelta(days=1)
"""Age at which an upload without a job is deleted."""


@dataclass(frozen=True)
class ResultFile:
    """A job's result file."""

    name: str
    chunks: Iterator[bytes]


@dataclass(frozen=True)
class Requesting(Recorded):
    """A service whose jobs run one at a time."""

    now: WallClock
    lease_clock: LeaseClock
    """The clock that all servers share; it determines when jobs are due."""

    def _request(
        self, transaction: Transaction, caller: Caller, kind: str, key: str, **payload: object
    ) -> Job:
        """Queue a job; return the unfinished one with this key if there is one."""
        now = self.lease_clock()
        job = Job(
            id=self.new_id(),
            kind=kind,
            key=key,
            due_at=now,
            created_at=now,
            owner_id=caller.id,
            payload={**payload, "requested_by": caller.id},
        )
        if transaction.jobs.enqueue(job):
            self._note(transaction, caller, "job.requested", job.id, kind=kind, **payload)
            return job
        running = transaction.jobs.unfinished(key)
        if running is None:
            raise errors.InvalidRequest("The previous job has just ended; try again.")
        return running


@dataclass(frozen=True)
class Jobs(Recorded):
    """Operations on jobs for callers and for workers."""

    now: LeaseClock
    files: FileStore
    keep_files: timedelta
    """How long the files of a finished job are kept."""
    lease: timedelta = JOB_LEASE
    retries: RetryRule = RETRIES
    pause: timedelta = PAUSE

    # For callers

    def get(self, caller: Caller, job_id: str) -> Job:
        """Return a job that the caller may see.

        Administrators and auditors see every job; other callers see only their own.

        Raises `JobNotFound` if the job does not exist or belongs to another caller.
        """
        with self.begin(read_only=True) as transaction:
            return _visible(transaction, caller, job_id)

    def page(
        self,
        caller: Caller,
        filters: JobFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Job]:
        """Return a page of matching jobs visible to the caller, newest first."""
        filters = filters or JobFilter()
        if not caller.may(Permission.INSPECT):
            caller.require(Permission.RUN_JOBS)
            filters = replace(filters, owner_id=caller.id)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.jobs.page(filters, after=after, limit=limit)

    def cancel(self, caller: Caller, job_id: str) -> Job:
        """Cancel a job and return it; its finished work stays.

        Its worker stops at the next safe point. Until then its writes are rejected, as after a
        lost lease.

        Raises `JobNotFound`, `JobFinished` or `JobNeeded` if the job does not exist, has finished
        or is a duty of the service.
        """
        return self._change(caller, job_id, Job.cancelled, "job.cancelled")

    def retry(self, caller: Caller, job_id: str) -> Job:
        """Queue a failed or cancelled job again, from its last checkpoint.

        Raises `JobNotFound`, `JobFinished` or `JobUnfinished` if there is nothing to retry, or this
        job or another with its key is unfinished.
        """
        return self._change(caller, job_id, Job.retried, "job.retried")

    def _change(
        self, caller: Caller, job_id: str, change: Callable[[Job, datetime], Job], action: str
    ) -> Job:
        with self.begin() as transaction:
            job = _visible(transaction, caller, job_id, for_update=True)
            changed = change(job, self.now())
            transaction.jobs.change(changed)
            self._note(transaction, caller, action, job.id, kind=job.kind, progress=job.progress)
        return changed

    def result(self, caller: Caller, job_id: str) -> ResultFile:
        """Return a job's result; after a failure or cancellation, the finished part.

        Raises `Forbidden` if the caller may not read the rows of the result themselves;
        `BlindReviewHeld` if the caller holds a blind review; `JobNotFound` if the job does not
        exist or belongs to another caller; `JobUnfinished` if the job has not finished;
        `ResultNotFound` if the job has no result file, or the file has expired.
        """
        with self.begin() as transaction:
            job = _visible(transaction, caller, job_id)
            files.check_result(caller, job)
            if not job.finished:
                raise errors.JobUnfinished(f"The job is {job.state}; wait until it has ended.")
            disclose_all(transaction, self.now, caller)
        folder = result_folder(job.id)
        parts = [f"{folder}/{name}" for name in self.files.names(folder)]
        if not parts:
            raise errors.ResultNotFound(
                f"Job {job.id} ({job.kind}) has no result file, or no longer."
            )
        return ResultFile(f"{job.kind}-{job.id}.{parts[0].rsplit('.', 1)[1]}", self._read(parts))

    def _read(self, parts: list[str]) -> Iterator[bytes]:
        for part in parts:
            with self.files.open(part) as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk

    def sweep_files(self) -> int:
        """Delete files of old jobs and abandoned uploads; return their number."""
        swept = 0
        for job_id in self.files.names("jobs"):
            if is_id(job_id) and self._expired(job_id):
                self.files.remove(job_folder(job_id))
                swept += 1
        return swept

    def _expired(self, job_id: str) -> bool:
        with self.begin(read_only=True) as transaction:
            job = transaction.jobs.get(job_id)
        if job is None:
            return self.now() - _id_made_at(job_id) > LONGEST_UPLOAD
        return job.finished_at is not None and self.now() - job.finished_at > self.keep_files

    # For workers

    def enqueue(
        self,
        kind: str,
        *,
        payload: Mapping[str, object] | None = None,
        key: str | None = None,
        after: timedelta = timedelta(0),
    ) -> Job | None:
        """Store and return a job that is due ``after`` from now.

        Return None if a job with the same ``key`` is queued or running.
        """
        if key is not None:
            # Workers enqueue recurring jobs every second. Reading first does not block writers.
            with self.begin(read_only=True) as transaction:
                if transaction.jobs.unfinished(key) is not None:
                    return None
        now = self.now()
        job = Job(
            id=self.new_id(),
            kind=kind,
            key=key,
            payload=payload or {},
            due_at=now + after,
            created_at=now,
        )
        with self.begin() as transaction:
            stored = transaction.jobs.enqueue(job)
        return job if stored else None

    def claim(self, kinds: Sequence[str]) -> Job | None:
        """Lease and return the next due job of these kinds, or None.

        A job whose worker stopped renewing its lease is due too. A job that killed every worker
        that claimed it fails here, because none of them survived to record the failure.
        """
        # A read first, for the same reason as in `enqueue`.
        with self.begin(read_only=True) as transaction:
            if not transaction.jobs.any_due(kinds, self.now()):
                return None
        while True:
            with self.begin() as transaction:
                now = self.now()
                job = transaction.jobs.claim(kinds, now, self.lease)
                if job is None:
                    return None
                lost = job.attempt > self.retries.attempts
                if lost:
                    error = f"gave up: {job.attempt - 1} workers died or went silent on it"
                    failed = job.failed(error, now, self.retries, code=WORKERS_LOST)
                    transaction.jobs.save(failed, token=job.token)
            if not lost:
                return job

    def authorise(self, job: Job) -> None:
        """Raise `Forbidden` if the job's owner may not request it any more.

        A decision on a label has been made: all documents follow it, not only the first block.
        """
        if job.owner_id is None or job.kind in {FOLLOW_LABEL, FORGET_LABEL}:
            return
        with self.begin(read_only=True) as transaction:
            owner = _owner(transaction, job.owner_id, self.now())
        match job.kind:
            case files.SCORING:
                owner.require(Permission.PREDICT)
            case files.EXPORT:
                owner.require(Permission.RUN_JOBS)
                files.check_result(owner, job)
            case _:
                owner.require(Permission.ADMINISTER)

    def renew(self, job: Job, *, progress: float | None = None, message: str | None = None) -> Job:
        """Renew the lease, store progress and return the job; raises `LeaseLost`."""
        return self._save(job.continued(self.now(), self.lease, progress=progress, message=message))

    def checkpoint(self, job: Job, state: Mapping[str, object]) -> Job:
        """Store the state from which another worker can resume, and return the job.

        Raises `LeaseLost`.
        """
        advanced = job.advanced(state)
        with self.begin() as transaction:
            saved = transaction.jobs.checkpoint(advanced, token=job.token)
        if not saved:
            raise _lost(job)
        return advanced

    def succeed(self, job: Job, result: Mapping[str, object] | None = None) -> Job:
        """Mark a job as succeeded and return it; raises `LeaseLost`.

        The ``message`` of a result says what a person should know of the end, such as refusals.
        """
        message = None if result is None else result.get("message")
        done = job.succeeded(result, self.now())
        return self._save(done if message is None else replace(done, message=str(message)))

    def repeat(self, job: Job, interval: timedelta) -> Job:
        """Make a recurring job due again after ``interval``; raises `LeaseLost`."""
        return self._save(job.repeated(self.now(), interval))

    def fail(
        self, job: Job, error: str, *, code: str = errors.INTERNAL_ERROR, hopeless: bool = False
    ) -> Job:
        """Record a failed attempt and return the job, queued again or failed.

        Raises `LeaseLost` if another worker has the job, or it was cancelled.
        """
        failed = job.failed(error, self.now(), self.retries, code=code, hopeless=hopeless)
        return self._save(failed)

    def give_back(self, job: Job) -> Job:
        """Make a stopping worker's job due at once; raises `LeaseLost`."""
        return self._save(job.returned(self.now()))

    def postpone(self, job: Job, reason: str) -> Job:
        """Make a job due again soon that cannot be tried now; raises `LeaseLost`.

        ``reason``: What is missing. It shows as the message of the job.
        """
        return self._save(job.returned(self.now(), after=self.pause, message=reason))

    def _save(self, job: Job) -> Job:
        with self.begin() as transaction:
            saved = transaction.jobs.save(job, token=job.token)
        if not saved:
            raise _lost(job)
        return job


def _visible(
    transaction: Transaction, caller: Caller, job_id: str, *, for_update: bool = False
) -> Job:
    everything = Permission.ADMINISTER if for_update else Permission.INSPECT
    if for_update or not caller.may(everything):
        caller.require(Permission.RUN_JOBS)
    job = transaction.jobs.get(job_id, for_update=for_update)
    if job is None or not (caller.may(everything) or job.owner_id == caller.id):
        raise errors.JobNotFound(f"No job of yours has the id {job_id!r}.")
    return job


def _owner(transaction: Transaction, owner_id: str, now: datetime) -> Caller:
    """Return a job's owner with the rights that they have now."""
    if owner_id == SYSTEM.id:
        return SYSTEM
    key, person = transaction.keys.get(owner_id), transaction.people.get(owner_id)
    if key is not None and not key.revoked and not key.expired(now):
        return key.calling()
    if person is not None and not person.disabled:
        return person.calling()
    raise errors.Forbidden("The key or person that requested this job has no access any more.")


def _lost(job: Job) -> errors.LeaseLost:
    return errors.LeaseLost(
        f"Job {job.id} ({job.kind}) passed to another worker or ended while this one held it."
    )


def _id_made_at(job_id: str) -> datetime:
    # A UUIDv7 begins with the milliseconds since 1970.
    milliseconds = int(job_id.replace("-", "")[:12], 16)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
