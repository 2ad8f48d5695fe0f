"""Requests that carry an idempotency key, each stored in the transaction of its effect."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sqlalchemy import delete, insert, literal, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.errors import RequestUnfinished
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.database import Clock
from setwise.service.stores.tables import idempotent_requests

ERASED = b"erased"
"""What stands for a response about a document that was erased; a sealed one is longer."""

IN_PROGRESS = "A request with this Idempotency-Key is in progress; send it again in a moment."


class Digest(Protocol):
    """A running hash of a request; `hmac` makes them."""

    def update(self, content: bytes, /) -> None:
        """Add what was read next."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of what has been read so far."""
        ...


@dataclass(frozen=True)
class StoredRequest:
    """A request that was made, and its sealed response; None while it is unfinished."""

    request_digest: str
    response: bytes | None
    """`ERASED` if it was about a document that was erased since."""
    created_at: datetime
    """When its effect was committed."""


@dataclass
class KeyedRequest:
    """A request in progress that must take effect once."""

    owner_id: str
    key: str
    digest: Digest
    """Of the method, the address and the body, which has been read when the effect is committed."""
    now: Clock
    claimed: bool = field(default=False)
    """Whether the key was committed together with an effect."""
    seal: Callable[..., bytes] | None = field(default=None)
    """Writes the sealed response from what a service shows once."""
    response: bytes | None = field(default=None)
    """The sealed response, to be committed together with the effect."""
    answered: bool = field(default=False)
    """Whether it was."""


PRESENT: ContextVar[KeyedRequest | None] = ContextVar("keyed_request", default=None)
"""The request that the current thread or task serves, if it carries a key.

A context variable, so that no service has to pass it on to its transaction.
"""


class IdempotencyStore(Store):
    """Keys of requests, with their responses."""

    def get(self, owner_id: str, key: str) -> StoredRequest | None:
        """Return the request that the owner made with this key, or None."""
        column = idempotent_requests.c
        row = self._connection.execute(
            select(column.request_digest, column.response, column.created_at).where(
                column.owner_id == owner_id, column.key == key
            )
        ).one_or_none()
        return None if row is None else StoredRequest(*row)

    def claim(self, request: KeyedRequest) -> None:
        """Store a key; raises `RequestUnfinished` if a concurrent request has stored it."""
        try:
            self._connection.execute(
                insert(idempotent_requests),
                {
                    "owner_id": request.owner_id,
                    "key": request.key,
                    "request_digest": request.digest.hexdigest(),
                    "response": request.response,
                    "created_at": request.now(),
                },
            )
        except IntegrityError as error:
            raise RequestUnfinished(IN_PROGRESS) from error

    def finish(self, request: KeyedRequest, response: bytes) -> None:
        """Store the response of a request whose key is stored."""
        column = idempotent_requests.c
        self._connection.execute(
            update(idempotent_requests)
            .where(column.owner_id == request.owner_id, column.key == request.key)
            .values(response=response)
        )

    def responses(self, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str, bytes]]:
        """Return stored responses with the owners and keys of their requests, in their order."""
        column = idempotent_requests.c
        query = select(column.owner_id, column.key, column.response).where(
            column.response != ERASED
        )
        if after is not None:
            query = query.where(tuple_(column.owner_id, column.key) > tuple_(*map(literal, after)))
        rows = self._connection.execute(query.order_by(column.owner_id, column.key).limit(limit))
        return [(row.owner_id, row.key, row.response) for row in rows]

    def forget(self, requests: Sequence[tuple[str, str]]) -> None:
        """Delete the responses of requests, given by owner and key."""
        column = idempotent_requests.c
        keyed = tuple_(column.owner_id, column.key).in_(requests)
        self._connection.execute(update(idempotent_requests).where(keyed).values(response=ERASED))

    def purge(self, before: datetime) -> int:
        """Delete requests made before a time; return their number."""
        column = idempotent_requests.c.created_at
        return self._connection.execute(delete(idempotent_requests).where(column < before)).rowcount
