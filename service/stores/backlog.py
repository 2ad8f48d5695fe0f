"""Work that waits, read from small indexes: asked at each scrape, whatever the tables hold."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, func, select

from setwise.service.domain.reports import Backlog, Line
from setwise.service.stores.tables import (
    DEAD,
    LEASED,
    OPEN,
    PENDING,
    QUEUED,
    RUNNING,
    UNROUTED,
    deliveries,
    jobs,
    outbox_messages,
    review_tasks,
)


class BacklogStore:
    """Work that waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self) -> Backlog:
        task = review_tasks.c
        return Backlog(
            reviews={
                "waiting": self._line(task.created_at, task.id, OPEN, task.state == "waiting"),
                "leased": self._line(task.lease_claimed_at, task.lease_claimed_at, LEASED),
                "skipped": self._line(task.created_at, task.id, OPEN, task.state == "skipped"),
            },
            deliveries={
                "unrouted": self._line(
                    outbox_messages.c.created_at, outbox_messages.c.ordinal, UNROUTED
                ),
                "pending": self._line(deliveries.c.created_at, deliveries.c.created_at, PENDING),
                "dead": self._line(deliveries.c.created_at, deliveries.c.created_at, DEAD),
            },
            jobs={
                "queued": self._line(jobs.c.due_at, jobs.c.due_at, QUEUED),
                "running": self._line(jobs.c.started_at, jobs.c.started_at, RUNNING),
            },
        )

    def _line(
        self, since: Column[datetime], order: Column[Any], *conditions: ColumnElement[bool]
    ) -> Line:
        count = select(func.count()).select_from(since.table).where(*conditions)
        oldest = select(since).where(*conditions).order_by(order).limit(1)
        return Line(
            self._connection.execute(count).scalar_one(),
            self._connection.execute(oldest).scalar_one_or_none(),
        )
