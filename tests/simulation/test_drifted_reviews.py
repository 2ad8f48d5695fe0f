"""Recalibration from few reviews of people who err, after a drift and without one."""

import numpy as np
import pytest

from benchmarks.drifted_reviews import errors


@pytest.mark.parametrize("runs", [3, pytest.param(30, marks=pytest.mark.verify)])
@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.0), (0.3, 0.1), (0.1, 0.3)])
def test_told_the_rates_a_fit_follows_a_drift_at_least_as_fast_as_a_plain_one(
    alpha: float, beta: float, runs: int
) -> None:
    items = [errors("logit", alpha, beta, 200, seed) for seed in range(runs)]
    plain, before, now = (np.mean([each[way] for each in items]) for way in items[0])
    assert now < plain
    assert now < 0.75 * before


@pytest.mark.parametrize("runs", [3, pytest.param(30, marks=pytest.mark.verify)])
def test_without_a_drift_original_rows_keep_most_of_their_worth(runs: int) -> None:
    items = [errors("none", 0.2, 0.0, 200, seed) for seed in range(runs)]
    plain, before, now = (np.mean([each[way] for each in items]) for way in items[0])
    assert now < before + 0.01
    assert now < 0.5 * plain
