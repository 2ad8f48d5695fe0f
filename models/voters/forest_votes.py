"""A voter by randomised trees whose classes are label sets.

The trees are extremely randomised [1]_: each node splits at the best of some random thresholds. A
document's votes are the shares of the label sets among the training documents in its leaves. No
tree sees every fold, so the votes on the documents of a fold come from the trees that left the
fold out: one forest is enough for cross-fitting, and unless documents are few for service.

References
----------
.. [1] P. Geurts, D. Ernst and L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006.
"""

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.calibration.trees import Nodes, join_trees, restored_nodes, stored_nodes
from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import (
    StoredArray,
    StoredParameters,
    StoredSetting,
    stored_ragged,
)
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.block_ridge import HoldOut, Rows

if TYPE_CHECKING:
    from sklearn.tree import ExtraTreeClassifier

# Share of the folds that a tree leaves out, as a bootstrap leaves out rows.
_SHARE_LEFT_OUT = 0.37
# Votes of smaller leaves are no better, and their trees twice as large, unless documents are few.
_LEAST_IN_LEAF = 2
_FEW = 500
# Features tried for a split, in square roots of their number.
_ROOTS_TRIED = 2.0
# Splits distinguish the most frequent label sets, which bounds the time and memory of a fit; leaves
# hold all.
_MOST_CLASSES = 256


class Forest(NamedTuple):
    """Trees with the label sets of their leaves, for compiled code."""

    nodes: Nodes
    # (n_nodes + 1,) node ``i`` holds the entries ``indptr[i]:indptr[i + 1]``, an inner node none.
    indptr: NDArray[np.int64]
    sets: NDArray[np.int32]  # numbers of label sets, ascending in each leaf
    shares: NDArray[np.float32]  # of the leaf's training documents


class ForestVotes(StoredPart, Estimator):
    """The training documents in the same leaves vote for their label sets.

    For tables of measurements, whose features interact.

    Parameters
    ----------
    n_trees : int, default 200
        Of fewer than 500 documents half as many vote, which saw all of them, and three quarters
        as many in cross-fitting.
    max_documents : int, default 8192
        Maximum number of documents of a tree, which bounds time and memory; more are sampled at
        random.
    random_state : int, default 0
        Seed of the trees and of what they leave out.
    """

    forest_: Forest
    n_sets_: int
    n_features_: int
    stored = (
        StoredParameters("parameters"),
        StoredSetting("n_features", "n_features_", int, low=0, length="features"),
        StoredSetting("n_sets", "n_sets_", int, low=0, length="sets"),
        *stored_nodes("forest_.nodes"),
        *stored_ragged(
            "leaf_indptr", "leaf_sets", "forest_", "sets", "nodes", picks="sets", count="shares"
        ),
        StoredArray("leaf_shares", "forest_.shares", np.float32, ("shares",), low=0.0, high=1.0),
    )

    def __init__(
        self, n_trees: int = 200, *, max_documents: int = 8192, random_state: int = 0
    ) -> None:
        self.n_trees = n_trees
        self.max_documents = max_documents
        self.random_state = random_state

    def fit_folds(
        self,
        X: csr_array,
        set_of: NDArray[np.int32],
        n_sets: int,
        folds: NDArray[np.int64],
    ) -> HoldOut:
        """Grow all trees and return a function for out-of-fold votes.

        Parameters, result and errors are those of `NeighbourVotes.fit_folds`.
        """
        check_parameters(self)
        rng = np.random.default_rng(self.random_state)
        few = X.shape[0] < _FEW
        dense = X.toarray()
        n_judging = max(3 * self.n_trees // 4, 1) if few else self.n_trees
        absent = _draw_folds(folds, n_judging, rng)
        seen = (np.flatnonzero(~np.isin(folds, left_out)) for left_out in absent)
        forest = self.forest_ = self._grow(dense, set_of, n_sets, seen, rng)
        if few:  # two fifths of them are too many to leave out in service
            every = (np.arange(len(dense)) for _ in range(_half(self.n_trees)))
            self.forest_ = self._grow(dense, set_of, n_sets, every, rng)
        self.n_sets_, self.n_features_ = n_sets, X.shape[1]

        def hold_out(part: Rows) -> NDArray[np.float32]:
            without = np.array([folds[part[0]] in left_out for left_out in absent])
            nodes = forest.nodes._replace(root=forest.nodes.root[without])
            return _vote(SparseRows.of(X[part]), forest._replace(nodes=nodes), n_sets)

        return hold_out

    def _grow(
        self,
        X: NDArray[np.float32],
        set_of: NDArray[np.int32],
        n_sets: int,
        rows_of_trees: Iterable[NDArray[np.int64]],
        rng: np.random.Generator,
    ) -> Forest:
        from sklearn.tree import ExtraTreeClassifier  # noqa: PLC0415 - predicting needs none of it

        classes = _classes(set_of, n_sets)
        n_tried = min(round(_ROOTS_TRIED * X.shape[1] ** 0.5), X.shape[1])
        trees = []
        for rows in rows_of_trees:
            if len(rows) > self.max_documents:
                rows = np.sort(rng.permutation(rows)[: self.max_documents])  # noqa: PLW2901
            seen = X[rows]
            tree = ExtraTreeClassifier(
                max_features=n_tried,
                min_samples_leaf=1 if len(X) < _FEW else _LEAST_IN_LEAF,
                random_state=int(rng.integers(np.iinfo(np.int32).max)),
            )
            with warnings.catch_warnings():
                # Most label sets may have one document.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                tree.fit(seen, classes[rows], check_input=False)
            trees.append(_read_tree(tree, seen, set_of[rows], n_sets))
        return _join(trees)

    def vote(self, rows: SparseRows) -> NDArray[np.float32]:
        """Return the weights of all sets for each document, shape (n_documents, n_sets)."""
        check_fitted(self, "forest_")
        return _vote(rows, self.forest_, self.n_sets_)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted voter."""
        voter = cls(**fields["parameters"])
        if lengths["trees"] not in {voter.n_trees, _half(voter.n_trees)}:
            raise ValueError(f"it counts {lengths['trees']} trees, not {voter.n_trees} or half")
        voter.forest_ = Forest(
            restored_nodes(fields),
            fields["leaf_indptr"],
            fields["leaf_sets"],
            fields["leaf_shares"],
        )
        voter.n_sets_, voter.n_features_ = lengths["sets"], lengths["features"]
        return voter


def _half(n_trees: int) -> int:
    """Return how many trees vote in service if documents are few."""
    return max(n_trees // 2, 1)


def _draw_folds(
    folds: NDArray[np.int64], n_trees: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the folds that each tree leaves out, at least one and never all."""
    names = np.unique(folds)
    n_left_out = min(max(1, round(_SHARE_LEFT_OUT * len(names))), len(names) - 1)
    return [rng.permutation(names)[:n_left_out] for _ in range(n_trees)]


def _classes(set_of: NDArray[np.int32], n_sets: int) -> NDArray[np.int64]:
    """Return the class of each row for splits; rare sets and rows without a number share one."""
    counts = np.bincount(set_of[set_of >= 0], minlength=n_sets)
    frequent = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    class_of = np.full(n_sets + 1, len(frequent))  # number -1 is the last
    class_of[frequent] = np.arange(len(frequent))
    return class_of[set_of]


def _read_tree(
    tree: "ExtraTreeClassifier",
    rows: NDArray[np.float32],
    set_of: NDArray[np.int32],
    n_sets: int,
) -> Forest:
    """Return a tree with siblings adjacent, and the label sets of its training rows by leaf."""
    left, right = tree.tree_.children_left, tree.tree_.children_right
    n = len(left)
    inner = np.flatnonzero(left >= 0)  # parents come before children
    place = np.zeros(n, dtype=np.int64)
    place[left[inner]] = 1 + 2 * np.arange(len(inner))
    place[right[inner]] = 2 + 2 * np.arange(len(inner))
    feature, child = np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.int32)
    split = np.zeros(n, dtype=np.float32)
    feature[place[inner]] = tree.tree_.feature[inner]
    child[place[inner]] = place[left[inner]]
    split[place[inner]] = _just_above(tree.tree_.threshold[inner])
    leaf = place[tree.tree_.apply(rows)]
    listed = set_of >= 0
    cells, counts = np.unique(leaf[listed] * n_sets + set_of[listed], return_counts=True)
    node, sets = np.divmod(cells, n_sets)
    return Forest(
        Nodes(np.zeros(1, dtype=np.int32), feature, child, split),
        np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n))]),
        sets.astype(np.int32),
        (counts / np.bincount(leaf, minlength=n)[node]).astype(np.float32),
    )


def _just_above(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the smallest single-precision number above each threshold.

    scikit-learn sends a number to the left if it is not above the threshold, `Nodes` if it is below
    the split.
    """
    split = threshold.astype(np.float32)
    above = np.nextafter(split, np.float32(np.inf))
    return np.where(split > threshold, split, above).astype(np.float32)


def _join(trees: list[Forest]) -> Forest:
    """Concatenate trees."""
    bounds = [np.zeros(1, dtype=np.int64)]
    for tree in trees:
        bounds.append(bounds[-1][-1] + tree.indptr[1:])
    return Forest(
        join_trees([tree.nodes for tree in trees]),
        np.concatenate(bounds),
        np.concatenate([tree.sets for tree in trees]),
        np.concatenate([tree.shares for tree in trees]),
    )


@njit(cache=True, nogil=True)
def _vote(
    rows: SparseRows, forest: Forest, n_sets: int
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the mean shares of all sets over the trees, shape (n_rows, n_sets); 0 without any."""
    n = len(rows.indptr) - 1
    root, feature, child, split = forest.nodes
    out = np.zeros((n, n_sets), dtype=np.float32)
    weight = np.float32(1.0 / max(len(root), 1))
    row = np.zeros(rows.n_features, dtype=np.float32)  # an absent entry is the number zero
    for i in range(n):
        for a in range(rows.indptr[i], rows.indptr[i + 1]):
            row[rows.features[a]] = rows.values[a]
        for start in root:
            node = start
            while feature[node] >= 0:
                node = child[node] + (0 if row[feature[node]] < split[node] else 1)
            for entry in range(forest.indptr[node], forest.indptr[node + 1]):
                out[i, forest.sets[entry]] += weight * forest.shares[entry]
        for a in range(rows.indptr[i], rows.indptr[i + 1]):
            row[rows.features[a]] = 0.0
    return out
