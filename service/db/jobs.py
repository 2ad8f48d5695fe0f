"""The leased job table."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, Select, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service.db.tables import QUEUED, RUNNING, jobs
from service.domain.identity import is_id
from service.domain.work import Job, JobState


class SqlJobs:
    """Fills the port `service.use_cases.ports.Jobs`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def enqueue(self, job: Job) -> bool:
        dialect = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        stored = self._connection.execute(
            dialect.insert(jobs).on_conflict_do_nothing().returning(jobs.c.id),
            {
                "id": job.id,
                "kind": job.kind,
                "key": job.key,
                "payload": dict(job.payload),
                "created_at": job.created_at,
                **_changing(job),
            },
        )
        return stored.first() is not None

    def get(self, job_id: str) -> Job | None:
        return self._one(select(jobs).where(jobs.c.id == job_id)) if is_id(job_id) else None

    def claim(self, kinds: Sequence[str], now: datetime, lease: timedelta) -> Job | None:
        # Two queries, so that each reads its own small index; the abandoned job goes first, since
        # it has waited for longer.
        wanted = select(jobs).where(jobs.c.kind.in_(kinds))
        abandoned = wanted.where(RUNNING, jobs.c.lease_expires_at <= now).order_by(
            jobs.c.lease_expires_at, jobs.c.id
        )
        due = wanted.where(QUEUED, jobs.c.due_at <= now).order_by(jobs.c.due_at, jobs.c.id)
        found = self._first(abandoned) or self._first(due)
        if found is None:
            return None
        claimed = found.claimed(now, lease)
        self._connection.execute(
            update(jobs).where(jobs.c.id == claimed.id).values(_changing(claimed))
        )
        return claimed

    def save(self, job: Job, *, token: int) -> bool:
        saved = self._connection.execute(
            update(jobs)
            .where(
                jobs.c.id == job.id,
                jobs.c.token == token,
                jobs.c.state == JobState.RUNNING.value,
            )
            .values(_changing(job))
        )
        return saved.rowcount == 1

    def _first(self, query: Select[tuple[object, ...]]) -> Job | None:
        return self._one(query.limit(1).with_for_update(skip_locked=True))

    def _one(self, query: Select[tuple[object, ...]]) -> Job | None:
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_job(row)


def _changing(job: Job) -> dict[str, object]:
    return {
        "state": job.state.value,
        "progress": job.progress,
        "message": job.message,
        "attempt": job.attempt,
        "token": job.token,
        "due_at": job.due_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "lease_expires_at": job.lease_expires_at,
        "result": None if job.result is None else dict(job.result),
        "error": job.error,
    }


def _to_job(row: RowMapping) -> Job:
    return Job(**{**row, "state": JobState(row["state"])})
