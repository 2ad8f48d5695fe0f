"""Noise from overlapping answers: exact on expected counts, fooled as foretold, never silent."""

import numpy as np
import pytest

from setwise.models.guarantees.agreement import (
    compare_with_overlap,
    estimate_from_pairs,
    estimate_from_strata,
)
from setwise.models.guarantees.noise import NoiseFault
from setwise.models.guarantees.proportions import weighted_proportion
from tests.models.bounds import share_error


def expected(accuracy, alpha, beta, n):
    """Return the expected counts of both, one and none agreeing."""
    agree, other = 1 - alpha, beta
    of_right = np.array([agree**2, 2 * agree * alpha, alpha**2])
    of_wrong = np.array([other**2, 2 * other * (1 - other), (1 - other) ** 2])
    return n * (accuracy * of_right + (1 - accuracy) * of_wrong)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_strata_give_back_the_rates_of_expected_counts(alpha, beta):
    counts = [expected(p, alpha, beta, 10_000) for p in (0.95, 0.8, 0.6, 0.3)]
    found = estimate_from_strata(counts)
    assert found.alpha == pytest.approx(alpha, abs=1e-3)
    assert found.beta == pytest.approx(beta, abs=1e-3)
    assert found.accuracy == pytest.approx(np.mean([0.95, 0.8, 0.6, 0.3]), abs=2e-3)
    assert found.misfit_p_value > 0.9


def test_pairs_give_back_alpha_if_beta_is_zero_and_overstate_it_otherwise():
    assert estimate_from_pairs(*expected(0.8, 0.2, 0.0, 1000)).alpha == pytest.approx(0.2)
    assert estimate_from_pairs(*expected(0.8, 0.2, 0.2, 1000)).alpha > 0.22


def test_standard_errors_are_the_spread_of_the_estimates():
    rng = np.random.default_rng(0)
    accuracies = (0.95, 0.85, 0.7, 0.5, 0.3)
    strata, pairs = [], []
    for _ in range(80):
        counts = [rng.multinomial(400, expected(p, 0.2, 0.05, 1.0)) for p in accuracies]
        strata.append(estimate_from_strata(counts))
        pairs.append(estimate_from_pairs(*rng.multinomial(2000, expected(0.8, 0.2, 0.0, 1.0))))
    for found in (strata, pairs):
        spread = np.std([one.alpha for one in found])
        assert np.mean([one.alpha_error for one in found]) == pytest.approx(
            spread, rel=4 / np.sqrt(2 * 80)
        )
    misfits = np.mean([one.misfit_p_value < 0.1 for one in strata])
    assert misfits < 0.1 + 3 * share_error(0.1, 80)


def test_shared_difficulty_makes_reviewers_look_more_exact_than_they_are():
    # Half of the right predictions are easy (alpha .05), half hard (.35): .2 on the whole.
    counts = (expected(0.8, 0.05, 0.0, 5000) + expected(0.8, 0.35, 0.0, 5000)).round().astype(int)
    overlap = estimate_from_pairs(*counts)
    assert overlap.alpha < 0.18
    gold = weighted_proportion(np.arange(2000) < 400)
    assert [one.fault for one in compare_with_overlap("g", gold, overlap)] == [
        NoiseFault.OVERLAP_CONFLICT
    ]


def test_overlap_that_agrees_with_gold_labels_raises_nothing():
    overlap = estimate_from_pairs(*expected(0.8, 0.2, 0.0, 1000).astype(int))
    assert compare_with_overlap("g", weighted_proportion(np.arange(500) < 100), overlap) == ()


def test_answers_that_no_two_rates_explain_are_found():
    counts = [expected(p, alpha, 0.0, 3000) for p, alpha in ((0.9, 0.4), (0.9, 0.05), (0.5, 0.2))]
    found = estimate_from_strata(np.round(counts))
    gold = weighted_proportion(np.arange(20) < 4)
    assert NoiseFault.OVERLAP_MISFIT in {
        one.fault for one in compare_with_overlap("g", gold, found)
    }


def test_too_little_overlap_gives_no_estimate():
    assert estimate_from_pairs(0, 3, 5) is None
    assert estimate_from_strata([[5, 3, 2], [0, 0, 0]]) is None
    with pytest.raises(ValueError, match="three columns"):
        estimate_from_strata([[1, 2]])
    with pytest.raises(ValueError, match="negative"):
        estimate_from_pairs(-1, 0, 0)
