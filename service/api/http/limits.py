"""Limits on each key's requests, by token buckets (as in RFC 2697).

A bucket holds as many tokens as its key may send in a minute, and fills at that rate. Each process
counts separately, so a key that uses three processes may send three times as much. A shared count
would cost a round trip on every request.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from setwise.service.domain.errors import TooManyRequests

WINDOW_S = 60

POLICY_HEADER, LIMIT_HEADER = b"ratelimit-policy", b"ratelimit"
"""The limit and what is left of it (draft-ietf-httpapi-ratelimit-headers-10)."""

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


@dataclass
class _Bucket:
    tokens: float
    at: float


class KeyLimits:
    """Counts the requests of each key."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}  # of valid keys only, so their number is small
        self._lock = Lock()

    def take(self, key_id: str, limit: int | None) -> Headers:
        """Count one request and return the headers with its limit.

        Raises `KeyLimitReached` if the key has to wait.

        ``limit``: Requests a minute that this key may send; None or 0 for any number.
        """
        if not limit:
            return []
        with self._lock:
            now = self._clock()
            bucket = self._buckets.get(key_id)
            if bucket is None:
                bucket = self._buckets[key_id] = _Bucket(limit, now)
            pace = limit / WINDOW_S
            bucket.tokens = min(limit, bucket.tokens + (now - bucket.at) * pace)
            bucket.at = now
            if bucket.tokens < 1:
                wait = (1 - bucket.tokens) / pace
                raise KeyLimitReached(limit, wait)
            bucket.tokens -= 1
            left = bucket.tokens
        return _headers(limit, int(left), math.ceil((limit - left) / pace))


def _headers(limit: int, remaining: int, reset_s: int) -> Headers:
    return [
        (POLICY_HEADER, b'"key";q=%d;w=%d' % (limit, WINDOW_S)),
        (LIMIT_HEADER, b'"key";r=%d;t=%d' % (remaining, reset_s)),
    ]
