"""Calibration reports: unbiased where the papers' buckets are not, with intervals that cover."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from setwise.models.calibration.losses import shifted_target
from setwise.models.evaluation.reliability import draw_reliability
from setwise.models.evaluation.reports import (
    MIN_ROWS,
    CalibrationReport,
    TooFewRows,
    report_calibration,
)
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.labels.isotonic import IsotonicCurve
from tests.models.bounds import share_error


def world(seed, n, *, honest=True, alpha=0.0):
    """Return confidences and answers; dishonest confidences are too high."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(2.2, 0.75, n)
    chance = confidence if honest else expit(0.7 * logit(confidence) - 0.4)
    return confidence, (rng.random(n) < chance) & (rng.random(n) >= alpha)


def truth(*, honest):
    """Return alignment error and sharpness of endless data in ten buckets."""
    confidence, _ = world(1, 400_000)
    chance = confidence if honest else expit(0.7 * logit(confidence) - 0.4)
    bucket = np.minimum((confidence * 10).astype(int), 9)
    n = np.bincount(bucket)
    mean, told = np.bincount(bucket, chance) / n, np.bincount(bucket, confidence) / n
    share = n / n.sum()
    return share @ (mean - told) ** 2, share @ (mean - share @ mean) ** 2


def quick(confidence, agreed, **options):
    return report_calibration(confidence, agreed, n_resamples=1, **options)


def test_the_biased_numbers_are_those_of_the_papers():
    confidence, right = world(0, 700)
    found, scores = quick(confidence, right), score_calibration(confidence, right)
    assert isinstance(found, CalibrationReport)
    assert found.biased_alignment_error == pytest.approx(scores.alignment_error)
    assert found.brier.value == pytest.approx(scores.brier)
    assert found.uncertainty == pytest.approx(scores.uncertainty)
    assert sum(bucket.n for bucket in found.buckets) == 700


@pytest.mark.parametrize(
    ("honest", "alpha", "runs"),
    [
        (True, 0.2, 20),
        *(
            pytest.param(honest, alpha, 150, marks=pytest.mark.verify)
            for honest in (True, False)
            for alpha in (0.0, 0.2)
        ),
    ],
)
def test_debiased_numbers_are_unbiased_and_their_intervals_cover(honest, alpha, runs, monkeypatch):
    monkeypatch.setattr("setwise.models.evaluation.reports._BOOTSTRAPS", 200)
    alignment, sharpness = truth(honest=honest)
    found = [
        quick(*world(10 + seed, 600, honest=honest, alpha=alpha), alpha=alpha)
        for seed in range(runs)
    ]
    for estimates, true in (
        ([one.alignment_error for one in found], alignment),
        ([one.sharpness for one in found], sharpness),
    ):
        values = np.array([one.value for one in estimates])
        assert values.mean() == pytest.approx(true, abs=4 * values.std() / np.sqrt(runs))
        covered = np.mean([one.low <= true <= one.high for one in estimates])
        assert covered > 0.9 - 4 * share_error(0.9, runs)
    if honest:
        assert np.mean([one.biased_alignment_error for one in found]) > 0.0015


def test_noise_is_seen_through():
    confidence, agreed = world(3, 20_000, alpha=0.4)
    _, right = world(3, 20_000)
    clean, noisy = quick(confidence, right), quick(confidence, agreed, alpha=0.4)
    assert noisy.noisy
    assert not clean.noisy
    assert noisy.brier.value == pytest.approx(clean.brier.value, abs=0.01)
    assert noisy.accuracy == pytest.approx(clean.accuracy, abs=0.02)
    assert noisy.sharpness.value == pytest.approx(clean.sharpness.value, abs=0.01)
    assert abs(noisy.alignment_error.value) < 0.001
    ignored = quick(confidence, agreed)
    assert ignored.alignment_error.low > 0.03


def test_weights_equal_repeated_rows_in_value():
    confidence, right = world(4, 500)
    weight = np.random.default_rng(0).integers(1, 4, 500)
    weighted = quick(confidence, right, sample_weight=weight)
    repeated = quick(np.repeat(confidence, weight), np.repeat(right, weight))
    assert weighted.biased_alignment_error == pytest.approx(repeated.biased_alignment_error)
    assert weighted.brier.value == pytest.approx(repeated.brier.value)
    # Weights do not pass for rows: less is known, so more is subtracted.
    assert weighted.alignment_error.value < repeated.alignment_error.value


def test_a_report_of_few_rows_is_withheld():
    confidence, right = world(0, MIN_ROWS - 1)
    assert report_calibration(confidence, right) == TooFewRows(MIN_ROWS - 1)
    assert report_calibration([], []) == TooFewRows(0)


def test_the_curve_is_the_isotonic_regression_and_splits_the_brier_score():
    confidence, right = world(5, 800, honest=False)
    found = draw_reliability(confidence, right, n_resamples=5)
    fitted = IsotonicRegression().fit(confidence, right)
    np.testing.assert_allclose(found.accuracy, fitted.predict(found.confidence), atol=1e-9)
    brier = np.mean((confidence - right) ** 2)
    parts = found.miscalibration - found.discrimination + found.uncertainty
    assert parts == pytest.approx(brier)
    assert found.miscalibration >= 0
    assert found.discrimination >= 0


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_the_band_is_that_of_curves_fitted_one_by_one(alpha):
    confidence, right = world(7, 300, alpha=alpha)
    confidence = confidence.round(2)  # ties
    weight = np.random.default_rng(7).uniform(0.5, 3.0, 300)
    options = {"sample_weight": weight, "n_resamples": 40, "random_state": 9}
    found = draw_reliability(confidence, right, alpha=alpha, **options)
    draw, curves, misses = np.random.default_rng(9), [], []
    for _ in range(40):
        answers = draw.random(300) < (1 - alpha) * confidence
        target = shifted_target(answers, alpha, 0.0)
        curve = IsotonicCurve.fit(confidence, target, weight)
        curves.append(np.clip(curve(found.confidence), 0, 1))
        gain = (target - confidence) ** 2 - (target - curve(confidence)) ** 2
        misses.append(weight @ gain / weight.sum())
    side = (1 - 0.9) / 2
    low, high = np.quantile(curves, [side, 1 - side], axis=0)
    np.testing.assert_array_equal(found.low, low)
    np.testing.assert_array_equal(found.high, high)
    assert found.debiased_miscalibration == found.miscalibration - np.mean(misses)


def test_honest_confidences_stay_inside_the_band_and_others_leave_it():
    honest = draw_reliability(*world(6, 2000))
    low, high = np.array(honest.low), np.array(honest.high)
    inside = (np.array(honest.accuracy) >= low) & (np.array(honest.accuracy) <= high)
    assert inside.mean() > 0.7
    assert honest.p_value > 0.05
    other = draw_reliability(*world(6, 2000, honest=False))
    assert other.p_value == pytest.approx(1 / 201)
    assert np.mean(np.array(other.accuracy) < np.array(other.low)) > 0.5
    assert other.debiased_miscalibration > 0.003


@pytest.mark.parametrize(
    ("alpha", "runs"),
    [(0.3, 20), *(pytest.param(alpha, 150, marks=pytest.mark.verify) for alpha in (0.0, 0.3))],
)
def test_the_p_value_keeps_its_size_with_and_without_noise(alpha, runs):
    rejected = [
        draw_reliability(*world(100 + seed, 400, alpha=alpha), alpha=alpha, n_resamples=60).p_value
        <= 0.1
        for seed in range(runs)
    ]
    assert np.mean(rejected) <= 0.1 + 3 * share_error(0.1, runs)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"confidence": np.full(300, 1.5)}, r"\[0, 1\]"),
        ({"agreed": np.full(300, 2)}, "0 or 1"),
        ({"agreed": [1]}, "one length"),
        ({"sample_weight": np.zeros(300)}, "positive"),
        ({"alpha": 0.6, "beta": 0.4}, "say nothing"),
    ],
)
def test_bad_rows_are_named(change, words):
    good = {"confidence": np.full(300, 0.5), "agreed": np.ones(300)}
    with pytest.raises(ValueError, match=words):
        report_calibration(**{**good, **change})
