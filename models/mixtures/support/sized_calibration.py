r"""Calibration of sized marginals before the F-measure maximiser (thesis, section 3.7.1).

A joint may misestimate :math:`P_{ls} = p(y_l = 1, |y| = s \mid x)`. One isotonic curve per
(label, size) pair corrects it, fitted to documents that the joint never saw. The marginals must
belong to normalised distributions: otherwise a curve pools documents with different factors.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.estimator import Estimator
from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.storage.fields import StoredArray
from setwise.models.storage.state import StoredPart

# Pairs in fewer documents share the curve of all rare pairs of their size: their own curve would
# be 0 except near their few documents.
_LEAST_POSITIVES = 10


# The largest share, with room for rounding.
_ONE = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class SizedMarginals:
    """Sized marginals of a batch of documents, for the pairs that occur."""

    P: NDArray[np.float64]  # (n_documents, n_pairs) sized marginals of normalised distributions
    # (n_pairs,) labels and sizes: the pairs, ascending by label, then by size; sizes from 1.
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    n_labels: int


def support_sized_marginals(log_p: NDArray[np.float64], support: sp.csr_array) -> SizedMarginals:
    """Return the sized marginals of a distribution over known label sets.

    Parameters
    ----------
    log_p : ndarray of shape (n_documents, n_sets)
        Log-probabilities of the sets, in nats; normalised here.
    support : csr_array of shape (n_sets, n_labels)
        Zeros and ones, sorted indices.

    Raises
    ------
    ValueError
        If the shapes disagree.
    """
    if log_p.ndim != 2 or log_p.shape[1] != support.shape[0]:
        raise ValueError(f"log_p has shape {log_p.shape}; the support {support.shape[0]} sets")
    set_sizes = np.diff(support.indptr)
    codes = support.indices.astype(np.int64) * (support.shape[1] + 1)
    codes += np.repeat(set_sizes, set_sizes)
    pairs, which = np.unique(codes, return_inverse=True)
    set_of = np.repeat(np.arange(len(set_sizes)), set_sizes)
    shape = (len(set_sizes), len(pairs))
    incidence = sp.csr_array((np.ones(len(which)), (set_of, which)), shape=shape)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labels, sizes = np.divmod(pairs, support.shape[1] + 1)
    return SizedMarginals(np.asarray(p @ incidence), labels, sizes, support.shape[1])


class SizedMarginalCalibrator(StoredPart, Estimator):
    """Isotonic curves for sized marginals.

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, section 3.7.1.
    """

    curve_indptr_: NDArray[np.int64]  # (n_curves + 1,)
    # knots_ and values_: the curves: knots ascending, values rising, in [0, 1].
    knots_: NDArray[np.float64]
    values_: NDArray[np.float64]
    curve_of_: NDArray[np.int64]  # (n_pairs,)
    stored = (
        StoredArray(
            "curve_indptr", "curve_indptr_", np.int64, ("curves+1",), cuts="knots", least=1
        ),
        StoredArray("knots", "knots_", np.float64, ("knots",), rises="curve_indptr"),
        StoredArray("values", "values_", np.float64, ("knots",), low=0.0, high=_ONE),
        StoredArray("curve_of", "curve_of_", np.int64, ("pairs",), picks="curves"),
    )

    def fit(self, marginals: SizedMarginals, Y: sp.csr_array) -> Self:
        """Fit the curves to documents that the joint was not fitted on.

        Parameters
        ----------
        marginals : SizedMarginals
        Y : csr_array of shape (n_documents, n_labels)
            Their true sets.
        """
        if Y.shape != (len(marginals.P), marginals.n_labels):
            expected = (len(marginals.P), marginals.n_labels)
            raise ValueError(f"Y has shape {Y.shape}; these marginals need {expected}")
        truth = _occurrences(marginals, Y)
        frequent = np.flatnonzero(truth.sum(axis=0) >= _LEAST_POSITIVES)
        curves = [IsotonicCurve.fit(marginals.P[:, pair], truth[:, pair]) for pair in frequent]
        self.curve_of_ = np.full(len(marginals.sizes), -1, dtype=np.int64)
        self.curve_of_[frequent] = np.arange(len(frequent))
        for size in np.unique(marginals.sizes[self.curve_of_ < 0]):
            rare = np.flatnonzero((self.curve_of_ < 0) & (marginals.sizes == size))
            self.curve_of_[rare] = len(curves)
            curves.append(IsotonicCurve.fit(marginals.P[:, rare].ravel(), truth[:, rare].ravel()))
        self.curve_indptr_ = np.cumsum([0] + [len(curve.x) for curve in curves]).astype(np.int64)
        self.knots_ = np.concatenate([curve.x for curve in curves])
        self.values_ = np.concatenate([curve.y for curve in curves])
        return self

    def transform(self, marginals: SizedMarginals) -> tuple[SizedMarginals, NDArray[np.float64]]:
        r"""Return calibrated marginals and the mass of the empty set.

        Returns
        -------
        marginals : SizedMarginals
        p_empty : ndarray of shape (n_documents,)
            :math:`1 - \sum_{ls} P_{ls} / s`, at least 0.

        Raises
        ------
        ValueError
            If the calibrator was fitted to other pairs.
        """
        if marginals.P.shape[1] != len(self.curve_of_):
            raise ValueError(
                f"{marginals.P.shape[1]} pairs; the calibrator knows {len(self.curve_of_)}"
            )
        P = _calibrate(
            np.ascontiguousarray(marginals.P),
            self.curve_of_,
            self.curve_indptr_,
            self.knots_,
            self.values_,
        )
        calibrated = SizedMarginals(P, marginals.labels, marginals.sizes, marginals.n_labels)
        return calibrated, np.maximum(1.0 - P @ (1.0 / marginals.sizes), 0.0)


def _occurrences(marginals: SizedMarginals, Y: sp.csr_array) -> NDArray[np.float64]:
    """Return 1 where a pair holds for a document, shape (n, n_pairs)."""
    width = marginals.n_labels + 1
    sizes = np.diff(Y.indptr)
    code = Y.indices.astype(np.int64) * width + np.repeat(sizes, sizes)
    codes = marginals.labels * width + marginals.sizes
    pair = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
    listed = codes[pair] == code
    truth = np.zeros(marginals.P.shape)
    truth[np.repeat(np.arange(Y.shape[0]), sizes)[listed], pair[listed]] = 1.0
    return truth


@njit(cache=True, nogil=True)
def _calibrate(
    P: NDArray[np.float64],
    curve_of: NDArray[np.int64],
    indptr: NDArray[np.int64],
    knots: NDArray[np.float64],
    values: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.empty_like(P)
    for i in range(P.shape[0]):
        for pair in range(P.shape[1]):
            first, last = indptr[curve_of[pair]], indptr[curve_of[pair] + 1] - 1
            p = P[i, pair]
            above = first + np.searchsorted(knots[first : last + 1], p)
            if above <= first:
                out[i, pair] = values[first]
            elif above > last:
                out[i, pair] = values[last]
            else:
                low, high = knots[above - 1], knots[above]
                share = (p - low) / (high - low)
                out[i, pair] = values[above - 1] + share * (values[above] - values[above - 1])
    return out
