"""Tests a certificate in force again, as audits come.

A certificate proves several thresholds at once. When the audits since then speak against the one in
force, a higher proved one takes its place: less is sent, so this spends no risk. The criterion is
the drift detector of `setwise.models.guarantees.drift`, one for each proved threshold, with a
shorter run length than the breaker's, because a false alarm costs some automation and stops
nothing.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.drift import audit_factors

Floats = NDArray[np.float64]

RUN_LENGTH = 500.0
"""Audits until a threshold whose accuracy is the target is given up, on average at least."""


def retested_threshold(
    proved: ArrayLike,
    confidence: ArrayLike,
    right: ArrayLike,
    target: float,
    *,
    stands_for: ArrayLike | None = None,
    run_length: float = RUN_LENGTH,
) -> float | None:
    """Return the lowest proved threshold that newer audits do not speak against.

    Parameters
    ----------
    proved : array-like of shape (m,)
        The thresholds that the certificate proves and the policy allows.
    confidence : array-like of shape (n,)
        Of the audits since the certificate, oldest first, in [0, 1].
    right, target, stands_for
        As for `drift_statistic`.
    run_length : float
        The evidence from which a threshold is given up. More audits never bring it back.

    Returns
    -------
    float or None
        None if the audits speak against all of them.

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.

    Examples
    --------
    >>> confidence = [0.95, 0.85] * 40  # above .9 all are right, below every other one
    >>> right = [1, 1, 1, 0] * 20
    >>> retested_threshold([0.9, 0.8], confidence, right, 0.9)
    0.9
    >>> retested_threshold([0.9, 0.8], confidence, [1] * 80, 0.9)
    0.8
    """
    thresholds = np.sort(np.asarray(proved, dtype=np.float64))
    values = np.asarray(confidence, dtype=np.float64)
    factors = audit_factors(right, target, stands_for)
    if values.shape != factors.shape[:1]:
        raise ValueError(f"{len(factors)} audits need as many confidences")
    above = np.searchsorted(
        thresholds, values, side="right"
    )  # how many thresholds each audit tests
    capital = np.zeros((len(thresholds), factors.shape[1]))
    holds = np.ones(len(thresholds), dtype=bool)
    for n, factor in zip(above.tolist(), factors, strict=True):
        capital[:n] += 1.0
        capital[:n] *= factor
        alarm = capital[:n].mean(axis=1) >= run_length
        holds[:n] &= ~alarm
        capital[:n][alarm] = 0.0  # given up for good; keeps the numbers finite
    return float(thresholds[holds][0]) if holds.any() else None
