"""Look at jobs, end them before their time, and have them tried again."""

from dataclasses import dataclass, replace

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import JobNotFound
from setwise.service.domain.jobs import Job, JobFilter
from setwise.service.domain.paging import Page, check_page
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transaction, Transactions


@dataclass(frozen=True)
class GetJob:
    """Read one job: administrators and auditors any, others those that they asked for."""

    begin: Transactions

    def __call__(self, caller: Caller, job_id: str) -> Job:
        """Return it; raises `JobNotFound` also where the caller may not know of it."""
        with self.begin(read_only=True) as transaction:
            return visible_job(transaction, caller, job_id)


@dataclass(frozen=True)
class ListJobs:
    """List jobs, newest first: administrators and auditors all, others their own."""

    begin: Transactions

    def __call__(
        self,
        caller: Caller,
        wanted: JobFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Job]:
        """Return one page of the jobs that match ``wanted``."""
        wanted = wanted or JobFilter()
        if not caller.may(Permission.INSPECT):
            caller.require(Permission.RUN_JOBS)
            wanted = replace(wanted, owner_id=caller.id)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.jobs.page(wanted, after=after, limit=limit)


@dataclass(frozen=True)
class _Change:
    begin: Transactions
    now: Clock
    new_id: NewId

    def _note(
        self,
        transaction: Transaction,
        caller: Caller,
        action: str,
        job: Job,
        request_id: str | None,
    ) -> None:
        transaction.audit_trail.add(
            Event.by(
                caller,
                action,
                job.id,
                id=self.new_id(),
                at=self.now(),
                request_id=request_id,
                kind=job.kind,
                progress=job.progress,
            )
        )


@dataclass(frozen=True)
class CancelJob(_Change):
    """End a job before its time; what it has done stays."""

    def __call__(self, caller: Caller, job_id: str, *, request_id: str | None = None) -> Job:
        """Return the job, cancelled; its worker stops at the next safe point.

        Whatever that worker still wants to record is refused, as after a lost lease.

        Raises
        ------
        JobNotFound, JobFinished
            If there is nothing to cancel.
        """
        with self.begin() as transaction:
            job = visible_job(transaction, caller, job_id, for_update=True)
            cancelled = job.cancelled(self.now())
            transaction.jobs.change(cancelled)
            self._note(transaction, caller, "job.cancelled", job, request_id)
            transaction.commit()
        return cancelled


@dataclass(frozen=True)
class RetryJob(_Change):
    """Have a job that failed or was cancelled tried again, from its last checkpoint."""

    def __call__(self, caller: Caller, job_id: str, *, request_id: str | None = None) -> Job:
        """Return the job, queued.

        Raises
        ------
        JobNotFound, JobFinished, JobUnfinished
            If there is nothing to try again, or it runs, or another one with its key does.
        """
        with self.begin() as transaction:
            job = visible_job(transaction, caller, job_id, for_update=True)
            queued = job.retried(self.now())
            transaction.jobs.change(queued)
            self._note(transaction, caller, "job.retried", job, request_id)
            transaction.commit()
        return queued


def visible_job(
    transaction: Transaction, caller: Caller, job_id: str, *, for_update: bool = False
) -> Job:
    """Return a job that ``caller`` may know of; raises `JobNotFound`."""
    changes = for_update
    everything = Permission.ADMINISTER if changes else Permission.INSPECT
    if changes or not caller.may(everything):
        caller.require(Permission.RUN_JOBS)
    job = transaction.jobs.get(job_id, for_update=for_update)
    if job is None or not (caller.may(everything) or job.owner_id == caller.id):
        raise JobNotFound(f"No job of yours has the id {job_id!r}.")
    return job
