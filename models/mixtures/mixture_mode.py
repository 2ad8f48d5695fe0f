r"""Exact most probable label sets of a mixture, by the threshold algorithm.

A set's probability is :math:`p(y) = \sum_k \pi_k p_k(y)`. Every component can list its own sets in
falling order of :math:`p_k`: its mode, then the mode with the cheapest flips of labels, a flip
costing :math:`|z_{kl}|`, the label's absolute log-odds. When the sets that component :math:`k` has
not listed have :math:`p_k(y) \le G_k`, no set outside all lists exceeds

.. math:: \tau = \sum_k \pi_k G_k,

so the search ends with a proof as soon as the best set found has :math:`p \ge \tau` (thesis,
Algorithms 3.2 and 3.3). Four things make it fast: :math:`G_k` starts at the component's mode, not
at infinity, or at the next set if the mode is the empty set and cannot be the answer; the component
with the largest part in the bound lists the next set; a component prepares its list only if more
than its mode is needed; and shared classifiers are evaluated once (`mixture_measure`).

All scores are computed in the same way, as a sum of logits in label order, so that ties are exact.
Otherwise rounding could keep the best set below the bound and the search would not end.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.compilation import njit
from setwise.models.mixtures.mixture_measure import (
    Biases,
    Logits,
    Measured,
    SharedLogits,
    fill_row,
    in_parts,
    log_probability,
    log_sum,
    measure,
)
from setwise.models.sets.candidates import CandidateSets

SOURCE_MIXTURE = 2

# Maximum number of sets scored per document. Typical documents need fewer than ten.
DEFAULT_LIMIT = 2048

# The sum of the components' bounds is updated, and recomputed after this many sets to limit
# rounding errors.
_SETS_BETWEEN_SUMS = 64

# Costs of flips and logits are summed in different orders: a set this close to the bound, in nats,
# has reached it. Proofs hold up to a factor of 1 + 1e-10 in probability.
_ROUNDING = 1e-10

# Flips that a component sorts at first; it sorts all if more are needed.
_CHEAPEST = 12

# This close to the end an updated bound is recomputed, because it has rounding errors.
_NEARLY = 1e-6


@dataclass(frozen=True, eq=False)
class MixtureSets:
    """Most probable sets of a batch of documents, with proof."""

    # In falling order of ``log_score``, the sets' log-probability in nats.
    candidates: CandidateSets
    # (n_documents,) no set outside the candidates has a larger log-probability than this and the
    # last candidate's. With ``proven`` it is at most the last candidate's, up to rounding.
    log_bound: NDArray[np.float64]
    depth: NDArray[np.int64]  # (n_documents,) number of sets scored
    # (n_documents,) whether the candidates are proven to be the most probable sets; False if the
    # limit ended the search.
    proven: NDArray[np.bool_]


def most_probable_sets(
    log_weights: ArrayLike,
    logits: ArrayLike | SharedLogits,
    k: int = 1,
    *,
    allow_empty: bool,
    limit: int = DEFAULT_LIMIT,
) -> MixtureSets:
    """Find the ``k`` most probable label sets of each document's mixture.

    Parameters
    ----------
    log_weights : array-like of shape (n_documents, n_components)
        Log-weights of the components, in nats; minus infinity for an absent one. They need not
        be normalised.
    logits : array-like of shape (n_documents, n_components, n_labels), or SharedLogits
        Finite log-odds of the labels inside the components.
    k : int, default 1
        Sets per document; fewer are returned if fewer exist or the limit ended the search.
    allow_empty : bool
        Whether the empty set may be a candidate; if not, the bound is on all others.
    limit : int, default 2048
        Maximum number of sets scored per document.

    Returns
    -------
    MixtureSets
        Among equally probable sets, those found first.

    Raises
    ------
    ValueError
        If shapes disagree, ``k`` or ``limit`` is below 1, a logit is not finite, or a document has
        no component.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, Algorithms 3.2 and 3.3.
    .. [2] R. Fagin, A. Lotem and M. Naor, "Optimal aggregation algorithms for middleware",
       Journal of Computer and System Sciences 66, 2003.

    Examples
    --------
    The mode of the mixture, {0, 1}, is the mode of no component.

    >>> mu = np.array([[0.9, 0.45, 0.1], [0.45, 0.9, 0.1], [0.1, 0.1, 0.9]])
    >>> best = most_probable_sets(
    ...     np.log([[0.35, 0.35, 0.3]]), [np.log(mu / (1 - mu))], allow_empty=False
    ... )
    >>> best.candidates.labels.tolist(), bool(best.proven[0])
    ([0, 1], True)
    """
    weights = np.ascontiguousarray(log_weights, dtype=np.float64)
    z = _as_logits(logits)
    if len(z.shape) != 3 or weights.shape != z.shape[:2] or z.shape[2] == 0:
        raise ValueError(
            f"log_weights {weights.shape} and logits {z.shape} need shapes (n, K) and (n, K, L)"
        )
    parts = in_parts(z)
    if k < 1 or limit < 1:
        raise ValueError(f"k and limit must be at least 1; they are {k} and {limit}")
    if not all(np.isfinite(part).all() for part in (parts[0], parts[1].by_component)):
        raise ValueError("logits must be finite: clip probabilities away from 0 and 1")
    if not (np.max(weights, axis=1, initial=-math.inf) > -math.inf).all():
        raise ValueError("a document has no component of positive weight")
    modes = _search_batch(weights, *parts, k, allow_empty, limit)
    candidates = CandidateSets(
        modes.doc_indptr,
        modes.set_indptr,
        modes.labels,
        modes.log_p,
        np.full(len(modes.log_p), SOURCE_MIXTURE, dtype=np.uint8),
        z.shape[2],
    )
    return MixtureSets(candidates, modes.log_bound, modes.depth, modes.proven)


def set_log_probabilities(
    log_weights: ArrayLike, logits: ArrayLike | SharedLogits, candidates: CandidateSets
) -> NDArray[np.float64]:
    r"""Return :math:`\log p(y \mid x)` of each document's candidates under its mixture.

    Parameters
    ----------
    log_weights, logits
        As for `most_probable_sets`.
    candidates : CandidateSets
        Candidates of the same documents.

    Returns
    -------
    float64 ndarray of shape (n_sets,)
        In nats.

    Raises
    ------
    ValueError
        If the shapes disagree.
    """
    weights = np.ascontiguousarray(log_weights, dtype=np.float64)
    z = _as_logits(logits)
    shape = (candidates.n_documents, candidates.n_labels)
    if len(z.shape) != 3 or weights.shape != z.shape[:2] or z.shape[::2] != shape:
        raise ValueError(
            f"log_weights {weights.shape} and logits {z.shape} do not go with candidates of "
            f"{shape[0]} documents and {shape[1]} labels"
        )
    scores: NDArray[np.float64] = _score_sets(
        weights, *in_parts(z), candidates.doc_indptr, candidates.set_indptr, candidates.labels
    )
    return scores


def _as_logits(logits: ArrayLike | SharedLogits) -> Logits:
    if isinstance(logits, SharedLogits):
        return logits
    return np.ascontiguousarray(logits, dtype=np.float64)


class _Modes(NamedTuple):
    doc_indptr: NDArray[np.int64]
    set_indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_bound: NDArray[np.float64]
    depth: NDArray[np.int64]
    proven: NDArray[np.bool_]


class _Best(NamedTuple):
    """The most probable sets so far of one document, in falling order."""

    log_p: NDArray[np.float64]  # (k,)
    size: NDArray[np.int64]  # (k,)
    labels: NDArray[np.int32]  # (k, L)


class _Lists(NamedTuple):
    """The components' lists of one document, with the sets to list next.

    A node is a subset of flips: its parent's plus one, given by its rank among the component's
    costs. Each component's heap holds the nodes it may list next, cheapest first.
    """

    ready: NDArray[np.bool_]  # (K,) whether the list is prepared
    order: NDArray[np.int64]  # (K, L) labels by rising cost, the first `ordered` of them
    ordered: NDArray[np.int64]  # (K,)
    listed: NDArray[np.int64]  # (K,) sets listed
    heap: NDArray[np.int64]  # (K, limit + 2) nodes
    heap_size: NDArray[np.int64]  # (K,)
    cost: NDArray[np.float64]  # (nodes,)
    parent: NDArray[np.int64]  # (nodes,) -1: the component's mode
    rank: NDArray[np.int64]  # (nodes,)
    n_nodes: NDArray[np.int64]  # (1,)


@njit(cache=True, nogil=True)
def _push(lists: _Lists, k: int, node: int) -> None:
    heap = lists.heap[k]
    child = lists.heap_size[k]
    lists.heap_size[k] += 1
    while child > 0:
        up = (child - 1) >> 1
        if lists.cost[heap[up]] <= lists.cost[node]:
            break
        heap[child] = heap[up]
        child = up
    heap[child] = node


@njit(cache=True, nogil=True)
def _pop(lists: _Lists, k: int) -> int:
    heap = lists.heap[k]
    first = heap[0]
    lists.heap_size[k] -= 1
    size = lists.heap_size[k]
    if size > 0:
        last = heap[size]
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and lists.cost[heap[child + 1]] < lists.cost[heap[child]]:
                child += 1
            if lists.cost[heap[child]] >= lists.cost[last]:
                break
            heap[hole] = heap[child]
            hole = child
        heap[hole] = last
    return int(first)


@njit(cache=True, nogil=True)
def _add_node(lists: _Lists, k: int, parent: int, rank: int, cost: float) -> None:
    node = lists.n_nodes[0]
    lists.n_nodes[0] += 1
    lists.cost[node] = cost
    lists.parent[node] = parent
    lists.rank[node] = rank
    _push(lists, k, node)


@njit(cache=True, nogil=True)
def _order_cheapest(lists: _Lists, z: NDArray[np.float64], k: int) -> None:
    """Find the component's cheapest flips; few searches need more.

    Ties are in label order, as in a stable sort.
    """
    order = lists.order[k]
    count = 0
    for label in range(z.shape[1]):
        cost = abs(z[k, label])
        if count == _CHEAPEST and cost >= abs(z[k, order[count - 1]]):
            continue
        slot = min(count, _CHEAPEST - 1)
        while slot > 0 and abs(z[k, order[slot - 1]]) > cost:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = label
        count = min(count + 1, _CHEAPEST)
    lists.ordered[k] = count


@njit(cache=True, nogil=True)
def _list_next(lists: _Lists, z: NDArray[np.float64], k: int) -> int:
    """Return the component's next subset of flips, -1 for its mode."""
    lists.listed[k] += 1
    if lists.listed[k] == 1:
        return -1
    if lists.listed[k] == 2:
        _order_cheapest(lists, z, k)
        _add_node(lists, k, -1, 0, abs(z[k, lists.order[k, 0]]))
    node = _pop(lists, k)
    rank = lists.rank[node]
    if rank + 1 == lists.ordered[k] and rank + 1 < z.shape[1]:
        lists.order[k] = np.argsort(np.abs(z[k]), kind="mergesort")
        lists.ordered[k] = z.shape[1]
    if rank + 1 < z.shape[1]:
        dearer = abs(z[k, lists.order[k, rank + 1]])
        cost = lists.cost[node]
        _add_node(lists, k, node, rank + 1, cost + dearer)
        cost = cost - abs(z[k, lists.order[k, rank]]) + dearer
        _add_node(lists, k, lists.parent[node], rank + 1, cost)
    return node


@njit(cache=True, nogil=True)
def _bound_next(lists: _Lists, mixture: Measured, k: int) -> float:
    """Return the log bound of the component's unlisted sets, with its weight."""
    if lists.listed[k] == 1:
        cheapest = math.inf
        for logit in mixture.z[k]:
            cheapest = min(cheapest, abs(logit))
        return float(mixture.log_mode[k] - cheapest)
    if lists.heap_size[k] == 0:
        return -math.inf
    return float(mixture.log_mode[k] - lists.cost[lists.heap[k, 0]])


@njit(cache=True, nogil=True)
def _write_set(
    lists: _Lists, z: NDArray[np.float64], k: int, node: int, out: NDArray[np.int32]
) -> int:
    """Write the labels of the flipped mode; return their number."""
    flipped = np.zeros(z.shape[1], dtype=np.bool_)
    while node >= 0:
        flipped[lists.order[k, lists.rank[node]]] = True
        node = lists.parent[node]
    size = 0
    for label in range(z.shape[1]):
        if (z[k, label] > 0.0) != flipped[label]:
            out[size] = label
            size += 1
    return size


@njit(cache=True, nogil=True)
def _is_held(best: _Best, n_best: int, labels: NDArray[np.int32], size: int) -> bool:
    """Return whether a set is already among the best."""
    for b in range(n_best):
        if best.size[b] == size and np.array_equal(best.labels[b, :size], labels[:size]):
            return True
    return False


@njit(cache=True, nogil=True)
def _keep(best: _Best, n_best: int, log_p: float, labels: NDArray[np.int32], size: int) -> int:
    """Insert a new set if among the best; return their number."""
    k = len(best.log_p)
    if n_best == k and log_p <= best.log_p[k - 1]:
        return n_best
    slot = min(n_best, k - 1)
    while slot > 0 and best.log_p[slot - 1] < log_p:
        best.log_p[slot] = best.log_p[slot - 1]
        best.size[slot] = best.size[slot - 1]
        best.labels[slot] = best.labels[slot - 1]
        slot -= 1
    best.log_p[slot] = log_p
    best.size[slot] = size
    best.labels[slot, :size] = labels[:size]
    return min(n_best + 1, k)


@njit(cache=True, nogil=True)
def _begin(mixture: Measured, lists: _Lists, allow_empty: bool) -> NDArray[np.float64]:
    """Clear the lists; return each component's bound (K,), in nats."""
    lists.ready[:] = False
    lists.listed[:] = 0
    lists.heap_size[:] = 0
    lists.n_nodes[0] = 0
    bound = mixture.log_mode.copy()
    if not allow_empty:
        for k in range(len(bound)):
            if mixture.largest[k] <= 0.0:  # the mode is the empty set: begin with the next
                lists.listed[k] = 1
                bound[k] += mixture.largest[k]
    return bound


@njit(cache=True, nogil=True)
def _search(
    mixture: Measured, lists: _Lists, best: _Best, allow_empty: bool, limit: int
) -> tuple[int, int, float, bool]:
    """Run the threshold algorithm on one document.

    Returns the number of sets held, the number scored, the bound on all others, and whether it
    proves that the sets held are the best.
    """
    bound = _begin(mixture, lists, allow_empty)
    labels = np.empty(mixture.z.shape[1], dtype=np.int32)
    scores = np.empty((2, len(bound)))
    n_best = 0
    depth = 0
    top = bound.max()
    total = math.exp(log_sum(bound, scores[1]) - top)
    while True:
        k = int(np.argmax(bound))
        if not lists.ready[k]:
            fill_row(mixture, k)
            lists.ready[k] = True
        size = _write_set(lists, mixture.z, k, _list_next(lists, mixture.z, k), labels)
        depth += 1
        if (size > 0 or allow_empty) and not _is_held(best, n_best, labels, size):
            log_p = log_probability(mixture, labels, size, scores)
            n_best = _keep(best, n_best, log_p, labels, size)
        before = bound[k]
        bound[k] = _bound_next(lists, mixture, k)
        if bound[k] == -math.inf:  # this component listed every set there is
            return n_best, depth, -math.inf, True
        total += math.exp(bound[k] - top) - math.exp(before - top)
        reached = n_best == len(best.log_p) and (
            total <= 0.0 or best.log_p[n_best - 1] >= top + math.log(total) - _NEARLY
        )
        if not reached and depth % _SETS_BETWEEN_SUMS > 0 and depth < limit:
            continue
        threshold = log_sum(bound, scores[1])
        total = math.exp(threshold - top)
        if n_best == len(best.log_p) and best.log_p[n_best - 1] >= threshold - _ROUNDING:
            return n_best, depth, threshold, True
        if depth >= limit:
            return n_best, depth, threshold, False


@njit(cache=True, nogil=True)
def _search_batch(  # noqa: PLR0917  # compiled: no keywords
    log_weights: NDArray[np.float64],
    logits: NDArray[np.float64],
    biases: Biases,
    k: int,
    allow_empty: bool,
    limit: int,
) -> _Modes:
    n, n_components = log_weights.shape
    n_labels = logits.shape[2]
    z = np.empty((n_components, n_labels))
    lists = _Lists(
        np.zeros(n_components, dtype=np.bool_),
        np.empty((n_components, n_labels), dtype=np.int64),
        np.zeros(n_components, dtype=np.int64),
        np.zeros(n_components, dtype=np.int64),
        np.empty((n_components, limit + 2), dtype=np.int64),
        np.zeros(n_components, dtype=np.int64),
        np.empty(3 * limit + 3),
        np.empty(3 * limit + 3, dtype=np.int64),
        np.empty(3 * limit + 3, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    best = _Best(np.empty(k), np.empty(k, np.int64), np.empty((k, n_labels), np.int32))
    doc_indptr = np.zeros(n + 1, dtype=np.int64)
    set_indptr = np.zeros(n * k + 1, dtype=np.int64)
    log_p = np.empty(n * k)
    labels = np.empty(4 * n * k + 64, dtype=np.int32)
    log_bound = np.empty(n)
    depth = np.empty(n, dtype=np.int64)
    proven = np.empty(n, dtype=np.bool_)
    m = 0
    for i in range(n):
        mixture = measure(log_weights[i], logits[i], biases, z)
        held, depth[i], log_bound[i], proven[i] = _search(mixture, lists, best, allow_empty, limit)
        for b in range(held):
            start, end = set_indptr[m], set_indptr[m] + best.size[b]
            if end > len(labels):
                grown = np.empty(2 * len(labels) + best.size[b], dtype=np.int32)
                grown[:start] = labels[:start]
                labels = grown
            labels[start:end] = best.labels[b, : best.size[b]]
            log_p[m] = best.log_p[b]
            set_indptr[m + 1] = end
            m += 1
        doc_indptr[i + 1] = m
    return _Modes(
        doc_indptr,
        set_indptr[: m + 1].copy(),
        labels[: set_indptr[m]].copy(),
        log_p[:m].copy(),
        log_bound,
        depth,
        proven,
    )


@njit(cache=True, nogil=True)
def _score_sets(  # noqa: PLR0917  # compiled: no keywords
    log_weights: NDArray[np.float64],
    logits: NDArray[np.float64],
    biases: Biases,
    doc_indptr: NDArray[np.int64],
    set_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> NDArray[np.float64]:
    out = np.empty(len(set_indptr) - 1)
    n_components = log_weights.shape[1]
    z = np.empty((n_components, logits.shape[2]))
    scores = np.empty((2, n_components))
    for i in range(len(doc_indptr) - 1):
        mixture = measure(log_weights[i], logits[i], biases, z)
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            members = labels[set_indptr[s] : set_indptr[s + 1]]
            out[s] = log_probability(mixture, members, len(members), scores)
    return out
