r"""Losses for calibrators that learn from noisy answers.

A reviewer's answer :math:`\tilde v` agrees with a right prediction with probability
:math:`1 - \alpha` and with a wrong one with probability :math:`\beta`. The confidence
:math:`c = \sigma(s)` in the prediction can be fitted to it in two ways.

*Backward*: replace the loss by one whose expectation over the noise is the clean loss. With the
shifted target :math:`t = (\tilde v - \beta) / (1 - \alpha - \beta)` the square loss becomes
:math:`(c - t)^2 + t - t^2`; `setwise.models.calibration.surrogate_losses` has the logistic ones.

*Forward*: predict the answer. It agrees with probability
:math:`q = \beta + (1 - \alpha - \beta) c`, and its log-likelihood is bounded and proper. Answers of
accurate reviewers automatically weigh more.

Numbers of equations are those of C. Li, "Reduction Methods for Multi-label Classification", thesis,
Northeastern University, 2019. Derivatives are with respect to the margin :math:`s`, one per row.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

_LEAST_PROBABILITY = 1e-12  # keeps logarithms finite if the confidence is 0 and beta is 0


def checked_rates(alpha: ArrayLike, beta: ArrayLike, n: int | None = None) -> tuple[Floats, Floats]:
    """Return checked noise rates, one per row.

    Parameters
    ----------
    alpha, beta : float or array-like of shape (n,)
        In [0, 1), with ``alpha + beta < 1`` in each row.
    n : int, optional
        Rows; scalars are repeated to it.

    Raises
    ------
    ValueError
        If a rate is not a probability, or both sum to 1 or more: such answers carry no
        information.
    """
    a, b = np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    if not (np.all((a >= 0) & (a <= 1)) and np.all((b >= 0) & (b <= 1))):
        raise ValueError("noise rates lie between 0 and 1")
    if np.any(a + b >= 1):
        raise ValueError(
            "alpha + beta reaches 1 in some row: such answers say nothing; leave them out"
        )
    shape = np.broadcast_shapes(a.shape, b.shape) if n is None else (n,)
    if not {a.shape, b.shape} <= {(), shape}:
        raise ValueError(f"{n} rows need as many noise rates, not {a.shape} and {b.shape}")
    return np.broadcast_to(a, shape), np.broadcast_to(b, shape)


def shifted_target(agreed: ArrayLike, alpha: ArrayLike, beta: ArrayLike) -> Floats:
    """Return the target whose expectation over the noise is the truth.

    See section 4.10.2 of the thesis. Methods that minimise a square loss, such as isotonic
    regression, boosted regression trees or a mean, become robust to noise when fitted to it.

    Parameters
    ----------
    agreed : array-like of shape (n,)
        1 where the answer equals the prediction, else 0.
    alpha, beta : float or array-like of shape (n,)

    Returns
    -------
    float64 ndarray of shape (n,)
        ``-beta / m`` and ``(1 - beta) / m`` with ``m = 1 - alpha - beta``.

    Examples
    --------
    >>> shifted_target([0, 1], 0.2, 0.0)
    array([0.  , 1.25])
    """
    a, b = checked_rates(alpha, beta)
    return np.asarray((np.asarray(agreed, dtype=np.float64) - b) / (1.0 - a - b))


def doubtful_target(agreed: ArrayLike, weight: ArrayLike) -> Floats:
    """Return answers as shares that finite data support.

    Of :math:`n` rows that agree, one more is taken to agree and one not: their target is
    :math:`(n + 1) / (n + 2)`. A fit to these targets is sure of nothing.

    Parameters
    ----------
    agreed : array-like of shape (n,)
        0 or 1.
    weight : array-like of shape (n,)
        Rows that each row is worth.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999, section 2.2.

    Examples
    --------
    >>> doubtful_target([1, 1, 1, 0], [1, 1, 1, 1]).round(3)
    array([0.8  , 0.8  , 0.8  , 0.333])
    """
    v, w = np.asarray(agreed, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    n_agreed, n_other = float(w @ v), float(w @ (1.0 - v))
    return np.asarray(np.where(v == 1, (n_agreed + 1.0) / (n_agreed + 2.0), 1.0 / (n_other + 2.0)))


class ForwardLoss:
    r"""Negative log-likelihood of the answer, :math:`-\log q` or :math:`-\log(1 - q)`.

    An answer may be a share, such as `doubtful_target` returns; the loss is the mean of both then.

    Parameters
    ----------
    alpha, beta : float or array-like of shape (n,)

    References
    ----------
    .. [1] G. Patrini, A. Rozza, A. Menon, R. Nock and L. Qu, "Making Deep Neural Networks Robust to
       Label Noise: a Loss Correction Approach", CVPR 2017, Theorem 2.
    """

    def __init__(self, alpha: ArrayLike, beta: ArrayLike) -> None:
        self.alpha, self.beta = checked_rates(alpha, beta)

    def _parts(self, margin: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return q, 1 - q and dq/ds, computed without cancellation."""
        s = np.asarray(margin, dtype=np.float64)
        c, rest = expit(s), expit(-s)
        q = (1.0 - self.alpha) * c + self.beta * rest
        other = self.alpha * c + (1.0 - self.beta) * rest
        slope = (1.0 - self.alpha - self.beta) * c * rest
        floor = _LEAST_PROBABILITY
        return np.maximum(q, floor), np.maximum(other, floor), slope

    def value(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the loss, not negative."""
        q, other, _ = self._parts(margin)
        share = np.asarray(agreed, dtype=np.float64)
        return np.asarray(-share * np.log(q) - (1.0 - share) * np.log(other))

    def gradient(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the first derivative."""
        q, other, slope = self._parts(margin)
        share = np.asarray(agreed, dtype=np.float64)
        return np.asarray((1.0 - share) * slope / other - share * slope / q)

    def curvature(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:  # noqa: ARG002  # an expectation over answers
        """Return the expected second derivative (Fisher's information), not negative."""
        q, other, slope = self._parts(margin)
        return np.asarray(slope**2 / (q * other))
