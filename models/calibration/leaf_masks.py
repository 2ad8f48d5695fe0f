"""Trees evaluated by masks of leaves: no walk from node to node, hardly a branch to mispredict."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise.models.bits import lowest_bit
from setwise.models.sets.candidates import RaggedSets

MAX_LEAVES = 64  # the leaves of one tree fit one 64-bit mask


class LeafMasks(NamedTuple):
    """Trees over dense columns and label indicators, by the columns that their nodes test.

    A node's mask has zeros at the leaves below it, which are out of reach once its test fails,
    that is, once the row's value is not below the split. Of the leaves that all failed tests leave
    a tree, the lowest is the row's [1]_.

    Attributes
    ----------
    dense_indptr : int64 ndarray of shape (n_dense + 1,)
        Bounds of each dense column's nodes.
    split : float32 ndarray
        Splits of these nodes, ascending in each column.
    dense_tree, dense_mask : int32 and uint64 ndarray
    label_indptr : int64 ndarray of shape (n_labels + 1,)
        Bounds of the nodes that test for a label, and fail where it is present.
    label_tree, label_mask : int32 and uint64 ndarray
    leaf_start : int64 ndarray of shape (n_trees,)
    leaf : float32 ndarray
        Values of all leaves, from below to above in each tree.

    References
    ----------
    .. [1] C. Lucchese, F. M. Nardini, S. Orlando, R. Perego, N. Tonellotto and R. Venturini,
       "QuickScorer: a Fast Algorithm to Rank Documents with Additive Ensembles of Regression
       Trees", SIGIR 2015.
    """

    dense_indptr: NDArray[np.int64]
    split: NDArray[np.float32]
    dense_tree: NDArray[np.int32]
    dense_mask: NDArray[np.uint64]
    label_indptr: NDArray[np.int64]
    label_tree: NDArray[np.int32]
    label_mask: NDArray[np.uint64]
    leaf_start: NDArray[np.int64]
    leaf: NDArray[np.float32]


NO_TREES = LeafMasks(
    np.zeros(1, np.int64),
    np.zeros(0, np.float32),
    np.zeros(0, np.int32),
    np.zeros(0, np.uint64),
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.uint64),
    np.zeros(0, np.int64),
    np.zeros(0, np.float32),
)


def mask_leaves(
    root: NDArray[np.int32],
    feature: NDArray[np.int32],
    child: NDArray[np.int32],
    split: NDArray[np.float32],
    shape: tuple[int, int],
) -> LeafMasks | None:
    """Turn trees of nodes into masks, or return None if one has more than 64 leaves.

    Parameters
    ----------
    root, feature, child, split : ndarray
        As in `setwise.models.calibration.trees.Nodes`.
    shape : (int, int)
        Numbers of dense columns and of labels.
    """
    n_dense, n_labels = shape
    tests: list[tuple[int, float, int, int]] = []  # column, split, tree, mask
    values: list[float] = []
    starts = np.zeros(len(root), dtype=np.int64)
    for tree, start in enumerate(root.tolist()):
        starts[tree] = len(values)
        leaves = _leaves_below(start, feature, child)
        if leaves[start] > MAX_LEAVES:
            return None
        open_nodes = [(start, 0)]  # with the number of leaves before its own
        while open_nodes:
            node, before = open_nodes.pop()
            if feature[node] < 0:
                values.append(float(split[node]))
                continue
            below, above = int(child[node]), int(child[node]) + 1
            reach = ((1 << leaves[below]) - 1) << before
            tests.append((int(feature[node]), float(split[node]), tree, ~reach & (2**64 - 1)))
            # The side below comes off the stack first, so that leaves are met in order.
            open_nodes += [(above, before + leaves[below]), (below, before)]
    tests.sort()
    dense = [test for test in tests if test[0] < n_dense]
    labels = [test for test in tests if test[0] >= n_dense]
    return LeafMasks(
        _bounds([test[0] for test in dense], n_dense),
        np.array([test[1] for test in dense], dtype=np.float32),
        np.array([test[2] for test in dense], dtype=np.int32),
        np.array([test[3] for test in dense], dtype=np.uint64),
        _bounds([test[0] - n_dense for test in labels], n_labels),
        np.array([test[2] for test in labels], dtype=np.int32),
        np.array([test[3] for test in labels], dtype=np.uint64),
        starts,
        np.array(values, dtype=np.float32),
    )


def _leaves_below(
    start: int, feature: NDArray[np.int32], child: NDArray[np.int32]
) -> dict[int, int]:
    """Count the leaves under every node of a tree; children come behind their parents."""
    order = [start]
    for node in order:
        if feature[node] >= 0:
            order += [int(child[node]), int(child[node]) + 1]
    leaves: dict[int, int] = {}
    for node in reversed(order):
        first = int(child[node])
        leaves[node] = 1 if feature[node] < 0 else leaves[first] + leaves[first + 1]
    return leaves


def _bounds(columns: list[int], n_columns: int) -> NDArray[np.int64]:
    counts = np.bincount(np.array(columns, dtype=np.int64), minlength=n_columns)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@njit(cache=True, nogil=True)
def sum_masked(
    masks: LeafMasks, base_margin: float, dense: NDArray[np.float32], sets: RaggedSets
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the sum of all trees for each set, shape (n_sets,); terms in the order of trees."""
    out = np.empty(len(dense))
    n_trees = len(masks.leaf_start)
    reach = np.empty(n_trees, dtype=np.uint64)
    for i in range(len(dense)):
        reach[:] = ~np.uint64(0)
        for column in range(dense.shape[1]):
            value = dense[i, column]
            for test in range(masks.dense_indptr[column], masks.dense_indptr[column + 1]):
                if value < masks.split[test]:
                    break
                reach[masks.dense_tree[test]] &= masks.dense_mask[test]
        for label in sets.labels[sets.indptr[i] : sets.indptr[i + 1]]:
            for test in range(masks.label_indptr[label], masks.label_indptr[label + 1]):
                reach[masks.label_tree[test]] &= masks.label_mask[test]
        total = base_margin
        for tree in range(n_trees):
            total += masks.leaf[masks.leaf_start[tree] + lowest_bit(reach[tree])]
        out[i] = total
    return out
