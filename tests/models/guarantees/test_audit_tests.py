"""Tests of one threshold: which audits count, and how."""

import numpy as np
import pytest
from scipy import stats

from setwise.models.guarantees.audit_tests import AdjudicatedAudits, AdjudicatedTest


def test_audits_count_at_and_above_each_threshold():
    confidence, wrong = np.array([0.9, 0.5, 0.95, 0.1]), np.array([False, True, False, False])
    missed = np.zeros(4, dtype=bool)
    audits = AdjudicatedAudits(confidence, wrong, missed, np.ones(4), np.zeros(4), 1.0)
    test = AdjudicatedTest(np.array([0.9, 0.5]), audits)
    assert test.n_above.tolist() == [2, 3]
    assert test.n_good.tolist() == [2, 2]
    assert test.p_values(np.array([0]), 0.9, 0.1)[0] == pytest.approx(0.81)
    assert test.sample(1).accuracy == pytest.approx(2 / 3)


def adjudicated(rates, draws, otherwise=1.0):
    """Return the test of two thresholds with four audits, all of them misses."""
    confidence = np.array([0.95, 0.7, 0.9, 0.8])
    n = len(confidence)
    nothing, everything = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    audits = AdjudicatedAudits(
        confidence, nothing, everything, np.asarray(rates), np.asarray(draws), otherwise
    )
    return AdjudicatedTest(np.array([0.97, 0.85, 0.6]), audits)


def test_misses_count_up_to_the_least_rate_above_each_threshold():
    test = adjudicated([0.8, 0.2, 0.5, 0.6], [0.7, 0.1, 0.4, 0.15], otherwise=0.3)
    assert test.reread_rate.tolist() == [0.3, 0.5, 0.2]
    assert test.n_above.tolist() == [0, 2, 4]
    # Draws of .4 below .5; of .1 and .15 below .2.
    assert (test.n_above - test.n_good).tolist() == [0, 1, 2]
    assert test.sample(1).accuracy == 0.0


def test_with_every_agreement_read_again_the_test_is_binomial():
    n = 60
    wrong = np.arange(n) < 2
    missed = np.arange(n) == 5
    audits = AdjudicatedAudits(np.full(n, 0.9), wrong, missed, np.ones(n), np.zeros(n), 1.0)
    test = AdjudicatedTest(np.array([0.5]), audits)
    assert test.p_values(np.array([0]), 0.9, 0.1)[0] == pytest.approx(stats.binom.cdf(3, n, 0.1))
    assert test.sample(0).accuracy == pytest.approx(1 - 3 / 60)
    further, if_all_good = test.needed(np.array([0]), np.array([0.97]), 0.9, 0.1, 0.9)
    right = (57 + 20 * 0.97) / (n + 20)
    for needed, rate in ((further, right), (if_all_good, 1.0)):
        powers = [
            stats.binom.sf(stats.binom.isf(0.1, n + more, 0.9) - 57, more, rate)
            for more in (needed[0], needed[0] - 1)
        ]
        assert powers[0] >= 0.9 > powers[1]
