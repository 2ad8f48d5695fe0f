"""Plans of audits: weeks until a drop is found."""

from itertools import product

import numpy as np
import pytest

from setwise.models.guarantees import planning
from setwise.models.guarantees.drift import drift_statistic
from setwise.models.guarantees.planning import weeks_to_find

USUAL = {"target": 0.9, "sent_a_week": 500.0, "audit_rate": 0.04}


def test_the_audits_until_an_alarm_are_distributed_as_by_enumeration():
    target, found, run_length = 0.6, 0.5, 12.0
    by_audit = np.zeros(10)  # probability of the first alarm at each audit, over all outcomes
    for outcome in product([0, 1], repeat=10):
        reached = np.flatnonzero(drift_statistic(outcome, target) >= run_length)
        if len(reached):
            by_audit[reached[0]] += np.prod(np.where(outcome, 1 - found, found))
    needed = planning._audits_to_alarm(found, target, run_length, seed=0)
    simulated = [np.mean(needed <= n) for n in range(1, 11)]
    # Four standard errors of a share among 400 runs.
    np.testing.assert_allclose(simulated, by_audit.cumsum(), atol=4 * 0.025)
    assert 0.2 < by_audit.sum() < 0.9


def test_three_times_the_audits_find_a_drop_in_a_third_of_the_weeks():
    seldom = weeks_to_find(0.02, **USUAL)
    often = weeks_to_find(0.02, **{**USUAL, "audit_rate": 0.12})
    assert (often.audits, often.audits_at_most) == (seldom.audits, seldom.audits_at_most)
    assert seldom.weeks == 45
    assert often.weeks == 15
    assert seldom.weeks_at_most > seldom.weeks


def test_large_drops_are_found_sooner_and_missed_errors_delay():
    weeks = [weeks_to_find(drop, **USUAL).weeks for drop in (0.02, 0.05, 0.1, 0.3)]
    assert weeks == sorted(weeks, reverse=True)
    missed = weeks_to_find(0.1, **USUAL, miss_rate=0.3)
    reread = weeks_to_find(0.1, **USUAL, miss_rate=0.3, reread_rate=0.5)
    assert missed.weeks > reread.weeks > weeks[2]


def test_a_drop_that_auditors_overlook_is_never_found():
    hidden = weeks_to_find(0.1, **USUAL, miss_rate=0.9)
    assert (hidden.audits, hidden.weeks, hidden.weeks_at_most) == (None, None, None)


def test_without_audits_there_are_no_weeks():
    idle = weeks_to_find(0.1, target=0.9, sent_a_week=500, audit_rate=0.0)
    assert idle.audits is not None
    assert idle.weeks is None


def test_equal_seeds_give_equal_delays():
    planning._audits_to_alarm.cache_clear()
    first = weeks_to_find(0.05, **USUAL)
    planning._audits_to_alarm.cache_clear()
    assert weeks_to_find(0.05, **USUAL) == first


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"drop": 0.0}, "drop"),
        ({"drop": 0.95}, "drop"),
        ({"target": 1.0}, "target"),
        ({"sent_a_week": -1.0}, "sent_a_week"),
        ({"audit_rate": 1.1}, "audit_rate"),
        ({"reread_rate": float("nan")}, "reread_rate"),
        ({"miss_rate": -0.1}, "miss_rate"),
        ({"run_length": 1.0}, "run_length"),
    ],
)
def test_values_out_of_range_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        weeks_to_find(**{"drop": 0.05, **USUAL, **wrong})
