"""Isotonic regression in compiled code, linear between knots."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """A non-decreasing, piecewise linear curve, constant beyond its ends."""

    x: NDArray[np.float64]  # (n_knots,) strictly rising
    y: NDArray[np.float64]  # (n_knots,) non-decreasing

    @classmethod
    def fit(cls, x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the curve with the least weighted squared error.

        Equal inputs are averaged first, because the curve would depend on the order of ties
        otherwise. Points without weight are ignored.

        Parameters
        ----------
        x, y : array-like of shape (n_points,)
            Finite.
        sample_weight : array-like of shape (n_points,), optional
            Non-negative, not all zero.

        Raises
        ------
        ValueError
            If the lengths differ, a value is not finite, or no point has weight.

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
        used = np.flatnonzero(_with_effect(x, y, weight))
        order = used[np.argsort(x[used], kind="stable")]
        return cls(*_pool_adjacent_violators(x[order], y[order], weight[order]))

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
    knots, level = _pool_adjacent_violators(x, y, weight)
    levels = np.empty(len(x))
    knot = 0
    for i in range(len(x)):
        while knots[knot] < x[i]:
            knot += 1
        levels[i] = level[knot]  # both ends of a block have its level
    return levels


@njit(cache=True, nogil=True)
def _with_effect(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.bool_]:  # pragma: no cover - compiled
    """Tell which points, in any order, the isotonic curve depends on.

    Points of the least value below all others are one block, of which only the ends count. Of a
    rare label's documents it holds nearly all, which are then not sorted.
    """
    counted = weight > 0.0
    least = np.min(y[counted])
    start = np.min(x[counted])
    first, end = np.inf, -np.inf
    for i in range(len(x)):
        if counted[i] and y[i] > least:
            first = min(first, x[i])
    for i in range(len(x)):
        if counted[i] and x[i] < first:
            end = max(end, x[i])
    for i in range(len(x)):
        counted[i] = counted[i] and (x[i] >= first or x[i] == start or x[i] == end)
    return counted


@njit(cache=True, nogil=True)
def _pool_adjacent_violators(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the knots of the isotonic curve: both ends of each block."""
    n = len(x)
    low = np.empty(n)
    high = np.empty(n)
    level = np.empty(n)
    mass = np.empty(n)
    blocks = 0
    i = 0
    while i < n:
        total, value, start = 0.0, 0.0, x[i]
        while i < n and x[i] == start:
            total += weight[i]
            value += (y[i] - value) * (weight[i] / total)
            i += 1
        low[blocks], high[blocks], level[blocks], mass[blocks] = start, start, value, total
        blocks += 1
        while blocks > 1 and level[blocks - 2] >= level[blocks - 1]:
            a, b = blocks - 2, blocks - 1
            joint = mass[a] + mass[b]
            level[a] += (level[b] - level[a]) * (mass[b] / joint)
            mass[a] = joint
            high[a] = high[b]
            blocks -= 1
    knots_x = np.empty(2 * blocks)
    knots_y = np.empty(2 * blocks)
    knots = 0
    for b in range(blocks):
        knots_x[knots], knots_y[knots] = low[b], level[b]
        knots += 1
        if high[b] > low[b]:
            knots_x[knots], knots_y[knots] = high[b], level[b]
            knots += 1
    return knots_x[:knots].copy(), knots_y[:knots].copy()
