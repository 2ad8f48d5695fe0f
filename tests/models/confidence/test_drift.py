"""The drift detector: its false-alarm bounds, its delay, its state."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.confidence.drift import STAKES, DriftDetector


def alarm_times(detector, right):
    """Return the number of audits until the alarm in each row, 0 where none comes."""
    stakes = detector.stakes
    factors = np.where(
        right[..., None], 1 - stakes * (1 - detector.target) / detector.target, 1 + stakes
    )
    capital, times = np.zeros((len(right), len(stakes))), np.zeros(len(right), dtype=int)
    for i in range(right.shape[1]):
        capital = (capital + 1) * factors[:, i]
        times[(times == 0) & (capital.mean(axis=1) >= detector.run_length)] = i + 1
    return times


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95])
def test_the_statistic_gains_one_an_audit_on_average_at_the_target(target):
    # Over all outcomes of eight audits with their probabilities: E M_n = n.
    detector, n = DriftDetector(target), 8
    expected = np.zeros(n)
    for outcome in product([0, 1], repeat=n):
        chance = np.prod(np.where(outcome, target, 1 - target))
        expected += chance * detector.run(detector.start(), outcome)[1]
    np.testing.assert_allclose(expected, np.arange(1, n + 1))


def test_above_the_target_the_statistic_gains_less():
    detector, n = DriftDetector(0.8), 6
    expected = 0.0
    for outcome in product([0, 1], repeat=n):
        chance = np.prod(np.where(outcome, 0.85, 0.15))
        expected += chance * detector.run(detector.start(), outcome)[1][-1]
    assert expected < n


def test_audit_by_audit_is_the_same_as_all_at_once():
    detector = DriftDetector(0.9)
    right = np.random.default_rng(0).random(50) < 0.85
    state = detector.start()
    for outcome in right:
        state = detector.step(state, right=bool(outcome))
    together, statistic = detector.run(detector.start(), right)
    assert state == together
    assert detector.statistic(state) == pytest.approx(statistic[-1])
    assert state.n_audits == 50
    parts = detector.run(detector.run(detector.start(), right[:20])[0], right[20:])[0]
    assert parts == together


def test_a_stored_state_goes_on_where_it_stood():
    detector = DriftDetector(0.95)
    state, _ = detector.run(detector.start(), [1, 0, 1, 1, 0])
    assert detector.restore(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize(
    "stored",
    [{}, {"capital": [1.0], "n_audits": 3}, {"capital": [float("nan")] * 6, "n_audits": 3}, [1]],
)
def test_a_damaged_state_is_refused(stored):
    with pytest.raises(ValueError, match="state"):
        DriftDetector(0.9).restore(stored)


def test_stakes_never_ruin():
    assert DriftDetector(0.95).stakes.tolist() == list(STAKES)
    low = DriftDetector(0.5)
    assert low.stakes.max() == pytest.approx(0.95)
    assert (1 - low.stakes * (1 - 0.5) / 0.5 > 0).all()


def test_thousands_of_wrong_audits_stay_finite_and_alarm():
    detector = DriftDetector(0.9)
    state, statistic = detector.run(detector.start(), np.zeros(400))
    assert detector.statistic(state) >= detector.run_length
    assert np.isfinite(state.capital).all()
    assert (np.diff(statistic) > 0).all()


outcomes = st.lists(st.booleans(), min_size=1, max_size=60)


@given(outcomes, st.data())
def test_a_fault_that_is_found_later_only_raises_the_statistic(right, data):
    # So an audit that is not finished may count as right, and the bound of false alarms holds.
    hidden = data.draw(st.lists(st.booleans(), min_size=len(right), max_size=len(right)))
    detector = DriftDetector(data.draw(st.sampled_from([0.5, 0.9, 0.99])))
    meanwhile = [fine or unread for fine, unread in zip(right, hidden, strict=True)]
    before = detector.run(detector.start(), meanwhile)[1]
    assert np.all(before <= detector.run(detector.start(), right)[1])


@given(outcomes, st.integers(0, 59))
def test_leaving_out_the_oldest_audits_only_lowers_the_statistic(right, left_out):
    detector = DriftDetector(0.9)
    whole = detector.run(detector.start(), right)[1]
    assert np.all(detector.run(detector.start(), right[left_out:])[1] <= whole[left_out:])


def test_bad_arguments_are_refused():
    for arguments in ((1.0,), (0.9, 1.0), (float("nan"),)):
        with pytest.raises(ValueError, match=r"target|run_length"):
            DriftDetector(*arguments)
    with pytest.raises(ValueError, match="0 or 1"):
        DriftDetector(0.9).run(DriftDetector(0.9).start(), [2])
    with pytest.raises(ValueError, match="another target"):
        DriftDetector(0.9).run(DriftDetector(0.3).start(), [1])


@pytest.mark.slow
def test_false_alarms_stay_within_their_bound():
    rng = np.random.default_rng(0)
    detector = DriftDetector(0.9, run_length=1000)
    times = alarm_times(detector, rng.random((1000, 400)) < 0.9)
    assert 0 < np.mean(times > 0) <= detector.false_alarm_bound(400)
    good = alarm_times(detector, rng.random((1000, 400)) < 0.92)
    assert np.mean(good > 0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("accuracy", "median"), [(0.85, 254), (0.8, 106), (0.7, 42)])
def test_drift_is_found_soon_even_after_a_long_good_time(accuracy, median):
    rng = np.random.default_rng(1)
    detector = DriftDetector(0.9, run_length=5000)
    before = rng.random((300, 1000)) < 0.92
    after = rng.random((300, 1200)) < accuracy
    times = alarm_times(detector, np.concatenate([before, after], axis=1))
    found = times[times > 1000] - 1000
    assert len(found) > 280
    assert np.median(found) == pytest.approx(median, rel=0.3)
