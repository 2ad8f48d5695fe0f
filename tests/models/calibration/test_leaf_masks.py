"""Masks of leaves against the walk from node to node."""

import numpy as np
import pytest

from setwise.models.calibration.calibrators import BoostedSets
from tests.models.calibration.tables import make_table


@pytest.mark.parametrize("max_leaves", [2, 10, 64])
@pytest.mark.parametrize("seed", range(3))
def test_masks_give_bit_for_bit_what_the_walk_gives(max_leaves, seed):
    table, correct, _ = make_table(seed)
    calibrator = BoostedSets(max_leaves=max_leaves, min_child_weight=0.5).fit(table, correct)
    trees = calibrator.trees_
    assert trees.masks is not None
    assert trees.masks.label_tree.size > 0 or max_leaves == 2
    new = make_table(seed + 50)[0]
    walked = trees.margin(new, n_trees=trees.n_trees)
    np.testing.assert_array_equal(trees.margin(new), walked)


def test_values_exactly_on_a_split_fail_its_test():
    table, correct, _ = make_table(1)
    trees = BoostedSets(n_trees=5).fit(table, correct).trees_
    column = int(trees.nodes.feature[trees.nodes.root[0]])
    on_split = table.take(np.arange(4))
    on_split.dense[:, column] = trees.nodes.split[trees.nodes.root[0]]
    np.testing.assert_array_equal(trees.margin(on_split), trees.margin(on_split, n_trees=5))
