"""Ridge regression onto groups: against plain solves, and fits without a block against refits."""

import numpy as np
import pytest

from setwise.models.voters.block_ridge import ExactRidge, FeatureRidge

PENALTY = 0.4


def problem(n=60, d=8, n_groups=5, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d)).astype(np.float32)
    group = rng.integers(-1, n_groups, n).astype(np.int32)
    folds = np.arange(n) % 3
    rng.shuffle(folds)
    return features, group, n_groups, folds


def indicators(group, n_groups):
    return (group[:, None] == np.arange(n_groups)).astype(np.float64)


def refit(features, group, n_groups, train, test):
    kernel = features[train] @ features[train].T + PENALTY * np.eye(len(train))
    weights = np.linalg.solve(kernel, indicators(group[train], n_groups))
    return features[test] @ features[train].T @ weights


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_fit_solves_the_ridge_equations(seed):
    features, group, n_groups, _ = problem(seed=seed)
    kernel = features @ features.T
    ridge = ExactRidge(kernel.copy(), PENALTY, group, n_groups)
    wanted = np.linalg.solve(kernel + PENALTY * np.eye(len(kernel)), indicators(group, n_groups))
    np.testing.assert_allclose(ridge.coef, wanted, atol=2e-4)


@pytest.mark.parametrize("fold", range(3))
def test_holding_a_block_out_equals_fitting_without_it(fold):
    features, group, n_groups, folds = problem()
    inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
    wanted = refit(features.astype(np.float64), group, n_groups, outside, inside)
    exact = ExactRidge(features @ features.T, PENALTY, group, n_groups)
    np.testing.assert_allclose(exact.hold_out(inside), wanted, atol=2e-3)
    by_sums = FeatureRidge(lambda rows: features[rows], PENALTY, group, n_groups, folds)
    np.testing.assert_allclose(by_sums.hold_out(inside), wanted, atol=2e-4)


def test_explicit_features_and_their_kernel_give_one_fit():
    features, group, n_groups, folds = problem()
    by_sums = FeatureRidge(lambda rows: features[rows], PENALTY, group, n_groups, folds)
    kernel = features @ features.T
    exact = ExactRidge(kernel.copy(), PENALTY, group, n_groups)
    np.testing.assert_allclose(features @ by_sums.coef, kernel @ exact.coef, atol=2e-3)


def test_rows_of_several_folds_cannot_be_held_out_of_sums():
    features, group, n_groups, folds = problem()
    ridge = FeatureRidge(lambda rows: features[rows], PENALTY, group, n_groups, folds)
    with pytest.raises(ValueError, match="of one fold, not of 3"):
        ridge.hold_out(np.arange(len(features)))


def test_a_matrix_that_is_no_kernel_is_refused():
    with pytest.raises(ValueError, match="raise penalty"):
        ExactRidge(-np.eye(3, dtype=np.float32), 0.5, np.zeros(3, np.int32), 1)
