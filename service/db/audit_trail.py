"""The append-only record of what was done."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from service.db.bulk import RowInsert
from service.db.tables import audit_events
from service.domain.history import Event
from service.use_cases.ports import Page

_INSERT = RowInsert(audit_events)


class SqlAuditTrail:
    """Fills the port `service.use_cases.ports.AuditTrail`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, event: Event) -> None:
        self.add_all([event])

    def add_all(self, events: Sequence[Event]) -> None:
        if not events:
            return
        _INSERT(
            self._connection,
            [
                {
                    "id": event.id,
                    "at": event.at,
                    "actor_id": event.actor_id,
                    "actor_name": event.actor_name,
                    "action": event.action,
                    "subject": event.subject,
                    "request_id": event.request_id,
                    "detail": dict(event.detail),
                    "address": event.address,
                }
                for event in events
            ],
        )

    def page(self, *, after: str | None, limit: int) -> Page[Event]:
        query = select(audit_events).order_by(audit_events.c.id.desc()).limit(limit + 1)
        if after is not None:
            query = query.where(audit_events.c.id < after)
        rows = self._connection.execute(query).mappings().all()
        items = tuple(Event(**row) for row in rows[:limit])
        return Page(items, items[-1].id if len(rows) > limit else None)
