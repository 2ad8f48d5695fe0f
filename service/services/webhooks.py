"""Webhook endpoints, deliveries to them, and the outbox for polling clients.

A courier routes messages, claims deliveries, sends them outside transactions, and records the
responses. If it dies in between, its lease expires and another courier sends the same message
again with the same id.
"""

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.text import Page, check_page, is_id, sentence
from setwise.service.domain.webhooks import (
    GONE,
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    EndpointChange,
    Message,
    MessageType,
    Parcel,
    ReceiverResponse,
    RetryDelays,
    SigningSecret,
    TestData,
    signing_secret,
)
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.predictions import disclose_one
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction

SECRET_GRACE = timedelta(hours=24)
"""How long a replaced secret still signs beside the new one."""

DELIVERY_LEASE = timedelta(seconds=60)
"""Longer than any attempt: `runtime.sender.PATIENCE_S` plus a slow DNS look-up."""

BACKOFF = RetryDelays()

MOST_ACKNOWLEDGED = 1_000
"""Most messages that one call may acknowledge."""

_REPLAYED_PER_ROUND = 500
_ROUTED_PER_TRANSACTION = 200
_DROPPED_PER_TRANSACTION = 1_000
"""Greater, because messages without deliveries cost less. It bounds how long other writers wait."""


def random_secret() -> str:
    """Return a new random signing secret."""
    return signing_secret(secrets.token_bytes(32))


@dataclass(frozen=True)
class Webhooks(Recorded):
    """Endpoints and deliveries, for administrators, clients and couriers."""

    now: LeaseClock
    allow_private: bool
    """Whether endpoints may be on private networks, without encryption."""
    grace: timedelta = SECRET_GRACE
    """How long a replaced secret still signs beside the new one."""
    lease: timedelta = DELIVERY_LEASE
    backoff: RetryDelays = BACKOFF
    new_secret: Callable[[], str] = random_secret
    draw: Callable[[], float] = random.random
    """Returns random numbers in [0, 1), which spread retries."""

    # Endpoints

    def add(self, caller: Caller, change: EndpointChange) -> tuple[Endpoint, str]:
        """Add an endpoint, for messages routed from now on; return it with its secret."""
        caller.require(Permission.ADMINISTER)
        self._check(change)
        secret = self.new_secret()
        blank = Endpoint(
            id=self.new_id(),
            url=change.url,
            description="",
            events=(),
            secrets=(SigningSecret(secret),),
            version=0,
            created_at=self.now(),
        )
        endpoint = blank.changed(change)
        with self.begin() as transaction:
            transaction.endpoints.add(endpoint)
            self._note(transaction, caller, "webhook.added", endpoint.id, **_shown(endpoint))
            transaction.show(endpoint, secret)
        return endpoint, secret

    def change(
        self,
        caller: Caller,
        endpoint_id: str,
        change: EndpointChange,
        expected_version: int | None = None,
    ) -> Endpoint:
        """Replace an endpoint's URL, description, events or state, and return it.

        The secrets stay. Deliveries that waited while it was disabled are sent once it is enabled.

        Raises `StaleVersion` if the endpoint is not at the expected version.
        """
        caller.require(Permission.ADMINISTER)
        self._check(change)
        with self.begin() as transaction:
            endpoint = _load(transaction, endpoint_id, expected_version).changed(change)
            transaction.endpoints.save(endpoint)
            self._note(transaction, caller, "webhook.changed", endpoint.id, **_shown(endpoint))
        return endpoint

    def _check(self, change: EndpointChange) -> None:
        faults = list(change.faults(allow_private=self.allow_private))
        if faults:
            first = f"{faults[0].pointer.removeprefix('/')} {faults[0].detail}"
            raise errors.InvalidRequest(
                sentence(f"Nothing can be delivered like this: {first}"), faults
            )

    def delete(self, caller: Caller, endpoint_id: str, expected_version: int | None = None) -> None:
        """Delete an endpoint and its secrets, and cancel deliveries; keep the log.

        Secrets that somebody planted at a deleted endpoint are deleted too.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            if transaction.endpoints.empty_deleted(endpoint_id):
                self._note(transaction, caller, "webhook.emptied", endpoint_id)
                return
            endpoint = _load(transaction, endpoint_id, expected_version)
            cancelled = transaction.deliveries.cancel(endpoint.id, self.now())
            transaction.endpoints.delete(endpoint.id, self.now())
            self._note(
                transaction,
                caller,
                "webhook.deleted",
                endpoint.id,
                url=endpoint.url,
                cancelled=cancelled,
            )

    def rotate_secret(self, caller: Caller, endpoint_id: str) -> tuple[Endpoint, str]:
        """Return the endpoint and its new secret; the old one also signs for a while."""
        caller.require(Permission.ADMINISTER)
        secret = self.new_secret()
        with self.begin() as transaction:
            endpoint = _load(transaction, endpoint_id).rotated(secret, self.now(), self.grace)
            transaction.endpoints.save(endpoint)
            self._note(
                transaction, caller, "webhook.secret_rotated", endpoint.id, version=endpoint.version
            )
            transaction.show(endpoint, secret)
        return endpoint, secret

    def try_out(self, caller: Caller, endpoint_id: str) -> Delivery:
        """Queue a test message to an endpoint; return its delivery."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            endpoint = _load(transaction, endpoint_id)
            now = self.now()
            message = Message(
                id=(message_id := self.new_id()),
                type=MessageType.WEBHOOK_TEST,
                client_id=caller.id,
                document_key=message_id,
                data=vars(TestData(endpoint.id)),
                created_at=now,
            )
            delivery = Delivery(self.new_id(), message, endpoint.id, due_at=now, created_at=now)
            transaction.outbox.add(message)
            # Neither other endpoints nor a client's outbox should show it.
            transaction.outbox.mark_routed([message.id], now)
            transaction.outbox.acknowledge(caller.id, [message.id], now)
            transaction.deliveries.add([delivery])
            self._note(transaction, caller, "webhook.tested", endpoint.id)
        return delivery

    def get(self, caller: Caller, endpoint_id: str) -> Endpoint:
        """Return an endpoint; raises `WebhookNotFound`."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            endpoint = transaction.endpoints.get(endpoint_id)
        if endpoint is None:
            raise errors.WebhookNotFound(f"No webhook has the id {endpoint_id!r}.")
        return endpoint

    def page(self, caller: Caller) -> list[Endpoint]:
        """Return all endpoints, oldest first."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.endpoints.all()

    # Deliveries

    def deliveries(
        self,
        caller: Caller,
        *,
        state: DeliveryState | None = None,
        endpoint_id: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Delivery]:
        """Return a page of matching deliveries, newest first."""
        caller.require(Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.deliveries.page(
                state=state, endpoint_id=endpoint_id, after=after, limit=limit
            )

    def failing(self, caller: Caller) -> Mapping[str, int]:
        """Return how many messages wait after a failed attempt, by endpoint."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.deliveries.failing()

    def delivery(self, caller: Caller, delivery_id: str) -> tuple[Delivery, list[DeliveryAttempt]]:
        """Return a delivery and its attempts, oldest first.

        Raises `DeliveryNotFound`, and `BlindReviewHeld` if the caller holds a blind review of the
        document.
        """
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            delivery = transaction.deliveries.get(delivery_id)
            if delivery is None:
                raise errors.DeliveryNotFound(f"No delivery has the id {delivery_id!r}.")
            attempts = transaction.deliveries.attempts(delivery.id)
        about = delivery.message.data.get("prediction_id")
        if isinstance(about, str):
            disclose_one(self.begin, self.now, caller, about)
        return delivery, attempts

    def replay(self, caller: Caller, delivery_id: str) -> Delivery:
        """Send a message again, whatever its delivery's state; return the delivery.

        Raises `DeliveryNotFound` if the delivery does not exist; `DeliveryCancelled` if its
        endpoint was deleted.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            delivery = transaction.deliveries.get(delivery_id, for_update=True)
            if delivery is None:
                raise errors.DeliveryNotFound(f"No delivery has the id {delivery_id!r}.")
            if transaction.endpoints.get(delivery.endpoint_id) is None:
                raise errors.DeliveryCancelled(
                    "The webhook was deleted; add it again to send to it."
                )
            replayed = delivery.replayed(self.now())
            transaction.deliveries.save(delivery, replayed)
            self._note(
                transaction, caller, "delivery.replayed", delivery.id, state=delivery.state.value
            )
        return replayed

    def replay_dead(self, caller: Caller, endpoint_id: str) -> int:
        """Send an endpoint's dead deliveries again; return their number."""
        caller.require(Permission.ADMINISTER)
        total = 0
        with self.begin() as transaction:
            endpoint = _load(transaction, endpoint_id)
            while dead := transaction.deliveries.dead(endpoint.id, _REPLAYED_PER_ROUND):
                now = self.now()
                transaction.deliveries.save_all([(one, one.replayed(now)) for one in dead])
                total += len(dead)
            self._note(transaction, caller, "webhook.replayed", endpoint.id, deliveries=total)
        return total

    # The outbox of clients that poll

    def outbox(self, caller: Caller, *, after: str | None = None, limit: int = 50) -> Page[Message]:
        """Return a page of the client's unacknowledged messages, oldest first."""
        caller.require(Permission.PREDICT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.outbox.unacknowledged(caller.id, after=after, limit=limit)

    def acknowledge(self, caller: Caller, message_ids: Sequence[str]) -> int:
        """Acknowledge messages, which are not listed again; return how many are new.

        Ids of other clients' messages and unknown ids change nothing.

        Raises `InvalidRequest` if there are too many ids, or one is malformed.
        """
        caller.require(Permission.PREDICT)
        faults = [
            errors.FieldFault(f"/ids/{place}", "is not the id of a message")
            for place, message_id in enumerate(message_ids)
            if not is_id(message_id)
        ]
        if len(message_ids) > MOST_ACKNOWLEDGED:
            faults = [
                errors.FieldFault("/ids", f"has more than {MOST_ACKNOWLEDGED} ids; send them apart")
            ]
        if faults:
            raise errors.InvalidRequest("These messages cannot be acknowledged.", faults)
        with self.begin() as transaction:
            return transaction.outbox.acknowledge(caller.id, message_ids, self.now())

    # For couriers

    def route(self) -> int:
        """Create deliveries of new messages to the endpoints that want them.

        An endpoint receives messages that are routed after it was added. While it is disabled, its
        deliveries wait. Returns the number of routed messages.
        """
        total = 0
        while True:
            # Read in a separate transaction, to keep the writing one short.
            with self.begin(read_only=True) as transaction:
                has_endpoints = bool(transaction.endpoints.all())
                messages = transaction.outbox.unrouted(
                    _ROUTED_PER_TRANSACTION if has_endpoints else 1
                )
            if not messages:
                return total
            if has_endpoints:
                total += self._route(messages)
                more = len(messages) == _ROUTED_PER_TRANSACTION
            else:
                total += (dropped := self._route_to_none())
                more = dropped == _DROPPED_PER_TRANSACTION
            # Leave new messages to the next call: on a busy service, the loop would never end.
            if not more:
                return total

    def _route(self, messages: Sequence[Message]) -> int:
        with self.begin() as transaction:
            now = self.now()
            if not transaction.outbox.mark_routed([message.id for message in messages], now):
                transaction.roll_back()
                return 0
            # Read after marking: otherwise a new endpoint could miss messages written after it.
            endpoints = transaction.endpoints.all()
            transaction.deliveries.add(
                [
                    Delivery(self.new_id(), message, endpoint.id, due_at=now, created_at=now)
                    for message in messages
                    for endpoint in endpoints
                    if endpoint.wants(message.type)
                ]
            )
        return len(messages)

    def _route_to_none(self) -> int:
        with self.begin() as transaction:
            routed = transaction.outbox.mark_oldest_routed(_DROPPED_PER_TRANSACTION, self.now())
            if transaction.endpoints.all():  # added since, and wants the messages
                transaction.roll_back()
                return 0
        return routed

    def claim(self, room: Mapping[str, int], *, otherwise: int) -> list[Parcel]:
        """Lease and return due deliveries.

        ``room``: Most deliveries to claim, by endpoint.
        ``otherwise``: The same for each endpoint that ``room`` does not name.
        """
        # Couriers ask every second. Reading first does not block writers.
        with self.begin(read_only=True) as transaction:
            due = transaction.deliveries.due_endpoints(self.now())
            able = (endpoint for endpoint in transaction.endpoints.all() if endpoint.enabled)
            due &= {endpoint.id for endpoint in able}
        limits = {endpoint_id: room.get(endpoint_id, otherwise) for endpoint_id in due}
        if not any(limits.values()):
            return []
        with self.begin() as transaction:
            now = self.now()
            endpoints = (e for e in transaction.endpoints.all() if e.enabled and limits.get(e.id))
            return [
                Parcel(delivery, endpoint)
                for endpoint in endpoints
                for delivery in transaction.deliveries.claim(
                    endpoint.id, now, self.lease, limits[endpoint.id]
                )
            ]

    def record(
        self, answered: Sequence[tuple[Delivery, ReceiverResponse | None]]
    ) -> list[Delivery]:
        """Log attempts, and finish each delivery or schedule its next attempt.

        A delivery without a response was not sent: it can be claimed again at once.

        Returns the stored deliveries, without those that another courier has claimed since.
        """
        attempts = [(delivery, answer) for delivery, answer in answered if answer is not None]
        with self.begin() as transaction:
            self._disable_gone(transaction, attempts)
            now = self.now()
            stored = transaction.deliveries.save_all(
                [
                    (
                        delivery,
                        delivery.returned()
                        if answer is None
                        else delivery.answered(answer, now, self.backoff, self.draw()),
                    )
                    for delivery, answer in answered
                ]
            )
            transaction.deliveries.log(
                [
                    DeliveryAttempt(self.new_id(), delivery.id, delivery.attempt, answer)
                    for delivery, answer in attempts
                ]
            )
        return stored

    def _disable_gone(
        self, transaction: Transaction, answered: Sequence[tuple[Delivery, ReceiverResponse]]
    ) -> None:
        for endpoint_id in sorted({d.endpoint_id for d, a in answered if a.status == GONE}):
            endpoint = transaction.endpoints.get(endpoint_id, for_update=True)
            if endpoint is None or not endpoint.enabled:
                continue
            gone = endpoint.gone()
            transaction.endpoints.save(gone)
            self._note(
                transaction,
                SYSTEM,
                "webhook.disabled",
                endpoint.id,
                because=gone.disabled_because,
            )


def _load(
    transaction: Transaction, endpoint_id: str, expected_version: int | None = None
) -> Endpoint:
    endpoint = transaction.endpoints.get(endpoint_id, for_update=True)
    if endpoint is None:
        raise errors.WebhookNotFound(f"No webhook has the id {endpoint_id!r}.")
    if expected_version not in {None, endpoint.version}:
        raise errors.StaleVersion(
            f"The webhook is at version {endpoint.version}, not {expected_version}; "
            "read it again and repeat the change."
        )
    return endpoint


def _shown(endpoint: Endpoint) -> dict[str, object]:
    return {
        "url": endpoint.url,
        "events": [kind.value for kind in endpoint.events],
        "enabled": endpoint.enabled,
        "version": endpoint.version,
    }
