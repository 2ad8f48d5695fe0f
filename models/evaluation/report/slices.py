"""How right a model is on parts of the documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.models.data.datasets import Dataset
from setwise.models.guarantees.binomial import lower_bound, upper_bound

_RISK = 0.05  # of each bound
_MOST = 10
"""Values of a name that are shown; the others are one slice."""

_LEAST_WITH_LENGTHS = 30


@dataclass(frozen=True)
class Slice:
    """Some documents, how many of their sets are right, and how many could go out.

    Attributes
    ----------
    by, name : str
        What divides the documents, and which these are.
    n, n_right : int
    low, high : float
        Bounds of the share that is right, each at 95 %, in [0, 1].
    n_sent, n_sent_right : int
        Those at or above the proved threshold; none without a proof.
    """

    by: str
    name: str
    n: int
    n_right: int
    low: float
    high: float
    n_sent: int
    n_sent_right: int


def slices_of(
    by: str,
    values: Sequence[object],
    right: NDArray[np.bool_],
    sent: NDArray[np.bool_],
) -> tuple[Slice, ...]:
    """Return the documents of each value, the most frequent first.

    Parameters
    ----------
    by : str
        What the values are.
    values : sequence of length n
        None: not known.
    right, sent : bool ndarray of shape (n,)

    Raises
    ------
    ValueError
        If there is not one value a document.
    """
    if len(values) != len(right):
        raise ValueError(f"{by!r} has {len(values):,} values for {len(right):,} documents")
    names = np.array(["(none)" if value is None else str(value) for value in values])
    found, counts = np.unique(names, return_counts=True)
    ranked = found[np.argsort(-counts, kind="stable")]
    parts = [(str(name), names == name) for name in ranked[:_MOST]]
    if len(ranked) > _MOST:
        parts.append((f"{len(ranked) - _MOST:,} others", np.isin(names, ranked[_MOST:])))
    return tuple(_slice(by, name, inside, right, sent) for name, inside in parts)


def slices_by_length(
    dataset: Dataset, right: NDArray[np.bool_], sent: NDArray[np.bool_]
) -> tuple[Slice, ...]:
    """Return thirds of the texts by their length; none of few documents or of other kinds."""
    if dataset.texts is None or dataset.n < _LEAST_WITH_LENGTHS:
        return ()
    length = np.array([len(text) for text in dataset.texts])
    ends = np.unique(np.quantile(length, [1 / 3, 2 / 3, 1], method="lower"))
    return tuple(_by_ends(length, ends.tolist(), right, sent))


def _by_ends(
    length: NDArray[np.int64],
    ends: list[int],
    right: NDArray[np.bool_],
    sent: NDArray[np.bool_],
) -> Iterator[Slice]:
    above = -1
    for end in ends:
        inside = (length > above) & (length <= end)
        name = f"up to {end:,}" if above < 0 else f"{above + 1:,} to {end:,}"
        yield _slice("characters", name, inside, right, sent)
        above = end


def _slice(
    by: str,
    name: str,
    inside: NDArray[np.bool_],
    right: NDArray[np.bool_],
    sent: NDArray[np.bool_],
) -> Slice:
    n, n_right = int(inside.sum()), int(right[inside].sum())
    low, high = (float(bound(n_right, n, _RISK)) for bound in (lower_bound, upper_bound))
    out = inside & sent
    return Slice(by, name, n, n_right, low, high, int(out.sum()), int((right & out).sum()))
