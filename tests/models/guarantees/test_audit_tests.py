"""Tests of one threshold: which audits count, and how."""

import numpy as np
import pytest
from scipy import stats

from setwise.models.guarantees.audit_tests import (
    AdjudicatedAudits,
    AdjudicatedTest,
    Budget,
    Epochs,
    ThinStratum,
)
from setwise.models.guarantees.joint import Sample, p_value
from setwise.models.guarantees.strata import ThinSample, two_strata_p_value


def test_audits_count_at_and_above_each_threshold():
    confidence, wrong = np.array([0.9, 0.5, 0.95, 0.1]), np.array([False, True, False, False])
    missed = np.zeros(4, dtype=bool)
    audits = AdjudicatedAudits(confidence, wrong, missed, np.ones(4), np.zeros(4), 1.0)
    test = AdjudicatedTest(np.array([0.9, 0.5]), audits, Budget(0.1))
    assert test.n_above.tolist() == [2, 3]
    assert test.n_good.tolist() == [2, 2]
    assert test.p_values(np.array([0]), 0.9)[0] == pytest.approx(0.81)
    assert test.sample(1).accuracy == pytest.approx(2 / 3)


def adjudicated(rates, draws, otherwise=1.0):
    """Return the test of two thresholds with four audits, all of them misses."""
    confidence = np.array([0.95, 0.7, 0.9, 0.8])
    n = len(confidence)
    nothing, everything = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    audits = AdjudicatedAudits(
        confidence, nothing, everything, np.asarray(rates), np.asarray(draws), otherwise
    )
    return AdjudicatedTest(np.array([0.97, 0.85, 0.6]), audits, Budget(0.1))


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
    test = AdjudicatedTest(np.array([0.5]), audits, Budget(0.1))
    assert test.p_values(np.array([0]), 0.9)[0] == pytest.approx(stats.binom.cdf(3, n, 0.1))
    assert test.sample(0).accuracy == pytest.approx(1 - 3 / 60)
    further, if_all_good = test.needed(np.array([0]), np.array([0.97]), 0.9, 0.9)
    right = (57 + 20 * 0.97) / (n + 20)
    for needed, rate in ((further, right), (if_all_good, 1.0)):
        powers = [
            stats.binom.sf(stats.binom.isf(0.1, n + more, 0.9) - 57, more, rate)
            for more in (needed[0], needed[0] - 1)
        ]
        assert powers[0] >= 0.9 > powers[1]


def mixed(n_whole, n_mixed, threshold=0.5, earlier=None, wrong=0):
    """Return the test with audits of an epoch that is whole above .6, and of a mixed one."""
    n = n_whole + n_mixed
    epoch = np.repeat([0, 1], [n_whole, n_mixed])
    thin = (epoch == 1) & (np.arange(n) % 4 == 0)
    documents = np.repeat([0, 1], [300, 800])
    strata = ThinStratum(
        thin,
        np.full(1_100, 0.9),
        (documents == 1) & (np.arange(1_100) % 2 == 0),
        epochs=Epochs(epoch, documents, np.array([0.6, np.inf])),
    )
    found, missed = np.arange(n) < wrong, np.zeros(n, dtype=bool)
    audits = AdjudicatedAudits(
        np.full(n, 0.9), found, missed, np.ones(n), np.zeros(n), 1.0, thin=strata
    )
    return AdjudicatedTest(np.array([threshold]), audits, Budget(0.1, earlier))


def test_a_test_takes_the_audits_of_one_mixture_or_all_without_one_whichever_are_more():
    whole, one = mixed(60, 40, 0.7), mixed(40, 60, 0.7)
    assert (whole.n_above[0], whole.thin(0)) == (60, None)
    assert (one.n_above[0], one.thin(0)) == (60, ThinSample(15, 0, 400, 800))
    assert one.sample(0) == Sample(45, 0, 0, 1.0)
    spent = Budget(0.1, ()).now
    expected = two_strata_p_value(Sample(45, 0, 0, 1.0), ThinSample(15, 0, 400, 800), 0.1, spent)
    assert mixed(40, 60, 0.7, ()).p_values(np.array([0]), 0.9)[0] == pytest.approx(expected)
    # Below the confidence from which it is whole, the first epoch has documents of both kinds, too.
    low = mixed(60, 40, 0.5)
    assert (low.n_above[0], low.thin(0)) == (60, ThinSample(0, 0, 0, 300))


def test_looks_add_up_where_another_mixture_may_have_been_their_evidence():
    step, sample = np.array([0]), Sample(60, 2, 0, 1.0)
    beside = mixed(60, 40, 0.7, (40,), wrong=2).p_values(step, 0.9)[0]
    assert beside == pytest.approx(p_value(sample, 0.1, Budget(0.1, (40,)).now))
    assert mixed(60, 0, 0.7, (40,), wrong=2).p_values(step, 0.9)[0] < beside
