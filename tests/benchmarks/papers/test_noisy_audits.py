"""Tests of noisy audits: exact laws, validity whatever the assignment."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.noisy_audits import (
    BettingTest,
    MixtureTest,
    binomial_sum_tail,
    certify_noisy,
)
from benchmarks.papers.rival_thresholds import certify_clean
from setwise.models.guarantees.noise import NoiseRates

pytestmark = pytest.mark.verify

GROUPS = [NoiseRates(0.1, 0.0), NoiseRates(0.3, 0.05), NoiseRates(0.5, 0.02)]


def test_the_tail_of_a_sum_of_binomials_equals_enumeration():
    trials, rates = [3, 2, 4], [0.2, 0.7, 0.95]
    law = np.zeros(10)
    for answers in product([0, 1], repeat=9):
        chance = np.repeat(rates, trials)
        law[sum(answers)] += np.prod(np.where(answers, chance, 1 - chance))
    for k in range(11):
        assert binomial_sum_tail(k, trials, rates) == pytest.approx(law[k:].sum(), abs=1e-12)


def test_the_tail_stays_exact_for_thousands_of_trials():
    split = binomial_sum_tail(4550, [2000, 1500, 1500], [0.9, 0.9, 0.9])
    assert split == pytest.approx(stats.binom.sf(4549, 5000, 0.9), rel=1e-9)


def audits(rng, n, accuracy, group):
    right = rng.random(n) < accuracy
    alpha = np.array([rate.alpha for rate in GROUPS])[group]
    beta = np.array([rate.beta for rate in GROUPS])[group]
    return np.where(right, rng.random(n) >= alpha, rng.random(n) < beta)


def p_values(kind, seed, accuracy_of_group, runs=300, n=400):
    """Return p-values at the target .9 where experts get documents of another accuracy."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(runs):
        group = rng.integers(0, 3, n)
        agreed = audits(rng, n, np.asarray(accuracy_of_group)[group], group)
        test = kind(np.array([0.5]), np.full(n, 0.7), agreed, group, GROUPS)
        out.append(test.p_value(0, 0.9))
    return np.array(out)


@pytest.mark.parametrize("kind", [MixtureTest, BettingTest])
def test_random_assignment_keeps_the_size_and_gives_power(kind):
    null = np.mean(p_values(kind, 0, [0.9] * 3) <= 0.1)
    assert null <= 0.1 + 3 * np.sqrt(0.09 / 300)
    assert np.mean(p_values(kind, 1, [0.99] * 3) <= 0.1) > 0.5


def test_only_betting_keeps_its_size_when_experts_get_the_easy_documents():
    easy_to_experts = [0.99, 0.9, 0.81]  # .9 together
    betting = np.mean(p_values(BettingTest, 2, easy_to_experts, n=1000) <= 0.1)
    mixture = np.mean(p_values(MixtureTest, 2, easy_to_experts, n=1000) <= 0.1)
    assert betting <= 0.1 + 3 * np.sqrt(0.09 / 300) < mixture


def bet(agreed, mean):
    """Return the p-value of answers without errors."""
    n = len(agreed)
    exact = [NoiseRates(0.0, 0.0)]
    test = BettingTest(np.array([0.5]), np.full(n, 0.7), agreed, np.zeros(n, dtype=int), exact)
    return test.p_value(0, mean)


def test_the_capital_of_a_bettor_keeps_its_expectation():
    # E of the capital is 1 at the null mean: enumerate all outcomes of four bets.
    mean, n = 0.7, 4
    least = []
    for outcome in product([0.0, 1.0], repeat=n):
        chance = np.prod(np.where(outcome, mean, 1 - mean))
        least.append((chance, bet(np.array(outcome) == 1, mean)))
    for risk in (0.05, 0.2, 0.5, 0.9):
        assert sum(chance for chance, p in least if p <= risk) <= risk


def test_a_bettor_who_only_sees_right_sets_gains_slowly():
    assert bet(np.ones(30, dtype=bool), 0.9) == pytest.approx(0.34, abs=0.005)
    assert bet(np.array([False, True]), 0.9) == 1.0


def test_betting_needs_an_accuracy_that_could_be_missed():
    with pytest.raises(ValueError, match="above the least possible"):
        bet(np.ones(1, dtype=bool), 0.0)


def test_without_noise_the_threshold_is_that_of_clean_audits():
    rng = np.random.default_rng(1)
    predicted, confidence = rng.beta(2.2, 0.75, 3000), rng.beta(2.2, 0.75, 1500)
    right = rng.random(1500) < confidence
    found = certify_noisy(
        predicted,
        confidence,
        right,
        np.zeros(1500, int),
        [NoiseRates(0.0, 0.0)],
        random_assignment=True,
        target=0.9,
        risk=0.1,
    )
    clean = certify_clean(predicted, confidence, right, target=0.9, risk=0.1)
    assert clean.certified
    assert found == clean.threshold
