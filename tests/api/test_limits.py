"""Token buckets: a burst, then a pace; and what the client is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.api.http.callers import Callers, TokenBucket
from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.errors import TooManyRequests


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def told(headers: list[tuple[bytes, bytes]]) -> tuple[int, int]:
    left = re.fullmatch(rb'"key";r=(\d+);t=(\d+)', dict(headers)[b"ratelimit"])
    assert left
    return int(left[1]), int(left[2])


def test_without_a_limit_nothing_is_counted_or_told() -> None:
    bucket = TokenBucket()
    assert bucket.take(None) == bucket.take(0) == []


def test_a_burst_is_allowed_and_then_a_pace() -> None:
    clock = Clock()
    bucket = TokenBucket(clock=clock)
    assert [told(bucket.take(60))[0] for _ in range(60)] == list(range(59, -1, -1))
    with pytest.raises(TooManyRequests, match="60 requests a minute") as error:
        bucket.take(60)
    assert error.value.retry_after_s == pytest.approx(1)
    clock.s += 1
    assert told(bucket.take(60)) == (0, 60)


def test_each_key_has_its_own_limit() -> None:
    limits = {"a": 2, "b": 1}
    callers = Callers(lambda name: Caller(name, "", Role.CLIENT, per_minute=limits[name]))
    callers.find("b").take()
    callers.find("a").take()
    headers = callers.find("a").take()
    assert dict(headers)[b"ratelimit-policy"] == b'"key";q=2;w=60'
    with pytest.raises(TooManyRequests):
        callers.find("a").take()


@given(st.integers(1, 500), st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_no_key_ever_gets_more_than_a_burst_and_its_pace(limit: int, pauses: list[float]) -> None:
    clock = Clock()
    bucket, count = TokenBucket(clock=clock), 0
    for pause in pauses:
        clock.s += pause
        for _ in range(5):
            try:
                bucket.take(limit)
            except TooManyRequests:
                break
            count += 1
    assert count <= limit + clock.s * limit / 60 + 1e-6


@given(st.integers(1, 1_000))
def test_whoever_waits_as_told_is_served(limit: int) -> None:
    clock = Clock()
    bucket = TokenBucket(clock=clock)
    for _ in range(limit):
        bucket.take(limit)
    with pytest.raises(TooManyRequests) as error:
        bucket.take(limit)
    clock.s += error.value.retry_after_s + 1e-9
    bucket.take(limit)
