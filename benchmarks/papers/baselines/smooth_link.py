"""Randomized embedding of labels, and smooth links with and without it."""

from typing import Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.linear_model import Ridge

from benchmarks.papers.baselines.learners import labelwise, minimise
from benchmarks.papers.baselines.method import Bits, Floats, Method, Predicted, independent

_EXTRA = 20  # probing vectors beyond the rank, as in the paper
_ROUNDS = 1
_COVARIANCE = 0.9  # share of the labels' covariance that the rank keeps


def randomized_embedding(
    X: csr_array, Y: csr_array, rank: int, ridge: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the label embedding U (L, rank) and the feature projection W (d, rank).

    Algorithm 1, with the ridge of Algorithm 3, nothing centred. The last fit is on the final basis,
    so that W needs no fit of its own.
    """
    n_labels = Y.shape[1]
    Q = rng.standard_normal((n_labels, min(rank + _EXTRA, n_labels)))
    for _ in range(_ROUNDS):
        Q, _ = np.linalg.qr(Y.T @ (X @ _least_squares(X, Y @ Q, ridge)))
    Z = _least_squares(X, Y @ Q, ridge)
    F = Q.T @ (Y.T @ (X @ Z))
    _, vectors = np.linalg.eigh((F + F.T) / 2)
    largest = vectors[:, ::-1][:, :rank]
    return Q @ largest, Z @ largest


def _least_squares(X: csr_array, targets: Floats, ridge: float) -> Floats:
    fitted = Ridge(ridge, fit_intercept=False, solver="sparse_cg", tol=1e-4).fit(X, targets)
    return np.asarray(fitted.coef_.reshape(targets.shape[1], -1).T)


def rank_of(Y: csr_array) -> int:
    """Return how many principal directions keep most of the labels' covariance."""
    spread = np.linalg.eigvalsh(np.atleast_2d(np.cov(Y.toarray(), rowvar=False)))[::-1].cumsum()
    return int(np.searchsorted(spread, _COVARIANCE * spread[-1])) + 1


class SmoothLink(Method):
    """Algorithm 3: logistic regressions on cosines of the projected features.

    Parameters
    ----------
    bandwidth : float
        Of the Gaussian kernel, in median distances between activations.
    alpha : float
        L2 penalty of the last regressions, beside their mean loss.
    ridge : float
        Penalty of the embedding.
    n_cosines : int
        Random cosines; 0 for the linear kernel of section 7.3, regressions on the embedding itself.
    embedded : bool
        False for Algorithm 2: activations are the log-odds of one regression for each label.
    max_iter : int
        Steps of L-BFGS.

    References
    ----------
    .. [1] N. Karampatziakis and P. Mineiro, "Scalable Multilabel Prediction via Randomized
       Methods", 2015.
    """

    def __init__(
        self,
        *,
        bandwidth: float = 1.0,
        alpha: float = 1e-5,
        ridge: float = 1.0,
        n_cosines: int = 1000,
        embedded: bool = True,
        max_iter: int = 100,
        random_state: int = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.ridge = ridge
        self.n_cosines = n_cosines
        self.embedded = embedded
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit the activations, then all labels on their cosines."""
        rng = np.random.default_rng(self.random_state)
        truth = Y.toarray().astype(np.float64)
        if self.embedded:
            wide, rank = X.astype(np.float64), rank_of(Y)
            _, self.projection_ = randomized_embedding(wide, Y.astype(float), rank, self.ridge, rng)
        else:
            self.of_labels_ = labelwise(self.random_state).fit(X, Y)
        activations = self._activations(X)
        pairs = rng.integers(len(activations), size=(2, 1000))
        apart = np.linalg.norm(activations[pairs[0]] - activations[pairs[1]], axis=1)
        # Where most are alike, their median distance is 0.
        width = self.bandwidth * (np.median(apart) or apart.mean() or 1.0)
        self.directions_ = rng.standard_normal((activations.shape[1], self.n_cosines)) / width
        self.shifts_ = rng.uniform(0.0, 2.0 * np.pi, self.n_cosines)
        columns = self._columns(X)
        rate = (truth.sum(axis=0) + 0.5) / (len(truth) + 1.0)
        start = np.zeros((columns.shape[1] + 1, Y.shape[1]))
        start[-1] = np.log(rate / (1.0 - rate))

        def objective(theta: Floats) -> tuple[float, Floats]:
            V = theta.reshape(start.shape)
            z = columns @ V[:-1] + V[-1]
            loss = float((np.logaddexp(0.0, z) - truth * z).sum()) / len(z)
            surplus = (expit(z) - truth) / len(z)
            slope = np.vstack([columns.T @ surplus + self.alpha * V[:-1], surplus.sum(axis=0)])
            return loss + 0.5 * self.alpha * float((V[:-1] ** 2).sum()), slope.ravel()

        self.coef_ = minimise(objective, start.ravel(), self.max_iter).reshape(start.shape)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return label probabilities."""
        return independent(expit(self._columns(X) @ self.coef_[:-1] + self.coef_[-1]))

    def _activations(self, X: csr_array) -> Floats:
        """Return the projected features, or the log-odds of each label by itself."""
        if self.embedded:
            return np.asarray(X.astype(np.float64) @ self.projection_)
        return self.of_labels_.decision_function(X)

    def _columns(self, X: csr_array) -> Floats:
        """Return what the last regressions read: cosines, or the activations themselves."""
        activations = self._activations(X)
        if self.n_cosines == 0:
            return activations
        angle = activations @ self.directions_ + self.shifts_
        return np.asarray(np.sqrt(2.0 / self.n_cosines) * np.cos(angle))


def best_f1_by_label(scores: Floats, prior: Floats) -> Bits:
    """Return the decisions (n, L) of Algorithm 4: one threshold a label, for its expected F1.

    Parameters
    ----------
    scores : ndarray of shape (n, L)
        Label probabilities of all documents to decide on.
    prior : ndarray of shape (L,)
        Frequencies of the labels in training.
    """
    n = len(scores)
    order = np.argsort(-scores, axis=0, kind="stable")
    falling = np.take_along_axis(scores, order, axis=0)
    depth = np.arange(1, n + 1)[:, None]
    expected = 2.0 * falling.cumsum(axis=0) / (n * prior + depth)
    threshold = falling[expected.argmax(axis=0), np.arange(scores.shape[1])]
    return np.asarray(scores >= threshold, dtype=np.uint8)
