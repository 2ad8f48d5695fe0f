"""Conditional random field over the label sets of the training documents."""

from typing import Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array
from scipy.special import logsumexp

from benchmarks.papers.baselines.learners import minimise
from benchmarks.papers.baselines.method import Floats, Method, Predicted
from benchmarks.papers.baselines.support import Support


class PairwiseCRF(Method):
    r"""Log-linear model of whole sets, exact over those of the training documents.

    .. math:: \log p(y \mid x) = \sum_{l \in y} (w_l \cdot x + b_l) + \sum_{l < m \in y} u_{lm} + c

    The papers' four weights of a pair say no more than :math:`u_{lm}` and :math:`b`.

    Parameters
    ----------
    alpha : float
        L2 penalty of w and u, beside the mean log-likelihood.
    pairs : bool
        Whether there are weights of pairs.
    max_iter : int
        Steps of L-BFGS.

    References
    ----------
    .. [1] N. Ghamrawi and A. McCallum, "Collective Multi-label Classification", CIKM 2005.
    .. [2] B. Wang et al., KDD 2017, sections 2 and 4.3, Table 5.
    """

    def __init__(self, alpha: float = 1e-4, *, pairs: bool = True, max_iter: int = 60) -> None:
        self.alpha = alpha
        self.pairs = pairs
        self.max_iter = max_iter

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Maximise the penalised likelihood."""
        self.support_ = Support.of(Y)
        self.held_ = self.support_.sets.astype(np.float64)
        if self.pairs:
            self.held_ = csr_array(sp.hstack([self.held_, _pairs_in(self.held_)], format="csr"))
        start = np.zeros(X.shape[1] * Y.shape[1] + self.held_.shape[1])
        theta = minimise(lambda theta: self.objective(theta, X), start, self.max_iter)
        self.coef_, self.bias_ = self._split(theta, X.shape[1])
        return self

    def objective(self, theta: Floats, X: csr_array) -> tuple[float, Floats]:
        """Return the penalised mean negative log-likelihood and its gradient."""
        coef, bias = self._split(theta, X.shape[1])
        n, n_labels = X.shape[0], coef.shape[1]
        score = self._scores(X, coef, bias)
        total = logsumexp(score, axis=1)
        rows, number = np.arange(n), self.support_.number
        loss = float((total - score[rows, number]).mean())
        surplus = np.exp(score - total[:, None])
        surplus[rows, number] -= 1.0
        of_coef = X.T @ (surplus @ self.held_[:, :n_labels]) / n + self.alpha * coef
        penalty = np.full(len(bias), self.alpha)
        penalty[:n_labels] = 0.0
        of_bias = surplus.sum(axis=0) @ self.held_ / n + penalty * bias
        loss += 0.5 * (self.alpha * float((coef**2).sum()) + float(penalty @ bias**2))
        return loss, np.concatenate([of_coef.ravel(), of_bias])

    def predict(self, X: csr_array) -> Predicted:
        """Return the joint over the support."""
        return self.support_.joint(self._scores(X, self.coef_, self.bias_))

    def _split(self, theta: Floats, d: int) -> tuple[Floats, Floats]:
        """Return the weights of features (d, L), and of labels and pairs."""
        n_labels = self.support_.sets.shape[1]
        return theta[: d * n_labels].reshape(d, n_labels), theta[d * n_labels :]

    def _scores(self, X: csr_array, coef: Floats, bias: Floats) -> Floats:
        of_features = (X @ coef) @ self.support_.sets.T
        return np.asarray(of_features + self.held_ @ bias)


def _pairs_in(sets: csr_array) -> csr_array:
    """Return which pairs of labels each set holds (n_sets, n_pairs), of those that occur."""
    first, second = sp.triu(sets.T @ sets, k=1, format="csr").nonzero()
    return csr_array(sets[:, first].multiply(sets[:, second]))
