"""Robust calibrators: what noise hides they find, and without noise they are ordinary ones."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from setwise.models.calibration.calibrators import BoostedSets, IsotonicSets
from setwise.models.calibration.losses import shifted_target
from setwise.models.calibration.robust_calibrators import (
    RobustBoostedSets,
    RobustLogisticSets,
    document_folds,
    forward_loss,
)
from tests.models.calibration.tables import make_table

pytestmark = pytest.mark.slow

BOTH = [RobustLogisticSets(), RobustBoostedSets(n_trees=150)]
both = pytest.mark.parametrize("calibrator", BOTH, ids=str)


def noisy(seed, n, alpha, beta=0.02, groups=None):
    """Return a table, answers and their rates; with groups, alpha differs between them."""
    table, right, chance = make_table(seed, n)
    rng = np.random.default_rng(seed + 1)
    rates = np.full(n, alpha) if groups is None else rng.choice(groups, n)
    agreed = np.where(right, rng.random(n) >= rates, rng.random(n) < beta).astype(np.uint8)
    return table, agreed, rates, np.full(n, beta), chance


def error(calibrator, seed=99):
    table, _, chance = make_table(seed, 4000)
    return np.mean((calibrator.predict(table) - chance) ** 2)


@both
@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_the_truth_is_seen_through_the_noise(calibrator, alpha):
    table, agreed, alphas, betas, _ = noisy(0, 6000, alpha)
    robust = clone(calibrator).fit(table, agreed, alpha=alphas, beta=betas)
    naive = clone(calibrator).fit(table, agreed)
    assert error(robust) < 0.6 * error(naive)
    new, _, chance = make_table(99, 4000)
    assert robust.predict(new).mean() == pytest.approx(chance.mean(), abs=0.04)
    assert naive.predict(new).mean() < chance.mean() - 0.7 * alpha * chance.mean()


@both
def test_annotators_of_different_noise_are_taken_as_they_are(calibrator):
    table, agreed, alphas, betas, _ = noisy(2, 6000, 0.0, groups=[0.1, 0.3, 0.5])
    own = clone(calibrator).fit(table, agreed, alpha=alphas, beta=betas)
    naive = clone(calibrator).fit(table, agreed)
    assert error(own) < 0.5 * error(naive)


@pytest.mark.parametrize("loss", ["backward", "uniform", "annotator"])
def test_the_losses_of_the_thesis_are_robust_too(loss):
    table, agreed, alphas, betas, _ = noisy(4, 6000, 0.35)
    # Their leaves are means, not Newton steps, and so a fourth of them.
    fitted = RobustBoostedSets(loss, n_trees=150, learning_rate=0.2)
    naive = RobustBoostedSets(n_trees=150).fit(table, agreed)
    assert error(fitted.fit(table, agreed, alpha=alphas, beta=betas)) < 0.5 * error(naive)


def test_any_square_loss_is_robust_on_shifted_targets():
    table, agreed, alphas, betas, _ = noisy(6, 6000, 0.4)
    for calibrator in (IsotonicSets(), BoostedSets("squared")):
        target = shifted_target(agreed, alphas, betas)
        robust = clone(calibrator).fit(table, target)
        assert error(robust) < 0.7 * error(clone(calibrator).fit(table, agreed))
        assert ((robust.predict(table) >= 0) & (robust.predict(table) <= 1)).all()


@both
def test_weights_of_zero_leave_rows_out_and_equal_seeds_give_equal_fits(calibrator):
    table, agreed, alphas, betas, _ = noisy(8, 1500, 0.2)
    weight = np.ones(1500)
    fits = [
        clone(calibrator).fit(table, agreed, sample_weight=weight, alpha=alphas, beta=betas)
        for _ in range(2)
    ]
    assert (fits[0].predict(table) == fits[1].predict(table)).all()
    weight[750:] = 0.0
    lies = np.where(weight > 0, agreed, 1 - agreed)
    with_lies = clone(calibrator).fit(table, lies, sample_weight=weight, alpha=0.2, beta=0.02)
    without = clone(calibrator).fit(table, agreed, sample_weight=weight, alpha=0.2, beta=0.02)
    np.testing.assert_allclose(with_lies.predict(table), without.predict(table), atol=1e-6)


@both
def test_a_foreign_table_and_hopeless_rates_are_refused(calibrator):
    table, agreed, *_ = noisy(9, 300, 0.2)
    with pytest.raises(NotFittedError):
        clone(calibrator).predict(table)
    fitted = clone(calibrator).fit(table, agreed, alpha=0.2)
    other = dataclasses.replace(
        table, names=table.names[:3], monotone=table.monotone[:3], dense=table.dense[:, :3]
    )
    with pytest.raises(ValueError, match="does not suit"):
        fitted.predict(other)
    with pytest.raises(ValueError, match="say nothing"):
        clone(calibrator).fit(table, agreed, alpha=0.6, beta=0.4)


def test_broken_coefficients_are_refused():
    table, agreed, *_ = noisy(9, 300, 0.2)
    arrays, settings = RobustLogisticSets().fit(table, agreed).get_state()
    with pytest.raises(ValueError, match="suit"):
        RobustLogisticSets.from_state({**arrays, "coefficients": np.zeros(2)}, settings)
    with pytest.raises(ValueError, match="'scale' has values"):
        RobustLogisticSets.from_state({**arrays, "scale": np.zeros(5)}, settings)


@both
def test_answers_that_all_agree_give_finite_confidences(calibrator):
    table, _, _ = make_table(0, 200)
    for agreed in (np.ones(200), np.zeros(200)):
        fitted = clone(calibrator).fit(table, agreed, alpha=0.3, beta=0.05)
        confidence = fitted.predict(table)
        assert np.isfinite(confidence).all()
        assert np.all(confidence > 0.7) if agreed[0] else np.all(confidence < 0.3)


def test_the_candidates_of_a_document_share_a_fold():
    table, _, _ = make_table(0, 300)
    table = dataclasses.replace(table, doc_indptr=np.arange(0, 301, 3))
    folds = document_folds(table, 5, np.random.default_rng(0))
    assert (folds.reshape(100, 3) == folds[::3, None]).all()
    assert np.bincount(folds).tolist() == [60] * 5


def test_the_forward_loss_prefers_the_true_confidences_on_noisy_answers():
    _, agreed, alphas, betas, chance = noisy(3, 20_000, 0.4)
    told = forward_loss(chance, agreed, alphas, betas)
    for other in (chance * 0.6, np.sqrt(chance), np.full(20_000, chance.mean())):
        assert told < forward_loss(other, agreed, alphas, betas)
