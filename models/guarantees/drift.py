r"""Detects when the accuracy of what is sent drops below the target.

Each audit of a set that was sent is a bet on "wrong" against the hypothesis "right with a
probability of at least :math:`t`, whatever came before". A stake :math:`\lambda` turns a capital of
1 into :math:`1 + \lambda` where the set was wrong and :math:`1 - \lambda (1 - t) / t` where it was
right; under the hypothesis there is no gain on average. A new capital of 1 is added at every audit,
so that a good past does not delay an alarm (Shiryaev and Roberts):
:math:`M \leftarrow (M + 1) \cdot` factor. Under the hypothesis :math:`M_n - n` is a
supermartingale. Hence, with an alarm at :math:`M \ge A`, the expected number of audits until a
false alarm is at least :math:`A`, and one occurs within :math:`n` audits with a probability of at
most :math:`n / A` [1]_. Small stakes find small losses, large stakes large ones; the mean over
several is again such a process.

All this needs of an audit is a number :math:`W \ge 0` with :math:`E[W \mid \text{past}] \le 1 - t`
under the hypothesis; the capital's factor is :math:`1 + \lambda (W - (1 - t)) / t`. So an agreement
that was drawn for a second reading with probability :math:`r` and found wrong counts
:math:`W = 1 / r`: it stands for the misses that are not read again.

References
----------
.. [1] J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: A Nonparametric Framework for Sequential
   Change Detection", New England Journal of Statistics in Data Science 2, 2024:
   the Shiryaev-Roberts e-detector.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

STAKES = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0)
"""Stakes of the bets; `usable_stakes` limits them."""

_LARGEST_LOSS = 0.95  # share of a capital that one right set may cost
_MOST_CAPITAL = 1e300  # far beyond any alarm; keeps stored numbers finite


def usable_stakes(target: float) -> Floats:
    """Return the rising stakes (n_stakes,) that a target in (0, 1) allows."""
    most = _LARGEST_LOSS * target / (1.0 - target)
    return np.unique(np.minimum(STAKES, most))


def bet_factors(target: float) -> Floats:
    """Return the factor on each stake's capital, shape (2, n_stakes).

    The first row is for a set that was wrong, the second for one that was right.
    """
    stakes = usable_stakes(target)
    return np.stack([1.0 + stakes, 1.0 - stakes * (1.0 - target) / target])


def drift_statistic(
    right: ArrayLike, target: float, *, stands_for: ArrayLike | None = None
) -> Floats:
    """Return the evidence against the target after each audit.

    Parameters
    ----------
    right : array-like of shape (n,)
        Audits of what was sent, oldest first: 1 where the set was right, else 0.
    target : float
        Required probability that a set is right, in (0, 1). For answers without adjudication use
        ``NoiseRates.agreement(target)``.
    stands_for : array-like of shape (n,), optional
        How many errors a wrong set stands for, at least 1: the inverse of the probability of a
        second reading where the auditor agreed with it, else 1. By default 1.

    Returns
    -------
    float64 ndarray of shape (n,)
        The mean capital, not negative. With an alarm at A, a false alarm comes after at least A
        audits on average.

    Raises
    ------
    ValueError
        If an outcome is neither 0 nor 1, or another value is out of range.

    Examples
    --------
    >>> statistic = drift_statistic([0] * 10, 0.9)
    >>> int(np.argmax(statistic >= 1000)) + 1  # wrong ones in a row until an alarm at 1000
    7
    """
    factors = audit_factors(right, target, stands_for)
    capital = np.zeros(factors.shape[1])
    path = np.empty(factors.shape)
    for i, factor in enumerate(factors):  # each audit depends on the previous capital
        np.add(capital, 1.0, out=capital)
        np.multiply(capital, factor, out=capital)
        np.minimum(capital, _MOST_CAPITAL, out=capital)
        path[i] = capital
    return np.asarray(path.mean(axis=1))


def audit_factors(right: ArrayLike, target: float, stands_for: ArrayLike | None = None) -> Floats:
    """Return each audit's factor on each stake's capital, shape (n, n_stakes).

    Parameters and errors are those of `drift_statistic`.
    """
    if not 0.0 < target < 1.0:
        raise ValueError(f"target is {target}; it must lie between 0 and 1")
    outcomes = np.asarray(right)
    if outcomes.ndim != 1 or not np.all((outcomes == 0) | (outcomes == 1)):
        raise ValueError("the outcome of an audit is 0 or 1")
    worth = np.ones(len(outcomes)) if stands_for is None else np.asarray(stands_for, np.float64)
    if worth.shape != outcomes.shape or not np.all((worth >= 1) & np.isfinite(worth)):
        raise ValueError("each audit stands for a finite number of errors, at least 1")
    wrong, good = bet_factors(target)
    errors = np.where(outcomes == 1, 0.0, worth)[:, None]
    return np.asarray(np.where(errors == 1, wrong, good + errors * (wrong - good)))
