"""The part of the database in memory that tells other programs: outbox, endpoints, deliveries."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.paging import Page
from setwise.service.domain.webhooks import Attempt, Delivery, DeliveryState, Endpoint, Message


@dataclass
class Outgoing:
    """What the three repositories share; values are immutable, so copied containers do."""

    messages: dict[str, Message] = field(default_factory=dict)  # in the order of writing
    routed: dict[str, datetime] = field(default_factory=dict)
    acknowledged: dict[str, datetime] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)

    def __copy__(self) -> "Outgoing":
        return Outgoing(**{name: dict(value) for name, value in vars(self).items()})


@dataclass
class _Repository:
    outgoing: Outgoing


class FakeOutbox(_Repository):
    """Messages to other programs."""

    def add(self, message: Message) -> None:
        self.outgoing.messages[message.id] = message

    def add_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.add(message)

    def unrouted(self, limit: int) -> list[Message]:
        waiting = (m for m in self.outgoing.messages.values() if m.id not in self.outgoing.routed)
        return list(itertools.islice(waiting, limit))

    def mark_routed(self, message_ids: Sequence[str], now: datetime) -> bool:
        already = self.outgoing.routed.keys() & set(message_ids)
        self.outgoing.routed.update(dict.fromkeys(message_ids, now))
        return not already

    def mark_oldest_routed(self, limit: int, now: datetime) -> int:
        oldest = [message.id for message in self.unrouted(limit)]
        self.mark_routed(oldest, now)
        return len(oldest)

    def unacknowledged(self, client_id: str, *, after: str | None, limit: int) -> Page[Message]:
        order = list(self.outgoing.messages)
        if after is not None and after not in order:
            return Page((), None)
        start = 0 if after is None else order.index(after) + 1
        found = [
            message
            for message in map(self.outgoing.messages.__getitem__, order[start:])
            if message.client_id == client_id and message.id not in self.outgoing.acknowledged
        ]
        return Page(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)

    def acknowledge(self, client_id: str, message_ids: Sequence[str], now: datetime) -> int:
        new = {
            one
            for one in message_ids
            if one in self.outgoing.messages
            and self.outgoing.messages[one].client_id == client_id
            and one not in self.outgoing.acknowledged
        }
        self.outgoing.acknowledged.update(dict.fromkeys(new, now))
        return len(new)


class FakeEndpoints(_Repository):
    """Webhook endpoints."""

    def add(self, endpoint: Endpoint) -> None:
        self.outgoing.endpoints[endpoint.id] = endpoint

    def get(self, endpoint_id: str, *, for_update: bool = False) -> Endpoint | None:
        return self.outgoing.endpoints.get(endpoint_id)

    def all(self) -> list[Endpoint]:
        return sorted(self.outgoing.endpoints.values(), key=lambda endpoint: endpoint.id)

    def save(self, endpoint: Endpoint) -> None:
        stored = self.outgoing.endpoints.get(endpoint.id)
        if stored is None or stored.version != endpoint.version - 1:
            raise StaleVersion(f"Webhook {endpoint.id} has changed since it was read.")
        self.outgoing.endpoints[endpoint.id] = endpoint

    def delete(self, endpoint_id: str, now: datetime) -> None:
        self.outgoing.endpoints.pop(endpoint_id, None)


class FakeDeliveries(_Repository):
    """Messages on their way."""

    def add(self, deliveries: Sequence[Delivery]) -> None:
        self.outgoing.deliveries.update({delivery.id: delivery for delivery in deliveries})

    def get(self, delivery_id: str, *, for_update: bool = False) -> Delivery | None:
        return self.outgoing.deliveries.get(delivery_id)

    def due_endpoints(self, now: datetime) -> frozenset[str]:
        enabled = (one.id for one in self.outgoing.endpoints.values() if one.enabled)
        return frozenset(one for one in enabled if self._claimable(one, now))

    def claim(
        self, endpoint_id: str, now: datetime, lease: timedelta, limit: int
    ) -> list[Delivery]:
        due = self._claimable(endpoint_id, now)
        due.sort(key=lambda delivery: (delivery.due_at, self._place(delivery)))
        claimed = [delivery.claimed(now, lease) for delivery in due[:limit]]
        self.add(claimed)
        return claimed

    def save(self, delivery: Delivery, *, token: int) -> bool:
        if self.outgoing.deliveries[delivery.id].token != token:
            return False
        self.outgoing.deliveries[delivery.id] = delivery
        return True

    def cancel(self, endpoint_id: str, now: datetime) -> int:
        cancelled = [
            replace(delivery.cancelled(now), token=delivery.token + 1)
            for delivery in self.outgoing.deliveries.values()
            if delivery.endpoint_id == endpoint_id and delivery.state is DeliveryState.PENDING
        ]
        self.add(cancelled)
        return len(cancelled)

    def dead(self, endpoint_id: str, limit: int) -> list[Delivery]:
        dead = [
            delivery
            for delivery in self.outgoing.deliveries.values()
            if delivery.endpoint_id == endpoint_id and delivery.state is DeliveryState.DEAD
        ]
        return sorted(dead, key=self._place)[:limit]

    def page(
        self,
        *,
        state: DeliveryState | None,
        endpoint_id: str | None,
        after: str | None,
        limit: int,
    ) -> Page[Delivery]:
        found = [
            delivery
            for delivery in sorted(
                self.outgoing.deliveries.values(), key=lambda one: one.id, reverse=True
            )
            if state in {None, delivery.state}
            and endpoint_id in {None, delivery.endpoint_id}
            and (after is None or delivery.id < after)
        ]
        return Page(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)

    def counts(self) -> Mapping[DeliveryState, int]:
        counted = Counter(delivery.state for delivery in self.outgoing.deliveries.values())
        return {state: counted[state] for state in (DeliveryState.PENDING, DeliveryState.DEAD)}

    def log(self, attempts: Sequence[Attempt]) -> None:
        self.outgoing.attempts.update({attempt.id: attempt for attempt in attempts})

    def attempts(self, delivery_id: str) -> list[Attempt]:
        found = (one for one in self.outgoing.attempts.values() if one.delivery_id == delivery_id)
        return sorted(found, key=lambda attempt: attempt.id)

    def _claimable(self, endpoint_id: str, now: datetime) -> list[Delivery]:
        pending = [
            delivery
            for delivery in sorted(self.outgoing.deliveries.values(), key=self._place)
            if delivery.state is DeliveryState.PENDING and delivery.endpoint_id == endpoint_id
        ]
        first: dict[str, Delivery] = {}
        for delivery in pending:
            first.setdefault(delivery.message.document_key, delivery)
        return [delivery for delivery in first.values() if _due(delivery, now)]

    def _place(self, delivery: Delivery) -> int:
        return list(self.outgoing.messages).index(delivery.message.id)


def _due(delivery: Delivery, now: datetime) -> bool:
    return (
        delivery.state is DeliveryState.PENDING
        and delivery.due_at <= now
        and (delivery.lease_expires_at is None or delivery.lease_expires_at <= now)
    )
