r"""Kernel ridge regression onto group indicators, with exact predictions for held-out blocks.

Each training row belongs to one of the groups, or to none. For the kernel matrix :math:`K` and
indicators :math:`T`, the fit is :math:`A = (K + \lambda I)^{-1} T`, and a new row with kernel
values :math:`k` scores :math:`k^\top A`. With the inverse :math:`H = (K + \lambda I)^{-1}`
the predictions for rows :math:`B` by the fit without them need one small solve:

.. math:: \hat T_B = T_B - H_{BB}^{-1} A_B,

the block form of the leave-one-out identity. Cross-fitting therefore needs one inverse, not
one fit per fold. With more rows than one matrix can hold, `FeatureRidge` regresses on a sample of
rows (Nyström) and refits each fold from sums.

Everything runs on one BLAS thread, because sums would depend on the number of threads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from setwise.models.compilation import njit

Rows = NDArray[np.int64]
HoldOut = Callable[[Rows], NDArray[np.float32]]  # rows of one fold to scores of all groups
Features = Callable[[Rows], NDArray[np.float32]]  # row numbers to dense features

# Rows whose features are in memory at once.
_BLOCK = 2048


class ExactRidge:
    """The fit on a full kernel matrix.

    Parameters
    ----------
    kernel : float32 ndarray of shape (n, n)
        Symmetric, positive semi-definite. Overwritten.
    penalty : float
        Positive.
    group : int32 ndarray of shape (n,)
        Group of each row, -1 for none.
    n_groups : int

    Raises
    ------
    ValueError
        If the penalty is too small for the kernel's rounding.

    Examples
    --------
    >>> ridge = ExactRidge(np.eye(2, dtype=np.float32), 1.0, np.array([0, 1], np.int32), 2)
    >>> ridge.coef.round(3)
    array([[0.5, 0. ],
           [0. , 0.5]], dtype=float32)
    """

    coef: NDArray[np.float32]  # (n, n_groups)

    def __init__(
        self,
        kernel: NDArray[np.float32],
        penalty: float,
        group: NDArray[np.int32],
        n_groups: int,
    ) -> None:
        self._group = group
        kernel[np.diag_indices_from(kernel)] += np.float32(penalty)
        with threadpool_limits(1, user_api="blas"):
            # The transpose of a C-ordered matrix is Fortran-ordered, so LAPACK needs no copy.
            factor, failed = scipy.linalg.lapack.spotrf(kernel.T, lower=1, overwrite_a=1)
            if failed:
                raise ValueError(f"the kernel matrix is not positive definite: raise {penalty=}")
            inverse, _ = scipy.linalg.lapack.spotri(factor, lower=1, overwrite_c=1)
        self._inverse = _mirror(np.ascontiguousarray(inverse.T))
        self.coef = _sum_groups(self._inverse, group, n_groups)

    def hold_out(self, rows: Rows) -> NDArray[np.float32]:
        """Return scores (n_rows, n_groups) by the fit without these rows."""
        block = np.ascontiguousarray(self._inverse[np.ix_(rows, rows)])
        with threadpool_limits(1, user_api="blas"):
            scores = -scipy.linalg.solve(block, self.coef[rows], assume_a="pos")
        inside = self._group[rows] >= 0
        scores[np.flatnonzero(inside), self._group[rows][inside]] += 1.0
        return np.ascontiguousarray(scores, dtype=np.float32)


class _Sums(NamedTuple):
    """Contribution of some rows to the normal equations."""

    gram: NDArray[np.float32]  # (m, m)
    cross: NDArray[np.float32]  # (m, n_groups)


class FeatureRidge:
    """The fit on explicit features, accumulated block by block.

    It takes ``4 (n_folds + 3) m (m + n_groups)`` bytes for ``m`` features while it is fitted,
    whatever the number of rows.

    Parameters
    ----------
    features : callable
        Maps row numbers to features, (n_rows, m), float32.
    penalty : float
        Positive.
    group : int32 ndarray of shape (n,)
        Group of each row, -1 for none.
    n_groups : int
    folds : int64 ndarray of shape (n,)
        Fold of each row, from 0.
    """

    coef: NDArray[np.float32]  # (m, n_groups)

    def __init__(
        self,
        features: Features,
        penalty: float,
        group: NDArray[np.int32],
        n_groups: int,
        folds: NDArray[np.int64],
    ) -> None:
        self._features, self._penalty, self._folds = features, penalty, folds
        with threadpool_limits(1, user_api="blas"):
            parts = {
                int(fold): self._collect(np.flatnonzero(folds == fold), group, n_groups)
                for fold in np.unique(folds)
            }
            gram = np.sum([part.gram for part in parts.values()], axis=0)
            cross = np.sum([part.cross for part in parts.values()], axis=0)
            self.coef = self._solve(gram, cross)
            self._without: dict[int, NDArray[np.float32]] = {}
            while parts:  # with its fit, a fold's sums can go
                fold, part = parts.popitem()
                self._without[fold] = self._solve(gram - part.gram, cross - part.cross)

    def _collect(self, rows: Rows, group: NDArray[np.int32], n_groups: int) -> _Sums:
        m = self._features(rows[:1]).shape[1]
        sums = _Sums(np.zeros((m, m), np.float32), np.zeros((m, n_groups), np.float32))
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            columns = np.ascontiguousarray(self._features(part).T)
            np.add(sums.gram, columns @ columns.T, out=sums.gram)
            _add_groups(columns, group[part], sums.cross)
        return sums

    def _solve(self, gram: NDArray[np.float32], cross: NDArray[np.float32]) -> NDArray[np.float32]:
        system = gram.astype(np.float64)
        system[np.diag_indices_from(system)] += self._penalty
        coef = scipy.linalg.solve(system, cross.astype(np.float64), assume_a="pos")
        return np.ascontiguousarray(coef, dtype=np.float32)

    def hold_out(self, rows: Rows) -> NDArray[np.float32]:
        """Return the scores of a fold's rows by the other folds' fit.

        Raises
        ------
        ValueError
            If the rows are of several folds.
        """
        inside = np.unique(self._folds[rows])
        if len(inside) != 1:
            raise ValueError(f"held-out rows must be of one fold, not of {len(inside)}")
        coef = self._without[int(inside[0])]
        with threadpool_limits(1, user_api="blas"):
            blocks = [
                self._features(rows[start : start + _BLOCK]) @ coef
                for start in range(0, len(rows), _BLOCK)
            ]
        return np.concatenate(blocks)


@njit(cache=True, nogil=True)
def _mirror(lower: NDArray[np.float32]) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Copy the upper triangle of a matrix to the lower one."""
    for i in range(len(lower)):
        for j in range(i):
            lower[i, j] = lower[j, i]
    return lower


@njit(cache=True, nogil=True)
def _sum_groups(
    inverse: NDArray[np.float32], group: NDArray[np.int32], n_groups: int
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the sum of each group's columns, shape (n, n_groups)."""
    out = np.zeros((len(inverse), n_groups), dtype=np.float32)
    for i in range(len(inverse)):
        for j in range(len(group)):
            if group[j] >= 0:
                out[i, group[j]] += inverse[i, j]
    return out


@njit(cache=True, nogil=True)
def _add_groups(
    features: NDArray[np.float32], group: NDArray[np.int32], out: NDArray[np.float32]
) -> None:  # pragma: no cover - compiled
    """Add the columns of ``features`` (m, n) to their groups' columns."""
    for i in range(len(features)):
        for j in range(len(group)):
            if group[j] >= 0:
                out[i, group[j]] += features[i, j]
