"""Learners that the papers' methods share: logistic regression with penalties chosen by rows."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from setwise.models.labels.binary_relevance import BinaryRelevance

Floats = NDArray[np.float64]
Objective = Callable[[Floats], tuple[float, Floats]]


def labelwise(seed: int) -> BinaryRelevance:
    """Return Setwise's own logistic regressions, so that methods differ in nothing else."""
    return BinaryRelevance(weighting="none", n_jobs=1, random_state=seed)


class Logistic(ClassifierMixin, BaseEstimator):
    """One of these regressions as a binary classifier of scikit-learn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, y: NDArray[Any]) -> Self:
        """Fit to 0/1 targets (n,), which may all be equal."""
        column = np.asarray(y, dtype=np.uint8).reshape(-1, 1)
        self.model_ = labelwise(self.random_state).fit(X, column)
        self.coef_ = self.model_.coef_.toarray()[0].astype(np.float64)
        self.intercept_ = float(self.model_.intercept_[0])
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X: csr_array) -> Floats:
        """Return log-odds (n,)."""
        return self.model_.decision_function(X)[:, 0]

    def predict_proba(self, X: csr_array) -> Floats:
        """Return the probabilities of 0 and 1, (n, 2)."""
        p = self.model_.predict_proba(X)
        return np.hstack([1.0 - p, p])

    def predict(self, X: csr_array) -> NDArray[np.int64]:
        """Return 0 or 1, (n,)."""
        return (self.decision_function(X) > 0.0).astype(np.int64)


def multinomial(
    X: csr_array | Floats, classes: NDArray[Any], *, C: float = 1.0, max_iter: int = 100
) -> LogisticRegression | DummyClassifier:
    """Return scikit-learn's regression, or the only class, which it refuses to learn."""
    several = bool((classes != classes[0]).any())
    model = LogisticRegression(C=C, max_iter=max_iter) if several else DummyClassifier()
    return model.fit(X, classes)


def minimise(objective: Objective, start: Floats, max_iter: int) -> Floats:
    """Return where L-BFGS ends; few steps are early stopping."""
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return np.asarray(result.x)
