"""Splits and folds: disjoint, balanced, repeatable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.data.splits import fold_ids, split_rows


@given(st.integers(0, 60), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 99))
def test_splits_are_disjoint_sized_and_repeatable(n, weights, seed):
    fractions = [weight / sum(weights) for weight in weights]
    parts = split_rows(n, fractions, seed)
    joined = np.concatenate(parts)
    assert sorted(joined.tolist()) == list(range(n))
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * n) <= 1
        assert part.tolist() == sorted(part.tolist())
    again = split_rows(n, fractions, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("fractions", [(0.5, 0.6), (0.0, 1.0), (-0.5, 0.5)])
def test_impossible_shares_are_refused(fractions):
    with pytest.raises(ValueError, match="fractions must be positive and sum to at most 1"):
        split_rows(10, fractions, 0)


@given(st.integers(2, 80), st.data())
def test_folds_are_balanced_and_repeatable(n, data):
    n_folds = data.draw(st.integers(2, n))
    folds = fold_ids(n, n_folds, random_state=3)
    counts = np.bincount(folds, minlength=n_folds)
    assert len(counts) == n_folds
    assert counts.max() - counts.min() <= 1
    assert np.array_equal(folds, fold_ids(n, n_folds, random_state=3))


def test_folds_depend_on_the_seed_and_need_enough_rows():
    assert not np.array_equal(fold_ids(100, 5, 0), fold_ids(100, 5, 1))
    with pytest.raises(ValueError, match="from 2 to the number of rows"):
        fold_ids(3, 4, 0)
