"""Messages on their way to endpoints, and the log of attempts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from setwise.service.domain.identity import is_id
from setwise.service.domain.paging import Page
from setwise.service.domain.webhooks import Answer, Attempt, Delivery, DeliveryState
from setwise.service.stores.bulk import RowInsert
from setwise.service.stores.outbox import to_message
from setwise.service.stores.tables import (
    DEAD,
    PENDING,
    deliveries,
    delivery_attempts,
    outbox_messages,
    webhook_endpoints,
)

_INSERT = RowInsert(
    deliveries,
    alike=[
        ("state", "attempt", "token", "due_at", "lease_expires_at", "created_at", "finished_at")
    ],
)

_COLUMN = deliveries.c
_WHOLE = select(deliveries, outbox_messages).join(
    outbox_messages, outbox_messages.c.ordinal == _COLUMN.message_ordinal
)
_EARLIER = deliveries.alias("earlier")

# As in `tables`, word for word, so that the partial indexes serve; here two tables have a state.
_IS_PENDING: ColumnElement[bool] = literal_column("deliveries.state = 'pending'")
_IS_DEAD: ColumnElement[bool] = literal_column("deliveries.state = 'dead'")
_IS_FIRST = ~exists().where(
    literal_column("earlier.state = 'pending'"),
    _EARLIER.c.endpoint_id == _COLUMN.endpoint_id,
    _EARLIER.c.document_key == _COLUMN.document_key,
    _EARLIER.c.message_ordinal < _COLUMN.message_ordinal,
)


class DeliveryStore:
    """Messages on their way to endpoints, and the log of attempts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, new: Sequence[Delivery]) -> None:
        if not new:
            return
        wanted = {delivery.message.id for delivery in new}
        found = self._connection.execute(
            select(outbox_messages.c.id, outbox_messages.c.ordinal).where(
                outbox_messages.c.id.in_(wanted)
            )
        )
        ordinals = {row.id: row.ordinal for row in found}
        rows = [
            {
                "id": delivery.id,
                "message_ordinal": ordinals[delivery.message.id],
                "endpoint_id": delivery.endpoint_id,
                "document_key": delivery.message.document_key,
                "created_at": delivery.created_at,
                **_changing(delivery),
            }
            for delivery in new
        ]
        _INSERT(self._connection, {name: [row[name] for row in rows] for name in rows[0]})

    def get(self, delivery_id: str, *, for_update: bool = False) -> Delivery | None:
        if not is_id(delivery_id):
            return None
        query = _WHOLE.where(_COLUMN.id == delivery_id)
        if for_update:
            query = query.with_for_update(of=deliveries)
        return next(iter(self._all(query)), None)

    def due_endpoints(self, now: datetime) -> frozenset[str]:
        """Return, without a lock, the enabled endpoints that `claim` finds something for."""
        of_endpoint = _COLUMN.endpoint_id == webhook_endpoints.c.id
        found = self._connection.execute(
            select(webhook_endpoints.c.id).where(
                webhook_endpoints.c.disabled_because.is_(None),
                webhook_endpoints.c.deleted_at.is_(None),
                exists().where(of_endpoint, *_claimable(now)),
            )
        )
        return frozenset(found.scalars())

    def claim(
        self, endpoint_id: str, now: datetime, lease: timedelta, limit: int
    ) -> list[Delivery]:
        """Lease up to ``limit`` due deliveries, at most the first unfinished one of a document."""
        found = self._all(
            _WHOLE.where(_COLUMN.endpoint_id == endpoint_id, *_claimable(now))
            .order_by(_COLUMN.due_at, _COLUMN.message_ordinal)
            .limit(limit)
            .with_for_update(of=deliveries, skip_locked=True)
        )
        claimed = [delivery.claimed(now, lease) for delivery in found]
        for delivery in claimed:
            self._store(delivery)
        return claimed

    def save(self, delivery: Delivery, *, token: int) -> bool:
        """Store a changed delivery; False when it was claimed, replayed or cancelled since."""
        return self._store(delivery, token=token)

    def cancel(self, endpoint_id: str, now: datetime) -> int:
        """End every pending delivery to an endpoint; returns how many there were."""
        cancelled = self._connection.execute(
            update(deliveries)
            .where(PENDING, _COLUMN.endpoint_id == endpoint_id)
            .values(
                state=DeliveryState.CANCELLED.value,
                token=_COLUMN.token + 1,  # an attempt under way has no say in it any more
                lease_expires_at=None,
                finished_at=now,
            )
        )
        return cancelled.rowcount

    def dead(self, endpoint_id: str, limit: int) -> list[Delivery]:
        """Lock and return the oldest deliveries to an endpoint that were given up."""
        return self._all(
            _WHOLE.where(_IS_DEAD, _COLUMN.endpoint_id == endpoint_id)
            .order_by(_COLUMN.message_ordinal)
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
        """List newest first."""
        if endpoint_id is not None and not is_id(endpoint_id):
            return Page((), None)
        query = _WHOLE.order_by(_COLUMN.id.desc()).limit(limit + 1)
        if state is not None:
            query = query.where(_COLUMN.state == state.value)
        if endpoint_id is not None:
            query = query.where(_COLUMN.endpoint_id == endpoint_id)
        if after is not None:
            query = query.where(_COLUMN.id < after)
        found = self._all(query)
        items = tuple(found[:limit])
        return Page(items, items[-1].id if len(found) > limit else None)

    def counts(self) -> Mapping[DeliveryState, int]:
        """Count the pending and the dead ones; those that ended well are too many to count."""
        count = select(func.count()).select_from(deliveries)
        pending, dead = (
            self._connection.execute(count.where(condition)).scalar_one()
            for condition in (PENDING, DEAD)
        )
        return {DeliveryState.PENDING: pending, DeliveryState.DEAD: dead}

    def log(self, attempts: Sequence[Attempt]) -> None:
        rows = [
            {
                "id": attempt.id,
                "delivery_id": attempt.delivery_id,
                "number": attempt.number,
                "started_at": attempt.answer.started_at,
                "seconds": attempt.answer.seconds,
                "status": attempt.answer.status,
                "excerpt": attempt.answer.excerpt,
                "error": attempt.answer.error,
            }
            for attempt in attempts
        ]
        if rows:
            self._connection.execute(insert(delivery_attempts), rows)

    def attempts(self, delivery_id: str) -> list[Attempt]:
        """List the attempts of a delivery, oldest first."""
        rows = self._connection.execute(
            select(delivery_attempts)
            .where(delivery_attempts.c.delivery_id == delivery_id)
            .order_by(delivery_attempts.c.id)
        )
        return [_to_attempt(row) for row in rows.mappings()]

    def _store(self, delivery: Delivery, *, token: int | None = None) -> bool:
        query = update(deliveries).where(_COLUMN.id == delivery.id)
        if token is not None:
            query = query.where(_COLUMN.token == token)
        return self._connection.execute(query.values(_changing(delivery))).rowcount == 1

    def _all(self, query: Select[tuple[object, ...]]) -> list[Delivery]:
        return [_to_delivery(row) for row in self._connection.execute(query).mappings()]


def _claimable(now: datetime) -> tuple[ColumnElement[bool], ...]:
    unleased = or_(_COLUMN.lease_expires_at.is_(None), _COLUMN.lease_expires_at <= now)
    return _IS_PENDING, _COLUMN.due_at <= now, unleased, _IS_FIRST


def _changing(delivery: Delivery) -> dict[str, object]:
    return {
        "state": delivery.state.value,
        "attempt": delivery.attempt,
        "token": delivery.token,
        "due_at": delivery.due_at,
        "lease_expires_at": delivery.lease_expires_at,
        "finished_at": delivery.finished_at,
    }


def _to_delivery(row: RowMapping) -> Delivery:
    return Delivery(
        id=row[_COLUMN.id],
        message=to_message(row),
        endpoint_id=row[_COLUMN.endpoint_id],
        due_at=row[_COLUMN.due_at],
        created_at=row[_COLUMN.created_at],
        state=DeliveryState(row[_COLUMN.state]),
        attempt=row[_COLUMN.attempt],
        token=row[_COLUMN.token],
        lease_expires_at=row[_COLUMN.lease_expires_at],
        finished_at=row[_COLUMN.finished_at],
    )


def _to_attempt(row: RowMapping) -> Attempt:
    return Attempt(
        id=row["id"],
        delivery_id=row["delivery_id"],
        number=row["number"],
        answer=Answer(
            started_at=row["started_at"],
            seconds=row["seconds"],
            status=row["status"],
            excerpt=row["excerpt"],
            error=row["error"],
        ),
    )
