"""Rows of unequal worth."""

import numpy as np
import pytest

from setwise.models.calibration.sampling import effective_rows, inclusion_weights


def test_weights_undo_inclusion_and_are_capped():
    rng = np.random.default_rng(0)
    confidence = rng.random(200_000)
    probability = np.where(confidence > 0.8, 0.2, 1.0)
    reviewed = rng.random(200_000) < probability
    weight = inclusion_weights(probability[reviewed])
    assert np.average(confidence[reviewed], weights=weight) == pytest.approx(0.5, abs=0.005)
    assert inclusion_weights([0.001]).tolist() == [10.0]


def test_effective_rows_shrink_with_noise_and_with_unequal_weights():
    assert effective_rows(np.zeros(10), np.zeros(10)) == 10
    assert effective_rows(np.full(10, 0.3), np.full(10, 0.2)) == pytest.approx(2.5)
    assert effective_rows(np.zeros(10), np.zeros(10), np.full(10, 7.0)) == pytest.approx(10)
    assert effective_rows(np.zeros(2), np.zeros(2), [1.0, 3.0]) == pytest.approx(1.6)


def test_bad_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        inclusion_weights([0.0])
