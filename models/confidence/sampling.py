"""What rows are worth that were drawn with unequal probabilities, or answered with noise."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LARGEST_WEIGHT = 10.0
"""Cap of an inclusion weight: it costs a little bias and saves much variance."""


def inclusion_weights(probability: ArrayLike, *, largest: float = LARGEST_WEIGHT) -> Floats:
    """Return the weights with which reviewed rows stand for the whole stream.

    Parameters
    ----------
    probability : array-like of shape (n,)
        With which each row came to be reviewed, known when it was predicted; in (0, 1].
    largest : float, default=10
        Cap of a weight, at least 1.

    Returns
    -------
    float64 ndarray of shape (n,)
        ``min(1 / probability, largest)``.

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
    chance = _probabilities(probability)
    if not largest >= 1.0:
        raise ValueError(f"the largest weight is {largest}; it must be at least 1")
    return np.minimum(1.0 / chance, largest)


def effective_rows(alpha: ArrayLike, beta: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Return how many clean, unweighted rows noisy and weighted ones are worth.

    The square of ``1 - alpha - beta`` is, but for a factor that depends on the accuracy, the
    information that an answer keeps; weights cost what Kish's formula says.

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
    kept = (1.0 - np.asarray(alpha, dtype=np.float64) - np.asarray(beta, dtype=np.float64)) ** 2
    if weight is None:
        return float(kept.sum())
    w = np.asarray(weight, dtype=np.float64)
    return float((w.sum() / (w @ w)) * (w @ kept))


def thin_to_constant(probability: ArrayLike, draw: ArrayLike) -> NDArray[np.bool_]:
    """Choose rows such that all are included with one probability, the smallest among them.

    Exact binomial tests need it where some documents are reviewed more often than others.

    Parameters
    ----------
    probability : array-like of shape (n,)
        With which each row came to be reviewed, in (0, 1].
    draw : array-like of shape (n,)
        Uniform on [0, 1), independent of everything about the row; the same draws choose the same
        rows again.

    Returns
    -------
    bool ndarray of shape (n,)

    Raises
    ------
    ValueError
        If a probability or a draw is out of range.

    Examples
    --------
    >>> thin_to_constant([0.05, 1.0, 1.0], [0.99, 0.04, 0.5])
    array([ True,  True, False])
    """
    chance, uniform = _probabilities(probability), np.asarray(draw, dtype=np.float64)
    if uniform.shape != chance.shape or not np.all((uniform >= 0) & (uniform < 1)):
        raise ValueError("every row needs a draw from [0, 1)")
    if len(chance) == 0:
        return np.zeros(0, dtype=bool)
    return np.asarray(uniform < chance.min() / chance)


def estimate_accuracy(
    confidence: ArrayLike, reviewed: ArrayLike, right: ArrayLike, probability: ArrayLike
) -> tuple[float, float]:
    """Estimate the accuracy of all predictions from those that were reviewed.

    Confidences do most of the work, reviewed rows correct them; the estimate is unbiased whatever
    the confidences (augmented inverse probability weighting).

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of all predictions, reviewed or not.
    reviewed, right : array-like of shape (n,)
        0 or 1; ``right`` counts where ``reviewed`` is 1. It may be a `shifted_target`.
    probability : array-like of shape (n,)
        With which the row was to be reviewed, in (0, 1].

    Returns
    -------
    (float, float)
        Estimate and standard error.

    Raises
    ------
    ValueError
        If a probability is out of range or there are fewer than two rows.

    References
    ----------
    .. [1] J. Robins, A. Rotnitzky and L. Zhao, "Estimation of Regression Coefficients When Some
       Regressors are not Always Observed", JASA 89, 1994.

    Examples
    --------
    >>> estimate_accuracy([0.8, 0.8], [1, 0], [1, 0], [0.5, 0.5])[0]
    1.0
    """
    chance = _probabilities(probability)
    c = np.asarray(confidence, dtype=np.float64)
    corrected = c + np.asarray(reviewed) / chance * (np.asarray(right, dtype=np.float64) - c)
    if len(corrected) < 2:
        raise ValueError("an accuracy needs at least two predictions")
    return float(corrected.mean()), float(corrected.std(ddof=1) / np.sqrt(len(corrected)))


def _probabilities(values: ArrayLike) -> Floats:
    chance = np.asarray(values, dtype=np.float64)
    if chance.ndim != 1 or not np.all((chance > 0) & (chance <= 1)):
        raise ValueError("an inclusion probability lies in (0, 1]")
    return chance
