"""Scores without a scale: a threshold and probabilities from documents set aside."""

from abc import abstractmethod
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from benchmarks.papers.baselines.learners import multinomial
from benchmarks.papers.baselines.method import Floats, Method, Predicted, as_sets

_SHARE_ASIDE = 5  # one document of so many


class Thresholded(Method):
    """A method whose label scores are neither decisions nor probabilities.

    As the papers do, one threshold for all labels is chosen on documents set aside, for set
    accuracy; a logistic curve on the same scores gives probabilities.

    Attributes
    ----------
    threshold_ : float
        Labels of a higher score are in the set.
    """

    random_state: int

    @abstractmethod
    def learn(self, X: csr_array, Y: csr_array) -> None:
        """Fit the scores on features (n, d) and label sets (n, L)."""

    @abstractmethod
    def measure(self, X: csr_array) -> Floats:
        """Return the score of each label (n, L)."""

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Choose the threshold on a fifth of the documents, then fit on all."""
        order = np.random.default_rng(self.random_state).permutation(X.shape[0])
        aside, rest = np.split(order, [max(1, X.shape[0] // _SHARE_ASIDE)])
        self.learn(X[rest], Y[rest])
        score, truth = self.measure(X[aside]), Y[aside].toarray() > 0
        self.threshold_ = best_threshold(score, truth)
        self.curve_ = multinomial(score.reshape(-1, 1), truth.ravel())
        self.learn(X, Y)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return the labels above the threshold, and probabilities."""
        score = self.measure(X)
        p = self.curve_.predict_proba(score.reshape(-1, 1)) @ self.curve_.classes_
        return Predicted(as_sets(score > self.threshold_), p.reshape(score.shape))


def best_threshold(score: Floats, truth: np.ndarray) -> float:
    """Return the threshold that gets most of the sets (n, L) right."""
    low = np.where(truth, -np.inf, score).max(axis=1)
    high = np.where(truth, score, np.inf).min(axis=1)
    separable = low < high
    low, high = np.sort(low[separable]), np.sort(high[separable])
    ends = np.unique(score)
    middles = np.append((ends[1:] + ends[:-1]) / 2, [ends[-1], -np.inf])
    right = np.searchsorted(low, middles, side="right") - np.searchsorted(high, middles, "right")
    return float(middles[right.argmax()])
