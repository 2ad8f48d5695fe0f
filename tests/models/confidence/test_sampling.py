"""Rows of unequal worth: weights, thinning, doubly robust accuracy."""

import numpy as np
import pytest

from models.confidence.sampling import (
    effective_rows,
    estimate_accuracy,
    inclusion_weights,
    thin_to_constant,
)


def test_weights_undo_inclusion_and_are_capped():
    rng = np.random.default_rng(0)
    confidence = rng.random(200_000)
    probability = np.where(confidence > 0.8, 0.2, 1.0)
    reviewed = rng.random(200_000) < probability
    weight = inclusion_weights(probability[reviewed])
    assert np.average(confidence[reviewed], weights=weight) == pytest.approx(0.5, abs=0.005)
    assert inclusion_weights([0.001]).tolist() == [10.0]
    assert inclusion_weights([0.001], largest=50).tolist() == [50.0]


def test_effective_rows_shrink_with_noise_and_with_unequal_weights():
    assert effective_rows(np.zeros(10), np.zeros(10)) == 10
    assert effective_rows(np.full(10, 0.3), np.full(10, 0.2)) == pytest.approx(2.5)
    assert effective_rows(np.zeros(10), np.zeros(10), np.full(10, 7.0)) == pytest.approx(10)
    assert effective_rows(np.zeros(2), np.zeros(2), [1.0, 3.0]) == pytest.approx(1.6)


def test_thinned_rows_have_one_probability():
    rng = np.random.default_rng(1)
    probability = rng.choice([0.1, 0.3, 1.0], 300_000)
    reviewed = rng.random(300_000) < probability
    kept = reviewed.copy()
    kept[reviewed] = thin_to_constant(probability[reviewed], rng.random(reviewed.sum()))
    for level in (0.1, 0.3, 1.0):
        assert kept[probability == level].mean() == pytest.approx(0.1, abs=0.004)
    assert thin_to_constant([], []).tolist() == []


@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_the_accuracy_is_unbiased_whatever_the_confidences(bias):
    rng = np.random.default_rng(2)
    found, errors = [], []
    for _ in range(300):
        chance = rng.random(2000)
        right = rng.random(2000) < chance
        probability = np.clip(1.2 - chance, 0.1, 1)
        reviewed = rng.random(2000) < probability
        estimate, error = estimate_accuracy(
            np.clip(chance + bias, 0, 1), reviewed, right, probability
        )
        found.append(estimate)
        errors.append(error)
    assert np.mean(found) == pytest.approx(0.5, abs=4 * np.std(found) / np.sqrt(300))
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.2)


def test_bad_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        inclusion_weights([0.0])
    with pytest.raises(ValueError, match="at least 1"):
        inclusion_weights([0.5], largest=0.5)
    with pytest.raises(ValueError, match="draw"):
        thin_to_constant([0.5], [1.0])
    with pytest.raises(ValueError, match="two predictions"):
        estimate_accuracy([0.5], [1], [1], [0.5])
