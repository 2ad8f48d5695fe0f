r"""Thresholds from audits that confidences weigh or complete.

Two ideas to need fewer audits. *Prediction-powered estimates* [1]_ subtract from each answer what
the confidence foretells, whose mean is known from unaudited predictions. *Importance audits* draw
documents more often where errors are likely, and weigh them by the inverse. Above a threshold
:math:`t` both test the mean of

.. math:: X_i = w_i \bigl((v_i - a) - \lambda (c_i - \bar c_t)\bigr),

which is at most 0 if the accuracy is at most the target :math:`a`; :math:`v_i` says whether audit
:math:`i` found the set right, :math:`\bar c_t` is the mean confidence above :math:`t`. Neither pays
for the exact binomial test that it gives up: see `benchmarks.bench_trust`.

References
----------
.. [1] A. N. Angelopoulos et al., "Prediction-powered inference", Science 382, 2023.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from benchmarks.papers.rival_thresholds import first_step, last_passed
from setwise.models.guarantees.checked import checked_confidences
from setwise.models.guarantees.sequence import plan_sequence

Floats = NDArray[np.float64]

_STAKES = np.geomspace(0.015, 0.75, 8)  # shares of the largest stake that cannot ruin


def weighted_threshold(
    predicted: ArrayLike,
    confidence: ArrayLike,
    right: ArrayLike,
    target: float,
    risk: float,
    *,
    weight: ArrayLike = 1.0,
    foretold: float = 0.0,
    test: Literal["bets", "normal"] = "bets",
) -> float | None:
    r"""Return the lowest threshold that weighted audits prove, if any.

    Parameters
    ----------
    predicted : array-like of shape (n_predictions,)
        Confidences of predictions that were not audited, in [0, 1].
    confidence : array-like of shape (n_audits,)
        In the order in which the audits were drawn.
    right : array-like of shape (n_audits,)
        1 where the predicted set is right, else 0.
    target, risk : float
        In (0, 1).
    weight : array-like of shape (n_audits,) or float
        Positive; inverse to the probability of the draw.
    foretold : float
        The factor :math:`\lambda`, at least 0.
    test : {"bets", "normal"}
        Bets hold for any sample; the normal approximation is valid for large ones only.

    Examples
    --------
    >>> predicted, sure = [0.97] * 100, [0.97] * 60
    >>> weighted_threshold(predicted, sure, [1] * 60, 0.9, 0.1)
    0.97
    >>> weighted_threshold(predicted, sure, [1] * 50 + [0] * 10, 0.9, 0.1)
    """
    values, good = checked_confidences("confidence", confidence), np.asarray(right, dtype=bool)
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), values.shape)
    sequence = plan_sequence(predicted)
    start = first_step(sequence, len(values), target, sequence.confidence, risk)
    largest = float(weights.max(initial=0.0))

    def p_value(threshold: float, mean: float) -> float:
        above = values >= threshold
        gains = weights[above] * ((good[above] - target) - foretold * (values[above] - mean))
        if test == "normal":
            return _by_normal(gains)
        return _by_bets(gains, largest * (target + foretold * (1.0 - mean)))

    thresholds, means = sequence.thresholds[start:], sequence.confidence[start:]
    return last_passed(
        thresholds, (p_value(*step) <= risk for step in zip(thresholds, means, strict=True))
    )


def _by_bets(gains: Floats, least: float) -> float:
    """Return the inverse of the largest capital; no gain is below ``-least``."""
    capital = np.exp(np.cumsum(np.log1p(gains[:, None] * (_STAKES / least)), axis=0)).mean(axis=1)
    return float(1.0 / max(capital.max(initial=1.0), 1.0))


def _by_normal(gains: Floats) -> float:
    if len(gains) < 2:
        return 1.0
    error = max(float(gains.std(ddof=1)), 1e-9) / np.sqrt(len(gains))
    return float(special.ndtr(-gains.mean() / error))
