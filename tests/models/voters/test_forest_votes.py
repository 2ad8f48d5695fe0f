"""Votes of the forest, against scikit-learn's trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.tree import ExtraTreeClassifier

from setwise.models.data.rows import SparseRows
from setwise.models.voters import forest_votes
from setwise.models.voters.forest_votes import ForestVotes, _just_above

N_SETS, N_TREES = 6, 20


def corpus(n=90, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    noise = rng.integers(0, 2, n)
    set_of = ((X[:, 0] > 0) * 2 + (X[:, 1] > 0) + noise - 1).astype(np.int32)
    return csr_array(X), set_of, np.arange(n) % 5


@pytest.fixture
def trees(monkeypatch):
    """Return the list of trees that scikit-learn fits from now on."""
    fitted = []

    class Watched(ExtraTreeClassifier):
        def fit(self, X, y, **options):
            self.rows_seen = X
            fitted.append(self)
            return super().fit(X, y, **options)

    monkeypatch.setattr("sklearn.tree.ExtraTreeClassifier", Watched)
    return fitted


def saw(tree, rows):
    """Return whether a tree learnt from any of these rows."""
    learnt = {row.tobytes() for row in tree.rows_seen}
    return any(row.tobytes() in learnt for row in rows)


def mean_probability(trees, rows, set_of):
    """Return scikit-learn's mean probability of every set, (n_rows, N_SETS)."""
    counts = np.bincount(set_of[set_of >= 0], minlength=N_SETS)
    by_frequency = np.argsort(-counts, kind="stable")  # the order of the classes
    total = np.zeros((len(rows), N_SETS))
    for tree in trees:
        for column, of_class in enumerate(tree.classes_):
            if of_class < N_SETS:  # the last class is of rows without a set
                total[:, by_frequency[of_class]] += tree.predict_proba(rows)[:, column]
    return total / len(trees)


@pytest.fixture
def many(monkeypatch):
    """Have as many documents as one forest is enough for."""
    monkeypatch.setattr(forest_votes, "_FEW", 0)


@pytest.mark.parametrize("seed", range(3))
def test_votes_are_the_mean_probabilities_of_the_trees(trees, seed, many):
    X, set_of, folds = corpus(seed=seed)
    voter = ForestVotes(N_TREES)
    voter.fit_folds(X, set_of, N_SETS, folds)
    new, _, _ = corpus(seed=seed + 10)
    assert len(trees) == N_TREES
    for rows in (X, new):
        expected = mean_probability(trees, rows.toarray(), set_of)
        np.testing.assert_allclose(voter.vote(SparseRows.of(rows)), expected, atol=1e-6)


def test_trees_that_saw_all_of_few_documents_vote_on_new_ones(trees):
    X, set_of, folds = corpus()
    voter = ForestVotes(N_TREES)
    voter.fit_folds(X, set_of, N_SETS, folds)
    new, _, _ = corpus(seed=10)
    serving = [tree for tree in trees if len(tree.rows_seen) == X.shape[0]]
    assert (len(serving), len(trees)) == (N_TREES // 2, 5 * N_TREES // 4)
    expected = mean_probability(serving, new.toarray(), set_of)
    np.testing.assert_allclose(voter.vote(SparseRows.of(new)), expected, atol=1e-6)
    restored = ForestVotes.from_state(*voter.get_state())
    np.testing.assert_array_equal(restored.vote(SparseRows.of(new)), voter.vote(SparseRows.of(new)))


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_only_trees_that_saw_none_of_a_fold_vote_on_it(trees, n_folds):
    X, set_of, _ = corpus()
    folds = np.arange(X.shape[0]) % n_folds
    hold_out = ForestVotes(N_TREES).fit_folds(X, set_of, N_SETS, folds)
    for fold in range(n_folds):
        part = np.flatnonzero(folds == fold)
        rows = X[part].toarray()
        unaware = [tree for tree in trees if not saw(tree, rows)]
        assert 0 < len(unaware) < N_TREES
        expected = mean_probability(unaware, rows, set_of)
        np.testing.assert_allclose(hold_out(part), expected, atol=1e-6)


def test_sets_too_rare_for_splits_get_votes_from_leaves(monkeypatch):
    monkeypatch.setattr(forest_votes, "_MOST_CLASSES", 2)
    X, set_of, folds = corpus()
    voter = ForestVotes(N_TREES)
    voter.fit_folds(X, set_of, N_SETS, folds)
    votes = voter.vote(SparseRows.of(X))
    assert set(np.unique(set_of)) > {0, 1, 2}
    assert (votes[set_of >= 0, set_of[set_of >= 0]] > 0.0).all()


def test_the_documents_of_a_tree_are_bounded(trees):
    ForestVotes(N_TREES, max_documents=10).fit_folds(*corpus()[:2], N_SETS, corpus()[2])
    assert {len(tree.rows_seen) for tree in trees} == {10}


@given(st.floats(-1e6, 1e6), st.integers(-3, 3))
def test_numbers_are_below_a_split_if_and_only_if_not_above_its_threshold(threshold, steps):
    number = np.float32(threshold)
    for _ in range(abs(steps)):
        number = np.nextafter(number, np.float32(np.copysign(np.inf, steps)))
    split = _just_above(np.array([threshold]))[0]
    assert (number < split) == (np.float64(number) <= threshold)


@pytest.mark.parametrize("child", [0, -1])
def test_a_tree_that_loops_or_lacks_a_leaf_is_refused(child):
    X, set_of, folds = corpus()
    voter = ForestVotes(N_TREES)
    voter.fit_folds(X, set_of, N_SETS, folds)
    arrays, settings = voter.get_state()
    children = arrays["child"].copy()
    inner = np.flatnonzero(arrays["feature"] >= 0)
    children[inner[-1]] = child % len(children)
    with pytest.raises(ValueError, match="loops or lacks a leaf"):
        ForestVotes.from_state({**arrays, "child": children}, settings)
