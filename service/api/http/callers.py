"""Who calls, found by a key, with the limit on the key's requests (a token bucket, RFC 2697).

A bucket holds as many tokens as its key may send in a minute, and fills at that rate. Each process
counts separately, so a key that uses three processes may send three times as much. A shared count
would cost a round trip on every request.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import TooManyRequests

MOST_CACHED_KEYS = 10_000

KEY_CACHE_S = 3.0
"""How long a process remembers the holder of a key: a revoked key works at most that long."""

WINDOW_S = 60

POLICY_HEADER, LIMIT_HEADER = b"ratelimit-policy", b"ratelimit"
"""The limit and what is left of it (draft-ietf-httpapi-ratelimit-headers-10)."""

RATE_HEADERS = "rate_headers"
"""Key of the rate-limit headers in a request's state."""

Headers = list[tuple[bytes, bytes]]


class KeyLimitReached(TooManyRequests):
    """The key has to wait, with the headers that say so.

    ``limit``: Requests a minute.
    ``wait_s``: Seconds until the key may send the next one.
    """

    def __init__(self, limit: int, wait_s: float) -> None:
        super().__init__(
            f"This key may send {limit} requests a minute; wait {math.ceil(wait_s)} seconds.",
            retry_after_s=wait_s,
        )
        self.headers = _headers(limit, 0, math.ceil(wait_s + (limit - 1) / limit * WINDOW_S))


class TokenBucket:
    """Counts the requests of one key; full at first."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens, self._filled_at = math.inf, 0.0
        self._lock = Lock()

    def take(self, limit: int | None) -> Headers:
        """Count one request and return the headers with its limit.

        Raises `KeyLimitReached` if the key has to wait.

        ``limit``: Requests a minute that the key may send; None or 0 for any number.
        """
        if not limit:
            return []
        pace = limit / WINDOW_S
        with self._lock:
            now = self._clock()
            tokens = min(limit, self._tokens + (now - self._filled_at) * pace)
            refused = tokens < 1
            self._tokens, self._filled_at = tokens if refused else tokens - 1, now
        if refused:
            raise KeyLimitReached(limit, (1 - tokens) / pace)
        left = tokens - 1
        return _headers(limit, int(left), math.ceil((limit - left) / pace))


@dataclass(slots=True)
class KeyHolder:
    """The holder of a key, whose requests are counted, and how long this is remembered."""

    caller: Caller
    bucket: TokenBucket
    ask_from: float
    trusted_until: float

    def take(self) -> Headers:
        """Count a request; see `TokenBucket.take`."""
        return self.bucket.take(self.caller.per_minute)


class Callers:
    """Finds the holder of a key and caches the answer briefly.

    A revoked key can therefore work for up to ``trusted_s`` longer in a process that has just seen
    it. Refusals are not cached, so a new key works at once.

    ``authenticate``: Finds the holder of a secret, or raises `Unauthenticated`.
    ``trusted_s``: How long an answer is cached, in seconds.
    """

    def __init__(
        self,
        authenticate: Callable[[str], Caller],
        *,
        trusted_s: float = KEY_CACHE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticate = authenticate
        self._trusted_s = trusted_s
        self._clock = clock
        self._holders: OrderedDict[bytes, KeyHolder] = OrderedDict()
        self._buckets: dict[str, TokenBucket] = {}  # of valid keys only, so their number is small
        self._lock = Lock()

    def known(self, secret: str) -> KeyHolder | None:
        """Return the cached holder of a secret, or None.

        After half of the time, one request gets None and asks the database, while the others keep
        using the cache. Otherwise, all of them would ask at once when the time is over.
        """
        holder = self._holders.get(_fingerprint(secret))
        if holder is None:
            return None
        now = self._clock()
        if holder.ask_from <= now < holder.trusted_until:
            holder.ask_from = holder.trusted_until
            return None
        return holder if now < holder.trusted_until else None

    def find(self, secret: str) -> KeyHolder:
        """Return the holder, asking the database; raises `Unauthenticated`."""
        asked_at = self._clock()
        caller = self._authenticate(secret)
        with self._lock:
            bucket = self._buckets.setdefault(caller.id, TokenBucket(clock=self._clock))
            holder = self._holders[_fingerprint(secret)] = KeyHolder(
                caller, bucket, asked_at + self._trusted_s / 2, asked_at + self._trusted_s
            )
            while len(self._holders) > MOST_CACHED_KEYS:
                self._holders.popitem(last=False)
        return holder


def _fingerprint(secret: str) -> bytes:
    # Hashed, so that a core dump of the cache reveals no keys.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _headers(limit: int, remaining: int, reset_s: int) -> Headers:
    return [
        (POLICY_HEADER, b'"key";q=%d;w=%d' % (limit, WINDOW_S)),
        (LIMIT_HEADER, b'"key";r=%d;t=%d' % (remaining, reset_s)),
    ]
