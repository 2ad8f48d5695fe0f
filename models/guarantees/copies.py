"""Copies among checked answers: what each cluster of them counts for.

Answers of one cluster, such as near copies of one document, are right or wrong together. So a
cluster is one piece of evidence: it counts through one of its checked members, which a draw chooses
that knows nothing of what was found. Larger clusters are checked with a higher probability, so that
a sample of members stands for messages.

That is no longer so where a cluster has many checked members: they weigh more among the messages
than one answer does. Such *heavy* clusters are a stratum of their own
(`setwise.models.guarantees.strata`), in which each is one answer that is wrong if any of its
checked members is. So a template that fills a large part of the stream prevents a proof until
there are more clusters like it, or it is left out: its one answer proves nothing of its share.
"""

import hashlib
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

HEAVY_SHARE = 0.005
"""Share of the checked answers above which a cluster is heavy."""

HEAVY_MEMBERS = 5
"""Checked members that a heavy cluster has at least."""


class Clusters(NamedTuple):
    """The checked answers that stand for their clusters.

    Attributes
    ----------
    rows : int64 ndarray of shape (n_clusters,)
        One answer of each cluster, in the order of the answers.
    members : list of int64 ndarray
        All answers of each.
    heavy : bool ndarray of shape (n_clusters,)
    """

    rows: Rows
    members: list[Rows]
    heavy: Bools

    @classmethod
    def of(cls, names: Sequence[Hashable], draws: Floats, looks: Rows) -> "Clusters":
        """Return the clusters of answers by name.

        The least draw of those that the first look at a cluster had stands for it: later looks
        count the same answer.
        """
        places: dict[Hashable, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        members = [np.array(rows) for rows in places.values()]
        early = [rows[looks[rows] == looks[rows[0]]] for rows in members]
        chosen = [int(rows[draws[rows].argmin()]) for rows in early]
        order = np.argsort(chosen)
        sizes = np.array([len(rows) for rows in members], dtype=np.int64)[order]
        heavy = (sizes >= HEAVY_MEMBERS) & (sizes > HEAVY_SHARE * len(names))
        rows = np.array(chosen, dtype=np.int64)[order]
        return cls(rows, [members[place] for place in order.tolist()], heavy)


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
