"""ML-kNN: label probabilities from the labels of the nearest documents."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from benchmarks.papers.baselines.method import Floats, Method, Predicted, independent


class NeighbourCounts(Method):
    """Bayes' rule on how many of the k nearest documents have a label.

    Parameters
    ----------
    k : int
        Neighbours, by Euclidean distance.
    smoothing : float
        Added to every count.

    References
    ----------
    .. [1] M.-L. Zhang and Z.-H. Zhou, "ML-KNN: A Lazy Learning Approach to Multi-label Learning",
       Pattern Recognition 40, 2007; row "KNN" of C. Li et al., ECML 2019, Table 4.
    """

    def __init__(self, k: int = 10, smoothing: float = 1.0) -> None:
        self.k = k
        self.smoothing = smoothing

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Count neighbours of the training documents, each without itself."""
        n, k, s = X.shape[0], min(self.k, X.shape[0] - 1), self.smoothing
        self.search_, self.labels_ = NearestNeighbors(n_neighbors=k).fit(X), Y
        truth = Y.toarray().astype(bool)
        self.prior_ = (s + truth.sum(axis=0)) / (2 * s + n)
        count = self._counts(None)
        self.table_: list[Floats] = []  # without and with the label: (L, k + 1)
        for has in (~truth, truth):
            table = np.stack(
                [np.bincount(c[h], minlength=k + 1) for c, h in zip(count.T, has.T, strict=True)]
            )
            smoothed = s + table
            self.table_.append(smoothed / smoothed.sum(axis=1, keepdims=True))
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return each label's posterior."""
        count, label = self._counts(X), np.arange(len(self.prior_))
        without, present = (table[label, count] for table in self.table_)
        present = self.prior_ * present
        return independent(present / (present + (1.0 - self.prior_) * without))

    def _counts(self, X: csr_array | None) -> NDArray[np.int64]:
        """Return how many neighbours have each label (n, L); None: of the training documents."""
        graph = self.search_.kneighbors_graph(X)
        count: NDArray[np.int64] = np.rint((graph @ self.labels_).toarray()).astype(np.int64)
        return count
