r"""Sized marginals: probabilities of a label *and* a set size.

For sets with masses they are sums. For independent labels they follow from the distribution of the
number of the other labels (Poisson-binomial),

.. math:: p(y_l = 1, |y| = s) = p_l \, p(\textstyle\sum_{m \ne l} y_m = s - 1),

and for a mixture of such products they add up, so no sampling is needed (the KDD 2017 paper
considers them intractable).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit

# Labels less likely than this are left out, with an error of at most 2L times this for L labels.
_NEGLIGIBLE_MARGINAL = 1e-13

# Tail mass of the set size, per label, that is cut off: less than rounding.
_NEGLIGIBLE_TAIL = 1e-18


class WeightedSets(NamedTuple):
    """Explicit sets of all documents, with their masses."""

    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    mass: NDArray[np.float64]


class Products(NamedTuple):
    """Products of independent labels, of all documents or of one."""

    weights: NDArray[np.float64]
    marginals: NDArray[np.float64]


@njit(cache=True, nogil=True)
def _count_sizes(p: NDArray[np.float64], out: NDArray[np.float64]) -> int:
    """Compute the distribution of the number of successes, without its tail.

    Writes ``out[0:top + 1]`` and returns ``top``.
    """
    out[0] = 1.0
    top = 0
    for i in range(len(p)):
        out[top + 1] = out[top] * p[i]
        for s in range(top, 0, -1):
            out[s] = out[s] * (1.0 - p[i]) + out[s - 1] * p[i]
        out[0] *= 1.0 - p[i]
        if out[top + 1] > _NEGLIGIBLE_TAIL:
            top += 1
    return top


@njit(cache=True, nogil=True)
def _leave_out(sizes: NDArray[np.float64], p: float, out: NDArray[np.float64]) -> None:
    """Remove one trial from the distribution of the number of successes.

    Inverts one step of the recursion from the end that damps errors.
    """
    top = len(sizes) - 1
    if p <= 0.5:
        out[0] = sizes[0] / (1.0 - p)
        for s in range(1, top + 1):
            out[s] = max((sizes[s] - p * out[s - 1]) / (1.0 - p), 0.0)
    else:
        out[top] = 0.0
        for s in range(top, 0, -1):
            out[s - 1] = max((sizes[s] - (1.0 - p) * out[s]) / p, 0.0)


@njit(cache=True, nogil=True)
def _mark_labels(
    sets: WeightedSets, first: int, last: int, products: Products, row_of: NDArray[np.int64]
) -> None:
    """Assign rows to relevant labels in order, -1 to others."""
    row_of[:] = -1
    for c in range(first, last):
        if sets.mass[c] > 0.0:
            for t in range(sets.indptr[c], sets.indptr[c + 1]):
                row_of[sets.labels[t]] = 0
    for j in range(len(products.weights)):
        for label in range(len(row_of)):
            if products.weights[j] * products.marginals[j, label] > _NEGLIGIBLE_MARGINAL:
                row_of[label] = 0
    n_rows = 0
    for label in range(len(row_of)):
        if row_of[label] == 0:
            row_of[label] = n_rows
            n_rows += 1


@njit(cache=True, nogil=True)
def _add_sets(
    table: NDArray[np.float64], sets: WeightedSets, first: int, last: int, row_of: NDArray[np.int64]
) -> float:
    """Add explicit sets to the table; return the empty set's mass."""
    p_empty = 0.0
    for c in range(first, last):
        size = sets.indptr[c + 1] - sets.indptr[c]
        if size == 0:
            p_empty += sets.mass[c]
        elif sets.mass[c] > 0.0:
            for t in range(sets.indptr[c], sets.indptr[c + 1]):
                table[row_of[sets.labels[t]], size - 1] += sets.mass[c]
    return p_empty


@njit(cache=True, nogil=True)
def _add_product(
    table: NDArray[np.float64], p: NDArray[np.float64], weight: float, sizes: NDArray[np.float64]
) -> None:
    """Add independent labels to the table by their Poisson-binomial."""
    top = min(len(sizes), table.shape[1])
    without = np.empty(len(sizes))
    for row in range(len(p)):
        if p[row] > 0.0:
            _leave_out(sizes, p[row], without)
            for s in range(top):
                table[row, s] += weight * p[row] * without[s]


@njit(cache=True, nogil=True)
def tabulate(
    sets: WeightedSets, first: int, last: int, products: Products, present: NDArray[np.int32]
) -> tuple[NDArray[np.float64], float]:
    """Tabulate the sized marginals of one document.

    Parameters
    ----------
    sets : WeightedSets
        Sets of all documents; this document owns ``first`` to ``last``.
    first, last : int
    products : Products
        Products of this document: weights (J,), marginals (J, L).
    present : int32 ndarray of shape (n_labels,)
        Receives the labels of the table's rows, ascending.

    Returns
    -------
    table : float64 ndarray of shape (n_rows, n_sizes)
        Column ``s - 1`` belongs to size ``s``.
    p_empty : float
        Mass of the empty set.
    """
    row_of = np.empty(products.marginals.shape[1], dtype=np.int64)
    _mark_labels(sets, first, last, products, row_of)
    n_rows = 0
    for label in range(len(row_of)):
        if row_of[label] >= 0:
            present[n_rows] = label
            n_rows += 1
    n_sizes = 0
    for c in range(first, last):
        if sets.mass[c] > 0.0:
            n_sizes = max(n_sizes, sets.indptr[c + 1] - sets.indptr[c])
    n_products = len(products.weights)
    p = np.empty((n_products, n_rows))
    counts = np.empty((n_products, n_rows + 2))
    tops = np.zeros(n_products, dtype=np.int64)
    p_empty = 0.0
    for j in range(n_products):
        if products.weights[j] > 0.0:
            for row in range(n_rows):
                p[j, row] = products.marginals[j, present[row]]
            tops[j] = _count_sizes(p[j], counts[j])
            n_sizes = max(n_sizes, tops[j])
            p_empty += products.weights[j] * counts[j, 0]
    table = np.zeros((n_rows, n_sizes))
    p_empty += _add_sets(table, sets, first, last, row_of)
    for j in range(n_products):
        if products.weights[j] > 0.0:
            _add_product(table, p[j], products.weights[j], counts[j, : tops[j] + 1])
    return table, p_empty
