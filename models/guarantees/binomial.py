"""Exact binomial tests, bounds and sample sizes."""

from collections.abc import Callable

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Sample sizes that are tried first (all up to 150, then 8 % more each time), and the number of
# sizes tried between the first sufficient one and the one before it.
_SIZES = np.unique(np.concatenate([np.arange(150), np.geomspace(150, 1e6, 120)]).astype(np.int64))
_BETWEEN = 17


def upper_tail(successes: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Floats:
    """Return the binomial tail P(Bin(trials, rate) >= successes).

    It is the p-value of "the rate is no higher".

    Parameters
    ----------
    successes, trials : array-like of int, broadcastable
        ``0 <= successes <= trials``; more successes than trials have probability 0.
    rate : array-like, broadcastable
        In [0, 1].

    Returns
    -------
    float64 ndarray
        In [0, 1].

    Examples
    --------
    >>> float(upper_tail(2, 2, 0.5))
    0.25
    """
    tail = scipy.stats.binom.sf(_array(successes) - 1, _array(trials), _array(rate))
    return np.asarray(tail, dtype=np.float64)


def lower_bound(successes: ArrayLike, trials: ArrayLike, risk: float) -> Floats:
    """Return the lower confidence bound of a rate.

    Parameters
    ----------
    successes, trials : array-like, broadcastable
        May be fractions: effective numbers of a weighted sample are allowed.
    risk : float
        Probability, in (0, 1), that the bound may lie above the rate.

    Returns
    -------
    float64 ndarray
        In [0, 1); 0 without successes or trials.

    References
    ----------
    .. [1] C. Clopper and E. Pearson, "The use of confidence or fiducial limits illustrated in the
       case of the binomial", Biometrika 26, 1934.

    Examples
    --------
    >>> lower_bound(22, 22, 0.1).round(3)  # 0.1 ** (1 / 22)
    np.float64(0.901)
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    some = k > 0
    bound = scipy.special.betaincinv(np.where(some, k, 1.0), n - k + 1.0, risk)
    return np.where(some, bound, 0.0)[()]


def upper_bound(successes: ArrayLike, trials: ArrayLike, risk: float) -> Floats:
    """Return the upper confidence bound of a rate; see `lower_bound`.

    Returns
    -------
    float64 ndarray
        In (0, 1]; 1 if every trial succeeded or there is none.
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    return (1.0 - lower_bound(n - k, n, risk))[()]


def required_successes(trials: ArrayLike, rate: ArrayLike, risk: ArrayLike) -> Counts:
    """Return the fewest successes that reject "the rate is no higher".

    Returns
    -------
    int64 ndarray
        ``trials + 1`` if no number does.

    Examples
    --------
    >>> required_successes([21, 22, 50], 0.9, 0.1)
    array([22, 22, 49])
    """
    least = scipy.stats.binom.isf(_array(risk), _array(trials), _array(rate))
    return np.asarray(least, dtype=np.int64) + 1


def fewest(power_of: Callable[[Counts], Floats], power: float) -> Counts:
    """Return the smallest sample size with a power, for each row.

    Parameters
    ----------
    power_of : callable
        Maps sizes of shape (1, k) or (m, k) to powers of shape (m, k).
    power : float

    Returns
    -------
    int64 ndarray of shape (m,)
        Exact up to 150, to a few per cent above, because power does not rise steadily; -1 if a
        million is not enough.
    """

    def first(sizes: Counts) -> tuple[Counts, Bools]:
        reached = power_of(sizes) >= power
        return np.asarray(reached.argmax(axis=1)), np.asarray(reached.any(axis=1))

    place, found = first(_SIZES[None, :])
    low, high = _SIZES[np.maximum(place - 1, 0)], _SIZES[place]
    between = np.rint(low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _BETWEEN))
    sizes = between.astype(np.int64)
    return np.where(found, sizes[np.arange(len(sizes)), first(sizes)[0]], -1)


def _array(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
