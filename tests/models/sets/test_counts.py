"""Counts of whole label sets against a plain dictionary."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.sets.counts import LabelSetCounts
from setwise.models.sets.search import k_best_sets


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n_labels", [1, 3, 70])
def test_equal_a_dictionary_of_tuples(seed, n_labels):
    rng = np.random.default_rng(seed)
    Y = rng.random((300, n_labels)) < rng.random(n_labels) * 0.6
    weight = rng.integers(0, 4, 300).astype(float)
    expected = Counter()
    for row, w in zip(Y, weight, strict=True):
        expected[tuple(np.flatnonzero(row))] += w
    counts = LabelSetCounts.of(csr_array(Y.astype(np.uint8)), weight)

    candidates = k_best_sets(rng.random((50, n_labels)), 30, allow_empty=True)
    found = counts.lookup(candidates)

    assert len(counts) == len(expected)
    assert counts.total == weight.sum()
    assert found.tolist() == [expected[tuple(candidates.labels_of(s))] for s in range(len(found))]


def test_unit_weights_by_default():
    counts = LabelSetCounts.of(csr_array(np.array([[1, 0], [0, 0], [1, 0]], dtype=np.uint8)))
    assert counts.counts.tolist() == [2.0, 1.0]


def test_nothing_counted_finds_nothing():
    counts = LabelSetCounts.of(csr_array((0, 3), dtype=np.uint8))
    assert counts.lookup(k_best_sets([[0.5] * 3], 8, allow_empty=True)).tolist() == [0.0] * 8
