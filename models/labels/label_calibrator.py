"""Turns raw label scores into probabilities strictly between 0 and 1."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, sparray, spmatrix

from setwise.models.compilation import njit
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.isotonic import IsotonicCurve, pool_adjacent_violators
from setwise.models.labels.kept_scores import KeptScores
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredSetting
from setwise.models.storage.state import StoredPart

# Beyond it rounding makes a float64 probability indistinguishable from 0 or 1.
LOGIT_LIMIT = 34.0

_DOUBT = 1.0  # observations added to each block


class LabelCalibrator(StoredPart, Estimator):
    """Averages each label's raw logit and its isotonic logit.

    Isotonic regression alone returns exact 0 and 1 and long ties, which make sets impossible or
    indistinguishable; the raw logit alone is over- or under-confident. Their mean is strictly
    increasing in the raw logit, so the ranking of documents by a label does not change.

    Parameters
    ----------
    isotonic_share : float in [0, 1], default 0.5
        Weight of the isotonic logit; the raw logit gets the rest. 1 is the isotonic regression of
        the thesis (section 2.3.6), kept off 0 and 1 by as much as its documents are few; it has
        ties.

    Examples
    --------
    >>> logits = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> calibrator = LabelCalibrator().fit(logits, [[0], [0], [1], [1]])
    >>> calibrator.transform(logits).ravel().round(2)
    array([0.14, 0.21, 0.79, 0.86])
    """

    knot_indptr_: NDArray[np.int64]  # (n_labels + 1,)
    # knot_logits_ and knot_values_: label ``l`` maps raw logits to isotonic logits linearly between
    # the knots ``knot_indptr_[l]:knot_indptr_[l + 1]``, and constantly beyond them.
    knot_logits_: NDArray[np.float64]
    knot_values_: NDArray[np.float64]
    stored = (
        StoredArray("knot_indptr", "knot_indptr_", np.int64, ("labels+1",), cuts="knots", least=1),
        StoredArray(
            "knot_logits",
            "knot_logits_",
            np.float64,
            ("knots",),
            rises="knot_indptr",
            low=-LOGIT_LIMIT,
            high=LOGIT_LIMIT,
        ),
        StoredArray(
            "knot_values",
            "knot_values_",
            np.float64,
            ("knots",),
            low=-LOGIT_LIMIT,
            high=LOGIT_LIMIT,
        ),
        StoredSetting("isotonic_share", "isotonic_share", float, low=0.0, high=1.0),
    )

    def __init__(self, isotonic_share: float = 0.5) -> None:
        self.isotonic_share = isotonic_share

    @property
    def n_labels_(self) -> int:
        """Number of labels."""
        return len(self.knot_indptr_) - 1

    def fit(
        self,
        logits: ArrayLike | KeptScores,
        Y: ArrayLike | sparray | spmatrix,
        *,
        rows: NDArray[np.int64] | None = None,
    ) -> Self:
        """Fit one curve per label, on rows unseen by the scorer.

        Parameters
        ----------
        logits : array-like or KeptScores of shape (n_documents, n_labels)
            Raw scores, finite. The scores of a label that are not kept count as their mean.
        Y : array-like or sparse array of shape (n_documents, n_labels)
            True labels, 0/1.
        rows : int64 ndarray, optional
            The documents to learn from, all by default. The matrix is not copied, because memory
            may hold it only once.

        Raises
        ------
        ValueError
            If shapes differ, a value is not finite, or the share is out of range.
        """
        check_parameters(self)
        logits = logits if isinstance(logits, KeptScores) else np.asarray(logits)
        truth = csc_array(Y if isinstance(Y, sparray | spmatrix) else np.asarray(Y))
        if truth.shape != logits.shape:
            raise ValueError(
                f"logits and Y must be matrices of one shape, not {logits.shape} and {truth.shape}"
            )
        used = np.arange(len(logits)) if rows is None else rows
        if isinstance(logits, KeptScores):
            curves = [
                IsotonicCurve.fit(*points, doubt=_DOUBT) for points in _points(logits, truth, used)
            ]
            self.knot_indptr_ = np.cumsum([0, *(len(curve.x) for curve in curves)], dtype=np.int64)
            self.knot_logits_ = np.concatenate([curve.x for curve in curves])
            share = np.concatenate([curve.y for curve in curves])
        else:
            if len(used) == 0 or np.isnan(logits.min(initial=0.0)):  # NaN is the minimum
                raise ValueError("logits must be finite, and of at least one document")
            self.knot_indptr_, self.knot_logits_, share = _fit_columns(
                np.ascontiguousarray(logits), np.asarray(used, np.int64), _Held.of(truth)
            )
        self.knot_values_ = np.log(share / (1.0 - share))
        return self

    def transform(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities in (0, 1), of the shape of ``logits``."""
        check_fitted(self, "knot_indptr_")
        logits = np.ascontiguousarray(logits, dtype=np.float64)
        if logits.ndim != 2 or logits.shape[1] != len(self.knot_indptr_) - 1:
            raise ValueError(
                f"logits have shape {logits.shape}; this calibrator knows "
                f"{len(self.knot_indptr_) - 1} labels"
            )
        return calibrate_rows(
            logits, self.knot_indptr_, self.knot_logits_, self.knot_values_, self.isotonic_share
        )


def _points(
    logits: KeptScores, truth: csc_array, used: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """Yield each label's scores in the documents used, the outcomes and their weights.

    All documents whose score is not kept make one point.
    """
    outcome = np.zeros(len(logits))
    is_used = np.zeros(len(logits))
    is_used[used] = 1.0
    bounds = pairwise(truth.indptr.tolist())
    for column, (first, end) in zip(logits.columns(used), bounds, strict=True):
        held = truth.indices[first:end]
        outcome[held] = truth.data[first:end]
        outcomes = outcome[column.documents]
        missed = is_used[held] @ outcome[held] - outcomes.sum()
        yield (
            np.clip(np.append(column.scores, column.rest), -LOGIT_LIMIT, LOGIT_LIMIT),
            np.append(outcomes, missed / max(column.others, 1)),
            np.append(np.ones(len(outcomes)), column.others),
        )
        outcome[held] = 0.0


class _Held(NamedTuple):
    """The documents that have each label."""

    indptr: NDArray[np.int64]  # (n_labels + 1,)
    documents: NDArray[np.int64]

    @classmethod
    def of(cls, truth: csc_array) -> Self:
        columns = truth.copy()
        columns.eliminate_zeros()
        return cls(columns.indptr.astype(np.int64), columns.indices.astype(np.int64))


class _Above(NamedTuple):
    """The documents whose score is not below those of all documents that have the label."""

    indptr: NDArray[np.int64]  # (n_labels + 1,)
    documents: NDArray[np.int64]
    # (n_labels,) the smallest and the largest score below; not finite if there is none
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@njit(cache=True, nogil=True)
def _lowest(
    logits: NDArray[Any], used: NDArray[np.int64], held: _Held
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Return the lowest score of a document used that has the label, infinity if there is none."""
    is_used = np.zeros(len(logits), dtype=np.bool_)
    is_used[used] = True
    lowest = np.full(logits.shape[1], np.inf)
    for label in range(len(lowest)):
        for i in held.documents[held.indptr[label] : held.indptr[label + 1]]:
            if is_used[i]:
                lowest[label] = min(lowest[label], logits[i, label])
    return lowest


@njit(cache=True, nogil=True)
def _above(
    logits: NDArray[Any], used: NDArray[np.int64], lowest: NDArray[np.float64]
) -> _Above:  # pragma: no cover - compiled
    """Sort out the documents that need not be sorted, row by row, as the scores lie in memory."""
    n_labels = len(lowest)
    low, high = np.full(n_labels, np.inf), np.full(n_labels, -np.inf)
    indptr = np.zeros(n_labels + 1, dtype=np.int64)
    for i in used:
        for label in range(n_labels):
            score = np.float64(logits[i, label])
            if score < lowest[label]:
                low[label] = min(low[label], score)
                high[label] = max(high[label], score)
            else:
                indptr[label + 1] += 1
    indptr = np.cumsum(indptr)
    end = indptr[:-1].copy()
    documents = np.empty(indptr[-1], dtype=np.int64)
    for i in used:
        for label in range(n_labels):
            if np.float64(logits[i, label]) >= lowest[label]:
                documents[end[label]] = i
                end[label] += 1
    return _Above(indptr, documents, low, high)


@njit(cache=True, nogil=True)
def _fit_columns(
    logits: NDArray[Any], used: NDArray[np.int64], held: _Held
) -> tuple[
    NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]
]:  # pragma: no cover - compiled
    """Return the bounds, inputs and shares of the knots of each label's curve.

    Scores below those of all documents that have the label make one block, of which the ends and
    the size count. Of a rare label it holds nearly all.
    """
    n_labels = logits.shape[1]
    above = _above(logits, used, _lowest(logits, used, held))
    outcome = np.zeros(len(logits))
    indptr = np.zeros(n_labels + 1, dtype=np.int64)
    knots, shares = np.empty(4 * n_labels), np.empty(4 * n_labels)
    for label in range(n_labels):
        holders = held.documents[held.indptr[label] : held.indptr[label + 1]]
        documents = above.documents[above.indptr[label] : above.indptr[label + 1]]
        n_below = len(used) - len(documents)
        n_ends = min(n_below, 2)
        n = n_ends + len(documents)
        x, y, weight = np.empty(n), np.zeros(n), np.ones(n)
        if n_ends > 0:
            x[0], x[n_ends - 1] = above.low[label], above.high[label]
            weight[0] = n_below - n_ends + 1
        outcome[holders] = 1.0
        for k in range(len(documents)):
            x[n_ends + k], y[n_ends + k] = logits[documents[k], label], outcome[documents[k]]
        outcome[holders] = 0.0
        x = np.minimum(np.maximum(x, -LOGIT_LIMIT), LOGIT_LIMIT)
        order = np.argsort(x, kind="mergesort")  # stable
        knot, share = pool_adjacent_violators(x[order], y[order], weight[order], _DOUBT)
        start, stop = indptr[label], indptr[label] + len(knot)
        while stop > len(knots):
            knots, shares = np.append(knots, knots), np.append(shares, shares)
        knots[start:stop], shares[start:stop] = knot, share
        indptr[label + 1] = stop
    return indptr, knots[: indptr[-1]].copy(), shares[: indptr[-1]].copy()


@njit(cache=True, nogil=True)
def calibrate_rows(
    logits: NDArray[np.float64],
    knot_indptr: NDArray[np.int64],
    knot_logits: NDArray[np.float64],
    knot_values: NDArray[np.float64],
    share: float,
) -> NDArray[np.float64]:
    """Return the calibrated probabilities (n, L) of raw scores."""
    n, n_labels = logits.shape
    out = np.empty((n, n_labels))
    for i in range(n):
        for label in range(n_labels):
            raw = min(max(logits[i, label], -LOGIT_LIMIT), LOGIT_LIMIT)
            low, high = knot_indptr[label], knot_indptr[label + 1] - 1
            if raw <= knot_logits[low]:
                value = knot_values[low]
            elif raw >= knot_logits[high]:
                value = knot_values[high]
            else:
                while high - low > 1:
                    middle = (low + high) >> 1
                    if knot_logits[middle] <= raw:
                        low = middle
                    else:
                        high = middle
                # Interpolate by shares: a slope overflows between knots that nearly coincide.
                way = (raw - knot_logits[low]) / (knot_logits[high] - knot_logits[low])
                value = knot_values[low] + way * (knot_values[high] - knot_values[low])
            out[i, label] = 1.0 / (1.0 + np.exp(-((1.0 - share) * raw + share * value)))
    return out
