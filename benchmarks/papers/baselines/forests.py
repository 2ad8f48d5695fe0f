"""Trees that divide the documents by their features, as FastXML's do."""

from typing import Literal, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import ExtraTreesRegressor

from benchmarks.papers.baselines.method import Method, Predicted, independent


class FeatureTrees(Method):
    """The mean label frequencies of the leaves that a document reaches in many random trees.

    FastXML divides a node by a linear function of all features, chosen by how well it ranks labels;
    these trees by one feature, chosen by the variance of the labels that is left. No library that
    is looked after has FastXML itself.

    Parameters
    ----------
    n_trees : int
        As many as FastXML grows.
    max_features : "sqrt" or float
        Features compared at a node, or their share.

    References
    ----------
    .. [1] Y. Prabhu and M. Varma, "FastXML: A Fast, Accurate and Stable Tree-Classifier for Extreme
       Multi-label Learning", KDD 2014.
    .. [2] P. Geurts, D. Ernst and L. Wehenkel, "Extremely Randomized Trees", Machine Learning 63,
       2006.
    """

    def __init__(
        self,
        n_trees: int = 50,
        max_features: Literal["sqrt"] | float = 0.3,
        random_state: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_features = max_features
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Grow the trees."""
        labels = Y.toarray().astype(np.float64)
        self.trees_ = ExtraTreesRegressor(
            self.n_trees,
            max_features=self.max_features,
            random_state=self.random_state,
        ).fit(X, labels[:, 0] if Y.shape[1] == 1 else labels)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return each label's mean frequency."""
        frequency = np.asarray(self.trees_.predict(X), dtype=np.float64)
        return independent(np.clip(frequency.reshape(X.shape[0], -1), 0.0, 1.0))
