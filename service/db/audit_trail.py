"""The append-only record of what was done."""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, select

from service.db.bulk import RowInsert
from service.db.tables import audit_events
from service.domain.history import Event
from service.use_cases.paging import Page
from service.use_cases.people_ports import EventFilter

_INSERT = RowInsert(audit_events)
_COLUMN = audit_events.c


class SqlAuditTrail:
    """Fills the port `service.use_cases.people_ports.AuditTrail`."""

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

    def page(
        self, wanted: EventFilter | None = None, *, after: str | None, limit: int
    ) -> Page[Event]:
        query = select(audit_events).order_by(_COLUMN.id.desc()).limit(limit + 1)
        if wanted is not None:
            query = query.where(*_conditions(wanted))
        if after is not None:
            query = query.where(_COLUMN.id < after)
        rows = self._connection.execute(query).mappings().all()
        items = tuple(Event(**row) for row in rows[:limit])
        return Page(items, items[-1].id if len(rows) > limit else None)


def _conditions(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.actor_id is not None:
        yield _COLUMN.actor_id == wanted.actor_id
    if wanted.subject is not None:
        yield _COLUMN.subject == wanted.subject
    if wanted.action is not None:
        if wanted.action.endswith("."):
            yield _COLUMN.action.startswith(wanted.action, autoescape=True)
        else:
            yield _COLUMN.action == wanted.action
    if wanted.since is not None:
        yield _COLUMN.at >= wanted.since
    if wanted.before is not None:
        yield _COLUMN.at < wanted.before
