r"""Calibration scores of confidences and possible automation.

Numbers of equations are those of C. Li, "Reduction Methods for Multi-label Classification", thesis,
Northeastern University, 2019.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

AUTOMATION_TARGETS = (0.8, 0.9, 0.95, 0.99)
N_BUCKETS = 10
"""Buckets of the papers' alignment error (thesis 4.6)."""

_PROBABILITY_FLOOR = float(np.finfo(np.float64).eps)  # keeps a sure mistake's log loss finite
_COUNT_TOLERANCE = 1e-9  # 0.95 * 20 must not ask for more than 19 correct documents


@dataclass(frozen=True)
class AutomationPoint:
    """Automation at one threshold on the given data.

    Attributes
    ----------
    target : float
        Accuracy asked for, in (0, 1].
    threshold : float or None
        Lowest confidence from which the accuracy reaches the target; None when none does.
    coverage : float
        Share of documents at or above the threshold; 0 without one.
    accuracy : float or None
        Share of these that are right.
    """

    target: float
    threshold: float | None
    coverage: float
    accuracy: float | None


@dataclass(frozen=True)
class CalibrationScores:
    """How well confidences fit the correctness of the sets; see :func:`score_calibration`."""

    brier: float
    uncertainty: float
    sharpness: float
    alignment_error: float
    log_loss: float


def score_calibration(
    confidence: ArrayLike, correct: ArrayLike, *, n_buckets: int = N_BUCKETS
) -> CalibrationScores:
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
    n_buckets : int, default=10
        Of equal width; a confidence of 1 belongs to the last.

    Returns
    -------
    CalibrationScores

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
    c, v = _confidence_and_correctness(confidence, correct)
    if n_buckets < 1:
        raise ValueError(f"n_buckets must be at least 1, not {n_buckets}")
    bucket = np.minimum((c * n_buckets).astype(np.int64), n_buckets - 1)
    counts = np.bincount(bucket, minlength=n_buckets)
    filled = counts > 0
    weights = counts[filled] / len(c)
    accuracy = np.bincount(bucket, v, n_buckets)[filled] / counts[filled]
    mean_confidence = np.bincount(bucket, c, n_buckets)[filled] / counts[filled]
    base_rate = float(v.mean())
    inside = np.clip(c, _PROBABILITY_FLOOR, 1 - _PROBABILITY_FLOOR)
    return CalibrationScores(
        brier=float(np.mean((v - c) ** 2)),
        uncertainty=base_rate * (1 - base_rate),
        sharpness=float(weights @ (accuracy - base_rate) ** 2),
        alignment_error=float(weights @ (accuracy - mean_confidence) ** 2),
        log_loss=float(-np.mean(np.where(v == 1, np.log(inside), np.log1p(-inside)))),
    )


def find_automation(
    confidence: ArrayLike, correct: ArrayLike, targets: Sequence[float] = AUTOMATION_TARGETS
) -> tuple[AutomationPoint, ...]:
    """Find the threshold of largest coverage for each target accuracy.

    It is chosen and evaluated on the same documents, so it has no guarantee for new ones.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1].
    correct : array-like of shape (n,)
        0 or 1.
    targets : sequence of float
        Accuracies, each in (0, 1].

    Returns
    -------
    tuple of AutomationPoint
        In the order of the targets.

    Raises
    ------
    ValueError
        If the lengths differ, there is no prediction, or a value is out of range.

    Examples
    --------
    >>> find_automation([0.9, 0.8, 0.3], [1, 1, 0], [0.9])
    (AutomationPoint(target=0.9, threshold=0.8, coverage=0.6666666666666666, accuracy=1.0),)
    """
    c, v = _confidence_and_correctness(confidence, correct)
    for target in targets:
        if not 0 < target <= 1:
            raise ValueError(f"a target accuracy lies in (0, 1], not at {target!r}")
    order = np.argsort(-c, kind="stable")
    ordered, right = c[order], np.cumsum(v[order])
    sent = np.arange(1, len(c) + 1)
    # Equal confidences are sent together or not at all.
    possible = np.append(ordered[:-1] > ordered[1:], [True])
    points = []
    for target in targets:
        good = np.flatnonzero(possible & (right >= target * sent - _COUNT_TOLERANCE))
        if len(good) == 0:
            points.append(AutomationPoint(target, None, 0.0, None))
            continue
        last = good[-1]
        points.append(
            AutomationPoint(
                target=target,
                threshold=float(ordered[last]),
                coverage=float(sent[last] / len(c)),
                accuracy=float(right[last] / sent[last]),
            )
        )
    return tuple(points)


def _confidence_and_correctness(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    c = np.asarray(confidence, dtype=np.float64)
    v = np.asarray(correct, dtype=np.float64)
    if c.ndim != 1 or c.shape != v.shape or len(c) == 0:
        raise ValueError(
            "confidence and correctness must be two lists of one length, not of shapes "
            f"{c.shape} and {v.shape}"
        )
    if not np.all((c >= 0) & (c <= 1)):
        raise ValueError("a confidence lies in [0, 1]")
    if not np.all((v == 0) | (v == 1)):
        raise ValueError("correctness is 0 or 1")
    return c, v
