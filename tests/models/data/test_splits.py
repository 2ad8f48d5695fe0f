"""Folds: balanced, repeatable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.data.splits import fold_ids


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
