"""The K most probable label sets of independent labels."""

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from models.sets.candidates import SOURCE_MARGINALS, CandidateSets

MAX_CANDIDATES = 64  # the flips of one candidate fit one 64-bit mask

# Marginals nearer to 0 or 1 count as this far away, so that every set has a finite log score.
PROBABILITY_FLOOR = 1e-15

# Probabilities of the likelier value lie in [1/2, 1]: a product of this many cannot underflow.
_PRODUCT_LENGTH = 512


def k_best_sets(P: ArrayLike, k: int, *, allow_empty: bool) -> CandidateSets:
    r"""List the ``k`` most probable label sets of each document, most probable first.

    Under independent labels a set's probability is the mode's, divided by the odds of each flipped
    label. Only the ``k - 1`` cheapest flips can appear in the ``k`` best sets, and their subsets
    come out of a heap in order of total cost. The result equals that of Algorithm 4.2 [1]_.

    Parameters
    ----------
    P : array-like of shape (n_documents, n_labels)
        Marginals :math:`p(y_l = 1 \mid x)` in [0, 1].
    k : int
        Sets wanted per document, 1 to 64; fewer come back where fewer exist.
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
        If ``k`` is out of range, ``P`` is not a matrix with a column, or an entry is no probability.

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
    existing = 2 ** min(n_labels, 7) - (not allow_empty)
    k = min(k, existing)
    n_flips = min(n_labels, k - 1 if allow_empty else k)
    set_indptr, labels, log_score, bad_row = _search(P, k, n_flips, allow_empty)
    if bad_row >= 0:
        raise ValueError(f"row {bad_row} of P holds a value outside [0, 1]")
    return CandidateSets(
        np.arange(n + 1, dtype=np.int64) * k,
        set_indptr,
        labels,
        log_score,
        np.full(n * k, SOURCE_MARGINALS, dtype=np.uint8),
        n_labels,
    )


@njit(cache=True, nogil=True)
def _push(
    sums: NDArray[np.float64],
    masks: NDArray[np.uint64],
    lasts: NDArray[np.int64],
    size: int,
    total: float,
    mask: np.uint64,
    last: int,
) -> None:
    """Insert one subset into the binary min-heap of ``size`` subsets."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if sums[parent] <= total:
            break
        sums[child] = sums[parent]
        masks[child] = masks[parent]
        lasts[child] = lasts[parent]
        child = parent
    sums[child] = total
    masks[child] = mask
    lasts[child] = last


@njit(cache=True, nogil=True)
def _replace_root(
    sums: NDArray[np.float64],
    masks: NDArray[np.uint64],
    lasts: NDArray[np.int64],
    size: int,
    total: float,
    mask: np.uint64,
    last: int,
) -> None:
    """Replace the smallest of ``size`` subsets by another one."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and sums[child + 1] < sums[child]:
            child += 1
        if sums[child] >= total:
            break
        sums[hole] = sums[child]
        masks[hole] = masks[child]
        lasts[hole] = lasts[child]
        hole = child
    sums[hole] = total
    masks[hole] = mask
    lasts[hole] = last


@njit(cache=True, nogil=True)
def _scan(
    p: NDArray[np.float64],
    n_flips: int,
    mode: NDArray[np.int32],
    flip_label: NDArray[np.int32],
    flip_low: NDArray[np.float64],
) -> tuple[float, int]:
    """Find the mode, its log-probability and the flips that cost least, cheapest first.

    Returns the log-probability and the mode's size, -1 if an entry is no probability. A flip is
    cheap when the unlikelier value of its label is likely; ties go to the earlier label.
    """
    log_mode = 0.0
    product = 1.0
    n_mode = 0
    n_held = 0
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
        if n_held < n_flips:
            n_held += 1
        elif n_flips == 0 or low <= flip_low[n_flips - 1]:
            continue
        slot = n_held - 1
        while slot > 0 and flip_low[slot - 1] < low:
            flip_low[slot] = flip_low[slot - 1]
            flip_label[slot] = flip_label[slot - 1]
            slot -= 1
        flip_low[slot] = low
        flip_label[slot] = label
    return log_mode + np.log(product), n_mode


@njit(cache=True, nogil=True)
def _empty_mask(
    mode: NDArray[np.int32], n_mode: int, flip_label: NDArray[np.int32], n_flips: int
) -> tuple[bool, np.uint64]:
    """Return whether flips can reach the empty set, and the mask that does."""
    mask = np.uint64(0)
    found = 0
    for j in range(n_flips):
        for a in range(n_mode):
            if mode[a] == flip_label[j]:
                mask |= np.uint64(1) << np.uint64(j)
                found += 1
                break
    return found == n_mode, mask


@njit(cache=True, nogil=True)
def _cheapest_subsets(
    cost: NDArray[np.float64],
    n_flips: int,
    k: int,
    skip: bool,
    skipped: np.uint64,
    out_mask: NDArray[np.uint64],
    out_cost: NDArray[np.float64],
    sums: NDArray[np.float64],
    masks: NDArray[np.uint64],
    lasts: NDArray[np.int64],
) -> None:
    """Write the ``k`` subsets of ``cost`` (ascending) with the least sums, in order.

    A subset whose dearest member is ``last`` has two successors: the one with ``last + 1`` added
    and the one with ``last`` exchanged for it. Each subset but the empty one has one predecessor,
    which costs no more, so the heap meets every subset once and in order.
    """
    one = np.uint64(1)
    n_out = 0
    if not (skip and skipped == np.uint64(0)):
        out_mask[0] = 0
        n_out = 1
    size = 0
    if n_flips > 0:
        sums[0], masks[0], lasts[0] = cost[0], one, 0
        size = 1
    while n_out < k and size > 0:
        total, mask, last = sums[0], masks[0], lasts[0]
        if not (skip and mask == skipped):
            out_mask[n_out] = mask
            n_out += 1
        if last + 1 < n_flips:
            added = one << np.uint64(last + 1)
            swapped = (mask ^ (one << np.uint64(last))) | added
            _replace_root(
                sums, masks, lasts, size, total - cost[last] + cost[last + 1], swapped, last + 1
            )
            _push(sums, masks, lasts, size, total + cost[last + 1], mask | added, last + 1)
            size += 1
        else:
            size -= 1
            if size > 0:
                _replace_root(sums, masks, lasts, size, sums[size], masks[size], lasts[size])
    # Along the heap's paths rounding depends on the path: sum again, the same way for every set.
    for s in range(k):
        total = 0.0
        for j in range(n_flips):
            if (out_mask[s] >> np.uint64(j)) & one:
                total += cost[j]
        mask = out_mask[s]
        slot = s
        while slot > 0 and out_cost[slot - 1] > total:
            out_cost[slot] = out_cost[slot - 1]
            out_mask[slot] = out_mask[slot - 1]
            slot -= 1
        out_cost[slot] = total
        out_mask[slot] = mask


@njit(cache=True, nogil=True)
def _sort_by_label(
    flip_label: NDArray[np.int32], n_flips: int, order: NDArray[np.int64]
) -> None:
    for j in range(n_flips):
        slot = j
        while slot > 0 and flip_label[order[slot - 1]] > flip_label[j]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = j


@njit(cache=True, nogil=True)
def _write_set(
    mask: np.uint64,
    mode: NDArray[np.int32],
    n_mode: int,
    flip_label: NDArray[np.int32],
    order: NDArray[np.int64],
    n_flips: int,
    out: NDArray[np.int32],
    start: int,
) -> int:
    """Write the mode with the flips of ``mask``, labels ascending; return the end."""
    end = start
    a = 0
    for b in range(n_flips):
        if not (mask >> np.uint64(order[b])) & np.uint64(1):
            continue
        flipped = flip_label[order[b]]
        while a < n_mode and mode[a] < flipped:
            out[end] = mode[a]
            end += 1
            a += 1
        if a < n_mode and mode[a] == flipped:
            a += 1
        else:
            out[end] = flipped
            end += 1
    while a < n_mode:
        out[end] = mode[a]
        end += 1
        a += 1
    return end


@njit(cache=True, nogil=True)
def _search(  # type: ignore[no-untyped-def]  # four results; the caller names them
    P: NDArray[np.float64], k: int, n_flips: int, allow_empty: bool
):
    n, n_labels = P.shape
    set_indptr = np.zeros(n * k + 1, dtype=np.int64)
    log_score = np.empty(n * k, dtype=np.float64)
    labels = np.empty(max(4 * n * k, 64), dtype=np.int32)
    mode = np.empty(n_labels, dtype=np.int32)
    flip_label = np.empty(max(n_flips, 1), dtype=np.int32)
    flip_low = np.empty(max(n_flips, 1), dtype=np.float64)
    cost = np.empty(max(n_flips, 1), dtype=np.float64)
    order = np.empty(max(n_flips, 1), dtype=np.int64)
    out_mask = np.empty(k, dtype=np.uint64)
    out_cost = np.empty(k, dtype=np.float64)
    sums = np.empty(k + 3, dtype=np.float64)
    masks = np.empty(k + 3, dtype=np.uint64)
    lasts = np.empty(k + 3, dtype=np.int64)
    for i in range(n):
        log_mode, n_mode = _scan(P[i], n_flips, mode, flip_label, flip_low)
        if n_mode < 0:
            return set_indptr, labels, log_score, i
        for j in range(n_flips):
            cost[j] = np.log((1.0 - flip_low[j]) / flip_low[j])
        skip, skipped = False, np.uint64(0)
        if not allow_empty:
            skip, skipped = _empty_mask(mode, n_mode, flip_label, n_flips)
        _cheapest_subsets(
            cost, n_flips, k, skip, skipped, out_mask, out_cost, sums, masks, lasts
        )
        _sort_by_label(flip_label, n_flips, order)
        end = set_indptr[i * k]
        if end + k * (n_mode + n_flips) > len(labels):
            grown = np.empty(2 * len(labels) + k * (n_mode + n_flips), dtype=np.int32)
            grown[:end] = labels[:end]
            labels = grown
        for s in range(k):
            log_score[i * k + s] = min(log_mode - out_cost[s], 0.0)
            end = _write_set(out_mask[s], mode, n_mode, flip_label, order, n_flips, labels, end)
            set_indptr[i * k + s + 1] = end
    return set_indptr, labels[: set_indptr[n * k]].copy(), log_score, -1
