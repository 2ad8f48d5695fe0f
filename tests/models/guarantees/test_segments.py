"""Risk over segments: brute force for tiny cases."""

from functools import cache
from itertools import product
from math import prod

import pytest

from benchmarks.papers.rival_thresholds import certify_clean
from setwise.models.guarantees.paths.spending import risk_spent

TARGET = 0.5
"""Low, so that a handful of audits can prove something."""

LEVELS = (0.9, 0.9, 0.6)
"""Confidences of the audits of one segment, in the order in which they come."""


def of_look(risk: float, look: int) -> float:
    return risk_spent(risk, look) - risk_spent(risk, look - 1)


@cache
def proves(
    outcomes: tuple[int, ...], risk: float, confidences: tuple[float, ...] = LEVELS
) -> tuple[float, ...]:
    """Return the thresholds that the outcomes prove."""
    confidence = (confidences * len(outcomes))[: len(outcomes)]
    found = certify_clean([0.9] * 20 + [0.6] * 10, confidence, outcomes, target=TARGET, risk=risk)
    return found.proved if found.certified else ()


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
        if any(proves(outcomes[:n], of_look(share, place)) for place, n in tries):
            wrong += chance(outcomes, right)
    # Segments are independent, so the least favourable case is exact.
    violations = 1.0 - (1.0 - wrong) ** n_segments
    assert 0.0 < violations <= risk
    assert wrong <= share
