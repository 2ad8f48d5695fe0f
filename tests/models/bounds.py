"""Bounds of figures from their standard errors over documents.

Results differ in the last digits between processors and builds of BLAS, so what one machine gave
bounds nothing.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.evaluation.scoring import score_calibration

Floats = NDArray[np.float64]


def gain_of(objective: str, Y: csr_array, own: csr_array, other: csr_array) -> tuple[float, float]:
    """Return by how much sets beat others at an objective, and the standard error of that.

    The error is that of the difference: documents are drawn again with both their answers.
    """
    n = Y.shape[0]
    draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), 100)
    weight = np.vstack([np.ones(n), draws])
    gain = _metric(objective, Y, own, weight) - _metric(objective, Y, other, weight)
    return float(gain[0]), float(gain[1:].std())


def worst_alignment(confidence: Floats, *, off: float) -> float:
    """Return an alignment error that confidences `off` by so much hardly exceed.

    It is four standard deviations above the mean of outcomes that are drawn from them.
    """
    draw = np.random.default_rng(0)
    true = np.clip(confidence + off, 0.0, 1.0)
    found = [
        score_calibration(confidence, draw.random(len(true)) < true).alignment_error
        for _ in range(40)
    ]
    return float(np.mean(found) + 4.0 * np.std(found))


def share_error(share: float, n: int) -> float:
    """Return the standard error of a share among n."""
    return float(np.sqrt(share * (1.0 - share) / n))


def _metric(objective: str, Y: csr_array, sets: csr_array, weight: Floats) -> Floats:
    """Return a metric, more being better, under each row of weights of the documents."""
    hits, both = Y.multiply(sets), Y.astype(int) + sets.astype(int)
    n_hits, n_both = hits.sum(axis=1), both.sum(axis=1)
    total = weight.sum(axis=1)
    if objective == "set-accuracy":
        return weight @ (n_both == 2 * n_hits) / total
    if objective == "f1":
        return weight @ np.where(n_both == 0, 1.0, 2.0 * n_hits / np.maximum(n_both, 1)) / total
    if objective == "hamming":
        return weight @ (2 * n_hits - n_both) / total / Y.shape[1]
    if objective == "micro-f1":
        return 2.0 * (weight @ n_hits) / (weight @ n_both)
    by_label = 2.0 * (weight @ hits) / np.maximum(weight @ both, 1)
    return by_label.mean(axis=1)


def beats(Y: NDArray[np.int_], own: NDArray[np.int_], other: NDArray[np.int_]) -> bool:
    """Return whether sets are right more often than others, by three standard errors."""
    gain = (own == Y).all(axis=1) * 1.0 - (other == Y).all(axis=1)
    return bool(gain.mean() > 3 * gain.std() / np.sqrt(len(gain)))
