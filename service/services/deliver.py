"""Tell other programs: make deliveries of messages, take them, record what came of them; pull.

A worker routes, claims, sends outside any transaction, and records. A worker that dies in between
leaves a lease that runs out, and another one sends the same message under the same id again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import SYSTEM, Caller, Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.identity import is_id
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.webhooks import (
    GONE,
    Answer,
    Attempt,
    Backoff,
    Delivery,
    Endpoint,
    Message,
)
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transaction, Transactions

DELIVERY_LEASE = timedelta(seconds=60)
"""Longer than any attempt: `runtime.sender.PATIENCE_S` after the look-up of a name, which the
system's resolver ends within half a minute."""

BACKOFF = Backoff()

MOST_ACKNOWLEDGED = 1_000
"""Messages that one call acknowledges."""

_ROUTED_PER_TRANSACTION = 200
_ROUTED_TO_NOBODY = 1_000
"""Messages of one transaction, which takes much less for each without deliveries. Bounds how long
other routers wait, and whoever writes to SQLite."""


@dataclass(frozen=True)
class Parcel:
    """A claimed delivery and where it goes."""

    delivery: Delivery
    endpoint: Endpoint


class Sender(Protocol):
    """Makes one attempt."""

    def __call__(self, parcel: Parcel) -> Answer:
        """Return what came of it; whatever goes wrong on the way is an answer too."""

    def close(self) -> None:
        """Close connections that are kept for the next attempt, which opens new ones."""


@dataclass(frozen=True)
class RouteMessages:
    """Make a delivery of each new message for every endpoint that wants it.

    An endpoint gets every message that is routed after it was added; while it is disabled its
    deliveries wait for it.
    """

    begin: Transactions
    now: Clock
    new_id: NewId

    def __call__(self) -> int:
        """Return how many messages were routed."""
        total = 0
        while True:
            # Read before it is this one's turn to write, so that others wait less for it.
            with self.begin(read_only=True) as transaction:
                wanted = bool(transaction.endpoints.all())
                messages = transaction.outbox.unrouted(_ROUTED_PER_TRANSACTION if wanted else 1)
            if not messages:
                return total
            if wanted:
                total += self._route(messages)
                more = len(messages) == _ROUTED_PER_TRANSACTION
            else:
                total += (routed := self._route_to_nobody())
                more = routed == _ROUTED_TO_NOBODY
            # What was written meanwhile can wait: under load there would be no end to it, and many
            # messages at once take little longer than one.
            if not more:
                return total

    def _route(self, messages: Sequence[Message]) -> int:
        with self.begin() as transaction:
            now = self.now()
            if not transaction.outbox.mark_routed([message.id for message in messages], now):
                return 0
            # After the mark, or an endpoint could miss what is written once it has been added.
            endpoints = transaction.endpoints.all()
            transaction.deliveries.add(
                [
                    Delivery(self.new_id(), message, endpoint.id, due_at=now, created_at=now)
                    for message in messages
                    for endpoint in endpoints
                    if endpoint.wants(message.type)
                ]
            )
            transaction.commit()
        return len(messages)

    def _route_to_nobody(self) -> int:
        with self.begin() as transaction:
            routed = transaction.outbox.mark_oldest_routed(_ROUTED_TO_NOBODY, self.now())
            if transaction.endpoints.all():  # somebody has come meanwhile, for whom they are
                return 0
            transaction.commit()
        return routed


@dataclass(frozen=True)
class ClaimDeliveries:
    """Lease due deliveries, for each endpoint as many as it may have at once."""

    begin: Transactions
    now: Clock
    lease: timedelta = DELIVERY_LEASE

    def __call__(self, busy: Mapping[str, int], *, room: int, share: int) -> list[Parcel]:
        """Return claimed deliveries.

        Parameters
        ----------
        busy : mapping
            Attempts under way by endpoint.
        room : int
            Most deliveries wanted.
        share : int
            Most attempts under way to one endpoint, so that one that hangs leaves room to others.
        """
        claimed: list[Parcel] = []
        # Asked for every second: no need to hold up who writes.
        with self.begin(read_only=True) as transaction:
            due = transaction.deliveries.due_endpoints(self.now())
        waiting = {endpoint_id for endpoint_id in due if busy.get(endpoint_id, 0) < share}
        if not waiting:
            return claimed
        with self.begin() as transaction:
            now = self.now()
            wanted = (e for e in transaction.endpoints.all() if e.enabled and e.id in waiting)
            # The least busy first: an endpoint with a long queue must not starve the last one.
            for endpoint in sorted(wanted, key=lambda one: busy.get(one.id, 0)):
                limit = min(share - busy.get(endpoint.id, 0), room - len(claimed))
                if limit > 0:
                    claimed += [
                        Parcel(delivery, endpoint)
                        for delivery in transaction.deliveries.claim(
                            endpoint.id, now, self.lease, limit
                        )
                    ]
            transaction.commit()
        return claimed


@dataclass(frozen=True)
class RecordAnswers:
    """Record attempts: log them, and settle each delivery or say when it is tried again.

    Attributes
    ----------
    draw : callable
        Gives random numbers in [0, 1), which spread the next attempts.
    """

    begin: Transactions
    now: Clock
    new_id: NewId
    draw: Callable[[], float]
    backoff: Backoff = BACKOFF

    def __call__(self, answered: Sequence[tuple[Delivery, Answer]]) -> list[Delivery]:
        """Return the deliveries as they are now, without those that others have taken over."""
        stored = []
        with self.begin() as transaction:
            self._disable_gone(transaction, answered)
            for delivery, answer in answered:
                after = delivery.answered(answer, self.now(), self.backoff, self.draw())
                if transaction.deliveries.save(after, token=delivery.token):
                    stored.append(after)
            transaction.deliveries.log(
                [
                    Attempt(self.new_id(), delivery.id, delivery.attempt, answer)
                    for delivery, answer in answered
                ]
            )
            transaction.commit()
        return stored

    def _disable_gone(
        self, transaction: Transaction, answered: Sequence[tuple[Delivery, Answer]]
    ) -> None:
        for endpoint_id in sorted({d.endpoint_id for d, a in answered if a.status == GONE}):
            endpoint = transaction.endpoints.get(endpoint_id, for_update=True)
            if endpoint is None or not endpoint.enabled:
                continue
            gone = endpoint.gone()
            transaction.endpoints.save(gone)
            transaction.audit_trail.add(
                Event.by(
                    SYSTEM,
                    "webhook.disabled",
                    endpoint.id,
                    id=self.new_id(),
                    at=self.now(),
                    because=gone.disabled_because,
                )
            )


@dataclass(frozen=True)
class ReadOutbox:
    """List what a client has not acknowledged of its own messages, whoever else received them."""

    begin: Transactions

    def __call__(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[Message]:
        """Return one page, in the order in which the messages were written."""
        caller.require(Permission.PREDICT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.outbox.unacknowledged(caller.id, after=after, limit=limit)


@dataclass(frozen=True)
class AcknowledgeMessages:
    """Note that a client has messages for good, so that they are not listed again."""

    begin: Transactions
    now: Clock

    def __call__(self, caller: Caller, message_ids: Sequence[str]) -> int:
        """Return how many were new; ids that name no message of the caller's change nothing.

        Raises
        ------
        InvalidRequest
            If there are too many ids or one cannot be an id.
        """
        caller.require(Permission.PREDICT)
        faults = [
            FieldFault(f"/ids/{place}", "is not the id of a message")
            for place, given in enumerate(message_ids)
            if not is_id(given)
        ]
        if len(message_ids) > MOST_ACKNOWLEDGED:
            faults = [FieldFault("/ids", f"has more than {MOST_ACKNOWLEDGED} ids; send them apart")]
        if faults:
            raise InvalidRequest("These messages cannot be acknowledged.", faults)
        with self.begin() as transaction:
            new = transaction.outbox.acknowledge(caller.id, message_ids, self.now())
            transaction.commit()
        return new
