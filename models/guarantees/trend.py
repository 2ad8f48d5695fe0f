r"""How accurate sets are by now, by a line through audits in time.

Most audits are drawn while nothing is sent, so all of them together speak of that time. With
:math:`y` for "right" and the time :math:`u` in weeks, the line through the means has the slope of
ridge regression [1]_,

.. math:: b = \frac{\sum_i (u_i - \bar u)(y_i - \bar y)}{\sum_i (u_i - \bar u)^2 + s^2 / \tau^2},

where :math:`s^2` is the variance of :math:`y` and :math:`\tau` a usual change of a week. So a few
weeks say nothing of a trend, and many do. Where the order of the audits shows a fall, in a
one-sided test of :math:`b = 0` at level .05, the line of least squares takes its place
(:math:`\tau = \infty`), less one standard error of its end: a fall that is certain is no accident
to be smoothed away. A miss that was drawn for a second reading with
probability :math:`r` counts as :math:`1 / r` errors.

References
----------
.. [1] A. Hoerl and R. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
   Technometrics 12, 1970.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]

USUAL_CHANGE = 0.06
"""Usual change of the accuracy in a week, as a share of the errors that the target allows."""

_NO_SPREAD = 1e-9  # of weeks squared

FALL_LEVEL = 0.05
"""Level of the test that shows a fall. Where nothing falls, so many thresholds are left out."""


def recent_accuracy(
    thresholds: Floats, confidence: Floats, errors: Floats, weeks: Floats, target: float
) -> Floats:
    """Return the accuracy above each threshold when the newest audit came.

    Parameters
    ----------
    thresholds : float64 ndarray of shape (m,)
    confidence, weeks : float64 ndarray of shape (n,)
        Of the audits; when each document came, in weeks.
    errors : float64 ndarray of shape (n,)
        How many errors each audit stands for: 0 where the set was right.
    target : float
        In (0, 1).

    Returns
    -------
    float64 ndarray of shape (m,)
        In [0, 1]; 1 without audits.

    Examples
    --------
    >>> weeks = np.repeat(np.arange(40.0), 25)
    >>> errors = (np.arange(1000) % 25 < weeks / 10).astype(float)  # up to 4 of 25
    >>> found = recent_accuracy(np.array([0.9]), np.full(1000, 0.9), errors, weeks, 0.9)
    >>> bool(errors.mean() < 0.1), found.round(2).tolist()
    (True, [0.81])
    """
    if len(confidence) == 0:
        return np.ones(len(thresholds))
    order = np.argsort(-confidence, kind="stable")
    above = np.searchsorted(-confidence[order], -thresholds, side="right")
    ago = (weeks - weeks.max())[order]
    wrong = errors[order]

    def total(values: Floats) -> Floats:
        return np.append(0.0, np.cumsum(values))[above]

    n = np.maximum(above, 1)
    error, when = total(wrong) / n, total(ago) / n
    spread = np.maximum(total(ago**2) - n * when**2, 0.0)
    variance = np.maximum(total(wrong**2) / n - error**2, target * (1.0 - target))
    usual = USUAL_CHANGE * (1.0 - target)
    shared = total(ago * wrong) - n * when * error
    steady = error - shared / (spread + variance / usual**2) * when
    # Of the line of least squares; zero spread has no slope and shows no fall.
    some = np.maximum(spread, _NO_SPREAD)
    noise = np.maximum(total(wrong**2) / n - error**2, 0.0)
    falls = shared > ndtri(1.0 - FALL_LEVEL) * np.sqrt(noise * spread)
    ends = error - shared / some * when + np.sqrt(noise * (1.0 / n + when**2 / some))
    by_now = np.where(falls & (spread > _NO_SPREAD), np.maximum(steady, ends), steady)
    return np.asarray(np.clip(1.0 - by_now, 0.0, 1.0))
