"""A score of whole label sets by small networks, with the gradients that training needs."""

from collections.abc import Iterator
from typing import Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.method import Floats

Weights = dict[str, Floats]

_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8  # Adam's own defaults
_BATCH = 64


def softplus(z: Floats) -> Floats:
    """Return log(1 + e^z)."""
    return np.logaddexp(0.0, z)


class SetScore:
    r"""Score of relaxed label sets: that of each label, and that of the set.

    .. math:: F(x, y) = y \cdot a(x) + c \cdot \sigma_+(C^\top y + e), \quad
              a(x) = A^\top \sigma_+(W^\top x + b) + d

    with :math:`\sigma_+` the softplus: the network of SPEN (equations 3 to 5 there), which the deep
    value network and predict-and-constrain use too.

    Parameters
    ----------
    weights : dict of str to ndarray
        W, b, A, d of the labels, and C, e, c of the set.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    @classmethod
    def around(
        cls, X: csr_array, Y: csr_array, n_hidden: int, n_global: int, rng: np.random.Generator
    ) -> Self:
        """Return one with random weights, for such features and labels."""

        def drawn(rows: int, columns: int, energy: float) -> Floats:
            return np.asarray(rng.standard_normal((rows, columns)) / np.sqrt(max(energy, 1.0)))

        return cls(
            {
                "W": drawn(X.shape[1], n_hidden, float(X.multiply(X).sum()) / X.shape[0]),
                "b": np.zeros(n_hidden),
                "A": drawn(n_hidden, Y.shape[1], n_hidden),
                "d": np.zeros(Y.shape[1]),
                "C": drawn(Y.shape[1], n_global, Y.shape[1]),
                "e": np.zeros(n_global),
                "c": np.zeros(n_global),
            }
        )

    def hidden(self, X: csr_array) -> Floats:
        """Return the inputs of the features' layer (n, n_hidden)."""
        return np.asarray(X @ self.weights["W"] + self.weights["b"])

    def of_labels(self, X: csr_array) -> Floats:
        """Return the scores a(x) of each label (n, L)."""
        return np.asarray(softplus(self.hidden(X)) @ self.weights["A"] + self.weights["d"])

    def of_labels_gradient(self, X: csr_array, upstream: Floats) -> Weights:
        """Return the gradient of the sum of upstream times a(x)."""
        z = self.hidden(X)
        back = (upstream @ self.weights["A"].T) * expit(z)
        return {
            "A": softplus(z).T @ upstream,
            "d": upstream.sum(axis=0),
            "W": np.asarray(X.T @ back),
            "b": back.sum(axis=0),
        }

    def fit_labels(
        self, X: csr_array, Y: csr_array, n_batches: int, decay: float, rng: np.random.Generator
    ) -> None:
        """Fit a(x) as logistic regressions on a layer of features."""
        rate = (Y.sum(axis=0) + 0.5) / (Y.shape[0] + 1.0)
        self.weights["d"] = np.log(rate / (1.0 - rate))
        optimiser = Adam(self.weights, 2e-3, decay)
        for rows, truth in batches(X, Y, n_batches, rng):
            surplus = (expit(self.of_labels(rows)) - truth) / len(truth)
            optimiser.step(self.of_labels_gradient(rows, surplus))

    def total(self, a: Floats, y: Floats) -> Floats:
        """Return F (n,) of sets y (n, L), given a(x)."""
        w = self.weights
        return np.asarray((y * a).sum(axis=1) + softplus(y @ w["C"] + w["e"]) @ w["c"])

    def slope(self, a: Floats, y: Floats) -> Floats:
        """Return the gradient of F in y (n, L)."""
        w = self.weights
        return np.asarray(a + (expit(y @ w["C"] + w["e"]) * w["c"]) @ w["C"].T)

    def total_gradient(self, y: Floats, upstream: Floats) -> Weights:
        """Return the gradient of the sum of upstream (n,) times F, in C, e and c."""
        w = self.weights
        z = y @ w["C"] + w["e"]
        back = expit(z) * w["c"] * upstream[:, None]
        return {"C": y.T @ back, "e": back.sum(axis=0), "c": softplus(z).T @ upstream}

    def slope_gradient(self, y: Floats, upstream: Floats) -> tuple[Weights, Floats]:
        """Return the gradient of the sum of upstream times `slope` in C, e and c, and in y."""
        w = self.weights
        on = expit(y @ w["C"] + w["e"])
        into = upstream @ w["C"]
        back = into * w["c"] * on * (1.0 - on)
        of_C = y.T @ back + upstream.T @ (on * w["c"])
        of_weights = {"C": of_C, "e": back.sum(axis=0), "c": (into * on).sum(axis=0)}
        return of_weights, back @ w["C"].T


class Adam:
    """Steps of Adam on some weights, in place (Kingma and Ba, ICLR 2015, Algorithm 1)."""

    def __init__(self, weights: Weights, rate: float, decay: float = 0.0) -> None:
        self.weights = weights
        self.rate = rate
        self.decay = decay  # L2 penalty of matrices
        self.mean = {name: np.zeros_like(w) for name, w in weights.items()}
        self.square = {name: np.zeros_like(w) for name, w in weights.items()}
        self.n_steps = 0

    def step(self, gradient: Weights) -> None:
        """Take one step against a gradient of some or all weights."""
        self.n_steps += 1
        size = self.rate * np.sqrt(1.0 - _SQUARE_DECAY**self.n_steps)
        size /= 1.0 - _DECAY**self.n_steps
        for name, g in gradient.items():
            slope = g + self.decay * self.weights[name] if g.ndim > 1 else g
            mean, square = self.mean[name], self.square[name]
            mean += (1.0 - _DECAY) * (slope - mean)
            square += (1.0 - _SQUARE_DECAY) * (slope * slope - square)
            self.weights[name] -= size * mean / (np.sqrt(square) + _TINY)


def batches(
    X: csr_array, Y: csr_array, number: int, rng: np.random.Generator
) -> Iterator[tuple[csr_array, Floats]]:
    """Yield features and dense label sets of some random documents, without repeats for long."""
    order = np.zeros(0, dtype=np.int64)
    for _ in range(number):
        if len(order) == 0:
            order = rng.permutation(X.shape[0])
        chosen, order = order[:_BATCH], order[_BATCH:]
        yield X[chosen], Y[chosen].toarray().astype(np.float64)
