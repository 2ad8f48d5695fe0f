"""Isotonic regression in compiled code, linear between knots."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.compilation import njit

_EQUAL = 1e-12
"""Levels that differ by less are equal but for rounding, and belong to one block."""


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """A non-decreasing, piecewise linear curve, constant beyond its ends."""

    x: NDArray[np.float64]  # (n_knots,) strictly rising
    y: NDArray[np.float64]  # (n_knots,) non-decreasing

    @classmethod
    def fit(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        doubt: float = 0.0,
    ) -> Self:
        """Fit the curve with the least weighted squared error.

        Equal inputs are averaged first, because the curve would depend on the order of ties
        otherwise. Points without weight are ignored.

        Parameters
        ----------
        x, y : array-like of shape (n_points,)
            Finite.
        sample_weight : array-like of shape (n_points,), optional
            Non-negative, not all zero.
        doubt : float, default 0
            Observations that are added to each block, half of them 1 and half 0. With 1, a block of
            n observations of 0 and 1 is never above (n + 1/2) / (n + 1) [1]_.

        Raises
        ------
        ValueError
            If the lengths differ, a value is not finite, or no point has weight.

        References
        ----------
        .. [1] R. Krichevsky and V. Trofimov, "The performance of universal encoding", IEEE
           Transactions on Information Theory 27, 1981.

        Examples
        --------
        >>> curve = IsotonicCurve.fit([1, 2, 3], [0.0, 1.0, 0.5])
        >>> curve([1.5, 2.5, 9.0])
        array([0.375, 0.75 , 0.75 ])
        """
        x = np.asarray(x, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        weight = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, float)
        if not x.shape == y.shape == weight.shape or x.ndim != 1:
            raise ValueError(
                f"x, y and weights must be vectors of one length, not {x.shape}, {y.shape}, "
                f"{weight.shape}"
            )
        if not (np.isfinite(x).all() and np.isfinite(y).all() and np.isfinite(weight).all()):
            raise ValueError("x, y and weights must be finite")
        if (weight < 0).any() or not (weight > 0).any():
            raise ValueError("weights must not be negative, and one must be positive")
        used = np.flatnonzero(weight)
        order = used[np.argsort(x[used], kind="stable")]
        return cls(*pool_adjacent_violators(x[order], y[order], weight[order], doubt))

    @classmethod
    def from_knots(cls, x: NDArray[np.float64], y: NDArray[np.float64]) -> Self:
        """Rebuild a curve.

        Raises
        ------
        ValueError
            If there is no knot, ``x`` is not rising, or ``y`` is falling somewhere.
        """
        if len(x) == 0 or len(x) != len(y) or (np.diff(x) <= 0).any() or (np.diff(y) < 0).any():
            raise ValueError("the knots are not those of a non-decreasing curve")
        return cls(x, y)

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Evaluate the curve; same shape as ``x``."""
        return np.interp(np.asarray(x, dtype=np.float64), self.x, self.y)


class _Blocks(NamedTuple):
    """Blocks of points that share a level, in the order of their inputs."""

    low: NDArray[np.float64]  # smallest input
    high: NDArray[np.float64]  # largest input
    level: NDArray[np.float64]
    mass: NDArray[np.float64]  # weight of the points


@njit(cache=True, nogil=True)
def isotonic_levels(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the isotonic regression, as `IsotonicCurve`, at its own points.

    Parameters
    ----------
    x : float64 ndarray of shape (n_points,)
        Non-decreasing; not checked.
    y, weight : float64 ndarray of shape (n_points,)
        Weights must be positive.
    """
    knots, level = pool_adjacent_violators(x, y, weight, 0.0)
    levels = np.empty(len(x))
    knot = 0
    for i in range(len(x)):
        while knots[knot] < x[i]:
            knot += 1
        levels[i] = level[knot]  # both ends of a block have its level
    return levels


@njit(cache=True, nogil=True)
def pool_adjacent_violators(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64], doubt: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # pragma: no cover - compiled
    """Return the knots of the isotonic curve: both ends of each block.

    The points must rise in ``x`` and have positive weights, which is not checked.
    """
    n = len(x)
    blocks = _Blocks(np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    count = 0
    i = 0
    while i < n:
        total, value, start = 0.0, 0.0, x[i]
        while i < n and x[i] == start:
            total += weight[i]
            value += (y[i] - value) * (weight[i] / total)
            i += 1
        count = _append(blocks, count, (start, start, value, total))
    if doubt > 0.0:
        # Doubt moves small blocks most, so that blocks may have to be pooled again.
        pooled, count = count, 0
        for b in range(pooled):
            mass = blocks.mass[b]
            level = (mass * blocks.level[b] + 0.5 * doubt) / (mass + doubt)
            count = _append(blocks, count, (blocks.low[b], blocks.high[b], level, mass))
    knots_x = np.empty(2 * count)
    knots_y = np.empty(2 * count)
    knots = 0
    for b in range(count):
        knots_x[knots], knots_y[knots] = blocks.low[b], blocks.level[b]
        knots += 1
        if blocks.high[b] > blocks.low[b]:
            knots_x[knots], knots_y[knots] = blocks.high[b], blocks.level[b]
            knots += 1
    return knots_x[:knots].copy(), knots_y[:knots].copy()


@njit(cache=True, nogil=True)
def _append(
    blocks: _Blocks, count: int, block: tuple[float, float, float, float]
) -> int:  # pragma: no cover - compiled
    """Add a block after the first ``count``, pool it with those not below it, and count again."""
    blocks.low[count], blocks.high[count], blocks.level[count], blocks.mass[count] = block
    while count > 0 and blocks.level[count - 1] > blocks.level[count] - _EQUAL:
        joint = blocks.mass[count - 1] + blocks.mass[count]
        rise = blocks.level[count] - blocks.level[count - 1]
        blocks.level[count - 1] += rise * (blocks.mass[count] / joint)
        blocks.mass[count - 1] = joint
        blocks.high[count - 1] = blocks.high[count]
        count -= 1
    return count + 1
