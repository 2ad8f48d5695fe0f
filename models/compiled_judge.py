"""How the compiled pass tells how sure candidate sets are: by boosted trees, or by curves."""

from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise.models.calibration.calibrators import (
    BoostedSets,
    CardinalityIsotonicSets,
    IsotonicSets,
    SetCalibrator,
    TreeSets,
    UncalibratedSets,
)
from setwise.models.calibration.group_softmax import SoftmaxSets, share_certainty
from setwise.models.calibration.leaf_masks import NO_TREES, LeafMasks, sum_masked
from setwise.models.calibration.robust import RobustBoostedSets
from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.sets.candidates import RaggedSets

# How trees' margins become confidences; curves give confidences as they are.
_CLIPPED, _LOGISTIC, _SOFTMAX, _CURVES = 0, 1, 2, 3
_LINKS = {"squared": _CLIPPED, "logistic": _LOGISTIC, "softmax": _SOFTMAX}

_IDENTITY = IsotonicCurve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


class Judge(NamedTuple):
    """A set calibrator as flat arrays.

    Attributes
    ----------
    link : int
        What happens to the trees' margins; or that curves decide.
    curve_of : int64 ndarray of shape (n,)
        The curve of each cardinality; the last one is that of all higher cardinalities too.
    curve_indptr : int64 ndarray of shape (n_curves + 1,)
        Bounds of each curve's knots in `knot_score` and `knot_confidence`.
    """

    link: int
    masks: LeafMasks
    base_margin: float
    curve_of: NDArray[np.int64]
    curve_indptr: NDArray[np.int64]
    knot_score: NDArray[np.float64]
    knot_confidence: NDArray[np.float64]

    @classmethod
    def of(cls, calibrator: SetCalibrator) -> Self | None:
        """Flatten a calibrator, or return None for one of another kind."""
        # Subclasses may decide otherwise: only what is known exactly is replaced.
        kind = type(calibrator)
        if kind is UncalibratedSets:
            return cls._of_curves([-1], [_IDENTITY])
        if isinstance(calibrator, IsotonicSets) and kind is IsotonicSets:
            return cls._of_curves([-1], [calibrator.curve_])
        if isinstance(calibrator, CardinalityIsotonicSets) and kind is CardinalityIsotonicSets:
            return cls._of_curves(calibrator.cardinalities_.tolist(), calibrator.curves_)
        if isinstance(calibrator, BoostedSets) and kind in _BOOSTED:
            return cls._of_trees(calibrator)
        return None

    @classmethod
    def _of_curves(cls, cardinalities: list[int], curves: list[IsotonicCurve]) -> Self:
        # The first curve is for whatever has none of its own.
        curve_of = np.zeros(max(cardinalities) + 2, dtype=np.int64)
        curve_of[cardinalities[1:]] = range(1, len(curves))
        lengths = [len(curve.x) for curve in curves]
        return cls(
            _CURVES,
            NO_TREES,
            0.0,
            curve_of,
            np.cumsum([0, *lengths], dtype=np.int64),
            np.concatenate([curve.x for curve in curves]),
            np.concatenate([curve.y for curve in curves]),
        )

    @classmethod
    def _of_trees(cls, calibrator: BoostedSets) -> Self | None:
        trees = calibrator.trees_
        if trees.masks is None:
            return None
        none = np.zeros(0)
        return cls(
            _LINKS[calibrator.objective],
            trees.masks,
            float(trees.base_margin),
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            none,
            none,
        )


_BOOSTED: set[type[Any]] = {BoostedSets, TreeSets, SoftmaxSets, RobustBoostedSets}


@njit(cache=True, nogil=True)
def judge_sets(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    dense: NDArray[np.float32],
    judge: Judge,
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the confidence of each set, whose score is the first of its dense columns."""
    if judge.link == _CURVES:
        return _on_curves(sets, dense, judge)
    margin = sum_masked(judge.masks, judge.base_margin, dense, sets)
    if judge.link == _SOFTMAX:
        share_certainty(margin, doc_indptr)
        return margin
    for s in range(len(margin)):
        if judge.link == _LOGISTIC:
            margin[s] = 1.0 / (1.0 + np.exp(-min(max(margin[s], -30.0), 30.0)))
        else:
            margin[s] = min(max(margin[s], 0.0), 1.0)
    return margin


@njit(cache=True, nogil=True)
def _on_curves(
    sets: RaggedSets, dense: NDArray[np.float32], judge: Judge
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    out = np.empty(len(dense))
    for s in range(len(dense)):
        size = min(sets.indptr[s + 1] - sets.indptr[s], len(judge.curve_of) - 1)
        curve = judge.curve_of[size]
        start, end = judge.curve_indptr[curve], judge.curve_indptr[curve + 1]
        x, y = judge.knot_score[start:end], judge.knot_confidence[start:end]
        score = np.float64(dense[s, 0])
        above = np.searchsorted(x, score, side="right")
        if above == 0:
            value = y[0]
        elif above == len(x):
            value = y[-1]
        else:
            slope = (y[above] - y[above - 1]) / (x[above] - x[above - 1])
            value = y[above - 1] + slope * (score - x[above - 1])
        out[s] = min(max(value, 0.0), 1.0)
    return out
