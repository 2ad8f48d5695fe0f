"""How much work waits, and for how long."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, func, select

from setwise.service.domain.reports import Backlog, BacklogLine
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.reports import about_segment
from setwise.service.stores.tables import (
    DEAD,
    DUE,
    FAILED_ONCE,
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


class BacklogStore(Store):
    """The backlog, from small indexes, because every metrics scrape reads it."""

    def read(self, segment: Segment = ALL_DOCUMENTS) -> Backlog:
        """Return the backlog; ``segment``: reviews only of its documents."""
        task = review_tasks.c
        about = about_segment(task.prediction_id, segment)
        return Backlog(
            reviews={
                "waiting": self._line(
                    task.created_at, task.id, OPEN, task.state == "waiting", about
                ),
                "leased": self._line(task.lease_claimed_at, task.lease_claimed_at, LEASED, about),
                "skipped": self._line(
                    task.created_at, task.id, OPEN, task.state == "skipped", about
                ),
            },
            deliveries={
                "unrouted": self._line(
                    outbox_messages.c.created_at, outbox_messages.c.ordinal, UNROUTED
                ),
                "pending": self._line(deliveries.c.created_at, deliveries.c.created_at, PENDING),
                "failing": self._line(
                    deliveries.c.created_at, deliveries.c.created_at, PENDING, FAILED_ONCE
                ),
                "dead": self._line(deliveries.c.created_at, deliveries.c.created_at, DEAD),
            },
            jobs={
                "queued": self._line(jobs.c.due_at, jobs.c.due_at, QUEUED),
                "running": self._line(jobs.c.started_at, jobs.c.started_at, RUNNING),
            },
        )

    def overdue(self, now: datetime, segment: Segment = ALL_DOCUMENTS) -> int:
        """Count open reviews whose due time has passed."""
        task = review_tasks.c
        query = select(func.count()).select_from(review_tasks)
        late = query.where(DUE, task.due_at < now, about_segment(task.prediction_id, segment))
        return self._connection.execute(late).scalar_one()

    def _line(
        self, since: Column[datetime], order: Column[Any], *conditions: ColumnElement[bool]
    ) -> BacklogLine:
        count = select(func.count()).select_from(since.table).where(*conditions)
        oldest = select(since).where(*conditions).order_by(order).limit(1)
        return BacklogLine(
            self._connection.execute(count).scalar_one(),
            self._connection.execute(oldest).scalar_one_or_none(),
        )
