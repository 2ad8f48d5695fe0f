"""The joint test of errors found and missed: exact against enumeration, valid for every split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from setwise.models.guarantees import joint
from setwise.models.guarantees.joint import (
    Sample,
    Samples,
    fewest_further,
    p_value,
    planned_power,
)

SAMPLES = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.just(n), st.integers(0, min(n, 6)), st.integers(0, min(n, 3)), st.floats(0.05, 0.95)
    ).filter(lambda sample: sample[1] + sample[2] <= sample[0])
)


def outcomes(n):
    """Return all pairs of errors found and misses among n audits."""
    return np.array([(k, j) for k in range(n + 1) for j in range(n + 1 - k)])


def law(n, found, missed, rate):
    """Return the probability of each of `outcomes`."""
    pairs = outcomes(n)
    counts = np.column_stack([pairs, n - pairs.sum(axis=1)])
    cells = [found, rate * missed, 1 - found - rate * missed]
    return stats.multinomial.pmf(counts, n, cells)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("wrong", [0.2, 0.5])
def test_a_true_hypothesis_is_rejected_with_at_most_the_risk_for_every_split(rate, wrong):
    n = 12
    for risk in (0.05, 0.2):
        rejected = np.array(
            [p_value(Sample(n, k, j, rate), wrong, risk) <= risk for k, j in outcomes(n)]
        )
        for share in np.linspace(0, 1, 21):
            for more in (0.0, 0.1):
                total = wrong + more
                chance = law(n, total * (1 - share), total * share, rate)
                assert chance[rejected].sum() <= risk + 1e-12


@settings(max_examples=40, deadline=None)
@given(SAMPLES, st.sampled_from([0.1, 0.3]))
def test_the_p_value_bounds_the_largest_tail_and_is_sharp_at_the_risk(sample, wrong):
    n, found, missed, rate = sample
    pairs = outcomes(n)
    statistic = (
        joint.signed_root(n, pairs[:, 0].astype(float), pairs[:, 1].astype(float), rate, wrong)
        if found + missed / rate < n * wrong
        else None
    )
    if statistic is None:
        assert p_value(Sample(n, found, missed, rate), wrong, 0.1) == 1.0
        return
    here = statistic[(pairs == [found, missed]).all(axis=1)]
    tails = [
        law(n, wrong - share, share, rate)[statistic <= here + 1e-9].sum()
        for share in np.linspace(0, wrong, 60)
    ]
    largest = max(tails)
    for risk in (0.02, 0.1):
        found_p = p_value(Sample(n, found, missed, rate), wrong, risk)
        assert found_p >= largest - 1e-9
        assert found_p <= risk or largest > 0.98 * risk


@settings(max_examples=60, deadline=None)
@given(SAMPLES, st.sampled_from([0.1, 0.3, 0.6]))
def test_the_statistic_rises_in_both_counts(sample, wrong):
    n, found, missed, rate = sample

    def statistic(k, j):
        return float(
            joint.signed_root(n, np.array([float(k)]), np.array([float(j)]), rate, wrong)[0]
        )

    here = statistic(found, missed)
    if found + missed < n:
        assert statistic(found + 1, missed) >= here - 1e-9
        assert statistic(found, missed + 1) >= here - 1e-9


@given(st.integers(1, 300), st.integers(0, 20), st.integers(0, 5), st.sampled_from([0.05, 0.1]))
def test_with_every_agreement_read_again_all_is_binomial(n, found, missed, risk):
    if found + missed > n:
        return
    wrong = found + missed
    assert p_value(Sample(n, found, missed, 1.0), 0.1, risk) == pytest.approx(
        stats.binom.cdf(wrong, n, 0.1)
    )


def test_planned_power_is_close_to_the_power():
    rng = np.random.default_rng(0)
    wrong, rate, risk = 0.05, 0.4, 0.05
    for n in (120, 180, 240):
        cells = [wrong * 0.95, rate * wrong * 0.05]
        drawn = rng.multinomial(n, [*cells, 1 - sum(cells)], 300)[:, :2]
        tests = {(k, j): p_value(Sample(n, k, j, rate), 0.1, risk) for k, j in {*map(tuple, drawn)}}
        power = np.mean([tests[tuple(one)] <= risk for one in drawn])
        assert planned_power(n, wrong, Samples(0, 0, 0, rate), 0.1, risk) == pytest.approx(
            power, abs=0.15
        )


def read_again(n, found):
    """Return earlier audits whose agreements were all read again, one column a row."""
    zeros = np.zeros(len(n), dtype=int)
    return Samples(np.array(n), np.array(found), zeros, np.ones(len(n)))


@pytest.mark.parametrize(("target", "least"), [(0.9, 22), (0.95, 45), (0.98, 114)])
def test_without_an_error_the_least_sample_is_known(target, least):
    blank = read_again([0], [0])
    assert fewest_further(blank, np.zeros(1), 1 - target, 0.1, 0.8).tolist() == [least]
    assert target**least <= 0.1 < target ** (least - 1)


def test_planned_audits_reach_the_power_and_one_fewer_does_not():
    wrong, seen, found = [0.06, 0.03], [12, 0], [2, 0]
    needed = fewest_further(read_again(seen, found), np.array(wrong), 0.1, 0.1, 0.8)
    for n, rate, before, errors in zip(needed, wrong, seen, found, strict=True):
        powers = []
        for further in (n, n - 1):
            counts = np.arange(further + 1)
            proves = stats.binom.cdf(counts + errors, further + before, 0.1) <= 0.1
            powers.append(stats.binom.pmf(counts, further, rate)[proves].sum())
        assert powers[0] >= 0.8
        if n <= 150:
            assert powers[1] < 0.8


def test_no_sample_proves_an_accuracy_that_is_too_low():
    blank = read_again([0, 0], [0, 0])
    assert fewest_further(blank, np.array([0.1, 0.5]), 0.1, 0.1, 0.8).tolist() == [-1, -1]
