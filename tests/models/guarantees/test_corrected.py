"""Bounds of an accuracy that count what auditors overlook."""

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.guarantees.corrected import ErrorSums, bound_accuracies

RISK = 0.05


def counted(
    n: int, found: NDArray[np.int64], missed: NDArray[np.int64], reread: NDArray[np.int64]
) -> ErrorSums:
    """Return the sums of samples of n audits with so many errors and second readings."""
    agreed = n - found
    rate = np.where(reread > 0, reread / np.maximum(agreed, 1), 1.0)
    largest = np.where(reread > 0, 1.0 / rate, np.inf)
    every = np.full(len(found), float(n))
    return ErrorSums(every, every, found + missed / rate, found + missed / rate**2, largest)


def test_with_everything_read_again_the_bounds_are_those_of_clopper_and_pearson() -> None:
    wrong = np.arange(0, 21)
    ones = np.ones(21)
    sums = ErrorSums(20 * ones, 20 * ones, wrong, wrong, ones)
    value, low, high = bound_accuracies(sums, RISK)
    assert value == pytest.approx(1 - wrong / 20)
    assert low == pytest.approx(1 - upper_bound(wrong, 20, RISK))
    assert high == pytest.approx(1 - lower_bound(wrong, 20, RISK))


def test_the_unit_of_the_weights_does_not_matter() -> None:
    one = bound_accuracies(ErrorSums(100, 300, 9, 20, 4), RISK)
    other = bound_accuracies(ErrorSums(700, 300 * 49, 63, 20 * 49, 28), RISK)
    assert np.array(one) == pytest.approx(np.array(other))


@pytest.mark.parametrize("overlooked", [0.02, 0.3, 0.99])
@pytest.mark.parametrize(("n", "rate"), [(40, 0.5), (400, 0.1), (400, 0.3), (2000, 0.05)])
def test_bounds_are_wrong_no_more_often_than_their_risk(
    n: int, rate: float, overlooked: float
) -> None:
    random = np.random.default_rng(31)
    runs, error = 4000, 0.08
    wrong = random.binomial(n, error, runs)
    unseen = random.binomial(wrong, overlooked)
    missed = random.binomial(unseen, rate)
    reread = missed + random.binomial(n - wrong, rate)
    _, low, high = bound_accuracies(counted(n, wrong - unseen, missed, reread), RISK)
    assert np.mean(low > 1 - error) <= RISK + 0.01
    assert np.mean(high < 1 - error) <= RISK + 0.01


def test_without_the_correction_the_bound_lies_above_the_truth_almost_always() -> None:
    random = np.random.default_rng(32)
    wrong = random.binomial(2000, 0.08, 1000)
    found = wrong - random.binomial(wrong, 0.3)
    assert np.mean(1 - upper_bound(found, 2000, RISK) > 0.92) > 0.7


def test_without_audits_nothing_is_known() -> None:
    value, low, high = bound_accuracies(ErrorSums(0, 0, 0, 0, 0), RISK)
    assert np.isnan(value).all()
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])
