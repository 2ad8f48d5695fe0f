r"""Reliability curve of a calibrator with its consistency band.

The curve is the isotonic regression of the outcome on the confidence (CORP [1]_): no buckets to
choose. It splits the Brier score into miscalibration, discrimination and uncertainty. If the
confidences were true, outcomes drawn from them would give such curves: the middle of these draws is
the consistency band, and the share of draws with as much miscalibration as was seen the p-value.

Noisy answers enter as shifted targets, whose expectation is the truth; the draws then have the same
noise.

References
----------
.. [1] T. Dimitriadis, T. Gneiting and A. Jordan, "Stable reliability diagrams for probabilistic
   classifiers", PNAS 118, 2021.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.calibration.losses import checked_rates, shifted_target
from setwise.models.labels.isotonic import IsotonicCurve, isotonic_levels
from setwise.models.results import ReliabilityCurve

Floats = NDArray[np.float64]

N_RESAMPLES = 200
_MOST_POINTS = 101  # of the curve, enough for a plot


def draw_reliability(
    confidence: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
    level: float = 0.9,
    n_resamples: int = N_RESAMPLES,
    random_state: int = 0,
) -> ReliabilityCurve:
    """Fit the reliability curve and draw its consistency band.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1].
    agreed : array-like of shape (n,)
        Whether the set was right, or a noisy answer says so; 0 or 1.
    alpha, beta : float or array-like of shape (n,), default 0
        Noise rates of the answers.
    sample_weight : array-like of shape (n,), optional
        Positive.
    level : float, default=0.9
        Of the band, in (0, 1).
    n_resamples : int, default=200
        Draws from honest confidences; the least p-value is ``1 / (n_resamples + 1)``.
    random_state : int, default=0

    Raises
    ------
    ValueError
        If there is no row, lengths differ, or a value is out of range.

    Examples
    --------
    >>> curve = draw_reliability([0.2] * 50 + [0.9] * 50, [0] * 40 + [1] * 10 + [1] * 45 + [0] * 5)
    >>> [round(value, 6) for value in curve.accuracy], curve.p_value > 0.5
    ([0.2, 0.9], True)
    """
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, not {n_resamples}")
    rows = noisy_rows(confidence, agreed, alpha, beta, sample_weight)
    c, z, weight = rows.confidence, rows.target, rows.weight
    at = np.unique(np.quantile(c, np.linspace(0, 1, _MOST_POINTS), method="nearest"))
    # Between two blocks the curve is a slope; at the confidences it has the fitted levels.
    curve, total = IsotonicCurve.fit(c, z, weight), weight.sum()
    fitted, mean = curve(c), np.average(z, weights=weight)
    miscalibration = _miscalibration(c, z, weight, fitted, total)
    draw = np.random.default_rng(random_state)
    curves, misses = np.empty((n_resamples, len(at))), np.empty(n_resamples)
    # All draws have the same confidences, which need to be sorted only once.
    order = np.argsort(c, kind="stable")
    sorted_c, sorted_weight = c[order], weight[order]
    places, level_of = np.searchsorted(sorted_c, at), np.empty(len(c))
    for i in range(n_resamples):
        again = rows.draw_honest(draw)
        steps = isotonic_levels(sorted_c, again[order], sorted_weight)
        level_of[order] = steps
        curves[i] = np.clip(steps[places], 0.0, 1.0)
        misses[i] = _miscalibration(c, again, weight, level_of, total)
    side = (1.0 - level) / 2.0
    low, high = np.quantile(curves, [side, 1.0 - side], axis=0)
    reached = int(np.count_nonzero(misses >= miscalibration))
    return ReliabilityCurve(
        tuple(at.tolist()),
        tuple(np.clip(curve(at), 0.0, 1.0).tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        level,
        (1 + reached) / (n_resamples + 1),
        miscalibration,
        float(weight @ ((z - mean) ** 2 - (z - fitted) ** 2) / total),
        rows.uncertainty,
        miscalibration - float(misses.mean()),
    )


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Checked confidences, answers and rates.

    The expectation of ``target`` is the truth.
    """

    confidence: Floats
    agreed: Floats
    target: Floats
    alpha: Floats
    beta: Floats
    weight: Floats

    @property
    def uncertainty(self) -> float:
        """Variance of the correctness, in [0, 1/4]."""
        share = float(np.clip(np.average(self.target, weights=self.weight), 0.0, 1.0))
        return share * (1.0 - share)

    def draw_honest(self, draw: np.random.Generator) -> Floats:
        """Return simulated targets under true confidences."""
        telling = 1.0 - self.alpha - self.beta
        answers = draw.random(len(telling)) < self.beta + telling * self.confidence
        # As `shifted_target` says, without checking the same rates for every draw.
        return np.asarray((answers - self.beta) / telling)


def noisy_rows(
    confidence: ArrayLike,
    agreed: ArrayLike,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
) -> NoisyRows:
    """Check rows of a report.

    Raises
    ------
    ValueError
        If there is no row, lengths differ, or a value is out of range.
    """
    c, v = np.asarray(confidence, dtype=np.float64), np.asarray(agreed, dtype=np.float64)
    if c.ndim != 1 or c.shape != v.shape or len(c) == 0:
        raise ValueError(
            f"confidences and answers must be two lists of one length, not {c.shape} and {v.shape}"
        )
    if not np.all((c >= 0) & (c <= 1)):
        raise ValueError("a confidence lies in [0, 1]")
    if not np.all((v == 0) | (v == 1)):
        raise ValueError("an answer is 0 or 1")
    weight = np.ones(len(c)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != c.shape or not np.all((weight > 0) & np.isfinite(weight)):
        raise ValueError("every row needs a positive, finite weight")
    alphas, betas = checked_rates(alpha, beta, len(c))
    return NoisyRows(c, v, shifted_target(v, alphas, betas), alphas, betas, weight)


def _miscalibration(c: Floats, z: Floats, weight: Floats, level: Floats, total: float) -> float:
    """Return the Brier score's decrease with the curve's levels as confidences."""
    return float(weight @ ((z - c) ** 2 - (z - level) ** 2) / total)
