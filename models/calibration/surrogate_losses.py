r"""Unbiased losses for calibrators that learn from noisy answers (thesis, section 4.10).

*Backward* correction, see `setwise.models.calibration.losses`: the logistic loss becomes a
cross-entropy with the shifted target, which lies outside [0, 1] unless there is no noise. So the
loss has no lower bound, and fits need early stopping or shrinkage.

Numbers of equations are those of C. Li, "Reduction Methods for Multi-label Classification", thesis,
Northeastern University, 2019. Derivatives are with respect to the margin :math:`s`, one per row.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from setwise.models.calibration.losses import Floats, checked_rates, shifted_target


class NoisyLoss(Protocol):
    """A loss of the margin, given answers and their noise rates.

    Every method takes margins and answers of shape (n,) and returns shape (n,).
    """

    def value(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the loss of each row, in nats."""

    def gradient(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the first derivative."""

    def curvature(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return a non-negative substitute for the second derivative, for boosting."""


class LogisticSurrogate:
    r"""Unbiased logistic loss (4.5): :math:`\log(1 + e^{-s}) + (1 - t) s`.

    Its gradient is :math:`c - t` (4.6), its second derivative :math:`c (1 - c)` (4.7); the factor
    :math:`m` of the thesis is contained in the target.

    Parameters
    ----------
    alpha, beta : float or array-like of shape (n,)
        The same for all rows, or those of each row's annotator.

    References
    ----------
    .. [1] N. Natarajan, I. Dhillon, P. Ravikumar and A. Tewari, "Learning with Noisy Labels",
       NIPS 2013, Lemma 1 (the thesis' (4.2)).
    """

    def __init__(self, alpha: ArrayLike, beta: ArrayLike) -> None:
        self.alpha, self.beta = checked_rates(alpha, beta)

    def value(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the loss; below 0 is possible."""
        s = np.asarray(margin, dtype=np.float64)
        target = shifted_target(agreed, self.alpha, self.beta)
        return np.asarray(np.logaddexp(0.0, -s) + (1.0 - target) * s)

    def gradient(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the first derivative."""
        c = expit(np.asarray(margin, dtype=np.float64))
        return np.asarray(c - shifted_target(agreed, self.alpha, self.beta))

    def curvature(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:  # noqa: ARG002  # the same for both answers
        """Return the second derivative, which is positive."""
        c = expit(np.asarray(margin, dtype=np.float64))
        return np.asarray(c * (1.0 - c))


class UniformTreeSurrogate(LogisticSurrogate):
    """Logistic surrogate with leaves of mean ``t - c`` (Algorithm 4.3)."""

    def curvature(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:  # noqa: ARG002  # a mean weighs rows alike
        """Return 1, so that a Newton step is a mean."""
        return np.ones(np.shape(margin))


class AnnotatorTreeSurrogate(LogisticSurrogate):
    r"""Logistic surrogate for rates that differ by row (Algorithm 4.4).

    The pseudo-response :math:`\tilde v - c - (1 - c) \beta + c \alpha` is
    :math:`(1 - \alpha - \beta)(t - c)`, its weight :math:`m = 1 / (1 - \alpha - \beta)`; so a leaf
    holds :math:`\sum (t - c) / \sum m`.
    """

    def curvature(self, margin: ArrayLike, agreed: ArrayLike) -> Floats:
        """Return the weights ``m``."""
        shape = np.broadcast_shapes(np.shape(margin), np.shape(agreed), self.alpha.shape)
        return np.broadcast_to(1.0 / (1.0 - self.alpha - self.beta), shape)
