"""The accuracy by now: a line through audits in time."""

import numpy as np
import pytest

from setwise.models.guarantees.thresholds import certify_adjudicated
from setwise.models.guarantees.trend import USUAL_CHANGE, recent_accuracy

TARGET = 0.9


def line(weeks: np.ndarray, errors: np.ndarray, end: float) -> float:
    """Return the end of a least-squares line that one more row draws towards a slope of 0."""
    spread = max(errors.var(), TARGET * (1.0 - TARGET))
    row = [0.0, spread**0.5 / (USUAL_CHANGE * (1.0 - TARGET))]
    design = np.vstack([np.column_stack([np.ones(len(weeks)), weeks - end]), row])
    at_end = np.linalg.lstsq(design, np.append(errors, 0.0), rcond=None)[0][0]
    return float(np.clip(1.0 - at_end, 0.0, 1.0))


def test_above_each_threshold_it_is_the_end_of_a_ridge_line() -> None:
    random = np.random.default_rng(3)
    n, thresholds = 400, np.array([0.9, 0.3, 0.7])
    confidence, weeks = random.random(n), random.random(n) * 30
    errors = (random.random(n) < 0.17 - weeks / 200) * random.choice([1.0, 4.0], n)
    now = recent_accuracy(thresholds, confidence, errors, weeks + 1_000.0, TARGET)
    for threshold, accuracy in zip(thresholds, now, strict=True):
        above = confidence >= threshold
        assert accuracy == pytest.approx(line(weeks[above], errors[above], weeks.max()), abs=1e-9)
    assert recent_accuracy(thresholds, *(np.array([]),) * 3, TARGET).tolist() == [1.0] * 3
    assert recent_accuracy(np.array([1.1]), confidence, errors, weeks, TARGET) == [1.0]


def test_a_fall_that_the_order_shows_is_not_smoothed() -> None:
    weeks = np.repeat(np.arange(20.0), 30)
    errors = np.where(weeks < 14, np.arange(600) % 24 == 0, np.arange(600) % 9 == 0).astype(float)
    sure, threshold = np.full(600, 0.9), np.array([0.5])
    (now,) = recent_accuracy(threshold, sure, errors, weeks, TARGET)
    assert errors.mean() < 1 - TARGET
    assert now < TARGET < line(weeks, errors, weeks.max())
    # The same audits in another order show none.
    turned = np.random.default_rng(1).permutation(errors)
    assert recent_accuracy(threshold, sure, turned, weeks, TARGET)[0] > TARGET


def test_audits_of_one_moment_have_no_trend() -> None:
    errors = (np.arange(50) < 5).astype(float)
    now = recent_accuracy(np.array([0.5]), np.full(50, 0.9), errors, np.full(50, 7.0), TARGET)
    assert now == pytest.approx([0.9])


def test_a_fall_that_all_audits_together_hide_refuses_the_threshold() -> None:
    """The same outcomes in any other order, or without times, prove it."""
    n = 600
    right = np.ones(n, dtype=bool)
    right[-150::4] = False  # the newest fourth is right in three of four cases
    weeks = np.linspace(0.0, 30.0, n)
    shuffled = np.random.default_rng(0).permutation(weeks)
    proofs = [
        certify_adjudicated(
            *([0.95] * 99, [0.95] * n, ~right, np.zeros(n), 1.0, np.zeros(n)),
            target=TARGET,
            risk=0.05,
            weeks=when,
        )
        for when in (weeks, shuffled, None)
    ]
    assert [proof.certified for proof in proofs] == [False, True, True]
    assert proofs[0].reason == "drifting"
    assert proofs[0].steps[-1].recent_accuracy < TARGET
    assert proofs[2].steps[-1].recent_accuracy is None
    with pytest.raises(ValueError, match="as many finite times"):
        certify_adjudicated(
            [0.9], [0.9], [0], [0], 1.0, [0.0], target=TARGET, risk=0.1, weeks=[np.nan]
        )
