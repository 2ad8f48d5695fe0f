"""The drift detector: its false-alarm bounds, its delay."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.guarantees.drift import STAKES, drift_statistic, usable_stakes


def alarm_times(right, alarm, target=0.9):
    """Return the number of audits until the alarm in each row, 0 where none comes."""
    stakes = usable_stakes(target)
    factors = np.where(right[..., None], 1 - stakes * (1 - target) / target, 1 + stakes)
    capital, times = np.zeros((len(right), len(stakes))), np.zeros(len(right), dtype=int)
    for i in range(right.shape[1]):
        capital = (capital + 1) * factors[:, i]
        times[(times == 0) & (capital.mean(axis=1) >= alarm)] = i + 1
    return times


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95])
def test_the_statistic_gains_one_an_audit_on_average_at_the_target(target):
    # Over all outcomes of eight audits with their probabilities: E M_n = n.
    n = 8
    expected = np.zeros(n)
    for outcome in product([0, 1], repeat=n):
        chance = np.prod(np.where(outcome, target, 1 - target))
        expected += chance * drift_statistic(outcome, target)
    np.testing.assert_allclose(expected, np.arange(1, n + 1))


def test_above_the_target_the_statistic_gains_less():
    n, expected = 6, 0.0
    for outcome in product([0, 1], repeat=n):
        chance = np.prod(np.where(outcome, 0.85, 0.15))
        expected += chance * drift_statistic(outcome, 0.8)[-1]
    assert expected < n


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_second_readings_of_a_part_keep_the_expectation_however_many_errors_are_missed(rate):
    # Three outcomes: no error seen, one found by the auditor, one missed and read again.
    target, n = 0.8, 5
    for missed in (0.0, 0.5, 1.0):
        found, again = (1 - target) * (1 - missed), (1 - target) * missed * rate
        chances, expected = np.array([1 - found - again, found, again]), 0.0
        for outcome in product([0, 1, 2], repeat=n):
            kinds = np.array(outcome)
            path = drift_statistic(
                kinds == 0, target, stands_for=np.where(kinds == 2, 1 / rate, 1.0)
            )
            expected += np.prod(chances[kinds]) * path[-1]
        assert expected == pytest.approx(n)


@given(st.lists(st.booleans(), max_size=40))
def test_with_every_agreement_read_again_nothing_changes(right):
    plain = drift_statistic(right, 0.9)
    assert (drift_statistic(right, 0.9, stands_for=np.ones(len(right))) == plain).all()


def test_stakes_never_ruin():
    assert usable_stakes(0.95).tolist() == list(STAKES)
    low = usable_stakes(0.5)
    assert low.max() == pytest.approx(0.95)
    assert (1 - low * (1 - 0.5) / 0.5 > 0).all()


def test_thousands_of_wrong_audits_stay_finite():
    statistic = drift_statistic(np.zeros(2000), 0.9)
    assert np.isfinite(statistic).all()
    assert (np.diff(statistic[:400]) > 0).all()
    assert (np.diff(statistic) >= 0).all()


outcomes = st.lists(st.booleans(), min_size=1, max_size=60)


@given(outcomes, st.data())
def test_a_fault_that_is_found_later_only_raises_the_statistic(right, data):
    # So an audit that is not finished may count as right, and the bound of false alarms holds.
    hidden = data.draw(st.lists(st.booleans(), min_size=len(right), max_size=len(right)))
    target = data.draw(st.sampled_from([0.5, 0.9, 0.99]))
    meanwhile = [fine or unread for fine, unread in zip(right, hidden, strict=True)]
    assert np.all(drift_statistic(meanwhile, target) <= drift_statistic(right, target))


@given(outcomes, st.integers(0, 59))
def test_leaving_out_the_oldest_audits_only_lowers_the_statistic(right, left_out):
    whole = drift_statistic(right, 0.9)
    assert np.all(drift_statistic(right[left_out:], 0.9) <= whole[left_out:])


def test_bad_arguments_are_refused():
    for target in (1.0, 0.0, float("nan")):
        with pytest.raises(ValueError, match="target"):
            drift_statistic([1], target)
    for weights in ([0.5], [1, 1], [np.inf]):
        with pytest.raises(ValueError, match="at least 1"):
            drift_statistic([1], 0.9, stands_for=weights)
    for right in ([2], [[1]]):
        with pytest.raises(ValueError, match="0 or 1"):
            drift_statistic(right, 0.9)


@pytest.mark.slow
def test_false_alarms_stay_within_their_bound():
    rng = np.random.default_rng(0)
    times = alarm_times(rng.random((1000, 400)) < 0.9, 1000)
    assert 0 < np.mean(times > 0) <= 400 / 1000
    good = alarm_times(rng.random((1000, 400)) < 0.92, 1000)
    assert np.mean(good > 0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("accuracy", "median"), [(0.85, 254), (0.8, 106), (0.7, 42)])
def test_drift_is_found_soon_even_after_a_long_good_time(accuracy, median):
    rng = np.random.default_rng(1)
    before = rng.random((300, 1000)) < 0.92
    after = rng.random((300, 1200)) < accuracy
    times = alarm_times(np.concatenate([before, after], axis=1), 5000)
    found = times[times > 1000] - 1000
    assert len(found) > 280
    assert np.median(found) == pytest.approx(median, rel=0.3)
