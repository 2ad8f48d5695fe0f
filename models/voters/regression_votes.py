r"""A voter by kernel ridge regression of label sets on documents.

With indicators :math:`t_u` of the label sets, the signed weight of set :math:`u` is the prediction
of the regression onto :math:`t_u`. Regression onto labels would add nothing: the indicator of a
label is the sum of those of the sets that hold it, and the fit is linear in its targets.

`SmoothVotes` is the smooth link of [1]_ in kernel form: half of its kernel compares documents, the
other half their label probabilities.

References
----------
.. [1] N. Karampatziakis and P. Mineiro, "Scalable Multilabel Prediction via Randomized Methods",
   2015, section 3.
"""

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from threadpoolctl import threadpool_limits

from setwise.models.compilation import njit
from setwise.models.data.capacity import rows_at_once
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.kept_scores import Scores
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredParameters, StoredPiece
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.block_ridge import ExactRidge, FeatureRidge, HoldOut, Rows
from setwise.models.voters.rounded import RoundedMatrix, multiply
from setwise.models.voters.similarity import (
    Postings,
    UnitRows,
    index_rows,
    restored_postings,
    similarities,
    stored_postings,
    unit_values,
)

MAX_EXACT = 8192
"""Maximum number of documents for inverting the whole kernel matrix."""

MAX_LANDMARKS = 4096
MAX_WEIGHTS = 12_000_000
"""Maximum number of entries of a weight matrix, which bounds memory and prediction time."""

# Added to the diagonal of the landmarks' kernel matrix, which duplicates make singular.
_JITTER = 1e-5
# Range of a kernel's width in an artifact: wider ones overflow.
_WIDTHS = (0.0, 1e4)
# Less likely labels are left out to keep rows sparse.
_LEAST_PROBABILITY = 1e-3


class SmoothVotes(StoredPart, Estimator):
    r"""Kernel ridge regression of label sets on documents and their label probabilities.

    The kernel of two documents with cosine :math:`c`, whose square roots of label probabilities
    have the cosine :math:`q`, is
    :math:`\tfrac12 e^{\gamma_d (c - 1)} + \tfrac12 e^{\gamma_p (q - 1)}`. The latter term lets
    the regression learn which probabilities occur with which sets.

    Parameters
    ----------
    penalty : float, default 0.5
    document_width, probability_width : float, default 2 and 3
        :math:`\gamma_d` and :math:`\gamma_p`.
    random_state : int, default 0
        Seed of the landmarks, used if there are too many documents for a full kernel matrix.
    """

    space_: UnitRows
    # documents_ and probabilities_: the landmarks in either space.
    documents_: Postings
    probabilities_: Postings
    weights_: RoundedMatrix  # (n_landmarks, n_sets)
    n_landmarks_: int
    stored = (
        StoredParameters("parameters", {"document_width": _WIDTHS, "probability_width": _WIDTHS}),
        StoredPiece("space_", UnitRows, shares={"features": "features"}),
        *stored_postings("document_", "documents_", "features", "landmarks"),
        *stored_postings("probability_", "probabilities_", "labels", "landmarks"),
        StoredArray("weights", "weights_.values", np.int16, ("landmarks", "sets")),
        StoredArray("factors", "weights_.factors", np.float32, ("landmarks",), low=0.0),
    )

    def __init__(
        self,
        penalty: float = 0.5,
        *,
        document_width: float = 2.0,
        probability_width: float = 3.0,
        random_state: int = 0,
    ) -> None:
        self.penalty = penalty
        self.document_width = document_width
        self.probability_width = probability_width
        self.random_state = random_state

    def fit_folds(
        self,
        X: csr_array,
        marginals: Scores,
        set_of: NDArray[np.int32],
        n_sets: int,
        folds: NDArray[np.int64],
    ) -> HoldOut:
        """Fit on all rows and return a function for out-of-fold votes.

        Parameters and result are those of `NeighbourVotes.fit_folds`, and ``marginals``
        (n_documents, n_labels): out-of-fold label probabilities, as models have not seen new
        documents either.
        """
        check_parameters(self)
        self.space_ = UnitRows().fit(X)
        rows = self.space_.transform(X)
        n = rows.shape[0]
        step = rows_at_once(marginals.shape[1])
        parts = (marginals[start : start + step] for start in range(0, n, step))
        beliefs = csr_array(
            vstack([belief_rows(np.ascontiguousarray(part)).to_matrix() for part in parts])
        )
        exact = n <= MAX_EXACT and n * n_sets <= MAX_WEIGHTS
        m = n if exact else min(n, MAX_LANDMARKS, MAX_WEIGHTS // max(n_sets, 1))
        marks = np.sort(np.random.default_rng(self.random_state).permutation(n)[:m])
        self.documents_ = index_rows(rows[marks])
        self.probabilities_ = index_rows(beliefs[marks])
        self.n_landmarks_ = m
        if exact:
            kernel = self._kernel(SparseRows.of(rows), SparseRows.of(beliefs))
            whole = ExactRidge(kernel, self.penalty, set_of, n_sets)
            self.weights_ = RoundedMatrix.of(whole.coef)
            return whole.hold_out

        def kernel_of(part: Rows) -> NDArray[np.float32]:
            return self._kernel(SparseRows.of(rows[part]), SparseRows.of(beliefs[part]))

        among = kernel_of(marks).astype(np.float64)
        among[np.diag_indices_from(among)] += _JITTER
        with threadpool_limits(1, user_api="blas"):
            root = scipy.linalg.cholesky(among, lower=True).astype(np.float32)

            def whitened(part: Rows) -> NDArray[np.float32]:
                """Return features whose dot products approximate the kernel."""
                half = scipy.linalg.solve_triangular(root, kernel_of(part).T, lower=True)
                return np.asarray(half.T)

            ridge = FeatureRidge(whitened, self.penalty, set_of, n_sets, folds)
            weights = scipy.linalg.solve_triangular(root, ridge.coef, lower=True, trans="T")
            self.weights_ = RoundedMatrix.of(np.asarray(weights, dtype=np.float32))
        return ridge.hold_out

    def _kernel(self, rows: SparseRows, beliefs: SparseRows) -> NDArray[np.float32]:
        """Return kernel values with the landmarks, shape (n_rows, n_landmarks)."""
        kernel = similarities(self.documents_, self.n_landmarks_, rows)
        blend(
            kernel,
            similarities(self.probabilities_, self.n_landmarks_, beliefs),
            np.float32(self.document_width),
            np.float32(self.probability_width),
        )
        return kernel

    def vote(self, rows: SparseRows, marginals: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the weights of all sets for each document, shape (n_documents, n_sets).

        Parameters
        ----------
        rows : SparseRows
            The documents.
        marginals : float64 ndarray of shape (n_documents, n_labels)
            Contiguous.
        """
        check_fitted(self, "weights_")
        kernel = self._kernel(self.space_.transform_rows(rows), belief_rows(marginals))
        return multiply(kernel, self.weights_)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted voter."""
        voter = cls(**fields["parameters"])
        voter.space_ = fields["space_"]
        voter.n_landmarks_ = lengths["landmarks"]
        voter.weights_ = RoundedMatrix(fields["weights"], fields["factors"])
        voter.documents_ = restored_postings(fields, "document_", voter.n_landmarks_)
        voter.probabilities_ = restored_postings(fields, "probability_", voter.n_landmarks_)
        return voter


@njit(cache=True, nogil=True)
def belief_rows(marginals: NDArray[np.float64]) -> SparseRows:  # pragma: no cover - compiled
    """Return square roots of label probabilities as sparse unit rows."""
    n, n_labels = marginals.shape
    indptr = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        indptr[i + 1] = indptr[i] + np.count_nonzero(marginals[i] >= _LEAST_PROBABILITY)
    labels = np.empty(indptr[n], dtype=np.int32)
    roots = np.empty(indptr[n], dtype=np.float32)
    end = 0
    for i in range(n):
        for label in range(n_labels):
            if marginals[i, label] >= _LEAST_PROBABILITY:
                labels[end] = label
                roots[end] = np.sqrt(marginals[i, label])
                end += 1
    return SparseRows(indptr, labels, unit_values(indptr, roots), n_labels)


@njit(cache=True, nogil=True)
def blend(
    documents: NDArray[np.float32],
    probabilities: NDArray[np.float32],
    document_width: np.float32,
    probability_width: np.float32,
) -> None:  # pragma: no cover - compiled
    """Turn two cosine matrices into the kernel, overwriting the first."""
    half, unit = np.float32(0.5), np.float32(1.0)
    for i in range(documents.shape[0]):
        for j in range(documents.shape[1]):
            documents[i, j] = half * np.exp(document_width * (documents[i, j] - unit)) + half * (
                np.exp(probability_width * (probabilities[i, j] - unit))
            )
