"""Risk over segments: brute force for tiny cases, and the pool that must not be."""

from functools import cache
from itertools import product
from math import comb, prod

import pytest

from benchmarks.papers.rival_thresholds import certify_clean
from setwise.models.guarantees.certificates import risk_of_attempt
from setwise.models.guarantees.segments import most_wrong_in_pool

TARGET = 0.5
"""Low, so that a handful of audits can prove something."""

LEVELS = (0.9, 0.9, 0.6)
"""Confidences of the audits of one segment, in the order in which they come."""


@cache
def proves(
    outcomes: tuple[int, ...], risk: float, confidences: tuple[float, ...] = LEVELS
) -> tuple[float, ...]:
    """Return the thresholds that the outcomes prove."""
    confidence = (confidences * len(outcomes))[: len(outcomes)]
    found = certify_clean([0.9] * 20 + [0.6] * 10, confidence, outcomes, target=TARGET, risk=risk)
    return found.proved if found.certified else ()


def proved(outcomes: tuple[int, ...], risk: float) -> bool:
    """Return whether audits of one confidence prove it; their order does not matter."""
    return bool(proves(tuple(sorted(outcomes)), risk, (0.9,)))


def chance(outcomes: tuple[int, ...], right: float) -> float:
    return prod(right if one else 1.0 - right for one in outcomes)


@pytest.mark.parametrize("right", [0.5, 0.4, 0.1])
@pytest.mark.parametrize("n_segments", [1, 2, 3])
def test_brute_force_no_segment_s_certificate_is_wrong_with_more_than_the_risk(
    n_segments: int, right: float
) -> None:
    """All segments miss the target, each makes two attempts, and any proof is a violation."""
    risk, sizes = 0.9, (3, 6)
    share = risk / n_segments
    wrong = 0.0
    for outcomes in product((0, 1), repeat=sizes[-1]):
        tries = enumerate(sizes, start=1)
        if any(proves(outcomes[:n], risk_of_attempt(share, place)) for place, n in tries):
            wrong += chance(outcomes, right)
    # Segments are independent, so the least favourable case is exact.
    violations = 1.0 - (1.0 - wrong) ** n_segments
    assert 0.0 < violations <= risk
    assert wrong <= share


def test_brute_force_with_a_pool_that_segments_leave_at_their_first_own_attempt() -> None:
    """The pool has both segments, then the second alone; everything misses the target."""
    risk, n = 0.9, 4
    share = risk / 3
    violations = 0.0
    for outcomes in product((0, 1), repeat=2 * n):
        first, second = outcomes[:n], outcomes[n:]
        together = proved(first[:2] + second[:2], risk_of_attempt(share, 1))
        own = proved(first, risk_of_attempt(share, 1))
        remaining = proved(second, risk_of_attempt(share, 2))
        if together or own or remaining:
            violations += chance(outcomes, TARGET)
    assert 0.0 < violations <= risk


def test_a_pool_of_the_segments_that_failed_breaks_the_promise_with_more_than_the_risk() -> None:
    """A good segment proves its own threshold; the bad one goes on under the pool's proof."""
    risk, n, good, bad = 0.3, 6, 0.99, 0.4
    share = risk / 3
    sent_under_target = 0.0
    for k_good, k_bad in product(range(n + 1), repeat=2):
        first = (1,) * k_good + (0,) * (n - k_good)
        second = (1,) * k_bad + (0,) * (n - k_bad)
        if proved(first + second, share) and proved(first, share) and not proved(second, share):
            ways = comb(n, k_good) * comb(n, k_bad)
            sent_under_target += ways * chance(first, good) * chance(second, bad)
    assert (good + bad) / 2 > TARGET  # the pool itself keeps its promise
    assert sent_under_target > risk


def test_a_small_segment_of_a_pool_may_be_wrong_throughout() -> None:
    # 10 % of the pool wrong throughout and the rest right: nine in ten are right.
    assert most_wrong_in_pool(0.9, 0.1) == 1.0
    assert most_wrong_in_pool(0.9, 0.4) == pytest.approx(0.25)
    assert most_wrong_in_pool(0.9, 0.0) == 1.0
