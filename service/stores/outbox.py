"""Messages to other programs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Dialect, RowMapping, Select, select, update

from setwise.service.domain.columns import Rows
from setwise.service.domain.paging import Page
from setwise.service.domain.webhooks import Message, MessageType
from setwise.service.stores.bulk import RowInsert, Write, nothing
from setwise.service.stores.tables import UNACKNOWLEDGED, UNROUTED, outbox_messages

_OLDEST_UNROUTED = select(outbox_messages).where(UNROUTED).order_by(outbox_messages.c.ordinal)
_INSERT = RowInsert(outbox_messages, alike=[("type", "client_id", "created_at")])


def adding(dialect: Dialect, messages: Rows[Message]) -> Write:
    """Return what adds messages."""
    if not messages:
        return nothing
    return _INSERT.ready(
        dialect,
        {
            "id": messages.column("id"),
            "type": [kind.value for kind in messages.column("type")],
            "client_id": messages.column("client_id"),
            "document_key": messages.column("document_key"),
            "data": [dict(data) for data in messages.column("data")],
            "created_at": messages.column("created_at"),
        },
    )


class OutboxStore:
    """Messages to other programs, in the order in which they were written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, message: Message) -> None:
        self.add_all([message])

    def add_all(self, messages: Sequence[Message]) -> None:
        """Write messages in this order."""
        adding(self._connection.dialect, Rows.of(Message, messages))(self._connection)

    def unrouted(self, limit: int) -> list[Message]:
        """List the oldest messages that have no deliveries yet, in order."""
        rows = self._connection.execute(_OLDEST_UNROUTED.limit(limit))
        return [to_message(row) for row in rows.mappings()]

    def mark_routed(self, message_ids: Sequence[str], now: datetime) -> bool:
        """Note that messages have their deliveries; False when one of them had them already.

        Whoever else marks one of them waits until this transaction ends. So who routes the oldest
        messages never makes deliveries of a later one while those of an earlier are not there yet.
        """
        named = _OLDEST_UNROUTED.where(outbox_messages.c.id.in_(message_ids))
        return self._mark_routed(named, now) == len(message_ids)

    def mark_oldest_routed(self, limit: int, now: datetime) -> int:
        """Note of the oldest messages that nobody wants them; returns how many there were."""
        return self._mark_routed(_OLDEST_UNROUTED.limit(limit), now)

    def _mark_routed(self, found: Select[Any], now: datetime) -> int:  # Any: all columns
        ordinal = outbox_messages.c.ordinal
        # Locked in order, so that routers wait for one another and not each for the other.
        locked = found.with_only_columns(ordinal).with_for_update()
        marked = self._connection.execute(
            update(outbox_messages).where(ordinal.in_(locked)).values(routed_at=now)
        )
        return marked.rowcount

    def unacknowledged(self, client_id: str, *, after: str | None, limit: int) -> Page[Message]:
        """List, oldest first, what a client has not acknowledged."""
        column = outbox_messages.c
        query = (
            select(outbox_messages)
            .where(UNACKNOWLEDGED, column.client_id == client_id)
            .order_by(column.ordinal)
            .limit(limit + 1)
        )
        if after is not None:
            last = select(column.ordinal).where(column.id == after).scalar_subquery()
            query = query.where(column.ordinal > last)
        rows = self._connection.execute(query).mappings().all()
        items = tuple(to_message(row) for row in rows[:limit])
        return Page(items, items[-1].id if len(rows) > limit else None)

    def acknowledge(self, client_id: str, message_ids: Sequence[str], now: datetime) -> int:
        """Note that a client has these of its messages; returns how many were new to it."""
        acknowledged = self._connection.execute(
            update(outbox_messages)
            .where(
                outbox_messages.c.id.in_(message_ids),
                outbox_messages.c.client_id == client_id,
                UNACKNOWLEDGED,
            )
            .values(acknowledged_at=now)
        )
        return acknowledged.rowcount


def to_message(row: RowMapping) -> Message:
    """Return the message in a row that selects, among others, the columns of its table."""
    column = outbox_messages.c
    return Message(
        id=row[column.id],
        type=MessageType(row[column.type]),
        client_id=row[column.client_id],
        document_key=row[column.document_key],
        data=row[column.data],
        created_at=row[column.created_at],
    )
