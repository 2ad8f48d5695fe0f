"""Evaluates boosted trees in compiled code, without expanding label sets.

XGBoost's own call has a large fixed cost, which dominates for a few candidates.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.sets.candidates import RaggedSets
from setwise.models.sets.features import SetFeatureTable
from setwise.models.storage.checks import checked_value
from setwise.models.storage.fields import StoredArray

# Splits and leaves are single precision, and hundreds are added.
_LARGEST = 1e30


class Nodes(NamedTuple):
    """Nodes of all trees, tree by tree, parents before children.

    A node with ``feature >= 0`` sends a row to ``child`` when the feature is below ``split``, to
    ``child + 1`` otherwise; a leaf has ``feature == -1`` and its value in ``split``.
    """

    root: NDArray[np.int32]  # (n_trees,)
    feature: NDArray[np.int32]  # (n_nodes,)
    child: NDArray[np.int32]  # (n_nodes,)
    split: NDArray[np.float32]  # (n_nodes,)


def stored_nodes(attribute: str) -> tuple[StoredArray, ...]:
    """Return the fields of a part that has nodes, of ``features`` columns, as an attribute."""
    return (
        StoredArray("root", f"{attribute}.root", np.int32, ("trees",), picks="nodes"),
        # -1 in a leaf
        StoredArray(
            "feature", f"{attribute}.feature", np.int32, ("nodes",), picks="features", low=-1
        ),
        StoredArray("child", f"{attribute}.child", np.int32, ("nodes",), picks="nodes"),
        StoredArray("split", f"{attribute}.split", np.float32, ("nodes",)),
    )


def restored_nodes(fields: Mapping[str, Any]) -> Nodes:
    """Return nodes of `stored_nodes`; children follow their parents, so that every walk ends.

    Raises
    ------
    ValueError
        If they do not.
    """
    feature, child = fields["feature"], fields["child"]
    inner = np.flatnonzero(feature >= 0)
    if (child[inner] <= inner).any() or (child[inner] + 1 >= len(feature)).any():
        raise ValueError("a tree loops or lacks a leaf")
    return Nodes(fields["root"], feature, child, fields["split"])


@dataclass(frozen=True, eq=False)
class CompiledTrees:
    """An XGBoost ensemble as flat arrays."""

    nodes: Nodes
    base_margin: float  # constant term of the sum
    objective: str  # XGBoost's name of the loss

    @classmethod
    def from_xgboost(cls, model: Mapping[str, Any], n_dense: int, n_labels: int) -> Self:
        """Read the document that ``Booster.save_raw("json")`` writes.

        Parameters
        ----------
        model : mapping
            The parsed document; objective ``reg:squarederror`` or ``binary:logistic``.
        n_dense, n_labels : int
            The first ``n_dense`` columns are always present; the next ``n_labels`` are
            label indicators: 1 where present, missing where absent.

        Raises
        ------
        ValueError
            If the document is not a supported boosted tree ensemble.
        """
        try:
            learner = model["learner"]
            objective = learner["objective"]["name"]
            trees = learner["gradient_booster"]["model"]["trees"]
            base = json.loads(learner["learner_model_param"]["base_score"])
            base_score = float(base[0] if isinstance(base, list) else base)
            parsed = [read_tree(tree, n_dense, n_dense + n_labels) for tree in trees]
        except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as fault:
            raise ValueError(f"not an XGBoost tree model: {fault!r} is missing or odd") from fault
        if objective == "reg:squarederror" and abs(base_score) <= _LARGEST:
            margin = base_score
        elif objective == "binary:logistic" and 0.0 < base_score < 1.0:
            margin = float(np.log(base_score / (1.0 - base_score)))
        else:
            raise ValueError(
                f"objective {objective!r} of {base_score} is not one this evaluator knows"
            )
        return cls(join_trees(parsed), margin, objective)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes.root)

    def margin(self, table: SetFeatureTable, n_trees: int | None = None) -> NDArray[np.float64]:
        """Return the sum (n_sets,) of the first ``n_trees`` trees, by default all."""
        nodes = self.nodes
        if n_trees is not None:
            nodes = nodes._replace(root=nodes.root[:n_trees])
        return sum_trees(nodes, self.base_margin, table.dense, table.sets, table.n_labels)


def join_trees(trees: list[Nodes]) -> Nodes:
    """Concatenate the nodes of trees."""
    offsets = np.cumsum([0, *(len(tree.feature) for tree in trees)], dtype=np.int32)
    placed = list(zip(trees, offsets, strict=False))
    return Nodes(
        np.concatenate([np.empty(0, np.int32), *(tree.root + first for tree, first in placed)]),
        np.concatenate([np.empty(0, np.int32), *(tree.feature for tree in trees)]),
        np.concatenate([np.empty(0, np.int32), *(tree.child + first for tree, first in placed)]),
        np.concatenate([np.empty(0, np.float32), *(tree.split for tree in trees)]),
    )


def read_tree(tree: Mapping[str, Any], n_dense: int, n_columns: int) -> Nodes:
    """Return a tree's nodes with siblings adjacent, after their parent."""
    if tree.get("categories"):
        raise ValueError("categorical splits are not supported")
    feature: list[int] = []
    child: list[int] = []
    split: list[float] = []
    queue = [0]
    while len(feature) < len(queue):
        column, condition, below, above = _read_node(tree, queue[len(feature)], n_dense, n_columns)
        if len(queue) > 2 * len(tree["left_children"]):
            raise ValueError("a tree of the XGBoost model loops")
        feature.append(column)
        split.append(condition)
        child.append(len(queue) if column >= 0 else 0)
        if column >= 0:
            queue += [below, above]
    return Nodes(
        np.zeros(1, dtype=np.int32),
        np.array(feature, dtype=np.int32),
        np.array(child, dtype=np.int32),
        np.array(split, dtype=np.float32),
    )


def _read_node(
    tree: Mapping[str, Any], node: int, n_dense: int, n_columns: int
) -> tuple[int, float, int, int]:
    """Return a node's column, split or value, and its two children.

    The column of a leaf is -1. For a label indicator, absent means missing, which takes the default
    branch; present means 1.
    """
    while True:
        condition = np.float32(
            checked_value(
                "split", tree["split_conditions"][node], float, low=-_LARGEST, high=_LARGEST
            )
        )
        below = checked_value("child", tree["left_children"][node], int)
        above = checked_value("child", tree["right_children"][node], int)
        if below < 0 or above < 0:
            return -1, float(condition), -1, -1
        column = checked_value("column", tree["split_indices"][node], int)
        if not 0 <= column < n_columns:
            raise ValueError("a tree of the XGBoost model has columns out of range")
        if column < n_dense:
            return column, float(condition), below, above
        absent = below if tree["default_left"][node] else above
        present = below if np.float32(1.0) < condition else above
        if absent != present:
            return column, 0.5, absent, present
        if absent <= node:
            raise ValueError("a tree of the XGBoost model loops")
        node = absent  # both values take the same branch


@njit(cache=True, nogil=True)
def sum_trees(
    nodes: Nodes,
    base_margin: float,
    dense: NDArray[np.float32],
    sets: RaggedSets,
    n_labels: int,
) -> NDArray[np.float64]:
    """Return the sum of all trees for each set, shape (n_sets,)."""
    n, n_dense = dense.shape
    root, feature, child, split = nodes
    out = np.empty(n)
    row = np.zeros(n_dense + n_labels, dtype=np.float32)
    for i in range(n):
        labels = sets.labels[sets.indptr[i] : sets.indptr[i + 1]]
        row[:n_dense] = dense[i]
        for label in labels:
            row[n_dense + label] = 1.0
        total = base_margin
        for start in root:
            node = start
            while feature[node] >= 0:
                node = child[node] + (0 if row[feature[node]] < split[node] else 1)
            total += split[node]
        out[i] = total
        for label in labels:
            row[n_dense + label] = 0.0
    return out
