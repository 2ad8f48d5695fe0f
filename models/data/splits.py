"""Random folds of rows."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


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
