"""Copies among checked answers: which of them stands for its document.

Answers of one cluster, such as near copies of one document, are right or wrong together. So a
threshold is tested twice (`setwise.models.guarantees.audit_tests.TestedTwice`): with each answer,
which is exact for the answers that came, and with one of each cluster, for the documents to come.
The one is chosen by a draw that knows nothing of what was found.
"""

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

def one_of_each(names: Sequence[Hashable], draws: Floats, looks: Rows) -> Rows:
    """Return the places of the answers that stand for their clusters, rising.

    The least draw of those that the first look at a cluster had stands for it: later looks
    count the same answer.

    Parameters
    ----------
    names : sequence of length n
        That of the cluster of each answer.
    draws : float64 ndarray of shape (n,)
        As of `keyed_draws`.
    looks : int64 ndarray of shape (n,)
        Place of the look that had each answer first, from 0, rising.

    Examples
    --------
    >>> one_of_each(["a", "b", "a"], np.array([0.5, 0.9, 0.2]), np.zeros(3, dtype=int))
    array([1, 2])
    >>> one_of_each(["a", "b", "a"], np.array([0.5, 0.9, 0.2]), np.array([0, 0, 1]))
    array([0, 1])
    """
    stands: dict[Hashable, int] = {}
    for place in np.lexsort((draws, looks)).tolist():
        stands.setdefault(names[place], place)
    return np.sort(np.fromiter(stands.values(), dtype=np.int64, count=len(stands)))


def keyed_draws(looks: Rows, *columns: NDArray[np.generic]) -> Floats:
    """Return numbers in [0, 1), one a row, that follow from the rows and not from their order.

    So nobody can try other draws with the same data, and more rows change no earlier draw.

    Parameters
    ----------
    looks : int64 ndarray of shape (n,)
        Place of the look that had each row first, from 0, rising.
    *columns : ndarray of shape (n,)

    Examples
    --------
    >>> first = np.zeros(3, dtype=int)
    >>> one = keyed_draws(first, np.array([0.5, 0.9, 0.9]))
    >>> other = keyed_draws(first, np.array([0.9, 0.5, 0.9]))
    >>> sorted(one) == sorted(other), bool(one[0] == other[1])
    (True, True)
    """
    order = np.lexsort((*columns[::-1], looks))
    first = order[looks[order] == 0]
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column[first]).tobytes())
    draws = np.empty(len(order))
    seed = int.from_bytes(digest.digest()[:16], "big")
    draws[order] = np.random.default_rng(seed).random(len(order))
    return draws
