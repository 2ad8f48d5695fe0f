"""Webhook endpoints and their deliveries, as administrators see and change them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import (
    DeliveryCancelled,
    DeliveryNotFound,
    InvalidRequest,
    StaleVersion,
    WebhookNotFound,
)
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.webhooks import (
    Attempt,
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    Message,
    MessageType,
    SigningSecret,
)
from setwise.service.services.recording import Recorded
from setwise.service.stores.transaction import Transaction, Transactions

SECRET_GRACE = timedelta(hours=24)
"""How long a replaced secret signs beside the new one."""

_REPLAYED_PER_ROUND = 500


@dataclass(frozen=True)
class _Desk(Recorded):
    """What every change needs."""

    def _load(
        self, transaction: Transaction, endpoint_id: str, expected_version: int | None = None
    ) -> Endpoint:
        endpoint = transaction.endpoints.get(endpoint_id, for_update=True)
        if endpoint is None:
            raise WebhookNotFound(f"No webhook has the id {endpoint_id!r}.")
        if expected_version not in {None, endpoint.version}:
            raise StaleVersion(
                f"The webhook is at version {endpoint.version}, not {expected_version}; "
                "read it again and repeat the change."
            )
        return endpoint


@dataclass(frozen=True)
class _Changing(_Desk):
    """What adding and changing an endpoint share.

    Attributes
    ----------
    allow_private : bool
        Endpoints may lie on private networks, and need not encrypt there.
    """

    allow_private: bool

    def _check(self, change: EndpointChange) -> None:
        faults = list(change.faults(allow_private=self.allow_private))
        if faults:
            first = f"{faults[0].pointer.removeprefix('/')} {faults[0].detail}"
            raise InvalidRequest(f"Nothing can be delivered like this: {first}.", faults)


@dataclass(frozen=True)
class AddWebhook(_Changing):
    """Add an endpoint, which gets every message from now on that it wants.

    Attributes
    ----------
    new_secret : callable
        Makes a random ``whsec_…`` secret.
    """

    new_secret: Callable[[], str]

    def __call__(
        self, caller: Caller, wanted: EndpointChange, *, request_id: str | None = None
    ) -> tuple[Endpoint, str]:
        """Return the endpoint and its secret, which is not shown again."""
        caller.require(Permission.ADMINISTER)
        self._check(wanted)
        secret = self.new_secret()
        blank = Endpoint(
            id=self.new_id(),
            url=wanted.url,
            description="",
            events=(),
            secrets=(SigningSecret(secret),),
            version=0,
            created_at=self.now(),
        )
        endpoint = blank.changed(wanted)
        with self.begin() as transaction:
            transaction.endpoints.add(endpoint)
            self._note(
                transaction, caller, "webhook.added", endpoint.id, request_id, **_shown(endpoint)
            )
            transaction.commit()
        return endpoint, secret


@dataclass(frozen=True)
class ChangeWebhook(_Changing):
    """Replace an endpoint's address, description, filter or state; its secrets stay."""

    def __call__(
        self,
        caller: Caller,
        endpoint_id: str,
        change: EndpointChange,
        expected_version: int | None = None,
        *,
        request_id: str | None = None,
    ) -> Endpoint:
        """Return the endpoint as changed; raises `StaleVersion` when it was changed before.

        Once it is enabled again, what waited for it goes out.
        """
        caller.require(Permission.ADMINISTER)
        self._check(change)
        with self.begin() as transaction:
            endpoint = self._load(transaction, endpoint_id, expected_version).changed(change)
            transaction.endpoints.save(endpoint)
            self._note(
                transaction, caller, "webhook.changed", endpoint.id, request_id, **_shown(endpoint)
            )
            transaction.commit()
        return endpoint


@dataclass(frozen=True)
class DeleteWebhook(_Desk):
    """Delete an endpoint with its secrets; what was on its way is cancelled, the log stays."""

    def __call__(
        self,
        caller: Caller,
        endpoint_id: str,
        expected_version: int | None = None,
        *,
        request_id: str | None = None,
    ) -> None:
        """Delete it."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            endpoint = self._load(transaction, endpoint_id, expected_version)
            cancelled = transaction.deliveries.cancel(endpoint.id, self.now())
            transaction.endpoints.delete(endpoint.id, self.now())
            self._note(
                transaction,
                caller,
                "webhook.deleted",
                endpoint.id,
                request_id,
                url=endpoint.url,
                cancelled=cancelled,
            )
            transaction.commit()


@dataclass(frozen=True)
class RotateSecret(_Desk):
    """Give an endpoint a new secret, while the one before signs beside it for a while."""

    new_secret: Callable[[], str]
    grace: timedelta = SECRET_GRACE

    def __call__(
        self, caller: Caller, endpoint_id: str, *, request_id: str | None = None
    ) -> tuple[Endpoint, str]:
        """Return the endpoint and its new secret, which is not shown again."""
        caller.require(Permission.ADMINISTER)
        secret = self.new_secret()
        with self.begin() as transaction:
            endpoint = self._load(transaction, endpoint_id).rotated(secret, self.now(), self.grace)
            transaction.endpoints.save(endpoint)
            self._note(
                transaction,
                caller,
                "webhook.secret_rotated",
                endpoint.id,
                request_id,
                version=endpoint.version,
            )
            transaction.commit()
        return endpoint, secret


@dataclass(frozen=True)
class TryWebhook(_Desk):
    """Send an endpoint a message that tells of nothing, to see whether it arrives."""

    def __call__(
        self, caller: Caller, endpoint_id: str, *, request_id: str | None = None
    ) -> Delivery:
        """Return the delivery, which the worker is about to make."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            endpoint = self._load(transaction, endpoint_id)
            now = self.now()
            message = Message(
                id=(message_id := self.new_id()),
                type=MessageType.WEBHOOK_TEST,
                client_id=caller.id,
                document_key=message_id,
                data={"webhook_id": endpoint.id},
                created_at=now,
            )
            delivery = Delivery(self.new_id(), message, endpoint.id, due_at=now, created_at=now)
            transaction.outbox.add(message)
            transaction.outbox.mark_routed([message.id], now)  # to no other endpoint
            transaction.outbox.acknowledge(caller.id, [message.id], now)  # for nobody to pull
            transaction.deliveries.add([delivery])
            self._note(transaction, caller, "webhook.tested", endpoint.id, request_id)
            transaction.commit()
        return delivery


@dataclass(frozen=True)
class GetWebhook:
    """Read one endpoint."""

    begin: Transactions

    def __call__(self, caller: Caller, endpoint_id: str) -> Endpoint:
        """Return it; raises `WebhookNotFound`."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            endpoint = transaction.endpoints.get(endpoint_id)
        if endpoint is None:
            raise WebhookNotFound(f"No webhook has the id {endpoint_id!r}.")
        return endpoint


@dataclass(frozen=True)
class ListWebhooks:
    """List every endpoint, oldest first."""

    begin: Transactions

    def __call__(self, caller: Caller) -> list[Endpoint]:
        """Return them."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.endpoints.all()


@dataclass(frozen=True)
class ListDeliveries:
    """List deliveries, newest first."""

    begin: Transactions

    def __call__(
        self,
        caller: Caller,
        *,
        state: DeliveryState | None = None,
        endpoint_id: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Delivery]:
        """Return one page of the deliveries in ``state`` to one endpoint, or to all."""
        caller.require(Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.deliveries.page(
                state=state, endpoint_id=endpoint_id, after=after, limit=limit
            )


@dataclass(frozen=True)
class GetDelivery:
    """Read one delivery and its log."""

    begin: Transactions

    def __call__(self, caller: Caller, delivery_id: str) -> tuple[Delivery, list[Attempt]]:
        """Return the delivery and every attempt, oldest first; raises `DeliveryNotFound`."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            delivery = transaction.deliveries.get(delivery_id)
            if delivery is None:
                raise DeliveryNotFound(f"No delivery has the id {delivery_id!r}.")
            return delivery, transaction.deliveries.attempts(delivery.id)


@dataclass(frozen=True)
class ReplayDelivery(_Desk):
    """Send a message again, whether it arrived, was given up or waits for its next attempt."""

    def __call__(
        self, caller: Caller, delivery_id: str, *, request_id: str | None = None
    ) -> Delivery:
        """Return the delivery, due at once; raises `DeliveryCancelled` if its endpoint is gone."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            delivery = transaction.deliveries.get(delivery_id, for_update=True)
            if delivery is None:
                raise DeliveryNotFound(f"No delivery has the id {delivery_id!r}.")
            if transaction.endpoints.get(delivery.endpoint_id) is None:
                raise DeliveryCancelled("The webhook was deleted; add it again to send to it.")
            replayed = delivery.replayed(self.now())
            transaction.deliveries.save(replayed, token=delivery.token)
            self._note(
                transaction,
                caller,
                "delivery.replayed",
                delivery.id,
                request_id,
                state=delivery.state.value,
            )
            transaction.commit()
        return replayed


@dataclass(frozen=True)
class ReplayDead(_Desk):
    """Send again everything that was given up for an endpoint."""

    def __call__(self, caller: Caller, endpoint_id: str, *, request_id: str | None = None) -> int:
        """Return how many deliveries are due again."""
        caller.require(Permission.ADMINISTER)
        total = 0
        with self.begin() as transaction:
            endpoint = self._load(transaction, endpoint_id)
            while dead := transaction.deliveries.dead(endpoint.id, _REPLAYED_PER_ROUND):
                for delivery in dead:
                    transaction.deliveries.save(delivery.replayed(self.now()), token=delivery.token)
                total += len(dead)
            self._note(
                transaction, caller, "webhook.replayed", endpoint.id, request_id, deliveries=total
            )
            transaction.commit()
        return total


def _shown(endpoint: Endpoint) -> dict[str, object]:
    return {
        "url": endpoint.url,
        "events": [kind.value for kind in endpoint.events],
        "enabled": endpoint.enabled,
        "version": endpoint.version,
    }
