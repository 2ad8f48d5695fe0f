r"""What older rows are worth once reviews show that the confidences have shifted.

A model's original rows are a prior for its recalibration. Told that reviewers err, a fit takes few
reviews for even fewer true ones, so that the prior outweighs them exactly when it is wrong: after a
drift. So the prior counts for no more than the shift allows that the reviews show.
"""

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from setwise.models.calibration.losses import ForwardLoss

Floats = NDArray[np.float64]

CHANCE = 2.0
"""Variances of an estimated shift that chance alone explains."""

_MOST_SHIFT = 5.0  # of logits
_EDGE = 1e-6  # bounds logits, and what divides


def worth_after_shift(
    confidence: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    weight: ArrayLike = 1.0,
) -> float:
    r"""Return how many rows older ones are worth at most beside reviews.

    A prior of :math:`n` rows of accuracy :math:`p` lets logits shift with a variance of
    :math:`1 / (n p (1 - p))`. The reviews show a shift :math:`\delta` with a variance :math:`v`, so
    that older rows are worth no more than :math:`1 / (p (1 - p) (\delta^2 - 2 v))`.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of the reviewed sets, in [0, 1].
    agreed : array-like of shape (n,)
        0 or 1: whether a review agreed with the set.
    alpha, beta : float or array-like of shape (n,), default 0
        Noise rates of each review.
    weight : float or array-like of shape (n,), default 1
        Positive.

    References
    ----------
    .. [1] B. Hobbs, B. Carlin, S. Mandrekar and D. Sargent, "Hierarchical Commensurate and Power
       Prior Models for Adaptive Incorporation of Historical Information", Biometrics 67, 2011.

    Examples
    --------
    >>> said = np.full(400, 0.9)
    >>> bool(worth_after_shift(said, np.arange(400) < 360) > 1e5)
    True
    >>> round(worth_after_shift(said, np.arange(400) < 280))
    6
    """
    offset = logit(np.clip(np.asarray(confidence, dtype=np.float64), _EDGE, 1.0 - _EDGE))
    answer = np.asarray(agreed, dtype=np.float64)
    alphas, betas, w = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), offset.shape)
        for each in (alpha, beta, weight)
    )
    worth = w * (w.sum() / (w @ w))
    loss = ForwardLoss(np.array(alphas), np.array(betas))
    shift = scipy.optimize.minimize_scalar(
        lambda by: float(worth @ loss.value(offset + by, answer)),
        bounds=(-_MOST_SHIFT, _MOST_SHIFT),
        method="bounded",
    ).x
    share, kept = expit(offset + shift), 1.0 - alphas - betas
    agreeing = np.clip(kept * share + betas, _EDGE, 1.0 - _EDGE)
    slope = kept * share * (1.0 - share)
    information = float(worth @ (slope**2 / (agreeing * (1.0 - agreeing))))
    excess = float(shift**2) - CHANCE / max(information, _EDGE)
    own = expit(offset)
    spread = float(np.average(own * (1.0 - own), weights=worth))
    return 1.0 / max(spread * excess, _EDGE)
