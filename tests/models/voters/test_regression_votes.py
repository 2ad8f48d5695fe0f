"""Regressions of label sets, against plain ridge regression."""

import numpy as np
from scipy.sparse import csr_array, random_array

from setwise.models.data.rows import SparseRows
from setwise.models.voters import regression_votes
from setwise.models.voters.regression_votes import SmoothVotes

N_SETS = 5


def corpus(n=80, d=25, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((n, d), density=0.3, rng=rng, dtype=np.float32))
    marginals = rng.uniform(0.01, 0.99, (n, n_labels))
    return X, marginals, rng.integers(-1, N_SETS, n).astype(np.int32), np.arange(n) % 4


def ridge(kernel, set_of, train, test, penalty):
    targets = (set_of[train][:, None] == np.arange(N_SETS)).astype(float)
    within = kernel[np.ix_(train, train)] + penalty * np.eye(len(train))
    return kernel[np.ix_(test, train)] @ np.linalg.solve(within, targets)


def smooth_kernel(voter, X, marginals):
    rows = voter.space_.transform(X).toarray().astype(float)
    roots = np.sqrt(marginals)
    roots /= np.linalg.norm(roots, axis=1, keepdims=True)
    return 0.5 * np.exp(2 * (rows @ rows.T - 1)) + 0.5 * np.exp(3 * (roots @ roots.T - 1))


def test_smooth_votes_are_ridge_regression_in_both_spaces():
    X, marginals, set_of, folds = corpus()
    voter = SmoothVotes()
    hold_out = voter.fit_folds(X, marginals, set_of, N_SETS, folds)
    kernel, every = smooth_kernel(voter, X, marginals), np.arange(len(folds))
    np.testing.assert_allclose(
        voter.vote(SparseRows.of(X), marginals), ridge(kernel, set_of, every, every, 0.5), atol=1e-4
    )
    inside, outside = np.flatnonzero(folds == 1), np.flatnonzero(folds != 1)
    np.testing.assert_allclose(
        hold_out(inside), ridge(kernel, set_of, outside, inside, 0.5), atol=1e-4
    )


def test_with_every_document_a_landmark_nothing_is_lost(monkeypatch):
    X, marginals, set_of, folds = corpus()
    exact, sampled = SmoothVotes(), SmoothVotes()
    hold_exact = exact.fit_folds(X, marginals, set_of, N_SETS, folds)
    monkeypatch.setattr(regression_votes, "MAX_EXACT", 10)
    hold_sampled = sampled.fit_folds(X, marginals, set_of, N_SETS, folds)
    np.testing.assert_allclose(
        sampled.vote(SparseRows.of(X), marginals),
        exact.vote(SparseRows.of(X), marginals),
        atol=2e-3,
    )
    inside = np.flatnonzero(folds == 3)
    np.testing.assert_allclose(hold_sampled(inside), hold_exact(inside), atol=2e-3)


def test_landmarks_keep_the_bound_on_weights(monkeypatch):
    monkeypatch.setattr(regression_votes, "MAX_WEIGHTS", 60)
    X, marginals, set_of, folds = corpus()
    voter = SmoothVotes()
    voter.fit_folds(X, marginals, set_of, N_SETS, folds)
    assert voter.weights_.values.shape == (12, N_SETS)
    assert np.isfinite(voter.vote(SparseRows.of(X), marginals)).all()


def test_votes_on_a_document_do_not_depend_on_its_batch():
    X, marginals, set_of, folds = corpus()
    voter = SmoothVotes()
    voter.fit_folds(X, marginals, set_of, N_SETS, folds)
    together = voter.vote(SparseRows.of(X), marginals)
    for i in (0, 7, 79):
        alone = voter.vote(SparseRows.of(X[[i]]), marginals[[i]])[0]
        np.testing.assert_array_equal(alone, together[i])
