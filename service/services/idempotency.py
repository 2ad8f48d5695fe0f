"""Repeat the response of a request whose idempotency key was used before."""

import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from setwise.service.domain.errors import InvalidRequest, RequestUnfinished
from setwise.service.domain.text import text_faults
from setwise.service.services.predictions import LONGEST_IDEMPOTENCY_KEY
from setwise.service.stores.database import Clock
from setwise.service.stores.idempotency import PRESENT, Digest, KeyedRequest
from setwise.service.stores.transaction import Transactions

KEPT = timedelta(days=1)
"""How long a response is repeated; then its key is free."""

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
        return KeyedRequest(owner_id, self.hashed(key), digest, self.now())

    def hashed(self, key: str) -> str:
        """Return what is stored of a caller's key, which may name a document or a patient.

        Raises `InvalidRequest` for a key that cannot be stored.
        """
        faults = text_faults(key, "/header/Idempotency-Key", longest=LONGEST_IDEMPOTENCY_KEY)
        if faults:
            raise InvalidRequest("The Idempotency-Key cannot be stored.", faults)
        return hmac.digest(self.secret, key.encode(), hashlib.sha256).hex()

    def made_before(self, request: KeyedRequest) -> tuple[str, Callable[[], bytes]] | None:
        """Return the digest of the first request with the key, and its response.

        Reading the response raises `RequestUnfinished` if none is stored. The result is None if
        the key is new or free again.
        """
        with self.begin(read_only=True) as transaction:
            stored = transaction.idempotency.get(request.owner_id, request.key)
        if stored is None:
            return None
        sealed = stored.response

        def response() -> bytes:
            if sealed is None:
                raise RequestUnfinished(
                    "The first request with this Idempotency-Key has taken effect, but its "
                    "response is not stored; read what it made before you make it again."
                )
            nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            return AESGCM(self.secret).decrypt(nonce, body, _place(request))

        return stored.request_digest, response

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
