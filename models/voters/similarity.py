"""Cosine similarity of sparse documents with an inverted index."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.scaling import (
    STORED_WEIGHTING,
    FeatureWeighting,
    as_rows,
    checked_rows,
)
from setwise.models.storage.fields import StoredArray, stored_ragged
from setwise.models.storage.state import Lengths, StoredPart

# Centring makes a matrix dense, so sparser matrices than this are not centred.
_DENSE_SHARE = 0.5
# Features of more documents than this share are stored as dense columns, with at most four times
# the memory of their entries.
_FREQUENT_SHARE = 0.125
# Squared length of a unit vector, with room for rounding.
_LARGEST_SQUARE = 1.001
TILE = 32
"""Rows computed in one pass over the dense columns."""
# Documents per block, so that their part of the columns stays in the cache.
_PART = 1024


class UnitRows(StoredPart, Estimator):
    """Turns documents into unit vectors, whose dot products are cosines.

    Terms are weighted as for binary relevance (`FeatureWeighting`). Dense measurements are also
    centred, because cosines between rows of positive numbers would all be close to 1.

    Examples
    --------
    >>> UnitRows().fit_transform(np.array([[3.0, 0.0, 0.0, 0.0, 4.0]])).toarray().round(2)
    array([[0.6, 0. , 0. , 0. , 0.8]], dtype=float32)
    """

    weighting_: FeatureWeighting
    # (n_features,) subtracted from the weighted features; all zero for terms.
    centre_: NDArray[np.float64]
    centred_: bool  # whether the centre is not zero
    stored = (
        *STORED_WEIGHTING,
        # Differences from the centre are single precision.
        StoredArray("centre", "centre_", np.float64, ("features",), low=-1e30, high=1e30),
    )

    def fit(self, X: csr_array) -> Self:
        """Learn weights and centre from the rows of X (n_documents, n_features)."""
        rows = as_rows(X)
        self.weighting_ = FeatureWeighting().fit(rows)
        self.centre_ = np.zeros(rows.shape[1])
        dense = rows.nnz > _DENSE_SHARE * rows.shape[0] * rows.shape[1]
        if self.weighting_.scheme_ == "deviation" and dense:
            self.centre_ = np.asarray(self.weighting_.transform(rows).mean(axis=0), dtype=float)
        self.centred_ = bool(self.centre_.any())
        return self

    def transform(self, X: csr_array) -> csr_array:
        """Return the rows of X weighted, centred and normalised, float32.

        A row without a non-zero feature stays zero.
        """
        check_fitted(self, "centre_")
        rows = checked_rows(self.weighting_, X, reset=False)
        return self.transform_rows(SparseRows.of(rows)).to_matrix()

    def transform_rows(self, rows: SparseRows) -> SparseRows:
        """Return what `transform` does, without checking the columns."""
        weighted = self.weighting_.weigh(rows)
        if self.centred_:
            weighted = centre_rows(weighted, self.centre_)
        values = unit_values(weighted.indptr, weighted.values)
        return SparseRows(weighted.indptr, weighted.features, values, weighted.n_features)

    def fit_transform(self, X: csr_array) -> csr_array:
        """Fit, and transform the same rows."""
        return self.fit(X).transform(X)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # nothing of lengths
        """Rebuild the fitted transformer."""
        space = cls()
        space.weighting_ = FeatureWeighting.from_state(fields["scale"], fields["scheme"], "auto")
        space.centre_ = fields["centre"]
        space.centred_ = bool(space.centre_.any())
        return space


class Postings(NamedTuple):
    """Inverted index: the documents of each feature, with values.

    Frequent features are also stored as dense columns, which compiled code adds up faster. Created
    by `of`.
    """

    indptr: NDArray[np.int64]  # (n_features + 1,)
    rows: NDArray[np.int32]
    values: NDArray[np.float32]
    column_of: NDArray[np.int32]  # (n_features,) row of `columns`, -1 for rarer features
    columns: NDArray[np.float32]  # (n_frequent, n_documents)

    @classmethod
    def of(
        cls,
        indptr: NDArray[np.int64],
        rows: NDArray[np.int32],
        values: NDArray[np.float32],
        n: int,
    ) -> Self:
        """Index the ``n`` documents that have each feature."""
        counts = np.diff(indptr)
        frequent = np.flatnonzero(counts > _FREQUENT_SHARE * n)
        column_of = np.full(len(counts), -1, dtype=np.int32)
        column_of[frequent] = np.arange(len(frequent), dtype=np.int32)
        columns = np.zeros((len(frequent), n), dtype=np.float32)
        for column, feature in zip(columns, frequent, strict=True):
            span = slice(indptr[feature], indptr[feature + 1])
            column[rows[span]] = values[span]
        return cls(indptr, rows, values, column_of, columns)


def index_rows(rows: csr_array) -> Postings:
    """Turn rows (n_documents, n_features) into postings."""
    columns = rows.tocsc()
    return Postings.of(
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        columns.data.astype(np.float32),
        rows.shape[0],
    )


def stored_postings(prefix: str, attribute: str, features: str, n: str) -> tuple[StoredArray, ...]:
    """Return the fields of the postings in an attribute.

    Parameters
    ----------
    prefix : str
        Prefix of the arrays' names.
    attribute : str
    features, n : str
        Names of the numbers of features and of documents.
    """
    entries = f"{prefix}entries"
    return (
        *stored_ragged(f"{prefix}indptr", f"{prefix}rows", attribute, "rows", features, n, entries),
        StoredArray(f"{prefix}values", f"{attribute}.values", np.float32, (entries,)),
    )


def restored_postings(fields: Mapping[str, NDArray[Any]], prefix: str, n: int) -> Postings:
    """Return the postings of ``n`` documents from checked arrays.

    Raises
    ------
    ValueError
        If a document is longer than 1.
    """
    rows, values = fields[f"{prefix}rows"], fields[f"{prefix}values"]
    squares = np.bincount(rows, values.astype(np.float64) ** 2, minlength=n)
    if squares.max(initial=0.0) > _LARGEST_SQUARE:
        raise ValueError(f"array '{prefix}values' holds documents longer than 1")
    return Postings.of(fields[f"{prefix}indptr"], rows, values, n)


def similarities(postings: Postings, n: int, rows: SparseRows) -> NDArray[np.float32]:
    """Return the dot products of rows with all ``n`` indexed documents."""
    out = np.empty((rows.n_rows, n), dtype=np.float32)
    fill_all_similarities(postings, rows, out)
    return out


@njit(cache=True, nogil=True)
def fill_similarities(
    postings: Postings, rows: SparseRows, first: int, out: NDArray[np.float32]
) -> None:  # pragma: no cover - compiled
    """Fill ``out`` (m, n) with dot products of ``m`` rows from ``first``.

    A row's products do not depend on the other rows.
    """
    m, n = out.shape
    start = rows.indptr[first]
    room = rows.indptr[first + m] - start + 3 * m  # rows are padded to a multiple of four
    column = np.zeros(room, dtype=np.int64)
    factor = np.zeros(room, dtype=np.float32)
    held = np.zeros(m, dtype=np.int64)
    for r in range(m):
        products = out[r]
        products[:] = 0.0
        place = rows.indptr[first + r] - start + 3 * r
        for k in range(rows.indptr[first + r], rows.indptr[first + r + 1]):
            x, feature = rows.values[k], rows.features[k]
            if postings.column_of[feature] >= 0:
                column[place + held[r]] = postings.column_of[feature]
                factor[place + held[r]] = x
                held[r] += 1
                continue
            for p in range(postings.indptr[feature], postings.indptr[feature + 1]):
                products[postings.rows[p]] += x * postings.values[p]
    for begin in range(0, n, _PART):
        end = min(begin + _PART, n)
        for r in range(m):
            products = out[r, begin:end]
            place = rows.indptr[first + r] - start + 3 * r
            # Four columns at once, to read and write the sums less often; padding has value 0.
            for g in range(place, place + held[r], 4):
                a = postings.columns[column[g], begin:end]
                b = postings.columns[column[g + 1], begin:end]
                c = postings.columns[column[g + 2], begin:end]
                d = postings.columns[column[g + 3], begin:end]
                for j in range(end - begin):
                    total = products[j] + factor[g] * a[j] + factor[g + 1] * b[j]
                    products[j] = total + factor[g + 2] * c[j] + factor[g + 3] * d[j]


@njit(cache=True, nogil=True)
def fill_all_similarities(
    postings: Postings, rows: SparseRows, out: NDArray[np.float32]
) -> None:  # pragma: no cover - compiled
    """Fill ``out`` (n_rows, n) with the dot products of all rows."""
    for first in range(0, len(out), TILE):
        fill_similarities(postings, rows, first, out[first : first + TILE])


@njit(cache=True, nogil=True)
def centre_rows(
    rows: SparseRows, centre: NDArray[np.float64]
) -> SparseRows:  # pragma: no cover - compiled
    """Return rows minus ``centre`` (n_features,), without storing zeros."""
    n, d = len(rows.indptr) - 1, len(centre)
    indptr = np.zeros(n + 1, dtype=np.int64)
    features = np.empty(n * d, dtype=np.int32)
    values = np.empty(n * d, dtype=np.float32)
    end = 0
    for i in range(n):
        k, last = rows.indptr[i], rows.indptr[i + 1]
        for j in range(d):
            x = 0.0
            if k < last and rows.features[k] == j:
                x = np.float64(rows.values[k])
                k += 1
            value = np.float32(x - centre[j])
            if value != 0.0:
                features[end] = j
                values[end] = value
                end += 1
        indptr[i + 1] = end
    return SparseRows(indptr, features[:end].copy(), values[:end].copy(), d)


@njit(cache=True, nogil=True)
def unit_values(
    indptr: NDArray[np.integer], values: NDArray[np.float32]
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the values of sparse rows scaled to unit length."""
    out = np.zeros_like(values)
    for i in range(len(indptr) - 1):
        squares = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            squares += np.float64(values[k]) ** 2
        if squares > 0.0:
            length = np.sqrt(squares)
            for k in range(indptr[i], indptr[i + 1]):
                out[k] = values[k] / length
    return out
