"""Plug-in estimate of the automation possible at a target."""

import numpy as np
from numpy.typing import ArrayLike

from setwise.models.evaluation.reliability import noisy_rows
from setwise.models.guarantees.binomial import lower_bound
from setwise.models.results import AutomationAt

AUTOMATION_TARGETS = (0.8, 0.9, 0.95, 0.99)
LEAST_ABOVE = 20
"""Minimum number of rows above a threshold to estimate its accuracy."""


def automation_at(
    target: float,
    confidence: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
    least: int = LEAST_ABOVE,
) -> AutomationAt:
    """Find the lowest threshold with an estimated accuracy of ``target``.

    It is chosen and evaluated on the same rows, so it has no guarantee for new ones; for guaranteed
    thresholds see `setwise.models.guarantees.thresholds`.

    Parameters
    ----------
    target : float
        In (0, 1].
    confidence, agreed, alpha, beta, sample_weight
        As for `draw_reliability`.
    least : int, default 20
        Minimum number of rows above a threshold.

    Raises
    ------
    ValueError
        If there is no row, lengths differ, or a value is out of range.

    Examples
    --------
    >>> found = automation_at(0.9, [0.8] * 40 + [0.3] * 60, [1] * 40 + [0] * 60)
    >>> found.threshold, found.coverage, found.accuracy
    (0.8, 0.4, 1.0)
    """
    if not 0 < target <= 1:
        raise ValueError(f"a target accuracy lies in (0, 1], not at {target!r}")
    rows = noisy_rows(confidence, agreed, alpha, beta, sample_weight)
    order = np.argsort(-rows.confidence, kind="stable")
    sorted_confidence = rows.confidence[order]
    mass = np.cumsum(rows.weight[order])
    accuracy = np.cumsum((rows.weight * rows.target)[order]) / mass
    # A threshold sends all rows of the same confidence.
    ends = np.append(np.diff(sorted_confidence) != 0, True)
    ends[: least - 1] = False
    reached = np.flatnonzero(ends & (accuracy >= target))
    if len(reached) == 0:
        return AutomationAt(target, None, 0.0, None)
    last = reached[-1]
    is_plain = bool(np.isin(rows.target, (0.0, 1.0)).all() and (rows.weight == 1.0).all())
    return AutomationAt(
        target,
        float(sorted_confidence[last]),
        float(mass[last] / mass[-1]),
        float(accuracy[last]),
        float(lower_bound(rows.target[order][: last + 1].sum(), last + 1, 0.05))
        if is_plain
        else None,
    )
