"""Durable jobs: ask for one, take one, say how it goes, finish it.

Each verb is one short transaction; the work itself runs outside any. Every write after the claim
carries the job's fencing token, so a worker that was thought dead cannot undo its successor's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from setwise.service.domain.errors import LeaseLost
from setwise.service.domain.jobs import Job, RetryRule
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transactions

JOB_LEASE = timedelta(seconds=60)
"""A worker says that it lives several times within this span, or loses its job."""


RETRIES = RetryRule()
"""How often a job is tried unless its kind says otherwise."""


@dataclass(frozen=True)
class EnqueueJob:
    """Ask for work that outlives this process."""

    begin: Transactions
    now: Clock
    new_id: NewId

    def __call__(
        self,
        kind: str,
        *,
        payload: Mapping[str, object] | None = None,
        key: str | None = None,
        after: timedelta = timedelta(0),
    ) -> Job | None:
        """Return the stored job, due ``after`` from now.

        None when a job with the same ``key`` is queued or running already.
        """
        if key is not None:
            # Recurring jobs are asked for every second: no need to hold up who writes.
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
            transaction.commit()
        return job if stored else None


@dataclass(frozen=True)
class ClaimJob:
    """Take the next due job, or one whose worker has gone silent."""

    begin: Transactions
    now: Clock
    lease: timedelta = JOB_LEASE
    rule: RetryRule = RETRIES

    def __call__(self, kinds: Sequence[str]) -> Job | None:
        """Return a job of one of ``kinds``, leased to the caller; None when none is due.

        A job that took down every worker that touched it is given up here, since none of them
        lived to record a failure.
        """
        # Asked for every second, as above.
        with self.begin(read_only=True) as transaction:
            if not transaction.jobs.any_due(kinds, self.now()):
                return None
        while True:
            with self.begin() as transaction:
                now = self.now()
                job = transaction.jobs.claim(kinds, now, self.lease)
                if job is None:
                    return None
                lost = job.attempt > self.rule.attempts
                if lost:
                    error = f"gave up: {job.attempt - 1} workers died or went silent on it"
                    transaction.jobs.save(job.failed(error, now, self.rule), token=job.token)
                transaction.commit()
            if not lost:
                return job


@dataclass(frozen=True)
class ContinueJob:
    """Say that the worker lives, and how far the job is."""

    begin: Transactions
    now: Clock
    lease: timedelta = JOB_LEASE

    def __call__(
        self, job: Job, *, progress: float | None = None, message: str | None = None
    ) -> Job:
        """Return the job with its lease running from now; raises `LeaseLost`."""
        continued = job.continued(self.now(), self.lease, progress=progress, message=message)
        return _save(self.begin, continued)


@dataclass(frozen=True)
class CheckpointJob:
    """Keep how far a job is, so that another worker goes on from there."""

    begin: Transactions

    def __call__(self, job: Job, state: Mapping[str, object]) -> None:
        """Store ``state``; raises `LeaseLost`."""
        with self.begin() as transaction:
            saved = transaction.jobs.checkpoint(job.id, state, token=job.token)
            transaction.commit()
        if not saved:
            raise _lost(job)


@dataclass(frozen=True)
class SucceedJob:
    """Record that a job is done."""

    begin: Transactions
    now: Clock

    def __call__(self, job: Job, result: Mapping[str, object] | None = None) -> Job:
        """Return the job as stored; raises `LeaseLost`."""
        return _save(self.begin, job.succeeded(result, self.now()))


@dataclass(frozen=True)
class RepeatJob:
    """Record that recurring work is done until its next turn."""

    begin: Transactions
    now: Clock

    def __call__(self, job: Job, interval: timedelta) -> Job:
        """Return the job as stored, due ``interval`` from now; raises `LeaseLost`."""
        return _save(self.begin, job.repeated(self.now(), interval))


@dataclass(frozen=True)
class FailJob:
    """Record that an attempt failed; the retry rule says whether and when another follows."""

    begin: Transactions
    now: Clock
    rule: RetryRule = RETRIES

    def __call__(self, job: Job, error: str, *, hopeless: bool = False) -> Job:
        """Return the job as stored, queued again or failed for good; raises `LeaseLost`."""
        return _save(self.begin, job.failed(error, self.now(), self.rule, hopeless=hopeless))


@dataclass(frozen=True)
class ReturnJob:
    """Give a job back unharmed, because this worker stops."""

    begin: Transactions
    now: Clock

    def __call__(self, job: Job) -> Job:
        """Return the job as stored, due at once; raises `LeaseLost`."""
        return _save(self.begin, job.returned(self.now()))


def _save(begin: Transactions, job: Job) -> Job:
    with begin() as transaction:
        saved = transaction.jobs.save(job, token=job.token)
        transaction.commit()
    if not saved:
        raise _lost(job)
    return job


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(
        f"Job {job.id} ({job.kind}) passed to another worker or ended while this one held it."
    )
