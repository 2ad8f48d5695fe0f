r"""Confidences of one document's candidates that share one certainty.

At most one candidate is wholly right. With margins :math:`s_j` and an option *none of these*, whose
margin is 0,

.. math:: c_j = \frac{e^{s_j}}{1 + \sum_i e^{s_i}}, \qquad c_0 = \frac{1}{1 + \sum_i e^{s_i}},

so a document's confidences sum to less than one. Boosting minimises the cross-entropy
:math:`-\sum_j y_j \log c_j - (1 - \sum_j y_j) \log c_0`, whose gradient is :math:`c_j - y_j` and
whose Hessian :math:`\mathrm{diag}(c) - c c^\top` is at most :math:`\mathrm{diag}(c)`: with this
bound as curvature no step is too long, however many candidates of a document share a leaf.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.calibration.calibrators import BoostedSets, check_outcomes
from setwise.models.compilation import njit
from setwise.models.parameters import check_parameters
from setwise.models.sets.features import SetFeatureTable

# Outcomes of a document that sum to more than this mean two right sets.
_MOST_RIGHT = 1.0 + 1e-9

# Rounding may give a curvature of zero, by which XGBoost would divide.
_LEAST_CURVATURE = 1e-16


class SoftmaxSets(BoostedSets):
    """Boosted trees whose confidences compete inside each document.

    Parameters
    ----------
    max_rows : int, default 300,000
        With more rows, whole documents are sampled.
    random_state : int, default 0
    """

    def __init__(self, *, max_rows: int = 300_000, random_state: int = 0) -> None:
        super().__init__("softmax", max_rows=max_rows, random_state=random_state)

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Boost ``n_trees`` trees.

        Rows of weight 0 count as absent.

        Raises
        ------
        ValueError
            If outcomes or weights do not match the table, a document has more than one right set,
            or its rows differ in weight.
        """
        check_parameters(self)
        outcome, weight = check_outcomes(table, correct, sample_weight)
        weighted = np.flatnonzero(weight)
        if len(weighted) < len(table):
            table, outcome, weight = table.take(weighted), outcome[weighted], weight[weighted]
        constant = constant_margin(table, outcome, weight)
        start = {"objective": "reg:squarederror", "base_score": constant}
        if len(table) > self.max_rows:
            drawn = draw_documents(table.doc_indptr, self.max_rows, self.random_state)
            table, outcome, weight = table.take(drawn), outcome[drawn], weight[drawn]
        bounds = table.doc_indptr

        def gradient(margin: NDArray[np.float32], _: object) -> tuple[Any, Any]:
            return softmax_derivatives(margin.astype(np.float64), bounds, outcome, weight)

        self._boost(start, table, outcome, weight, gradient)
        return self

    def _confidence(self, table: SetFeatureTable, n_trees: int | None) -> NDArray[np.float64]:
        confidence = self._margin(table, n_trees)
        share_certainty(confidence, table.doc_indptr)
        return confidence


def constant_margin(
    table: SetFeatureTable, outcome: NDArray[np.float64], weight: NDArray[np.float64]
) -> float:
    """Return the best constant margin if all documents had as many candidates.

    Raises
    ------
    ValueError
        If a document has more than one right set, or its rows differ in weight.
    """
    first = table.doc_indptr[:-1]
    right = np.add.reduceat(outcome, first)
    if right.max() > _MOST_RIGHT:
        raise ValueError("a document cannot have more than one right candidate")
    if (np.maximum.reduceat(weight, first) > np.minimum.reduceat(weight, first)).any():
        raise ValueError("the candidates of a document must have one weight")
    of_document = weight[first]
    edge = 0.5 / (of_document.sum() + 1.0)
    share = np.clip(np.average(right, weights=of_document), edge, 1.0 - edge)
    size = np.average(np.diff(table.doc_indptr), weights=of_document)
    return float(np.log(share / (1 - share) / size))


def draw_documents(doc_indptr: NDArray[np.int64], max_rows: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of random documents: at least one document.

    At most ``max_rows`` rows, unless the one document has more.
    """
    order = np.random.default_rng(seed).permutation(len(doc_indptr) - 1)
    sizes = np.diff(doc_indptr)
    within = np.cumsum(sizes[order]) <= max_rows
    within[0] = True
    taken = np.zeros(len(sizes), dtype=bool)
    taken[order[within]] = True
    return np.flatnonzero(np.repeat(taken, sizes))


@njit(cache=True, nogil=True)
def share_certainty(
    margin: NDArray[np.float64], doc_indptr: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    """Turn the margins of each document's candidates into confidences, in place."""
    for i in range(len(doc_indptr) - 1):
        top = 0.0
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            top = max(top, margin[s])
        total = np.exp(-top)
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            margin[s] = np.exp(margin[s] - top)
            total += margin[s]
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            margin[s] /= total


@njit(cache=True, nogil=True)
def softmax_derivatives(
    margin: NDArray[np.float64],
    doc_indptr: NDArray[np.int64],
    outcome: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # pragma: no cover - compiled
    """Return the cross-entropy's gradient and a diagonal bound of its Hessian.

    Parameters
    ----------
    margin : float64 ndarray of shape (n_sets,)
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
    outcome : float64 ndarray of shape (n_sets,)
        1 for the right candidate, 0 for others; or shares that sum to at most 1.
    weight : float64 ndarray of shape (n_sets,)
        Equal inside a document.
    """
    confidence = margin.copy()
    share_certainty(confidence, doc_indptr)
    curvature = np.maximum(weight * confidence, _LEAST_CURVATURE)
    return weight * (confidence - outcome), curvature
