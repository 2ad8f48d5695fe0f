"""Turns raw label scores into probabilities strictly between 0 and 1."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, sparray, spmatrix
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.labels.kept_scores import KeptScores, ScoreColumn
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredSetting
from setwise.models.storage.state import StoredPart

# Beyond it rounding makes a float64 probability indistinguishable from 0 or 1.
LOGIT_LIMIT = 34.0


class LabelCalibrator(StoredPart, BaseEstimator):
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
            The documents to learn from, all by default. At most one column is copied at a time,
            because memory may hold the whole matrix only once.

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
        curves = [IsotonicCurve.fit(*points, doubt=1.0) for points in _points(logits, truth, used)]
        self.knot_indptr_ = np.cumsum([0, *(len(curve.x) for curve in curves)], dtype=np.int64)
        self.knot_logits_ = np.concatenate([curve.x for curve in curves])
        share = np.concatenate([curve.y for curve in curves])
        self.knot_values_ = np.log(share / (1.0 - share))
        return self

    def transform(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities in (0, 1), of the shape of ``logits``."""
        if not hasattr(self, "knot_indptr_"):
            raise NotFittedError("LabelCalibrator must be fitted before it transforms")
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
    logits: NDArray[Any] | KeptScores, truth: csc_array, used: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """Yield each label's scores in the documents used, the outcomes and their weights.

    All documents whose score is not kept make one point.
    """
    columns: Iterable[ScoreColumn] = (
        logits.columns(used)
        if isinstance(logits, KeptScores)
        else (
            ScoreColumn(used, logits[used, k].astype(float), 0, 0.0) for k in range(logits.shape[1])
        )
    )
    outcome = np.zeros(len(logits))
    is_used = np.zeros(len(logits))
    is_used[used] = 1.0
    for column, (first, end) in zip(columns, pairwise(truth.indptr.tolist()), strict=True):
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
