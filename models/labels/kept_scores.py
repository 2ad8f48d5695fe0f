"""Scores of many documents for many labels, of each document the largest."""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from setwise.models.compilation import njit
from setwise.models.data.capacity import KEPT_SCORES, MOST_WHOLE
from setwise.models.labels.ranking import rank_largest


class ScoreColumn(NamedTuple):
    """The scores of one label: those kept, and the others as one."""

    documents: NDArray[np.int64]  # whose score is kept, ascending
    scores: NDArray[np.float64]  # (n_kept,)
    others: int  # number of the other documents
    rest: float  # mean of what stands for their scores


class KeptScores:
    """A matrix (n_documents, n_labels) that keeps the largest scores of each row.

    Rows are written and read whole, as in an array. A score that is not kept reads as the mean of
    all that its row has lost, so that sums over a row stay the same.

    Parameters
    ----------
    shape : (int, int)
    dtype : dtype
        Of the scores.
    room : int, default `KEPT_SCORES`
        Scores kept of each document.

    Examples
    --------
    >>> scores = KeptScores((2, 4), np.float64, room=2)
    >>> scores[np.array([0, 1])] = np.array([[0.9, 0.2, 0.7, 0.4], [0.1, 0.5, 0.3, 0.8]])
    >>> scores[np.array([0])].round(2).tolist()
    [[0.9, 0.3, 0.7, 0.3]]
    """

    def __init__(
        self, shape: tuple[int, int], dtype: DTypeLike, *, room: int = KEPT_SCORES
    ) -> None:
        n, n_labels = shape
        self.shape = n, n_labels
        self._labels = np.zeros((n, min(room, n_labels)), dtype=np.int32)
        self._values = np.zeros(self._labels.shape, dtype=dtype)
        self._rest = np.zeros(n, dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: NDArray[np.int64], scores: NDArray[Any]) -> None:
        self._labels[rows], self._values[rows], self._rest[rows] = _largest(
            np.asarray(scores), self._labels.shape[1]
        )

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> NDArray[Any]:
        labels = self._labels[rows]
        scores = np.repeat(self._rest[rows][:, None], self.shape[1], axis=1)
        np.put_along_axis(scores, labels.astype(np.intp), self._values[rows], axis=1)
        return scores

    def columns(self, rows: NDArray[np.int64]) -> Iterator[ScoreColumn]:
        """Yield the scores of each label in some documents, which must be different."""
        order, indptr = self._by_label
        in_rows = np.zeros(len(self), dtype=np.bool_)
        in_rows[rows] = True
        all_lost = self._rest[rows].sum(dtype=np.float64)
        for first, end in pairwise(indptr.tolist()):
            cells = order[first:end].astype(np.int64)
            documents, places = np.divmod(cells, self._labels.shape[1])
            among = in_rows[documents]
            documents, places = documents[among], places[among]
            others = len(rows) - len(documents)
            lost = all_lost - self._rest[documents].sum(dtype=np.float64)
            yield ScoreColumn(
                documents,
                self._values[documents, places].astype(np.float64),
                others,
                float(lost / others) if others else 0.0,
            )

    @cached_property
    def _by_label(self) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
        """Return the kept cells by label, and the labels' bounds; all rows must be written."""
        flat = self._labels.ravel()
        order = np.argsort(flat, kind="stable").astype(np.min_scalar_type(flat.size))
        counts = np.bincount(flat, minlength=self.shape[1])
        return order, np.concatenate([[0], np.cumsum(counts)])


Scores = NDArray[Any] | KeptScores
"""A matrix (n_documents, n_labels) of scores."""


def score_matrix(shape: tuple[int, int], dtype: DTypeLike) -> Scores:
    """Return an unwritten matrix of scores: whole, or beyond `MOST_WHOLE` the largest ones."""
    return np.empty(shape, dtype) if shape[0] * shape[1] <= MOST_WHOLE else KeptScores(shape, dtype)


@njit(cache=True, nogil=True)
def _largest(
    scores: NDArray[Any], room: int
) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[Any]]:  # pragma: no cover - compiled
    """Return the labels and values of the largest scores, and the mean of the others."""
    n, n_labels = scores.shape
    labels = np.empty((n, room), dtype=np.int32)
    values = np.empty((n, room), dtype=scores.dtype)
    rest = np.zeros(n, dtype=scores.dtype)
    place = np.empty(room, dtype=np.int64)
    for i in range(n):
        rank_largest(scores[i], place)
        lost = np.ones(n_labels, dtype=np.bool_)
        for k in range(room):
            labels[i, k] = place[k]
            values[i, k] = scores[i, place[k]]
            lost[place[k]] = False
        if n_labels > room:
            rest[i] = scores[i][lost].mean()
    return labels, values, rest
