"""Stored webhooks: outgoing messages, endpoints, deliveries and their attempts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.text import Page, is_id
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    Message,
    MessageType,
    ReceiverResponse,
    SigningSecret,
)
from setwise.service.stores.columns.rows import Store, of_row, page_of, row_of
from setwise.service.stores.columns.types import InRow, opened
from setwise.service.stores.tables import (
    FAILED_ONCE,
    PENDING,
    UNACKNOWLEDGED,
    UNROUTED,
    deliveries,
    delivery_attempts,
    outbox_messages,
    webhook_endpoints,
)

# Messages

_INSERT = insert(outbox_messages)
_OLDEST_UNROUTED = select(outbox_messages).where(UNROUTED).order_by(outbox_messages.c.ordinal)


class OutboxStore(Store):
    """Outgoing messages in the order of their creation."""

    def add(self, message: Message) -> None:
        self.add_all([message])

    def add_all(self, messages: Sequence[Message]) -> None:
        """Insert messages in this order."""
        if not messages:
            return
        rows = [row_of(message, outbox_messages) for message in messages]
        self._connection.execute(_INSERT, rows)

    def unrouted(self, limit: int) -> list[Message]:
        """Return the oldest messages without deliveries, in order."""
        return self._every(_OLDEST_UNROUTED.limit(limit), to_message)

    def mark_routed(self, message_ids: Sequence[str], now: datetime) -> bool:
        """Mark messages as routed; return False if one already was.

        A concurrent call for one of the messages waits until this transaction ends, so no message
        gets deliveries before an earlier one.
        """
        named = _OLDEST_UNROUTED.where(outbox_messages.c.id.in_(message_ids))
        return self._mark_routed(named, now) == len(message_ids)

    def mark_oldest_routed(self, limit: int, now: datetime) -> int:
        """Mark the oldest unrouted messages as routed; return their number."""
        return self._mark_routed(_OLDEST_UNROUTED.limit(limit), now)

    def _mark_routed(self, query: Select[Any], now: datetime) -> int:  # Any: all columns
        ordinal = outbox_messages.c.ordinal
        # Locked in order, so that concurrent routers cannot deadlock.
        locked = query.with_only_columns(ordinal).with_for_update()
        marked = self._connection.execute(
            update(outbox_messages).where(ordinal.in_(locked)).values(routed_at=now)
        )
        return marked.rowcount

    def unacknowledged(self, client_id: str, *, after: str | None, limit: int) -> Page[Message]:
        """Return a page of a client's unacknowledged messages, oldest first."""
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
        return page_of(self._every(query, to_message), limit)

    def acknowledge(self, client_id: str, message_ids: Sequence[str], now: datetime) -> int:
        """Mark a client's messages as acknowledged; return how many were new."""
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
    """Return the message in a row with the columns of its table."""
    return of_row(Message, outbox_messages, row)


# Endpoints


class EndpointStore(Store):
    """Webhook endpoints, except deleted ones."""

    def add(self, endpoint: Endpoint) -> None:
        self._connection.execute(insert(webhook_endpoints), _endpoint_row(endpoint))

    def get(self, endpoint_id: str, *, for_update: bool = False) -> Endpoint | None:
        column = webhook_endpoints.c
        query = select(webhook_endpoints).where(column.deleted_at.is_(None))
        query = query.with_for_update() if for_update else query
        return self._named(query, column.id, endpoint_id, _to_endpoint)

    def all(self) -> list[Endpoint]:
        """Return all endpoints, oldest first."""
        column = webhook_endpoints.c
        query = select(webhook_endpoints).where(column.deleted_at.is_(None)).order_by(column.id)
        return self._every(query, _to_endpoint)

    def save(self, endpoint: Endpoint) -> None:
        """Store a changed endpoint; raises `StaleVersion` unless it is the next version."""
        saved = self._connection.execute(
            update(webhook_endpoints)
            .where(
                webhook_endpoints.c.id == endpoint.id,
                webhook_endpoints.c.version == endpoint.version - 1,
                webhook_endpoints.c.deleted_at.is_(None),
            )
            .values(_endpoint_row(endpoint))
        )
        if saved.rowcount != 1:
            raise StaleVersion(f"Webhook {endpoint.id} has changed since it was read.")

    def delete(self, endpoint_id: str, now: datetime) -> None:
        """Delete an endpoint and its secrets; its deliveries stay for the log."""
        self._connection.execute(
            update(webhook_endpoints)
            .where(webhook_endpoints.c.id == endpoint_id)
            .values(deleted_at=now, secrets=InRow([], (endpoint_id,)))
        )

    def empty_deleted(self, endpoint_id: str) -> bool:
        """Delete secrets that stand at a deleted endpoint; return whether there were any."""
        column = webhook_endpoints.c
        query = select(column.secrets).where(column.deleted_at.is_not(None))
        stored = self._named(query, column.id, endpoint_id, lambda row: row["secrets"])
        if stored is None or opened(stored, endpoint_id, otherwise=None) == []:
            return False
        self._connection.execute(
            update(webhook_endpoints)
            .where(column.id == endpoint_id)
            .values(secrets=InRow([], (endpoint_id,)))
        )
        return True


def _endpoint_row(endpoint: Endpoint) -> dict[str, object]:
    secrets = [
        {"value": secret.value, "expires_at": secret.expires_at and secret.expires_at.isoformat()}
        for secret in endpoint.secrets
    ]
    row = {
        **row_of(endpoint, webhook_endpoints),
        "events": [kind.value for kind in endpoint.events],
        "secrets": InRow(secrets, (endpoint.id,)),
    }
    if not secrets:  # they could not be read: their key may come back
        del row["secrets"]
    return row


def _to_endpoint(row: RowMapping) -> Endpoint:
    secrets = tuple(
        SigningSecret(
            secret["value"],
            secret["expires_at"] and datetime.fromisoformat(secret["expires_at"]).astimezone(UTC),
        )
        for secret in opened(row["secrets"], row["id"], otherwise=())
    )
    events = tuple(MessageType(kind) for kind in row["events"])
    return of_row(Endpoint, webhook_endpoints, row, events=events, secrets=secrets)


# Deliveries

_DELIVERY = deliveries.c
_WHOLE = select(deliveries, outbox_messages).join(
    outbox_messages, outbox_messages.c.ordinal == _DELIVERY.message_ordinal
)
_EARLIER = deliveries.alias("earlier")
_UPDATE = update(deliveries).where(_DELIVERY.id == bindparam("delivery_id"))

# Verbatim as in `tables`, so that partial indexes apply; qualified because two tables have a state.
_IS_PENDING: ColumnElement[bool] = literal_column("deliveries.state = 'pending'")
_IS_DEAD: ColumnElement[bool] = literal_column("deliveries.state = 'dead'")
# A subquery with a limit, because PostgreSQL makes a join of NOT EXISTS: over a queue that has
# grown since the last ANALYZE, the join compares all pairs.
_IS_FIRST = _DELIVERY.message_ordinal == (
    select(_EARLIER.c.message_ordinal)
    .where(
        literal_column("earlier.state = 'pending'"),
        _EARLIER.c.endpoint_id == _DELIVERY.endpoint_id,
        _EARLIER.c.document_key == _DELIVERY.document_key,
    )
    .order_by(_EARLIER.c.message_ordinal)
    .limit(1)
    .correlate(deliveries)
    .scalar_subquery()
)


class DeliveryStore(Store):
    """Deliveries of messages to endpoints, and the log of attempts."""

    def add(self, new: Sequence[Delivery]) -> None:
        if not new:
            return
        ids = {delivery.message.id for delivery in new}
        numbered = self._connection.execute(
            select(outbox_messages.c.id, outbox_messages.c.ordinal).where(
                outbox_messages.c.id.in_(ids)
            )
        )
        ordinals = {row.id: row.ordinal for row in numbered}
        rows = [
            {
                **row_of(delivery, deliveries),
                "message_ordinal": ordinals[delivery.message.id],
                "document_key": delivery.message.document_key,
            }
            for delivery in new
        ]
        self._connection.execute(insert(deliveries), rows)

    def get(self, delivery_id: str, *, for_update: bool = False) -> Delivery | None:
        query = _WHOLE.with_for_update(of=deliveries) if for_update else _WHOLE
        return self._named(query, _DELIVERY.id, delivery_id, _to_delivery)

    def due_endpoints(self, now: datetime) -> frozenset[str]:
        """Return enabled endpoints with deliveries to claim, without locking."""
        of_endpoint = _DELIVERY.endpoint_id == webhook_endpoints.c.id
        endpoint_ids = self._connection.execute(
            select(webhook_endpoints.c.id).where(
                webhook_endpoints.c.disabled_because.is_(None),
                webhook_endpoints.c.deleted_at.is_(None),
                exists().where(of_endpoint, *_claimable(now)),
            )
        )
        return frozenset(endpoint_ids.scalars())

    def claim(
        self, endpoint_id: str, now: datetime, lease: timedelta, limit: int
    ) -> list[Delivery]:
        """Lease due deliveries, only the first unfinished one per document."""
        due = self._all(
            _WHOLE.where(_DELIVERY.endpoint_id == endpoint_id, *_claimable(now))
            .order_by(_DELIVERY.due_at, _DELIVERY.message_ordinal)
            .limit(limit)
            .with_for_update(of=deliveries, skip_locked=True)
        )
        claimed = [delivery.claimed(now, lease) for delivery in due]
        self._write(claimed)
        return claimed

    def save(self, before: Delivery, after: Delivery) -> bool:
        """Store a changed delivery; return False if it was claimed or changed since."""
        return bool(self.save_all([(before, after)]))

    def save_all(self, changes: Sequence[tuple[Delivery, Delivery]]) -> list[Delivery]:
        """Store deliveries, given before and after a change; return those that were stored.

        Left out are those whose token is outdated: others have claimed or changed them since.
        """
        locked = self._connection.execute(
            select(_DELIVERY.id, _DELIVERY.token)
            .where(_DELIVERY.id.in_([before.id for before, _ in changes]))
            .order_by(_DELIVERY.id)  # so that concurrent couriers cannot deadlock
            .with_for_update()
        )
        tokens = {row.id: row.token for row in locked}
        stored = [after for before, after in changes if tokens.get(before.id) == before.token]
        self._write(stored)
        return stored

    def _write(self, changed: Sequence[Delivery]) -> None:
        """Store locked deliveries."""
        rows = [
            {**row_of(delivery, deliveries), "delivery_id": delivery.id} for delivery in changed
        ]
        if rows:
            self._connection.execute(_UPDATE, rows)

    def failing(self) -> dict[str, int]:
        """Return how many messages wait after a failed attempt, by endpoint."""
        rows = self._connection.execute(
            select(_DELIVERY.endpoint_id, func.count())
            .where(PENDING, FAILED_ONCE)
            .group_by(_DELIVERY.endpoint_id)
        )
        return {str(endpoint_id): int(count) for endpoint_id, count in rows}

    def cancel(self, endpoint_id: str, now: datetime) -> int:
        """Cancel the pending deliveries to an endpoint; return their number."""
        cancelled = self._connection.execute(
            update(deliveries)
            .where(PENDING, _DELIVERY.endpoint_id == endpoint_id)
            .values(
                state=DeliveryState.CANCELLED.value,
                token=_DELIVERY.token + 1,  # rejects the result of an attempt in progress
                lease_expires_at=None,
                finished_at=now,
            )
        )
        return cancelled.rowcount

    def dead(self, endpoint_id: str, limit: int) -> list[Delivery]:
        """Lock and return the oldest dead deliveries to an endpoint."""
        return self._all(
            _WHOLE.where(_IS_DEAD, _DELIVERY.endpoint_id == endpoint_id)
            .order_by(_DELIVERY.message_ordinal)
            .limit(limit)
            .with_for_update(of=deliveries)
        )

    def page(
        self,
        *,
        state: DeliveryState | None,
        endpoint_id: str | None,
        after: str | None,
        limit: int,
    ) -> Page[Delivery]:
        """Return a page of deliveries, newest first."""
        if endpoint_id is not None and not is_id(endpoint_id):
            return Page((), None)
        query = _WHOLE
        if state is not None:
            query = query.where(_DELIVERY.state == state.value)
        if endpoint_id is not None:
            query = query.where(_DELIVERY.endpoint_id == endpoint_id)
        return self._page(query, _DELIVERY.id, _to_delivery, after=after, limit=limit)

    def log(self, attempts: Sequence[DeliveryAttempt]) -> None:
        rows = [
            {**row_of(attempt, delivery_attempts), **row_of(attempt.answer, delivery_attempts)}
            for attempt in attempts
        ]
        if rows:
            self._connection.execute(insert(delivery_attempts), rows)

    def attempts(self, delivery_id: str) -> list[DeliveryAttempt]:
        """Return the attempts of a delivery, oldest first."""
        column = delivery_attempts.c
        query = select(delivery_attempts).where(column.delivery_id == delivery_id)
        return self._every(query.order_by(column.id), _to_attempt)

    def of_messages(self, message_ids: Sequence[str]) -> list[Delivery]:
        """Return the deliveries of messages, in the order of their creation."""
        query = _WHOLE.where(outbox_messages.c.id.in_(message_ids))
        return self._all(query.order_by(_DELIVERY.id))

    def _all(self, query: Select[tuple[object, ...]]) -> list[Delivery]:
        return self._every(query, _to_delivery)


def _claimable(now: datetime) -> tuple[ColumnElement[bool], ...]:
    unleased = or_(_DELIVERY.lease_expires_at.is_(None), _DELIVERY.lease_expires_at <= now)
    return _IS_PENDING, _DELIVERY.due_at <= now, unleased, _IS_FIRST


def _to_delivery(row: RowMapping) -> Delivery:
    return of_row(Delivery, deliveries, row, message=to_message(row))


def _to_attempt(row: RowMapping) -> DeliveryAttempt:
    answer = of_row(ReceiverResponse, delivery_attempts, row)
    return of_row(DeliveryAttempt, delivery_attempts, row, answer=answer)
