"""Repeat the response of a request whose idempotency key was used before."""

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from setwise.service.domain.errors import InvalidRequest, RequestUnfinished
from setwise.service.domain.text import ids_in, text_faults
from setwise.service.services.predictions import LONGEST_IDEMPOTENCY_KEY
from setwise.service.stores.database import WallClock
from setwise.service.stores.idempotency import (
    ERASED,
    IN_PROGRESS,
    PRESENT,
    Digest,
    KeyedRequest,
    StoredRequest,
)
from setwise.service.stores.transaction import Transactions

KEPT = timedelta(days=1)
"""How long a response is repeated; then its key is free."""

ANSWERED_WITHIN = timedelta(minutes=1)
"""A response is stored this soon after its effect, or never: the server has stopped."""

PREDICTIONS_KEPT = timedelta(days=30)
"""How long a prediction's key is known: a queue that stood still may send again after weeks."""

PURGED_AT_ONCE = 5_000
"""Keys purged in one transaction, which bounds how long other writers wait."""

SEARCHED_AT_ONCE = 100
"""Responses that are in memory together."""

_NONCE_BYTES = 12
_REQUEST = b"\0request\0"  # no key begins with NUL

_LOST = (
    "The first request with this Idempotency-Key has taken effect, but its response {}; read what "
    "it made before you make it again."
)
_FORGOTTEN = _LOST.format("held a document or label that was erased")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Idempotency:
    """Requests with idempotency keys and their responses."""

    begin: Transactions
    now: WallClock
    secret: bytes = field(repr=False)
    """Hashes keys and bodies, and seals responses: some show a secret stored nowhere else."""

    def open(self, owner_id: str, key: str, request: bytes) -> KeyedRequest:
        """Return a request to serve; raises `InvalidRequest` for a key that cannot be stored.

        ``request``: Method and address; its body is added to the digest as it is read.
        """
        return KeyedRequest(owner_id, self.hashed(key), self.digest(request), self.now)

    def digest(self, content: bytes) -> Digest:
        """Return a keyed hash of a request, whose body may be too short for a plain one."""
        return hmac.new(self.secret, _REQUEST + content, hashlib.sha256)

    def hashed(self, key: str) -> str:
        """Return what is stored of a caller's key, which may name a document or a patient.

        Raises `InvalidRequest` for a key that cannot be stored.
        """
        faults = text_faults(key, "/header/Idempotency-Key", longest=LONGEST_IDEMPOTENCY_KEY)
        if faults:
            raise InvalidRequest("The Idempotency-Key cannot be stored.", faults)
        return hmac.digest(self.secret, key.encode(), hashlib.sha256).hex()

    def made_before(self, request: KeyedRequest) -> StoredRequest | None:
        """Return the first request with the key; None if the key is new or free again."""
        with self.begin(read_only=True) as transaction:
            return transaction.idempotency.get(request.owner_id, request.key)

    def response(self, request: KeyedRequest, first: StoredRequest) -> bytes:
        """Return the stored response.

        Raises `RequestUnfinished` without one that can be read, or if a document that it is about
        was erased since.
        """
        if first.response is None:
            lost = self.now() - first.created_at >= ANSWERED_WITHIN
            raise RequestUnfinished(_LOST.format("is not stored") if lost else IN_PROGRESS)
        if first.response == ERASED:
            raise RequestUnfinished(_FORGOTTEN)
        response = self._opened(request.owner_id, request.key, first.response)
        if response is None:
            log.error("idempotency.damaged", owner=request.owner_id)
            raise RequestUnfinished(_LOST.format("is damaged in the database"))
        with self.begin(read_only=True) as transaction:
            erased = transaction.texts.any_purged(ids_in(response))
        if erased:
            self._forget([(request.owner_id, request.key)])
            raise RequestUnfinished(_FORGOTTEN)
        return response

    def forget(self, prediction_ids: Collection[str]) -> None:
        """Delete the responses about documents that were erased; their requests stay known."""
        with self.begin(read_only=True) as transaction:
            about = transaction.texts.named_with(prediction_ids)
        self._forget_where(lambda response: not about.isdisjoint(ids_in(response)))

    def forget_labels(self, labels: Iterable[str]) -> None:
        """Delete the responses that name labels which were removed, as `forget` does."""
        named = [json.dumps(label, ensure_ascii=False).encode() for label in labels]
        self._forget_where(lambda response: any(name in response for name in named))

    def _forget_where(self, is_about: Callable[[bytes], bool]) -> None:
        after: tuple[str, str] | None = None
        while True:
            with self.begin(read_only=True) as transaction:
                page = transaction.idempotency.responses(after, SEARCHED_AT_ONCE)
            opened = ((owner, key, self._opened(owner, key, sealed)) for owner, key, sealed in page)
            self._forget([(owner, key) for owner, key, said in opened if said and is_about(said)])
            if len(page) < SEARCHED_AT_ONCE:
                return
            after = page[-1][:2]

    def _forget(self, requests: Sequence[tuple[str, str]]) -> None:
        if requests:
            with self.begin() as transaction:
                transaction.idempotency.forget(requests)

    def _opened(self, owner_id: str, key: str, sealed: bytes) -> bytes | None:
        """Return a response; None if it cannot be read."""
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return AESGCM(self.secret).decrypt(nonce, body, _place(owner_id, key))
        except (InvalidTag, ValueError):  # ValueError: it is too short for a nonce
            return None

    @contextmanager
    def claiming(self, request: KeyedRequest) -> Iterator[None]:
        """Commit the key with the first change that is committed inside the block."""
        token = PRESENT.set(request)
        try:
            yield
        finally:
            PRESENT.reset(token)

    @contextmanager
    def showing(self, write: Callable[..., bytes]) -> Iterator[None]:
        """Store the response with the change inside the block, if the request has a key.

        ``write``: Returns the response from what the change shows (`Transaction.show`).
        """
        request = PRESENT.get()
        if request is not None:
            request.seal = lambda *shown: self._sealed(request, write(*shown))
        yield

    def finish(self, request: KeyedRequest, response: bytes) -> None:
        """Store the response of a request, unless it was stored with its effect."""
        if request.answered:
            return
        with self.begin() as transaction:
            if not request.claimed:
                transaction.idempotency.claim(request)
            transaction.idempotency.finish(request, self._sealed(request, response))

    def _sealed(self, request: KeyedRequest, response: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(self.secret).encrypt(
            nonce, response, _place(request.owner_id, request.key)
        )

    def purge(self) -> int:
        """Delete keys and responses that are no longer needed; return their number."""
        now = self.now()
        with self.begin() as transaction:
            purged = transaction.idempotency.purge(now - KEPT)
        at_once = PURGED_AT_ONCE
        while at_once == PURGED_AT_ONCE:
            with self.begin() as transaction:
                at_once = transaction.predictions.purge_keys(now - PREDICTIONS_KEPT, PURGED_AT_ONCE)
            purged += at_once
        return purged


def _place(owner_id: str, key: str) -> bytes:
    return f"{owner_id}\0{key}".encode()
