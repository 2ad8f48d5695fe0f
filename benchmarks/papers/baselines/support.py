"""Support inference: the joint over the label sets of the training documents."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_softmax

from benchmarks.papers.baselines.learners import labelwise, multinomial
from benchmarks.papers.baselines.method import Floats, Method, Predicted, joint

# Less probable sets are left out of candidate lists; their mass counts for label probabilities.
_LISTED = 64


class Support(NamedTuple):
    """Distinct label sets."""

    sets: csr_array  # (n_sets, L)
    number: NDArray[np.int64]  # (n,) set of each training document

    @classmethod
    def of(cls, Y: csr_array) -> "Support":
        """Return the distinct rows of a 0/1 matrix."""
        packed = np.packbits(Y.toarray(), axis=1)
        _, first, number = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        return cls(Y[first], number.ravel().astype(np.int64))

    def joint(self, log_mass: Floats) -> Predicted:
        """Return the joint with these log-masses (n, n_sets), of any common factor by row."""
        n, n_sets = log_mass.shape
        log_mass = log_softmax(log_mass, axis=1)
        k = min(_LISTED, n_sets)
        best = np.argpartition(-log_mass, k - 1, axis=1)[:, :k]
        document = np.repeat(np.arange(n), k)
        listed = np.take_along_axis(log_mass, best, axis=1).ravel()
        predicted = joint(document, self.sets[best.ravel()], listed, n)
        return predicted._replace(scores=np.clip(np.exp(log_mass) @ self.sets, 0.0, 1.0))


class SupportedBinaryRelevance(Method):
    """Independent labels, restricted to the sets of the training documents.

    References
    ----------
    .. [1] B. Wang, C. Li, V. Pavlu and J. Aslam, "Regularizing Model Complexity and Label Structure
       for Multi-Label Text Classification", KDD 2017, section 3.2.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit every label by itself."""
        self.support_ = Support.of(Y)
        self.model_ = labelwise(self.random_state).fit(X, Y)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return the joint; what all sets of a document share cancels out."""
        return self.support_.joint(self.model_.decision_function(X) @ self.support_.sets.T)


class PowerSet(Method):
    """One class for each label set of the training documents.

    Parameters
    ----------
    C : float
        Inverse penalty of scikit-learn's `LogisticRegression`.

    References
    ----------
    .. [1] C. Li, B. Wang, V. Pavlu and J. Aslam, "Conditional Bernoulli Mixtures for Multi-label
       Classification", ICML 2016, section 5.
    """

    def __init__(self, C: float = 1.0, max_iter: int = 100) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit a multinomial logistic regression."""
        self.support_ = Support.of(Y)
        self.model_ = multinomial(X, self.support_.number, C=self.C, max_iter=self.max_iter)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return the classes as label sets."""
        p = self.model_.predict_proba(X)
        return self.support_.joint(np.log(np.maximum(p, np.finfo(float).tiny)))
