"""Calibration reports from clean or noisy answers, with intervals.

Buckets make the alignment error too large and the sharpness too large: even true confidences miss
the accuracy of a bucket by chance. What chance adds is estimated from the spread inside buckets and
subtracted, so that an honest calibrator shows an alignment error around 0, not above it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.evaluation.reliability import (
    N_RESAMPLES,
    NoisyRows,
    draw_reliability,
    noisy_rows,
)
from setwise.models.evaluation.scoring import N_BUCKETS
from setwise.models.results import ConfidenceBucket, Estimate, ReliabilityCurve

Floats = NDArray[np.float64]

MIN_ROWS = 200
"""Rows below which a report says nothing: its intervals would be wider than what they are about."""

LEVEL = 0.9
"""Level of all intervals and of the band."""

_BOOTSTRAPS = 500


@dataclass(frozen=True)
class CalibrationReport:
    """Calibration and sharpness of confidences; see `report_calibration`."""

    n: int
    noisy: bool  # whether answers had noise that was corrected for
    accuracy: float  # share of right predictions, in [0, 1]
    brier: Estimate  # mean squared error of the confidence against correctness
    uncertainty: float  # variance of correctness, in [0, 1/4]
    # Mean squared distance of confidence and accuracy over buckets, debiased.
    alignment_error: Estimate
    sharpness: Estimate  # variance of the accuracy over buckets, debiased
    biased_alignment_error: float  # as in the papers, for comparison
    buckets: tuple[ConfidenceBucket, ...]  # those that hold rows
    reliability: ReliabilityCurve
    level: float  # of all intervals and of the band


@dataclass(frozen=True)
class TooFewRows:
    """Why there is no report."""

    # n and needed: number of rows, and minimum number.
    n: int
    needed: int = MIN_ROWS


def report_calibration(
    confidence: ArrayLike,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = N_RESAMPLES,
    random_state: int = 0,
) -> CalibrationReport | TooFewRows:
    r"""Return a report on calibration and sharpness of confidences.

    A noisy answer enters as its shifted target :math:`z`, whose expectation is the truth. The Brier
    score is the mean of :math:`(c - z)^2 + z - z^2` (thesis (4.3)). From the mean
    :math:`\bar z - \bar c` of a bucket of :math:`n_b` rows, squared, the variance of
    :math:`z - c` inside, over :math:`n_b`, is subtracted; the alignment error is the mean over
    rows. Sharpness is estimated in the same way.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1], of a calibrator that did not see these rows.
    agreed, alpha, beta, sample_weight
        As for `draw_reliability`.
    n_resamples : int, default=200
        Of the consistency band.
    random_state : int, default=0

    Returns
    -------
    CalibrationReport or TooFewRows

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.
    """
    if len(np.atleast_1d(np.asarray(confidence))) < MIN_ROWS:
        return TooFewRows(len(np.atleast_1d(np.asarray(confidence))))
    rows = noisy_rows(confidence, agreed, alpha, beta, sample_weight)
    bucketed = _Bucketed.of(rows)
    draw = np.random.default_rng(random_state)
    brier, alignment, sharpness = bucketed.estimates(draw)
    return CalibrationReport(
        n=len(rows.confidence),
        noisy=bool(np.any(rows.alpha > 0) or np.any(rows.beta > 0)),
        accuracy=float(np.clip(np.average(rows.target, weights=rows.weight), 0.0, 1.0)),
        brier=brier,
        uncertainty=rows.uncertainty,
        alignment_error=alignment,
        sharpness=sharpness,
        biased_alignment_error=bucketed.biased_alignment(),
        buckets=bucketed.table(),
        reliability=draw_reliability(
            rows.confidence,
            rows.agreed,
            alpha=rows.alpha,
            beta=rows.beta,
            sample_weight=rows.weight,
            level=LEVEL,
            n_resamples=n_resamples,
            random_state=random_state,
        ),
        level=LEVEL,
    )


class _Moments(NamedTuple):
    """Weighted sums over the rows of each bucket, shape (..., n_buckets)."""

    mass: Floats
    square_mass: Floats  # of squared weights
    c: Floats
    z: Floats
    gap_square: Floats  # of (z - c)^2
    z_square: Floats
    brier: Floats


@dataclass(frozen=True, eq=False)
class _Bucketed:
    """Rows sorted into buckets of confidence."""

    rows: NoisyRows
    bucket: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NoisyRows) -> "_Bucketed":
        place = np.minimum((rows.confidence * N_BUCKETS).astype(np.int64), N_BUCKETS - 1)
        return cls(rows, place)

    def moments(self, times: NDArray[np.int64] | None = None) -> _Moments:
        """Return the sums, with each row counted so many times."""
        c, z, w = self.rows.confidence, self.rows.target, self.rows.weight
        count = np.ones(len(c)) if times is None else times

        def total(values: Floats) -> Floats:
            return np.bincount(self.bucket, count * values, N_BUCKETS).astype(np.float64)

        return _Moments(
            total(w),
            total(w**2),
            total(w * c),
            total(w * z),
            total(w * (z - c) ** 2),
            total(w * z**2),
            total(w * ((c - z) ** 2 + z - z**2)),
        )

    def biased_alignment(self) -> float:
        m = self.moments()
        filled = m.mass > 0
        gap = (m.z - m.c)[filled] / m.mass[filled]
        return float(m.mass[filled] @ gap**2 / m.mass.sum())

    def estimates(self, draw: np.random.Generator) -> tuple[Estimate, Estimate, Estimate]:
        """Return Brier score, alignment error and sharpness with bootstrap intervals.

        The bootstrap adds the bias of a square a second time, so drawn values are shifted back.
        """
        n = len(self.rows.confidence)
        scores, added = _scores(self.moments())
        drawn = np.stack(
            [
                _scores(self.moments(np.bincount(draw.integers(0, n, n), minlength=n)))[0]
                for _ in range(_BOOTSTRAPS)
            ]
        )
        side = (1.0 - LEVEL) / 2.0
        low, high = np.quantile(drawn - added, [side, 1.0 - side], axis=0)
        first, second, third = (
            Estimate(float(value), float(below), float(above))
            for value, below, above in zip(scores, low, high, strict=True)
        )
        return first, second, third

    def table(self) -> tuple[ConfidenceBucket, ...]:
        m, n = self.moments(), np.bincount(self.bucket, minlength=N_BUCKETS)
        width = 1.0 / N_BUCKETS
        return tuple(
            ConfidenceBucket(
                low=i * width,
                high=(i + 1) * width,
                n=int(n[i]),
                confidence=float(m.c[i] / m.mass[i]),
                accuracy=float(m.z[i] / m.mass[i]),
            )
            for i in np.flatnonzero(n).tolist()
        )


def _scores(m: _Moments) -> tuple[Floats, Floats]:
    """Return Brier score, alignment error, sharpness and their biases."""
    filled = m.mass > 0
    m = _Moments(*(part[filled] for part in m))
    share = m.mass / m.mass.sum()
    # Rows that a bucket is worth (Kish); a variance takes two of them, and where they are fewer the
    # mean square stands in, which is no smaller.
    worth = m.mass**2 / m.square_mass
    free = np.where(worth > 1.5, worth / np.maximum(worth - 1.0, 0.5), 1.0)
    mean_gap, mean_z = (m.z - m.c) / m.mass, m.z / m.mass
    many = worth > 1.5
    gap_variance = free * (m.gap_square / m.mass - np.where(many, mean_gap**2, 0.0))
    z_variance = free * (m.z_square / m.mass - np.where(many, mean_z**2, 0.0))
    of_alignment = float(share @ (gap_variance / worth))
    mean = share @ mean_z
    # The mean over all rows moves along with its buckets.
    of_sharpness = float((share * (1.0 - share)) @ (z_variance / worth))
    alignment = float(share @ mean_gap**2) - of_alignment
    sharpness = float(share @ (mean_z - mean) ** 2) - of_sharpness
    brier = float(m.brier.sum() / m.mass.sum())
    return np.array([brier, alignment, sharpness]), np.array([0.0, of_alignment, of_sharpness])
