"""Thresholds chosen in other ways, to compare with the certified ones."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from setwise.models.guarantees.binomial import upper_bound
from setwise.models.guarantees.sequence import checked_confidences


def plugin_threshold(
    predicted: ArrayLike, target: float, rule: Literal["pointwise", "mean"] = "pointwise"
) -> float | None:
    """Return the plug-in threshold, without audits or guarantee.

    Parameters
    ----------
    predicted : array-like of shape (n,)
        Confidences, in [0, 1].
    target : float
        Accuracy asked for, in (0, 1].
    rule : {"pointwise", "mean"}
        ``"pointwise"`` sends what has a confidence of at least the target (thesis, section 4.10);
        ``"mean"`` as much as keeps the mean confidence of what is sent at the target. If the
        confidences are exact, the second misses the target in half of all samples; if they are
        too high, both miss it.

    Returns
    -------
    float or None
        None if nothing may be sent.

    Raises
    ------
    ValueError
        If a confidence is out of range.

    Examples
    --------
    >>> plugin_threshold([0.99, 0.95, 0.8], 0.9)
    0.9
    >>> plugin_threshold([0.99, 0.95, 0.8], 0.9, "mean")
    0.8
    """
    ordered = np.sort(checked_confidences("predicted", predicted))[::-1]
    if len(ordered) == 0 or ordered[0] < target:
        return None
    if rule == "pointwise":
        return target
    mean = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    # The mean falls along the order, and equal confidences are sent together.
    last = np.append(ordered[:-1] > ordered[1:], [True])
    return float(ordered[np.flatnonzero(last & (mean >= target))[-1]])


def sgr_threshold(
    confidence: ArrayLike, right: ArrayLike, target: float, risk: float
) -> float | None:
    """Search a threshold by bisection with guaranteed risk (SGR).

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of audited predictions, in [0, 1].
    right : array-like of shape (n,)
        1 where the set was right, else 0.
    target, risk : float
        In (0, 1). Each of the ``ceil(log2 n)`` steps spends its share of the risk.

    Returns
    -------
    float or None
        The lowest threshold visited whose bound holds; None if none does.

    Raises
    ------
    ValueError
        If lengths differ or a confidence is out of range.

    References
    ----------
    .. [1] Y. Geifman and R. El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS
       2017: Selection with Guaranteed Risk (SGR), Theorem 3.2. The bound of their Lemma 3.1 is
       that of Clopper and Pearson.

    Examples
    --------
    >>> sgr_threshold([0.9] * 100 + [0.4] * 100, [1] * 100 + [0] * 100, 0.9, 0.1)
    0.9
    """
    values = checked_confidences("confidence", confidence)
    outcome = np.asarray(right)
    if outcome.shape != values.shape:
        raise ValueError(f"{len(values)} confidences need as many outcomes")
    n = len(values)
    if n == 0:
        return None
    order = np.argsort(values, kind="stable")
    ordered, wrong = values[order], 1 - outcome[order]
    wrong_from = np.cumsum(wrong[::-1])[::-1]
    steps = max(int(np.ceil(np.log2(n))), 1)
    low, high, found = 0, n - 1, None
    for _ in range(steps):
        middle = (low + high + 1) // 2
        first = int(np.searchsorted(ordered, ordered[middle], side="left"))
        if upper_bound(wrong_from[first], n - first, risk / steps) <= 1.0 - target:
            found, high = float(ordered[middle]), middle
        else:
            low = middle
    return found
