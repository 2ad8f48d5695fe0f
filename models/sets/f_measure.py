r"""Finds label sets that maximise expected F1 under a distribution.

The general F-measure maximiser (thesis, Algorithm 2.1) needs only a distribution's *sized
marginals* :math:`P_{ls} = p(y_l = 1, |y| = s)` and :math:`p(\emptyset)`. A prediction of size
:math:`k` that holds the labels :math:`A` then earns

.. math:: E[F] = \sum_{l \in A} \Delta_{lk}, \qquad
          \Delta_{lk} = \sum_s \frac{2 P_{ls}}{s + k},

and the empty prediction earns :math:`p(\emptyset)`: two empty sets agree perfectly.

Sizes of the *true* set without mass may be left out; sizes of the *prediction* may not, because a
prediction larger than any likely set can be best. A bound ends the search: no prediction of
size :math:`k` earns more than :math:`\sum_{ls} 2 P_{ls} / (s + k)`, which falls with :math:`k`, so
the search over sizes stops once that is no better than the best set found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.mixtures.support.sized_marginals import Products, WeightedSets, tabulate
from setwise.models.sets.candidates import CandidateSets

# Chosen sets as indptr and labels, their values, and the document without mass or -1.
_Batch = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], int]


@dataclass(frozen=True, eq=False)
class ExpectedF1Sets:
    """Sets that maximise expected F1, and their expected F1."""

    sets: csr_array  # (n_documents, n_labels) one set per document
    expected_f1: NDArray[np.float64]  # (n_documents,) in [0, 1], under the normalised distribution


def maximise_expected_f1(
    *,
    candidates: CandidateSets | None = None,
    masses: ArrayLike | None = None,
    product_weights: ArrayLike | None = None,
    product_marginals: ArrayLike | None = None,
    allow_empty: bool = True,
) -> ExpectedF1Sets:
    r"""Find for each document the label set of highest expected F1.

    The distribution of document :math:`i` is a sum of explicit sets and of products of independent
    labels, whose masses need not sum to one:

    .. math:: p_i(y) \propto \sum_{c} m_{ic} [y = c]
              + \sum_j w_{ij} \prod_l \mathrm{Ber}(y_l; \mu_{ijl}).

    Explicit sets alone are support inference; one product is binary relevance; K products are a
    (conditional) Bernoulli mixture; both together add the missing mass to a candidate list.

    Parameters
    ----------
    candidates : CandidateSets, optional
        The explicit sets.
    masses : array-like of shape (n_sets,), optional
        Their masses, at least 0; required with ``candidates``.
    product_weights : array-like of shape (n_documents, n_products), optional
        Masses of the products, at least 0; required with ``product_marginals``.
    product_marginals : array-like of shape (n_documents, n_products, n_labels), optional
        Probabilities of the labels inside each product, in [0, 1].
    allow_empty : bool, default True
        If False, the distribution is conditioned on a non-empty set: the empty set has no mass and
        is chosen only if no label has any.

    Returns
    -------
    ExpectedF1Sets
        Among equally good sets the smallest, then the one with the lowest labels.

    Raises
    ------
    ValueError
        If shapes disagree, a mass or a probability is out of range, or a document has no mass.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, section 2.2 and Algorithm 2.1.
    .. [2] B. Wang, C. Li, V. Pavlu and J. Aslam, "Regularizing Model Complexity and Label Structure
       for Multi-Label Text Classification", KDD 2017, section 3.2.

    Examples
    --------
    Three exclusive labels of probability .5, .4 and .1: hedging over two beats the mode.

    >>> best = maximise_expected_f1(
    ...     product_weights=[[0.5, 0.4, 0.1]], product_marginals=[np.eye(3)]
    ... )
    >>> best.sets.toarray().tolist(), best.expected_f1.round(3).tolist()
    ([[1, 1, 0]], [0.6])
    """
    checked = _check_candidates(candidates, masses)
    products = _check_products(product_weights, product_marginals)
    if checked is None and products is None:
        raise ValueError("no distribution: give candidates with masses, or products with weights")
    if checked is None:
        assert products is not None  # noqa: S101  # one of the two is given
        checked = _no_candidates(*products[1].shape[::2])
    if products is None:
        n = checked[0].n_documents
        products = np.zeros((n, 0)), np.zeros((n, 0, checked[0].n_labels))
    sets, mass = checked
    weights, marginals = products
    if marginals.shape[::2] != (sets.n_documents, sets.n_labels):
        raise ValueError(
            f"products of {marginals.shape[0]} documents and {marginals.shape[2]} labels do not go "
            f"with candidates of {sets.n_documents} and {sets.n_labels}"
        )
    indptr, labels, value, massless = _maximise_batch(
        sets.doc_indptr,
        WeightedSets(sets.set_indptr, sets.labels, mass),
        Products(weights, marginals),
        allow_empty,
    )
    return _collect(indptr, labels, value, massless, sets.n_labels)


def maximise_from_sized_marginals(
    P: ArrayLike,
    p_empty: ArrayLike,
    labels: ArrayLike,
    sizes: ArrayLike,
    n_labels: int,
) -> ExpectedF1Sets:
    r"""Find the sets of highest expected F1 from sized marginals.

    For sized marginals that were changed after inference, for instance calibrated: no joint
    distribution needs to have them.

    Parameters
    ----------
    P : array-like of shape (n_documents, n_pairs)
        :math:`p(y_l = 1, |y| = s \mid x)` of each (label, size) pair, at least 0.
    p_empty : array-like of shape (n_documents,)
        :math:`p(\emptyset \mid x)`, with the same factor as ``P``.
    labels, sizes : array-like of shape (n_pairs,)
        Distinct pairs; sizes at least 1.
    n_labels : int

    Returns
    -------
    ExpectedF1Sets
        ``expected_f1`` divides by the total mass :math:`p(\emptyset) + \sum_{ls} P_{ls} / s`.

    Raises
    ------
    ValueError
        If shapes disagree, an entry is out of range, or a document has no mass.

    Examples
    --------
    >>> best = maximise_from_sized_marginals([[0.5, 0.4, 0.1]], [0.0], [0, 1, 2], [1, 1, 1], 3)
    >>> best.sets.indices.tolist()
    [0, 1]
    """
    P = np.ascontiguousarray(P, dtype=np.float64)
    empty = np.ascontiguousarray(p_empty, dtype=np.float64)
    pair_label = np.ascontiguousarray(labels, dtype=np.int64)
    pair_size = np.ascontiguousarray(sizes, dtype=np.int64)
    if P.ndim != 2 or empty.shape != P.shape[:1] or pair_label.shape != P.shape[1:]:
        raise ValueError(f"P {P.shape}, p_empty {empty.shape} and labels {pair_label.shape} differ")
    if pair_size.shape != pair_label.shape or not np.all(pair_size >= 1):
        raise ValueError("every pair needs a size of at least 1")
    if not (np.all(P >= 0.0) and np.all(empty >= 0.0)):
        raise ValueError("sized marginals must be at least 0")
    present, row = np.unique(pair_label, return_inverse=True)
    if len(present) and not 0 <= present[0] <= present[-1] < n_labels:
        raise ValueError(f"labels must lie between 0 and {n_labels - 1}")
    indptr, best_labels, value, massless = _maximise_table(
        P, empty, present.astype(np.int32), row.astype(np.int64), pair_size
    )
    return _collect(indptr, best_labels, value, massless, n_labels)


def _check_candidates(
    candidates: CandidateSets | None, masses: ArrayLike | None
) -> tuple[CandidateSets, NDArray[np.float64]] | None:
    if (candidates is None) != (masses is None):
        raise ValueError("candidates and masses go together")
    if candidates is None:
        return None
    mass = np.ascontiguousarray(masses, dtype=np.float64)
    if mass.shape != (len(candidates),):
        raise ValueError(f"{len(candidates)} candidates need as many masses, not {mass.shape}")
    if not (np.all(mass >= 0.0) and np.all(np.isfinite(mass))):
        raise ValueError("masses must be finite and at least 0")
    return candidates, mass


def _check_products(
    weights: ArrayLike | None, marginals: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    if (weights is None) != (marginals is None):
        raise ValueError("product_weights and product_marginals go together")
    if weights is None:
        return None
    w = np.ascontiguousarray(weights, dtype=np.float64)
    mu = np.ascontiguousarray(marginals, dtype=np.float64)
    if mu.ndim != 3 or w.shape != mu.shape[:2]:
        raise ValueError(
            f"weights {w.shape} and marginals {mu.shape} must have shapes (n, J) and (n, J, L)"
        )
    if not (np.all(w >= 0.0) and np.all(np.isfinite(w))):
        raise ValueError("product_weights must be finite and at least 0")
    if not (np.all(mu >= 0.0) and np.all(mu <= 1.0)):
        raise ValueError("product_marginals must lie in [0, 1]")
    return w, mu


def _no_candidates(n: int, n_labels: int) -> tuple[CandidateSets, NDArray[np.float64]]:
    none = CandidateSets(
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        np.zeros(0, dtype=np.uint8),
        n_labels,
    )
    return none, np.zeros(0)


def _collect(
    indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    value: NDArray[np.float64],
    massless: int,
    n_labels: int,
) -> ExpectedF1Sets:
    if massless >= 0:
        raise ValueError(f"the distribution of document {massless} has no mass on any set")
    ones = np.ones(len(labels), dtype=np.uint8)
    sets = csr_array((ones, labels, indptr), shape=(len(value), n_labels))
    return ExpectedF1Sets(sets, np.minimum(value, 1.0))


@njit(cache=True, nogil=True)
def _mass_by_size(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, by size s, s times the mass of these sets."""
    by_size = np.zeros(table.shape[1])
    for row in range(table.shape[0]):
        for s in range(table.shape[1]):
            by_size[s] += table[row, s]
    return by_size


@njit(cache=True, nogil=True)
def _best_of_size(
    table: NDArray[np.float64], k: int, gain: NDArray[np.float64], rows: NDArray[np.int64]
) -> float:
    """Find the k rows of largest gain, falling; return their total."""
    held = 0
    for row in range(table.shape[0]):
        earned = 0.0
        for s in range(table.shape[1]):
            earned += 2.0 * table[row, s] / (s + 1 + k)
        if held < k:
            held += 1
        elif earned <= gain[held - 1]:
            continue
        slot = held - 1
        while slot > 0 and gain[slot - 1] < earned:
            gain[slot] = gain[slot - 1]
            rows[slot] = rows[slot - 1]
            slot -= 1
        gain[slot] = earned
        rows[slot] = row
    total = 0.0
    for slot in range(k):
        total += gain[slot]
    return total


@njit(cache=True, nogil=True)
def _choose(table: NDArray[np.float64], p_empty: float) -> tuple[NDArray[np.int64], float, float]:
    """Run Algorithm 2.1 on one document.

    ``table[r, s - 1]`` holds the sized marginal of row ``r`` and size ``s``. Returns the best set's
    rows, ascending, its expected F1 and the total mass.
    """
    n_rows, n_sizes = table.shape
    by_size = _mass_by_size(table)
    mass = p_empty
    for s in range(n_sizes):
        mass += by_size[s] / (s + 1)
    gain = np.empty(n_rows)
    rows = np.empty(n_rows, dtype=np.int64)
    best = p_empty
    members = rows[:0].copy()
    for k in range(1, n_rows + 1):
        bound = 0.0
        for s in range(n_sizes):
            bound += 2.0 * by_size[s] / (s + 1 + k)
        if bound <= best:
            break
        total = _best_of_size(table, k, gain, rows)
        if total > best:
            best = total
            members = np.sort(rows[:k])
    return members, best, mass


@njit(cache=True, nogil=True)
def _append(
    labels: NDArray[np.int32], start: int, present: NDArray[np.int32], rows: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Write these rows' labels at ``start``, growing the array if needed."""
    if start + len(rows) > len(labels):
        grown = np.empty(2 * len(labels) + len(rows), dtype=np.int32)
        grown[:start] = labels[:start]
        labels = grown
    for i in range(len(rows)):
        labels[start + i] = present[rows[i]]
    return labels


@njit(cache=True, nogil=True)
def _maximise_batch(
    doc_indptr: NDArray[np.int64],
    sets: WeightedSets,
    products: Products,
    allow_empty: bool,
) -> _Batch:
    n, _, n_labels = products.marginals.shape
    indptr = np.zeros(n + 1, dtype=np.int64)
    labels = np.empty(8 * n + 64, dtype=np.int32)
    value = np.zeros(n)
    present = np.empty(n_labels, dtype=np.int32)
    for i in range(n):
        of_document = Products(products.weights[i], products.marginals[i])
        table, p_empty = tabulate(sets, doc_indptr[i], doc_indptr[i + 1], of_document, present)
        rows, best, mass = _choose(table, p_empty if allow_empty else 0.0)
        if not mass > 0.0:
            return indptr, labels, value, i
        value[i] = best / mass
        labels = _append(labels, indptr[i], present, rows)
        indptr[i + 1] = indptr[i] + len(rows)
    return indptr, labels[: indptr[n]].copy(), value, -1


@njit(cache=True, nogil=True)
def _maximise_table(
    P: NDArray[np.float64],
    p_empty: NDArray[np.float64],
    present: NDArray[np.int32],
    pair_row: NDArray[np.int64],
    pair_size: NDArray[np.int64],
) -> _Batch:
    n, n_pairs = P.shape
    n_sizes = 0
    for j in range(n_pairs):
        n_sizes = max(n_sizes, pair_size[j])
    indptr = np.zeros(n + 1, dtype=np.int64)
    labels = np.empty(8 * n + 64, dtype=np.int32)
    value = np.zeros(n)
    table = np.zeros((len(present), n_sizes))
    for i in range(n):
        for j in range(n_pairs):
            table[pair_row[j], pair_size[j] - 1] = P[i, j]
        rows, best, mass = _choose(table, p_empty[i])
        if not mass > 0.0:
            return indptr, labels, value, i
        value[i] = best / mass
        labels = _append(labels, indptr[i], present, rows)
        indptr[i + 1] = indptr[i] + len(rows)
    return indptr, labels[: indptr[n]].copy(), value, -1
