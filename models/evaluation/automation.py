"""Plug-in estimate of the automation possible at a target."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise.models.evaluation.reliability import noisy_rows
from setwise.models.guarantees.binomial import lower_bound

AUTOMATION_TARGETS = (0.8, 0.9, 0.95, 0.99)
LEAST_ABOVE = 20
"""Minimum number of rows above a threshold to estimate its accuracy."""


@dataclass(frozen=True)
class Automation:
    """Results of the lowest threshold whose estimated accuracy reaches a target."""

    target: float
    threshold: float | None  # None if no threshold reaches the target
    coverage: float  # weighted share of the rows at or above it, in [0, 1]
    accuracy: float | None  # of those rows, estimated; corrected for noise, it may exceed 1
    # Exact 95 % lower bound of their accuracy; None if rows are weighted or noisy. The threshold
    # was chosen on them, which it does not count.
    accuracy_low: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return asdict(self)


def automation_at(
    target: float,
    confidence: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
    least: int = LEAST_ABOVE,
) -> Automation:
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
        return Automation(target, None, 0.0, None)
    last = reached[-1]
    is_plain = bool(np.isin(rows.target, (0.0, 1.0)).all() and (rows.weight == 1.0).all())
    return Automation(
        target,
        float(sorted_confidence[last]),
        float(mass[last] / mass[-1]),
        float(accuracy[last]),
        float(lower_bound(rows.target[order][: last + 1].sum(), last + 1, 0.05))
        if is_plain
        else None,
    )
