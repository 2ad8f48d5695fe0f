"""Stacked binary relevance, and the conditional dependency network."""

from typing import Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.learners import Logistic, labelwise
from benchmarks.papers.baselines.method import (
    Floats,
    Method,
    Predicted,
    beside,
    independent,
    votes,
)
from setwise.models.calibration.crossfit import out_of_fold_logits
from setwise.models.data.splits import fold_ids

_FOLDS = 5


class TwoStageRelevance(Method):
    """2BR: labels from the features and the probabilities of all labels.

    The second stage learns from out-of-fold probabilities of the first. Both are logistic
    regressions, where C. Li et al. boost trees in the second.

    References
    ----------
    .. [1] S. Godbole and S. Sarawagi, "Discriminative Methods for Multi-labeled Classification",
       PAKDD 2004; C. Li et al., ECML 2019, section 3.1.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit both stages."""
        base = labelwise(self.random_state)
        self.first_ = base.fit(X, Y)
        folds = fold_ids(Y, _FOLDS, self.random_state)
        unseen = out_of_fold_logits(labelwise(self.random_state), X, Y, folds)
        self.second_ = labelwise(self.random_state).fit(beside(X, expit(unseen[:])), Y)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return the second stage's label probabilities."""
        stacked = beside(X, self.first_.predict_proba(X))
        return independent(self.second_.predict_proba(stacked))


class DependentRelevance(Method):
    """DBR: each label from the features and the presence of all other labels.

    True labels in training, those of binary relevance in prediction. Both stages are logistic
    regressions, where C. Li et al. boost trees in the second.

    Attributes
    ----------
    others_ : ndarray of shape (L, L)
        Coefficients of the other labels, by label; zeros on the diagonal.

    References
    ----------
    .. [1] E. Montañés et al., "Dependent Binary Relevance Models for Multi-label Classification",
       Pattern Recognition 47, 2014; C. Li et al., ECML 2019, section 3.1.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit binary relevance, and every label given all others."""
        self.first_ = labelwise(self.random_state).fit(X, Y)
        truth, models = Y.toarray(), []
        for label in range(Y.shape[1]):
            others = truth.copy()
            others[:, label] = 0  # a column of zeros gets no coefficient
            models.append(Logistic(self.random_state).fit(beside(X, others), truth[:, label]))
        coef = np.stack([model.coef_ for model in models])
        self.features_, self.others_ = coef[:, : X.shape[1]], coef[:, X.shape[1] :]
        self.intercept_ = np.array([model.intercept_ for model in models])
        return self

    def of_features(self, X: csr_array) -> Floats:
        """Return the log-odds (n, L) without any other label."""
        return np.asarray(X @ self.features_.T + self.intercept_)

    def predict(self, X: csr_array) -> Predicted:
        """Return label probabilities, given the labels of binary relevance."""
        others = self.first_.predict(X)
        return independent(expit(self.of_features(X) + others @ self.others_.T))


class DependencyNetwork(DependentRelevance):
    """Conditional dependency network: Gibbs sampling from the same full conditionals.

    Its set is the one visited most often.

    Parameters
    ----------
    n_burn_in, n_kept : int
        Sweeps over all labels before and while sets are collected.

    References
    ----------
    .. [1] Y. Guo and S. Gu, "Multi-label Classification Using Conditional Dependency Networks",
       IJCAI 2011; row "CDN" of C. Li et al., ICML 2016, Table 2.
    """

    def __init__(self, n_burn_in: int = 100, n_kept: int = 100, random_state: int = 0) -> None:
        super().__init__(random_state)
        self.n_burn_in = n_burn_in
        self.n_kept = n_kept

    def predict(self, X: csr_array) -> Predicted:
        """Return each visited set's share of the sweeps kept."""
        rng = np.random.default_rng(self.random_state)
        fixed, state = self.of_features(X), self.first_.predict(X).astype(np.float64)
        sweeps = np.empty((self.n_kept, *state.shape), dtype=np.uint8)
        for sweep in range(-self.n_burn_in, self.n_kept):
            for label in range(state.shape[1]):
                p = expit(fixed[:, label] + state @ self.others_[label])
                state[:, label] = rng.random(len(state)) < p
            if sweep >= 0:
                sweeps[sweep] = state
        return votes(sweeps)
