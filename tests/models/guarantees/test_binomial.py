"""Exact binomial tests, bounds and sample sizes, against enumeration."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.guarantees.binomial import (
    lower_bound,
    required_successes,
    upper_bound,
    upper_tail,
)

counts = st.integers(0, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
rates = st.floats(0.01, 0.99)


def tail(k, n, p):
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@given(counts, rates)
def test_the_tail_is_the_sum_of_its_terms(count, p):
    assert upper_tail(*count, p) == pytest.approx(tail(*count, p), abs=1e-12)


@given(counts, st.floats(0.01, 0.4))
def test_at_the_bounds_the_outcome_has_exactly_the_risk(count, risk):
    k, n = count
    low, high = float(lower_bound(k, n, risk)), float(upper_bound(k, n, risk))
    assert 0 <= low <= high <= 1 or n == 0
    if k > 0:
        assert tail(k, n, low) == pytest.approx(risk, abs=1e-9)
    else:
        assert low == 0
    if k < n:
        assert 1 - tail(k + 1, n, high) == pytest.approx(risk, abs=1e-9)
    else:
        assert high == 1


@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 10, 40])
def test_bounds_cover_the_rate_at_their_confidence(n, p):
    k = np.arange(n + 1)
    mass = np.array([comb(n, i) * p**i * (1 - p) ** (n - i) for i in k])
    assert mass[lower_bound(k, n, 0.1) > p].sum() <= 0.1 + 1e-12
    assert mass[upper_bound(k, n, 0.1) < p].sum() <= 0.1 + 1e-12


@given(st.integers(0, 60), rates, st.floats(0.01, 0.4))
def test_required_successes_are_the_least_that_reject(n, p, risk):
    k = int(required_successes(n, p, risk))
    assert k == n + 1 or tail(k, n, p) <= risk + 1e-12
    assert k == 0 or tail(k - 1, n, p) > risk - 1e-12
