r"""Calibration scores of confidences.

Numbers of equations are those of C. Li, "Reduction Methods for Multi-label Classification", thesis,
Northeastern University, 2019.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setwise.models.evaluation.reliability import noisy_rows

N_BUCKETS = 10
"""Buckets of equal width of the papers' alignment error (thesis 4.6); the last one includes 1."""

_PROBABILITY_FLOOR = float(np.finfo(np.float64).eps)  # keeps a sure mistake's log loss finite


@dataclass(frozen=True)
class CalibrationScores:
    """How well confidences fit the correctness of the sets; see :func:`score_calibration`."""

    brier: float
    uncertainty: float
    sharpness: float
    alignment_error: float
    log_loss: float


def score_calibration(confidence: ArrayLike, correct: ArrayLike) -> CalibrationScores:
    r"""Return calibration scores of confidences.

    With correctness :math:`v`, confidence :math:`c` and the mean correctness :math:`e` of a
    bucket, (4.1): the Brier score is the mean of :math:`(v - c)^2`, uncertainty the variance of
    :math:`v`, sharpness the variance of :math:`e`, and the alignment error the mean of
    :math:`(e - \bar c)^2`, where :math:`\bar c` is the bucket's mean confidence. Means and
    variances are over predictions, so that buckets weigh by their counts. The first three add up,
    uncertainty - sharpness + alignment error = Brier score, only up to the spread of confidence
    inside the buckets.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1].
    correct : array-like of shape (n,)
        0 or 1.

    Raises
    ------
    ValueError
        If the lengths differ, there is no prediction, or a value is out of range.

    Examples
    --------
    >>> scores = score_calibration([0.9, 0.9, 0.2], [1, 0, 0])
    >>> round(scores.alignment_error, 4)  # (2/3) 0.4**2 + (1/3) 0.2**2
    0.12
    """
    rows = noisy_rows(confidence, correct)
    c, v = rows.confidence, rows.agreed
    bucket = np.minimum((c * N_BUCKETS).astype(np.int64), N_BUCKETS - 1)
    counts = np.bincount(bucket, minlength=N_BUCKETS)
    filled = counts > 0
    weights = counts[filled] / len(c)
    accuracy = np.bincount(bucket, v, N_BUCKETS)[filled] / counts[filled]
    mean_confidence = np.bincount(bucket, c, N_BUCKETS)[filled] / counts[filled]
    base_rate = float(v.mean())
    inside = np.clip(c, _PROBABILITY_FLOOR, 1 - _PROBABILITY_FLOOR)
    return CalibrationScores(
        brier=float(np.mean((v - c) ** 2)),
        uncertainty=base_rate * (1 - base_rate),
        sharpness=float(weights @ (accuracy - base_rate) ** 2),
        alignment_error=float(weights @ (accuracy - mean_confidence) ** 2),
        log_loss=float(-np.mean(np.where(v == 1, np.log(inside), np.log1p(-inside)))),
    )
