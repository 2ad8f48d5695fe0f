"""Whether one calibrator is better than another, by more than chance."""

import numpy as np
import pytest
from scipy.stats import binomtest

from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.paired import compare_confidences


def test_the_gain_is_the_difference_of_brier_scores() -> None:
    draw = np.random.default_rng(0)
    present, proposed, weight = draw.random((3, 500))
    right = draw.random(500) < present
    comparison = compare_confidences(present, proposed, right, sample_weight=weight + 0.1)
    brier = [np.average((c - right) ** 2, weights=weight + 0.1) for c in (present, proposed)]
    assert comparison.gain == pytest.approx(brier[0] - brier[1])
    assert comparison.gain < 0
    assert comparison.p_value > 0.99


def test_without_noise_and_weights_it_is_the_test_of_a_mean() -> None:
    draw = np.random.default_rng(1)
    present, proposed = draw.random((2, 400))
    right = draw.random(400) < 0.5
    comparison = compare_confidences(present, proposed, right)
    change = (present - right) ** 2 - (proposed - right) ** 2
    assert comparison.standard_error == pytest.approx(change.std() / 20)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_calibrators_that_are_equally_good_rarely_differ(alpha: float) -> None:
    wrongly = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        true = draw.uniform(0.2, 0.8, 300)
        error = draw.choice([-0.1, 0.1], 300)
        right = draw.random(300) < true
        mask = right & (draw.random(300) >= alpha)
        comparison = compare_confidences(true + error, true - error, mask, alpha=alpha)
        wrongly += comparison.p_value < 0.05
    assert binomtest(wrongly, 200, 0.05, alternative="greater").pvalue > 0.001


def test_a_better_one_is_found_out_through_noise() -> None:
    draw = np.random.default_rng(2)
    true = draw.uniform(0.1, 0.9, 2_000)
    right = draw.random(2_000) < true
    mask = right & (draw.random(2_000) >= 0.4)
    assert compare_confidences(np.full(2_000, 0.9), true, mask, alpha=0.4).p_value < 1e-6


def test_equal_confidences_are_not_better() -> None:
    comparison = compare_confidences([0.5] * 9, [0.5] * 9, [1] * 9)
    assert (comparison.gain, comparison.p_value, comparison.n) == (0.0, 1.0, 9)


def test_automation_reaches_its_target_with_weights_and_noise() -> None:
    draw = np.random.default_rng(3)
    confidence = draw.random(50_000)
    right = draw.random(50_000) < confidence
    clean = automation_at(0.9, confidence, right)
    # The mean of [t, 1] is 0.9 at t = 0.8.
    assert clean.threshold == pytest.approx(0.8, abs=0.02)
    assert clean.coverage == pytest.approx(0.2, abs=0.02)
    mask = right & (draw.random(50_000) >= 0.3)
    noisy = automation_at(0.9, confidence, mask, alpha=0.3)
    assert noisy.threshold == pytest.approx(0.8, abs=0.04)
    at = automation_at(0.9, confidence, right, sample_weight=np.where(confidence > 0.5, 3, 1))
    assert at.threshold == clean.threshold
    assert at.coverage == pytest.approx(clean.coverage * 1.5, rel=0.01)


def test_a_target_that_no_threshold_reaches_sends_nothing() -> None:
    at = automation_at(0.9, [0.9] * 50, [0, 1] * 25)
    assert (at.threshold, at.coverage, at.accuracy) == (None, 0.0, None)
    assert automation_at(0.9, [0.9] * 5, [1] * 5).threshold is None, "too few to tell"
