"""Finds the K most probable label sets under independent labels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.compilation import njit
from setwise.models.data.bits import lowest_bit, without_lowest_bit
from setwise.models.sets.candidates import SOURCE_MARGINALS, CandidateSets, RaggedSets

MAX_CANDIDATES = 64  # the flips of one candidate fit one 64-bit mask

# Marginals are kept this far from 0 and 1, so that every set has a finite log score.
PROBABILITY_FLOOR = 1e-15

# Probabilities of the likelier value lie in [1/2, 1]: a product of this many cannot underflow.
_PRODUCT_LENGTH = 512


def k_best_sets(P: ArrayLike, k: int, *, allow_empty: bool) -> CandidateSets:
    r"""Return the ``k`` most probable label sets of each document.

    Under independent labels a set's probability is the mode's, divided by the odds of each flipped
    label. Only the ``k - 1`` cheapest flips can appear in the ``k`` best sets, and a heap returns
    their subsets in order of total cost. The result equals that of Algorithm 4.2 [1]_.

    Parameters
    ----------
    P : array-like of shape (n_documents, n_labels)
        Marginals :math:`p(y_l = 1 \mid x)` in [0, 1].
    k : int
        Sets per document, 1 to 64; fewer are returned if fewer exist.
    allow_empty : bool
        Whether the empty set may be a candidate.

    Returns
    -------
    CandidateSets
        Sets in falling order of ``log_score``, the sum of the log-probabilities of all labels'
        values; at most 0.

    Raises
    ------
    ValueError
        If ``k`` is out of range, ``P`` is not a matrix with a column, or an entry is not a
        probability.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, Algorithm 4.2.

    Examples
    --------
    >>> best = k_best_sets([[0.9, 0.4]], 3, allow_empty=True)
    >>> [best.labels_of(s).tolist() for s in range(3)]
    [[0], [0, 1], []]
    >>> np.exp(best.log_score).round(2)
    array([0.54, 0.36, 0.06])
    """
    P = np.ascontiguousarray(P, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] == 0:
        raise ValueError(f"P must be a matrix with at least one label; its shape is {P.shape}")
    if not 1 <= k <= MAX_CANDIDATES:
        raise ValueError(f"k must lie between 1 and {MAX_CANDIDATES}; it is {k}")
    n, n_labels = P.shape
    k, n_flips = search_size(n_labels, k, allow_empty=allow_empty)
    set_indptr, labels, log_score, bad_row = search_rows(P, k, n_flips, allow_empty)
    if bad_row >= 0:
        raise ValueError(f"row {bad_row} of P holds a value outside [0, 1]")
    source = np.empty(n * k, dtype=np.uint8)
    source.fill(SOURCE_MARGINALS)
    bounds = np.arange(0, n * k + 1, k, dtype=np.int64)
    return CandidateSets(bounds, set_indptr, labels, log_score, source, n_labels)


def search_size(n_labels: int, k: int, *, allow_empty: bool) -> tuple[int, int]:
    """Return the number of sets, at most ``k``, and of flips needed."""
    k = min(k, 2 ** min(n_labels, 7) - (not allow_empty))
    return k, min(n_labels, k - 1 if allow_empty else k)


class _Heap(NamedTuple):
    """Subsets of flips as a binary min-heap on their total cost."""

    total: NDArray[np.float64]
    mask: NDArray[np.uint64]
    last: NDArray[np.int64]  # most expensive member


class _Flips(NamedTuple):
    """The labels that cost least to flip, cheapest first."""

    label: NDArray[np.int32]
    low: NDArray[np.float64]  # probability of the unlikelier value
    cost: NDArray[np.float64]  # log-odds of the likelier value
    rank: NDArray[np.int64]  # position among the ascending labels
    ascending: NDArray[np.int32]  # labels


class _Chosen(NamedTuple):
    """The subsets found for one document, in order."""

    mask: NDArray[np.uint64]
    cost: NDArray[np.float64]


@njit(cache=True, nogil=True)
def _push(heap: _Heap, size: int, total: float, mask: np.uint64, last: int) -> None:
    """Insert a subset into a heap of ``size`` subsets."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap.total[parent] <= total:
            break
        heap.total[child] = heap.total[parent]
        heap.mask[child] = heap.mask[parent]
        heap.last[child] = heap.last[parent]
        child = parent
    heap.total[child] = total
    heap.mask[child] = mask
    heap.last[child] = last


@njit(cache=True, nogil=True)
def _replace_root(heap: _Heap, size: int, total: float, mask: np.uint64, last: int) -> None:
    """Replace the cheapest of ``size`` subsets by another one."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and heap.total[child + 1] < heap.total[child]:
            child += 1
        if heap.total[child] >= total:
            break
        heap.total[hole] = heap.total[child]
        heap.mask[hole] = heap.mask[child]
        heap.last[hole] = heap.last[child]
        hole = child
    heap.total[hole] = total
    heap.mask[hole] = mask
    heap.last[hole] = last


@njit(cache=True, nogil=True)
def _scan(
    p: NDArray[np.float64], n_flips: int, mode: NDArray[np.int32], flips: _Flips
) -> tuple[float, int]:
    """Find the mode, its log-probability and the cheapest flips.

    Returns the log-probability and the mode's size, -1 if an entry is not a probability. A flip
    is cheap if its label's unlikelier value is likely; ties go to the earlier label.
    """
    label_of, low_of = flips.label, flips.low
    log_mode = 0.0
    product = 1.0
    n_mode = 0
    n_held = 0
    worst = -1.0 if n_flips > 0 else 1.0  # what a flip must beat
    for label in range(len(p)):
        value = p[label]
        if not 0.0 <= value <= 1.0:
            return 0.0, -1
        low = value
        if value > 0.5:
            low = 1.0 - value
            mode[n_mode] = label
            n_mode += 1
        low = max(low, PROBABILITY_FLOOR)
        product *= 1.0 - low
        if label % _PRODUCT_LENGTH == _PRODUCT_LENGTH - 1:
            log_mode += np.log(product)
            product = 1.0
        if low <= worst:
            continue
        if n_held < n_flips:
            n_held += 1
        slot = n_held - 1
        while slot > 0 and low_of[slot - 1] < low:
            low_of[slot] = low_of[slot - 1]
            label_of[slot] = label_of[slot - 1]
            slot -= 1
        low_of[slot] = low
        label_of[slot] = label
        if n_held == n_flips:
            worst = low_of[n_flips - 1]
    return log_mode + np.log(product), n_mode


@njit(cache=True, nogil=True)
def _complete(flips: _Flips, n_flips: int) -> None:
    """Fill in the costs of the flips and their order by label."""
    for j in range(n_flips):
        flips.cost[j] = np.log((1.0 - flips.low[j]) / flips.low[j])
        rank = 0
        for other in flips.label[:n_flips]:
            rank += other < flips.label[j]
        flips.rank[j] = rank
        flips.ascending[rank] = flips.label[j]


@njit(cache=True, nogil=True)
def _empty_mask(
    mode: NDArray[np.int32], n_mode: int, flips: _Flips, n_flips: int
) -> tuple[bool, np.uint64]:
    """Return whether flips reach the empty set, and their mask."""
    mask = np.uint64(0)
    n_flipped = 0
    for j in range(n_flips):
        for a in range(n_mode):
            if mode[a] == flips.label[j]:
                mask |= np.uint64(1) << np.uint64(j)
                n_flipped += 1
                break
    return n_flipped == n_mode, mask


@njit(cache=True, nogil=True)
def _cheapest_subsets(
    flips: _Flips, n_flips: int, forbidden: tuple[bool, np.uint64], subsets: _Chosen, heap: _Heap
) -> None:
    """Find the cheapest subsets of flips, except a forbidden one.

    A subset whose most expensive member is ``last`` has two successors: ``last + 1`` is added or
    replaces ``last``. Each subset but the empty one has one predecessor, which costs no more, so
    the heap returns every subset once and in order.
    """
    cost = flips.cost
    bit = np.uint64(1)
    skip, skipped = forbidden
    n_out = 0
    if not (skip and skipped == np.uint64(0)):
        subsets.mask[0] = 0
        n_out = 1
    size = min(n_flips, 1)
    if size > 0:
        _push(heap, 0, cost[0], bit, 0)
    while n_out < len(subsets.mask) and size > 0:
        total, mask, last = heap.total[0], heap.mask[0], heap.last[0]
        if not (skip and mask == skipped):
            subsets.mask[n_out] = mask
            n_out += 1
        if last + 1 < n_flips:
            added = bit << np.uint64(last + 1)
            exchanged = (mask ^ (bit << np.uint64(last))) | added
            dearer = cost[last + 1]
            _replace_root(heap, size, total - cost[last] + dearer, exchanged, last + 1)
            _push(heap, size, total + dearer, mask | added, last + 1)
            size += 1
        else:
            size -= 1
            if size > 0:
                _replace_root(heap, size, heap.total[size], heap.mask[size], heap.last[size])


@njit(cache=True, nogil=True)
def _settle_costs(flips: _Flips, subsets: _Chosen) -> None:
    """Recompute the costs and restore their order.

    Rounding along the heap depends on the path to a subset; here it depends on the subset alone.
    """
    for s in range(len(subsets.mask)):
        rest = mask = subsets.mask[s]
        total = 0.0
        while rest:
            total += flips.cost[lowest_bit(rest)]
            rest = without_lowest_bit(rest)
        slot = s
        while slot > 0 and subsets.cost[slot - 1] > total:
            subsets.cost[slot] = subsets.cost[slot - 1]
            subsets.mask[slot] = subsets.mask[slot - 1]
            slot -= 1
        subsets.cost[slot] = total
        subsets.mask[slot] = mask


@njit(cache=True, nogil=True)
def _write_set(
    mask: np.uint64, mode: NDArray[np.int32], flips: _Flips, out: NDArray[np.int32]
) -> int:
    """Write the flipped mode, labels ascending; return the end."""
    ranks = np.uint64(0)
    while mask:
        ranks |= np.uint64(1) << np.uint64(flips.rank[lowest_bit(mask)])
        mask = without_lowest_bit(mask)
    end = 0
    a = 0
    while ranks:
        flipped = flips.ascending[lowest_bit(ranks)]
        ranks = without_lowest_bit(ranks)
        while a < len(mode) and mode[a] < flipped:
            out[end] = mode[a]
            end += 1
            a += 1
        if a < len(mode) and mode[a] == flipped:
            a += 1
        else:
            out[end] = flipped
            end += 1
    while a < len(mode):
        out[end] = mode[a]
        end += 1
        a += 1
    return end


@njit(cache=True, nogil=True)
def search_rows(
    P: NDArray[np.float64],
    k: int,
    n_flips: int,
    allow_empty: bool,  # compiled code takes no keywords
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], int]:
    """Return set bounds, labels, log scores and first invalid row (-1)."""
    n, n_labels = P.shape
    set_indptr = np.zeros(n * k + 1, dtype=np.int64)
    log_score = np.empty(n * k, dtype=np.float64)
    labels = np.empty(4 * n * k + 64, dtype=np.int32)
    mode = np.empty(n_labels, dtype=np.int32)
    flips = _Flips(
        np.empty(n_flips + 1, dtype=np.int32),
        np.empty(n_flips + 1, dtype=np.float64),
        np.empty(n_flips + 1, dtype=np.float64),
        np.empty(n_flips + 1, dtype=np.int64),
        np.empty(n_flips + 1, dtype=np.int32),
    )
    subsets = _Chosen(np.empty(k, dtype=np.uint64), np.empty(k, dtype=np.float64))
    heap = _Heap(
        np.empty(k + 3, dtype=np.float64),
        np.empty(k + 3, dtype=np.uint64),
        np.empty(k + 3, dtype=np.int64),
    )
    end = 0
    for i in range(n):
        log_mode, n_mode = _scan(P[i], n_flips, mode, flips)
        if n_mode < 0:
            return set_indptr, labels, log_score, i
        _complete(flips, n_flips)
        forbidden = (False, np.uint64(0))
        if not allow_empty:
            forbidden = _empty_mask(mode, n_mode, flips, n_flips)
        _cheapest_subsets(flips, n_flips, forbidden, subsets, heap)
        _settle_costs(flips, subsets)
        room = k * (n_mode + n_flips)
        if end + room > len(labels):
            longer = np.empty(2 * len(labels) + room, dtype=np.int32)
            longer[:end] = labels[:end]
            labels = longer
        for s in range(k):
            log_score[i * k + s] = min(log_mode - subsets.cost[s], 0.0)
            end += _write_set(subsets.mask[s], mode[:n_mode], flips, labels[end:])
            set_indptr[i * k + s + 1] = end
    return set_indptr, labels[:end].copy(), log_score, -1


@njit(cache=True, nogil=True)
def independent_scores(
    P: NDArray[np.float64], doc_indptr: NDArray[np.int64], sets: RaggedSets
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return each set's log-probability (n_sets,) under independent labels, in nats.

    Parameters
    ----------
    P : float64 ndarray of shape (n_documents, n_labels)
        Marginals in [0, 1], kept off 0 and 1 as in `k_best_sets`.
    doc_indptr : int64 ndarray of shape (n_documents + 1,)
        Bounds of each document's sets.
    sets : RaggedSets
    """
    out = np.empty(len(sets.indptr) - 1)
    for i in range(len(P)):
        absent = 0.0
        for p in P[i]:
            absent += np.log1p(-min(p, 1.0 - PROBABILITY_FLOOR))
        for s in range(doc_indptr[i], doc_indptr[i + 1]):
            total = absent
            for label in sets.labels[sets.indptr[s] : sets.indptr[s + 1]]:
                p = min(max(P[i, label], PROBABILITY_FLOOR), 1.0 - PROBABILITY_FLOOR)
                total += np.log(p) - np.log1p(-p)
            out[s] = min(total, 0.0)
    return out
