"""Retests of a certificate: as the drift detector says, and only ever upwards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.guarantees.drift import drift_statistic
from setwise.models.guarantees.retest import RUN_LENGTH, retested_threshold

AUDITS = st.lists(st.tuples(st.sampled_from([0.5, 0.7, 0.8, 0.9, 1.0]), st.booleans()), max_size=80)


@settings(deadline=None)
@given(AUDITS, st.sampled_from([5.0, 50.0]))
def test_the_lowest_threshold_without_an_alarm_of_its_own_detector_stays(audits, run_length):
    proved, target = [0.9, 0.8, 0.6], 0.8
    confidence = np.array([c for c, _ in audits])
    right = np.array([good for _, good in audits])
    quiet = [
        threshold
        for threshold in proved
        if not (
            drift_statistic(right[confidence >= threshold], target).max(initial=0.0) >= run_length
        )
    ]
    found = retested_threshold(proved, confidence, right, target, run_length=run_length)
    assert found == (min(quiet) if quiet else None)


@settings(deadline=None)
@given(AUDITS, st.integers(0, 80))
def test_more_audits_never_bring_a_threshold_back(audits, first):
    proved = [0.9, 0.8, 0.6]
    confidence, right = [c for c, _ in audits], [good for _, good in audits]
    early = retested_threshold(proved, confidence[:first], right[:first], 0.8, run_length=5.0)
    late = retested_threshold(proved, confidence, right, 0.8, run_length=5.0)
    assert (late or np.inf) >= (early or np.inf)


def test_a_missed_error_weighs_as_much_as_those_it_stands_for():
    confidence, right = np.full(300, 0.9), np.arange(300) % 15 > 0
    alone = retested_threshold([0.8], confidence, right, 0.9)
    assert alone == 0.8
    weights = np.where(right, 1.0, 5.0)
    assert retested_threshold([0.8], confidence, right, 0.9, stands_for=weights) is None


def test_a_drop_to_two_points_below_is_found_in_a_fraction_of_the_breakers_time():
    rng, delays = np.random.default_rng(4), []
    for _ in range(20):
        right = np.append(rng.random(200) < 0.92, rng.random(800) < 0.86)
        path = drift_statistic(right, 0.9)
        delays.append([int((path >= alarm).argmax()) - 200 for alarm in (RUN_LENGTH, 5000.0)])
    mine, breaker = np.median(delays, axis=0)
    assert 20 < mine < 0.6 * breaker


def test_audits_need_a_confidence_each():
    with pytest.raises(ValueError, match="as many confidences"):
        retested_threshold([0.8], [0.9, 0.9], [1], 0.9)


def test_years_of_wrong_audits_stay_finite():
    assert retested_threshold([0.8], np.full(3000, 0.9), np.zeros(3000), 0.9) is None
