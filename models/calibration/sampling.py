"""Weights of unequally sampled rows and the worth of noisy answers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LARGEST_WEIGHT = 10.0
"""Cap of an inclusion weight: a little bias for much less variance."""


def inclusion_weights(probability: ArrayLike) -> Floats:
    """Return weights that make reviewed rows represent the whole stream.

    Parameters
    ----------
    probability : array-like of shape (n,)
        Probability that each row is reviewed, known at prediction time; in (0, 1].

    Returns
    -------
    float64 ndarray of shape (n,)
        ``min(1 / probability, LARGEST_WEIGHT)``.

    Raises
    ------
    ValueError
        If a probability is out of range.

    References
    ----------
    .. [1] D. Horvitz and D. Thompson, "A Generalization of Sampling Without Replacement from a
       Finite Universe", JASA 47, 1952; truncated as by E. Ionides, "Truncated Importance Sampling",
       2008.

    Examples
    --------
    >>> inclusion_weights([1.0, 0.25, 0.02])
    array([ 1.,  4., 10.])
    """
    chance = np.asarray(probability, dtype=np.float64)
    if chance.ndim != 1 or not np.all((chance > 0) & (chance <= 1)):
        raise ValueError("an inclusion probability lies in (0, 1]")
    return np.minimum(1.0 / chance, LARGEST_WEIGHT)


def least_doubt(n: float) -> float:
    """Return how near to 0 or 1 a share may come that n observations support.

    Of n observations that all are right, the share (n + 1/2) / (n + 1) is right.

    Examples
    --------
    >>> least_doubt(24.0)
    0.02
    """
    return 0.5 / (float(n) + 1.0)


def effective_rows(alpha: ArrayLike, beta: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Return how many clean, unweighted rows the given rows are worth.

    The square of ``1 - alpha - beta`` is, up to a factor that depends on the accuracy, the
    information that an answer keeps; Kish's formula gives the loss by weights.

    Parameters
    ----------
    alpha, beta : array-like of shape (n,)
        Noise rates of each row.
    weight : array-like of shape (n,), optional
        Not negative, not all zero.

    Examples
    --------
    >>> effective_rows([0.5] * 100, [0.0] * 100)
    25.0
    """
    informative = (
        1.0 - np.asarray(alpha, dtype=np.float64) - np.asarray(beta, dtype=np.float64)
    ) ** 2
    if weight is None:
        return float(informative.sum())
    w = np.asarray(weight, dtype=np.float64)
    return float((w.sum() / (w @ w)) * (w @ informative))
