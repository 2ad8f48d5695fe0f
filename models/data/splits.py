"""Random splits of rows into parts and folds."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


def split_rows(
    n: int, fractions: Sequence[float], random_state: int | np.random.Generator
) -> tuple[NDArray[np.int64], ...]:
    """Split row numbers at random.

    Parameters
    ----------
    n : int
        Number of rows.
    fractions : sequence of float
        Share of each part, each above 0, with a sum of at most 1. If it is 1, every row is used.
    random_state : int or Generator
        Equal seeds give equal splits.

    Returns
    -------
    tuple of ndarray of int64
        The rows of each part, ascending and disjoint.

    Raises
    ------
    ValueError
        If the fractions are not such shares.

    Examples
    --------
    >>> [part.tolist() for part in split_rows(5, (0.6, 0.4), 0)]
    [[2, 3, 4], [0, 1]]
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or not np.all(shares > 0) or shares.sum() > 1 + 1e-9:
        raise ValueError(f"fractions must be positive and sum to at most 1, not {fractions!r}")
    order = np.random.default_rng(random_state).permutation(n)
    bounds = np.concatenate([[0], np.rint(np.cumsum(shares) * n)]).astype(np.int64)
    return tuple(np.sort(order[start:stop]) for start, stop in pairwise(bounds))


def fold_ids(
    Y: csr_array | int, n_folds: int, random_state: int | np.random.Generator
) -> NDArray[np.int64]:
    """Assign rows at random to folds of equal size, within one row.

    Folds are not stratified by label set: stratification would make a row's own set more evenly
    frequent in the other folds than it is for a new document, and the set's prior is a feature of
    the calibrator.

    Parameters
    ----------
    Y : csr_array of shape (n, L), or int
        The label matrix, or just the number of rows.
    n_folds : int
        From 2 to n.
    random_state : int or Generator
        Equal seeds give equal folds.

    Returns
    -------
    ndarray of int64, shape (n,)
        Fold of each row, in ``[0, n_folds)``.

    Raises
    ------
    ValueError
        If there are fewer rows than folds, or fewer than two folds.

    Examples
    --------
    >>> fold_ids(5, 2, random_state=0).tolist()
    [0, 0, 1, 0, 1]
    """
    n = Y if isinstance(Y, int) else Y.shape[0]
    if not 2 <= n_folds <= n:
        raise ValueError(f"n_folds must be from 2 to the number of rows ({n}), not {n_folds}")
    return np.random.default_rng(random_state).permutation(np.arange(n) % n_folds)
