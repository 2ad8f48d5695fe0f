"""What is needed from the world outside for messages to other programs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from setwise.service.domain.paging import Page
from setwise.service.domain.webhooks import Attempt, Delivery, DeliveryState, Endpoint, Message


class Outbox(Protocol):
    """Messages to other programs, in the order in which they were written."""

    def add(self, message: Message) -> None: ...

    def add_all(self, messages: Sequence[Message]) -> None:
        """Write messages in this order."""

    def unrouted(self, limit: int) -> list[Message]:
        """List the oldest messages that have no deliveries yet, in order."""

    def mark_routed(self, message_ids: Sequence[str], now: datetime) -> bool:
        """Note that messages have their deliveries; False when one of them had them already.

        Whoever else marks one of them waits until this transaction ends. So who routes the oldest
        messages never makes deliveries of a later one while those of an earlier are not there yet.
        """

    def mark_oldest_routed(self, limit: int, now: datetime) -> int:
        """Note of the oldest messages that nobody wants them; returns how many there were."""

    def unacknowledged(self, client_id: str, *, after: str | None, limit: int) -> Page[Message]:
        """List, oldest first, what a client has not acknowledged."""

    def acknowledge(self, client_id: str, message_ids: Sequence[str], now: datetime) -> int:
        """Note that a client has these of its messages; returns how many were new to it."""


class Endpoints(Protocol):
    """Webhook endpoints that are not deleted."""

    def add(self, endpoint: Endpoint) -> None: ...

    def get(self, endpoint_id: str, *, for_update: bool = False) -> Endpoint | None: ...

    def all(self) -> list[Endpoint]:
        """List oldest first."""

    def save(self, endpoint: Endpoint) -> None:
        """Store a changed endpoint; raises `StaleVersion` unless it is the next version."""

    def delete(self, endpoint_id: str, now: datetime) -> None:
        """Forget the endpoint and its secrets; its deliveries stay for the log."""


class Deliveries(Protocol):
    """Messages on their way to endpoints, and the log of attempts."""

    def add(self, deliveries: Sequence[Delivery]) -> None: ...

    def get(self, delivery_id: str, *, for_update: bool = False) -> Delivery | None: ...

    def due_endpoints(self, now: datetime) -> frozenset[str]:
        """Return, without a lock, the enabled endpoints that `claim` finds something for."""

    def claim(
        self, endpoint_id: str, now: datetime, lease: timedelta, limit: int
    ) -> list[Delivery]:
        """Lease up to ``limit`` due deliveries, at most the first unfinished one of a document."""

    def save(self, delivery: Delivery, *, token: int) -> bool:
        """Store a changed delivery; False when it was claimed, replayed or cancelled since."""

    def cancel(self, endpoint_id: str, now: datetime) -> int:
        """End every pending delivery to an endpoint; returns how many there were."""

    def dead(self, endpoint_id: str, limit: int) -> list[Delivery]:
        """Lock and return the oldest deliveries to an endpoint that were given up."""

    def page(
        self,
        *,
        state: DeliveryState | None,
        endpoint_id: str | None,
        after: str | None,
        limit: int,
    ) -> Page[Delivery]:
        """List newest first."""

    def counts(self) -> Mapping[DeliveryState, int]:
        """Count the pending and the dead ones; those that ended well are too many to count."""

    def log(self, attempts: Sequence[Attempt]) -> None: ...

    def attempts(self, delivery_id: str) -> list[Attempt]:
        """List the attempts of a delivery, oldest first."""
