"""Stored jobs."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import RowMapping, Select, exists, func, literal_column, select, update
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.errors import JobUnfinished
from setwise.service.domain.jobs import ALONE, Job, JobFilter, JobState
from setwise.service.domain.text import Page
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.tables import QUEUED, REQUESTED, RUNNING, UNFINISHED, jobs


class JobStore(Store):
    """Durable jobs, which workers lease."""

    def enqueue(self, job: Job) -> bool:
        """Store a job; return False if its key or its owner's request key is taken."""
        stored = self._connection.execute(self._missing(jobs).returning(jobs.c.id), vars(job))
        return stored.first() is not None

    def get(self, job_id: str, *, for_update: bool = False) -> Job | None:
        query = select(jobs).with_for_update() if for_update else select(jobs)
        return self._named(query, jobs.c.id, job_id, _to_job)

    def unfinished(self, key: str) -> Job | None:
        """Return the queued or running job with this key."""
        return self._one(select(jobs).where(UNFINISHED, jobs.c.key == key))

    def requested(self, owner_id: str, request_key: str) -> Job | None:
        """Return the job that the owner requested with this idempotency key."""
        column = jobs.c
        return self._one(
            select(jobs).where(
                REQUESTED, column.owner_id == owner_id, column.request_key == request_key
            )
        )

    def page(self, filters: JobFilter, *, after: str | None, limit: int) -> Page[Job]:
        """Return a page of jobs, newest first."""
        query, column = select(jobs), jobs.c
        if filters.owner_id is not None:
            query = query.where(column.owner_id == filters.owner_id)
        if filters.kind is not None:
            query = query.where(column.kind == filters.kind)
        if filters.state is not None:
            query = query.where(column.state == filters.state.value)
        return self._page(query, column.id, _to_job, after=after, limit=limit)

    def any_due(self, kinds: Sequence[str], now: datetime) -> bool:
        """Return whether there is a job to claim, without locking."""
        return any(self._one(query) for query in _claimable(kinds, now))

    def any_unfinished(self, kinds: Sequence[str], until: datetime) -> bool:
        """Return whether jobs of these kinds, made by ``until``, are queued or running."""
        query = select(jobs.c.id).where(
            UNFINISHED, jobs.c.kind.in_(kinds), jobs.c.created_at <= until
        )
        return self._connection.execute(query.limit(1)).first() is not None

    def claim(self, kinds: Sequence[str], now: datetime, lease: timedelta) -> Job | None:
        """Lease the next due job of these kinds, or one whose lease has expired.

        Of kinds that run alone, none while another one of the kind has a lease.
        """
        if self._connection.dialect.name == "postgresql" and not set(ALONE).isdisjoint(kinds):
            # Two that claim at the same time would not see each other's lease. SQLite allows only
            # one writer at a time.
            self._connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        abandoned, due = _claimable(kinds, now)
        job = self._lock(abandoned) or self._lock(due)
        if job is None:
            return None
        claimed = job.claimed(now, lease)
        self._connection.execute(
            update(jobs).where(jobs.c.id == claimed.id).values(_changing(claimed))
        )
        return claimed

    def save(self, job: Job, *, token: int) -> bool:
        """Store a claimed job's state; return False if its lease was lost.

        Only `checkpoint` changes the stored checkpoint.
        """
        return self._write(job.id, token, _changing(job))

    def checkpoint(self, job: Job, *, token: int) -> bool:
        """Store a claimed job's checkpoint; return False if its lease was lost."""
        values = {"checkpoint": dict(job.checkpoint or {}), "attempt": job.attempt}
        return self._write(job.id, token, values)

    def change(self, job: Job) -> None:
        """Store a locked job; raises `JobUnfinished` if another job has its key."""
        try:
            self._connection.execute(update(jobs).where(jobs.c.id == job.id).values(_changing(job)))
        except IntegrityError as error:
            raise JobUnfinished("Another job with the same key is queued or running.") from error

    def _write(self, job_id: str, token: int, values: dict[str, object]) -> bool:
        held = (
            jobs.c.id == job_id,
            jobs.c.token == token,
            jobs.c.state == JobState.RUNNING.value,
        )
        return self._connection.execute(update(jobs).where(*held).values(values)).rowcount == 1

    def _lock(self, query: Select[tuple[object, ...]]) -> Job | None:
        return self._one(query.with_for_update(skip_locked=True))

    def _one(self, query: Select[tuple[object, ...]]) -> Job | None:
        return self._first(query, _to_job)


def _claimable(kinds: Sequence[str], now: datetime) -> list[Select[tuple[object, ...]]]:
    # Two queries, so that each reads a small index. Abandoned jobs come first, because they have
    # waited longer.
    column = jobs.c
    running = exists().where(
        literal_column("other.state = 'running'"),
        _OTHER.c.kind == column.kind,
        _OTHER.c.lease_expires_at > now,
    )
    query = select(jobs).where(column.kind.in_(kinds)).limit(1)
    if alone := set(ALONE).intersection(kinds):
        query = query.where(column.kind.not_in(alone) | ~running)
    return [
        query.where(RUNNING, column.lease_expires_at <= now).order_by(
            column.lease_expires_at, column.id
        ),
        query.where(QUEUED, column.due_at <= now).order_by(column.due_at, column.id),
    ]


_OTHER = jobs.alias("other")

_LOCK = 0x5E7_0B02  # arbitrary, but used for no other lock

_CONSTANT = {"id", "kind", "key", "payload", "created_at", "owner_id", "request_key", "checkpoint"}
"""What does not change with a job's state; `JobStore.checkpoint` stores its checkpoint."""


def _changing(job: Job) -> dict[str, object]:
    return {name: value for name, value in vars(job).items() if name not in _CONSTANT}


def _to_job(row: RowMapping) -> Job:
    return Job(**row)
