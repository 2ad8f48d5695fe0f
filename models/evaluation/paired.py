"""Paired test of two calibrators on the same rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from setwise.models.evaluation.reliability import noisy_rows


@dataclass(frozen=True)
class PairedComparison:
    """Effect of replacing the present confidences by the proposed ones."""

    n: int  # number of rows
    gain: float  # decrease of the Brier score; negative if it rises
    standard_error: float
    p_value: float  # of the hypothesis that it does not decrease, in [0, 1]


def compare_confidences(
    present: ArrayLike,
    proposed: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
) -> PairedComparison:
    r"""Compare confidences by a paired test.

    With the shifted target :math:`z` of an answer, :math:`(c - z)^2 - (c' - z)^2` has the
    difference of the squared errors for its expectation; its mean over its standard error is
    compared with the normal distribution, one-sided. Neither calibrator may have seen the rows.

    Parameters
    ----------
    present, proposed : array-like of shape (n,)
        Confidences, in [0, 1].
    agreed, alpha, beta, sample_weight
        As for `draw_reliability`.

    Raises
    ------
    ValueError
        If there is no row, lengths differ, or a value is out of range.

    References
    ----------
    .. [1] F. Diebold and R. Mariano, "Comparing Predictive Accuracy", Journal of Business &
       Economic Statistics 13, 1995: their test, for rows that are independent.

    Examples
    --------
    >>> found = compare_confidences([0.9] * 100, [0.5] * 100, [0, 1] * 50)
    >>> round(found.gain, 3), found.p_value < 0.01
    (0.16, True)
    """
    rows = noisy_rows(present, agreed, alpha, beta, sample_weight)
    other = noisy_rows(proposed, agreed, alpha, beta, sample_weight)
    change = (rows.confidence - rows.target) ** 2 - (other.confidence - rows.target) ** 2
    total = rows.weight.sum()
    gain = float(rows.weight @ change / total)
    error = float(np.sqrt(rows.weight**2 @ (change - gain) ** 2) / total)
    p_value = float(norm.sf(gain / error)) if error > 0 else float(gain <= 0)
    return PairedComparison(len(change), gain, error, p_value)
