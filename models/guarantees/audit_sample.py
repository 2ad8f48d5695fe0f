"""Draws which answers of any system to check, with the probability of each draw.

Only checks above a threshold prove it, so they are drawn where sets may be sent: at confidences
from which the target is plausible, with a margin, since confidences may promise too much. Below,
the probability is a tenth. Within each of the two strata all answers have one probability, so that
the exact test of every threshold in the upper one needs no weights.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.checked import checked_confidences

Floats = NDArray[np.float64]

MARGIN = 0.1
"""How much accuracy confidences may promise beyond what is true, for the start to be low enough."""

REST_SHARE = 0.1
"""Probability of a draw below the start, as a share of that above."""


class AuditSample(NamedTuple):
    """What to check.

    Attributes
    ----------
    rows : int64 ndarray of shape (n,)
        Row numbers of the answers, in random order: the first ones are a smaller sample.
    probability : float64 ndarray of shape (n,)
        Chance with which each of them was drawn, in (0, 1].
    start : float
        Confidence from which draws are more likely.
    """

    rows: NDArray[np.int64]
    probability: Floats
    start: float


def draw_audits(
    confidence: ArrayLike, n: int, *, target: float = 0.95, random_state: int = 0
) -> AuditSample:
    """Draw ``n`` answers to check, mostly where the target is plausible.

    Parameters
    ----------
    confidence : array-like of shape (n_answers,)
        In [0, 1].
    n : int
        Answers to draw, at least 1; all if there are fewer.
    target : float, default=0.95
        Accuracy that is to be proved, in (0, 1].
    random_state : int, default=0
        Seed of the draw. Choose it before anything is known of the answers.

    Raises
    ------
    ValueError
        If a value is out of range, or there are no answers.

    Examples
    --------
    >>> sample = draw_audits([0.99] * 50 + [0.3] * 500, 40, target=0.9)
    >>> sample.start, float(sample.probability.min()), float(sample.probability.max())
    (0.99, 0.04, 0.4)
    """
    values = checked_confidences("confidence", confidence)
    if not len(values):
        raise ValueError("there are no answers to draw from")
    if n < 1:
        raise ValueError(f"n is {n}; draw at least one answer")
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target is {target}; it must lie in (0, 1]")
    start = _start(values, target - MARGIN)
    strata = np.flatnonzero(values >= start), np.flatnonzero(values < start)
    sizes = _allotted(n, *map(len, strata))
    draw = np.random.default_rng(random_state)
    rows = [
        draw.choice(stratum, k, replace=False) for stratum, k in zip(strata, sizes, strict=True)
    ]
    chances = [
        np.full(k, k / max(len(stratum), 1)) for stratum, k in zip(strata, sizes, strict=True)
    ]
    order = draw.permutation(sum(sizes))
    return AuditSample(np.concatenate(rows)[order], np.concatenate(chances)[order], start)


def _start(values: Floats, accuracy: float) -> float:
    """Return the lowest confidence from which the mean is at least ``accuracy``.

    If no confidence promises it, half of the answers lie above.
    """
    levels, counts = np.unique(values, return_counts=True)
    levels, counts = levels[::-1], counts[::-1]
    means = np.cumsum(levels * counts) / np.cumsum(counts)
    promised = np.flatnonzero(means >= accuracy)
    return float(levels[promised[-1]] if len(promised) else np.median(values))


def _allotted(n: int, n_above: int, n_below: int) -> tuple[int, int]:
    """Return how many to draw above and below the start."""
    n = min(n, n_above + n_below)
    rate = n / (n_above + REST_SHARE * n_below)
    above = min(n_above, round(rate * n_above))
    if n_below and n > 1:
        above = min(above, n - 1)  # one at least, or the share below would be unknown
    below = min(n_below, n - above)
    return n - below, below
