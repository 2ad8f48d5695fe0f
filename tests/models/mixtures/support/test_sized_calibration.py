"""Sized marginals by definition, and their isotonic calibration."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from setwise.models.mixtures.support.mixture_support import distinct_sets, support_log_probabilities
from setwise.models.mixtures.support.sized_calibration import (
    SizedMarginalCalibrator,
    SizedMarginals,
    support_sized_marginals,
)
from setwise.models.mixtures.support.support_decider import SupportDecider
from setwise.models.sets.f_measure import maximise_expected_f1
from tests.models.enumeration import every_set


def mixtures(seed: int, n: int = 12, n_labels: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.ones(3), size=n)), rng.normal(size=(n, 3, n_labels)) * 2


def marginals_of(log_weights: np.ndarray, logits: np.ndarray, largest: int = 5) -> SizedMarginals:
    """Sized marginals of the mixtures on all sets of at most so many labels."""
    sets = every_set(logits.shape[2])
    support = csr_array(sets[sets.sum(axis=1) <= largest].astype(np.uint8))
    return support_sized_marginals(support_log_probabilities(log_weights, logits, support), support)


def as_marginals(P: np.ndarray, pairs: list[tuple[int, int]], n_labels: int) -> SizedMarginals:
    labels, sizes = np.array(pairs).T
    return SizedMarginals(P, labels, sizes, n_labels)


def test_marginals_of_a_support_equal_enumeration_and_ignore_factors() -> None:
    log_weights, logits = mixtures(1)
    rng = np.random.default_rng(1)
    support = distinct_sets(csr_array((rng.uniform(size=(12, 5)) < 0.4).astype(np.uint8)))
    log_p = support_log_probabilities(log_weights, logits, support)
    marginals = support_sized_marginals(log_p, support)
    dense = support.toarray()
    p = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    for pair, (label, size) in enumerate(zip(marginals.labels, marginals.sizes, strict=True)):
        holds = (dense[:, label] == 1) & (dense.sum(axis=1) == size)
        np.testing.assert_allclose(marginals.P[:, pair], p[:, holds].sum(axis=1), atol=1e-12)
    shifted_marginals = support_sized_marginals(log_p - 700.0, support)
    np.testing.assert_allclose(shifted_marginals.P, marginals.P)


def test_each_frequent_pair_gets_its_own_isotonic_curve() -> None:
    """Marginals that are squares of the truth come back, pair by pair."""
    rng = np.random.default_rng(2)
    truth = rng.uniform(size=(20_000, 2))
    Y = np.zeros((20_000, 2), dtype=np.uint8)
    which = rng.integers(2, size=20_000)
    rows = np.arange(20_000)
    Y[rows, which] = rng.uniform(size=20_000) < truth[rows, which]
    P = (truth**2) * (np.arange(2)[None, :] == which[:, None])
    marginals = as_marginals(P, [(0, 1), (1, 1)], 2)
    calibrator = SizedMarginalCalibrator().fit(marginals, csr_array(Y))
    calibrated_marginals, p_empty = calibrator.transform(marginals)
    own = calibrated_marginals.P[rows, which]
    assert np.abs(own - truth[rows, which]).mean() < 0.03
    np.testing.assert_allclose(p_empty, np.maximum(1.0 - calibrated_marginals.P.sum(axis=1), 0.0))
    # The curve is monotone, whatever comes in.
    grid = as_marginals(np.repeat(np.linspace(-1, 2, 301)[:, None], 2, axis=1), [(0, 1), (1, 1)], 2)
    assert (np.diff(calibrator.transform(grid)[0].P, axis=0) >= 0).all()


def test_rare_pairs_share_the_curve_of_their_size() -> None:
    rng = np.random.default_rng(3)
    n = 400
    Y = np.zeros((n, 4), dtype=np.uint8)
    Y[:200, 0] = 1  # frequent alone
    Y[200:205, 1] = 1  # rare alone
    Y[205:210, 2] = 1
    Y[210:215, 2:] = 1  # rare, two labels
    pairs = [(0, 1), (1, 1), (2, 1), (2, 2), (3, 2)]
    marginals = as_marginals(rng.uniform(size=(n, 5)), pairs, 4)
    calibrator = SizedMarginalCalibrator().fit(marginals, csr_array(Y))
    curves = calibrator.curve_of_
    assert curves[1] == curves[2] != curves[0]
    assert curves[3] == curves[4] != curves[1]


def test_calibration_of_true_marginals_changes_little() -> None:
    n = 5_000
    log_weights, logits = mixtures(4, n=n)
    logits -= 2.0
    rng = np.random.default_rng(4)
    component = (rng.uniform(size=(n, 1)) > np.exp(log_weights).cumsum(axis=1)).sum(axis=1)
    Y = rng.uniform(size=(n, 5)) < expit(logits[np.arange(n), component])
    marginals = marginals_of(log_weights, logits)
    calibrator = SizedMarginalCalibrator().fit(marginals, csr_array(Y.astype(np.uint8)))
    calibrated_marginals, p_empty = calibrator.transform(marginals)
    assert np.abs(calibrated_marginals.P - marginals.P).mean() < 0.02
    assert p_empty.mean() == pytest.approx((~Y.any(axis=1)).mean(), abs=0.03)
    exact = maximise_expected_f1(
        product_weights=np.exp(log_weights), product_marginals=expit(logits)
    ).sets.toarray()
    chosen = SupportDecider(calibrator).decide(marginals, allow_empty=True).toarray()
    assert (chosen == exact).all(axis=1).mean() > 0.8


def test_curves_and_marginals_of_other_pairs_are_refused() -> None:
    log_weights, logits = mixtures(5, n=200)
    marginals = marginals_of(log_weights, logits, 3)
    Y = csr_array((np.random.default_rng(5).uniform(size=(200, 5)) < 0.3).astype(np.uint8))
    calibrator = SizedMarginalCalibrator().fit(marginals, Y)
    arrays, settings = calibrator.get_state()
    with pytest.raises(ValueError, match="curves that do not exist"):
        SizedMarginalCalibrator.from_state(
            {**arrays, "curve_of": arrays["curve_of"] + 999}, settings
        )
    fewer = marginals_of(log_weights, logits, 2)
    with pytest.raises(ValueError, match="10 pairs; the calibrator knows 15"):
        calibrator.transform(fewer)
    with pytest.raises(ValueError, match="these marginals need"):
        SizedMarginalCalibrator().fit(marginals, Y[:3])
    with pytest.raises(ValueError, match="the support 2 sets"):
        support_sized_marginals(np.zeros((1, 3)), csr_array(np.eye(2, dtype=np.uint8)))
