"""Repeat the response of a request whose idempotency key was used before."""

import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from setwise.service.domain.errors import InvalidRequest, RequestUnfinished
from setwise.service.domain.text import text_faults
from setwise.service.services.predictions import LONGEST_IDEMPOTENCY_KEY
from setwise.service.stores.database import Clock
from setwise.service.stores.idempotency import (
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

_NONCE_BYTES = 12


@dataclass(frozen=True)
class Idempotency:
    """Requests with idempotency keys and their responses."""

    begin: Transactions
    now: Clock
    secret: bytes = field(repr=False)
    """Hashes keys, and seals responses: some show a secret that is stored nowhere else."""

    def open(self, owner_id: str, key: str, digest: Digest) -> KeyedRequest:
        """Return a request to serve; raises `InvalidRequest` for a key that cannot be stored."""
        return KeyedRequest(owner_id, self.hashed(key), digest, self.now)

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

    def lost(self, first: StoredRequest) -> bool:
        """Return whether the response of a request will never be stored."""
        return first.response is None and self.now() - first.created_at >= ANSWERED_WITHIN

    def response(self, request: KeyedRequest, first: StoredRequest) -> bytes:
        """Return the stored response; raises `RequestUnfinished` without one."""
        if self.lost(first):
            raise RequestUnfinished(
                "The first request with this Idempotency-Key has taken effect, but its "
                "response is not stored; read what it made before you make it again."
            )
        if first.response is None:
            raise RequestUnfinished(IN_PROGRESS)
        nonce, body = first.response[:_NONCE_BYTES], first.response[_NONCE_BYTES:]
        return AESGCM(self.secret).decrypt(nonce, body, _place(request))

    @contextmanager
    def claiming(self, request: KeyedRequest) -> Iterator[None]:
        """Commit the key with the first change that is committed inside the block."""
        token = PRESENT.set(request)
        try:
            yield
        finally:
            PRESENT.reset(token)

    def finish(self, request: KeyedRequest, response: bytes) -> None:
        """Store the response of a request."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(self.secret).encrypt(nonce, response, _place(request))
        with self.begin() as transaction:
            if not request.claimed:
                transaction.idempotency.claim(request)
            transaction.idempotency.finish(request, sealed)

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


def _place(request: KeyedRequest) -> bytes:
    return f"{request.owner_id}\0{request.key}".encode()
