"""LSF: label and set size together, straight from the features."""

from typing import Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from benchmarks.papers.baselines.learners import labelwise
from benchmarks.papers.baselines.method import Method, Predicted
from setwise.models.sets.f_measure import maximise_from_sized_marginals


class SizedLabels(Method):
    """One logistic regression for each label and set size; its set maximises expected F1.

    References
    ----------
    .. [1] B. Wang, C. Li, V. Pavlu and J. Aslam, "Regularizing Model Complexity and Label Structure
       for Multi-Label Text Classification", KDD 2017, section 3.2, "LSF".
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit a regression for each pair that occurs, and one for the empty set."""
        size = np.diff(Y.indptr)
        document = np.repeat(np.arange(Y.shape[0]), size)
        pairs = np.stack([Y.indices, size[document]])
        (self.labels_, self.sizes_), number = np.unique(pairs, axis=1, return_inverse=True)
        ones = np.ones(len(document), dtype=np.uint8)
        shape = (Y.shape[0], len(self.labels_))
        targets = csr_array((ones, (document, number.ravel())), shape=shape)
        targets = sp.hstack([targets, csr_array((size == 0).astype(np.uint8)[:, None])])
        self.n_labels_ = Y.shape[1]
        self.model_ = labelwise(self.random_state).fit(X, targets)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return the sets of highest expected F1."""
        estimated = self.model_.predict_proba(X)
        P, empty = estimated[:, :-1], estimated[:, -1]
        best = maximise_from_sized_marginals(P, empty, self.labels_, self.sizes_, self.n_labels_)
        of_label = np.eye(self.n_labels_)[self.labels_]
        return Predicted(best.sets, np.clip(P @ of_label, 0.0, 1.0))
