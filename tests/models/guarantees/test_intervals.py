"""Every interval of a share contains its estimate and claims no more than its data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from setwise.models.guarantees.corrected import ErrorSums, bound_accuracies
from setwise.models.guarantees.proportions import (
    Proportion,
    WeightSums,
    selected_bounds,
    shrink_proportions,
    weighted_proportion,
)

RISK = 0.05
_ROUNDING = 1e-9

COUNTS = st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def source(hits: int, n: int) -> Proportion:
    return weighted_proportion([1] * hits + [0] * (n - hits))


def contains(low: float, estimate: float, high: float) -> bool:
    return -_ROUNDING <= low <= estimate + _ROUNDING <= high + 2 * _ROUNDING <= 1 + 3 * _ROUNDING


@settings(deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_shrunken_rates_are_inside_and_know_no_more_than_all_sources(counts):
    n = sum(trials for _, trials in counts)
    for shrunk in shrink_proportions([source(*each) for each in counts]):
        assert contains(shrunk.low, shrunk.estimate, shrunk.high)
        assert shrunk.effective <= max(n, 1) + _ROUNDING
        if n and shrunk.estimate in {0.0, 1.0}:
            assert shrunk.high - shrunk.low >= 1.0 - RISK ** (1.0 / n) - _ROUNDING


@pytest.mark.parametrize("others", [[], [(0, 50)], [(0, 400), (1, 30)]])
def test_nothing_found_in_seven_checks_is_not_certainty(others):
    mine, *_ = shrink_proportions([source(*each) for each in [(0, 7), *others]])
    n = 7 + sum(trials for _, trials in others)
    assert mine.low <= mine.estimate <= mine.high
    assert mine.high >= 1.0 - RISK ** (1.0 / n) - _ROUNDING, "if all were checks of one person"


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([1.0, 2.0, 10.0, 100.0])), max_size=40))
def test_weights_make_no_rows(rows):
    found = weighted_proportion([hit for hit, _ in rows], [weight for _, weight in rows])
    assert contains(found.low, found.estimate, found.high)
    assert found.effective <= len(rows) + _ROUNDING


@given(COUNTS, st.sampled_from([1.0, 3.0, 50.0]), st.sampled_from([1.0, 4.0]))
def test_selected_rows_bound_the_share_that_they_stand_for(counts, hit, other):
    hits, n = counts
    sums = (WeightSums.of(np.full(k, w), w) for k, w in ((hits, hit), (n - hits, other)))
    low, high = selected_bounds(*sums, RISK)
    weight = hits * hit + (n - hits) * other
    assert contains(low, hits * hit / weight if n else 0.5, high)


@settings(deadline=None)
@given(
    COUNTS,
    st.integers(0, 5),
    st.sampled_from([0.05, 0.1, 0.5, 1.0]),
    st.sampled_from([1.0, 7.0]),
    st.integers(0, 40),
)
def test_a_corrected_accuracy_is_between_its_bounds(counts, missed, rate, heavy, light):
    """Errors found among n checks of one weight, misses, and right checks of another weight."""
    errors, n = counts
    missed = min(missed, n - errors)
    worth = heavy / rate
    sums = ErrorSums(
        weight=[n * heavy + light],
        squares=[n * heavy**2 + light],
        error=[errors * heavy + missed * worth],
        error_squares=[errors * heavy**2 + missed * worth**2],
        largest=[worth],
    )
    (accuracy,), (low,), (high,) = bound_accuracies(sums, RISK)
    if n + light == 0:
        assert np.isnan(accuracy)
        assert (low, high) == (0.0, 1.0)
    else:
        assert contains(low, accuracy, high)
    if n and not missed and not light and rate == 1.0:
        exact = stats.beta.ppf(RISK, n - errors, errors + 1) if errors < n else 0.0
        assert low == pytest.approx(exact, abs=1e-6)
