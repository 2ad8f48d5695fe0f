"""The append-only audit trail.

Predictions are by far the most frequent events. They are not stored twice: a prediction's row
never changes, so its event is read from that row.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, insert, select

from setwise.service.domain.audit_trail import (
    PREDICTION_CREATED,
    Actor,
    AuditEvent,
    EventFilter,
    Origin,
    prediction_created,
)
from setwise.service.domain.text import Page, is_id
from setwise.service.stores.columns.rows import Store, of_row, page_of, row_of
from setwise.service.stores.tables import audit_events, predictions

_EVENT = audit_events.c
_MADE = predictions.c
_ORIGIN = [_MADE[name] for name in Origin._fields]
_DETAIL = [
    _MADE.decision,
    _MADE.reason,
    _MADE.confidence,
    _MADE.rule,
    _MADE.threshold,
    _MADE.model_version,
    _MADE.calibrator_version,
    _MADE.policy_version,
    _MADE.audit_role,
    _MADE.draw,
]


class AuditTrailStore(Store):
    """The append-only audit trail."""

    def add(self, event: AuditEvent) -> None:
        self.add_all([event])

    def add_all(self, events: Sequence[AuditEvent]) -> None:
        if not events:
            return
        self._connection.execute(
            insert(audit_events),
            [
                row_of(event, audit_events)
                | {"actor_id": event.actor.id, "actor_name": event.actor.name}
                for event in events
            ],
        )

    def page(
        self, filters: EventFilter | None = None, *, after: str | None, limit: int
    ) -> Page[AuditEvent]:
        """Return a page of events, newest first."""
        events = read_events(
            self._connection,
            filters or EventFilter(),
            after=after,
            limit=limit + 1,
            newest_first=True,
        )
        return page_of(events, limit)


def read_events(
    connection: Connection,
    filters: EventFilter,
    *,
    after: str | None,
    limit: int,
    newest_first: bool,
) -> list[AuditEvent]:
    """Return the next events after the id ``after``, ordered by id."""
    query = select(audit_events).where(
        *_of_action(filters.action),
        *_about(filters, _EVENT.actor_id, _EVENT.subject, _EVENT.at),
        *_past(_EVENT.id, after, newest_first),
    )
    order = _EVENT.id.desc() if newest_first else _EVENT.id
    rows = connection.execute(query.order_by(order).limit(limit)).mappings()
    events = [
        of_row(AuditEvent, audit_events, row, actor=Actor(row["actor_id"], row["actor_name"]))
        for row in rows
    ]
    if not _includes(filters.action, PREDICTION_CREATED):
        return events
    if filters.subject is not None and not is_id(filters.subject):
        return events
    # Skip predictions beyond the last of these events: the limit would cut them off.
    last = events[-1].id if len(events) == limit else None
    query = select(_MADE.id, _MADE.client_id, _MADE.created_at, *_ORIGIN, *_DETAIL).where(
        *_about(filters, _MADE.client_id, _MADE.id, _MADE.created_at),
        *_past(_MADE.id, after, newest_first),
        *_past(_MADE.id, last, not newest_first),
    )
    order = _MADE.id.desc() if newest_first else _MADE.id
    for row in connection.execute(query.order_by(order).limit(limit)).mappings():
        event = prediction_created(
            Origin(*(row[column] for column in _ORIGIN)),
            id=row[_MADE.id],
            client_id=row[_MADE.client_id],
            at=row[_MADE.created_at],
            **{column.name: row[column] for column in _DETAIL},
        )
        events.append(event)
    return sorted(events, key=lambda event: event.id, reverse=newest_first)[:limit]


def _past(
    id_: Column[Any],  # Any: an id
    place: str | None,
    downwards: bool,
) -> Iterator[ColumnElement[bool]]:
    if place is not None:
        yield id_ < place if downwards else id_ > place


def _includes(prefix: str | None, action: str) -> bool:
    if prefix is None:
        return True
    return action.startswith(prefix) if prefix.endswith(".") else action == prefix


def _of_action(prefix: str | None) -> Iterator[ColumnElement[bool]]:
    if prefix is not None and prefix.endswith("."):
        yield _EVENT.action.startswith(prefix, autoescape=True)
    elif prefix is not None:
        yield _EVENT.action == prefix


def _about(
    filters: EventFilter, actor: Column[str], subject: Column[str], at: Column[datetime]
) -> Iterator[ColumnElement[bool]]:
    if filters.actor_id is not None:
        yield actor == filters.actor_id
    if filters.subject is not None:
        yield subject == filters.subject
    if filters.since is not None:
        yield at >= filters.since
    if filters.before is not None:
        yield at < filters.before
