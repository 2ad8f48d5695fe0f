"""Predict and constrain: networks that choose label sets of a predicted size."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.learners import multinomial
from benchmarks.papers.baselines.method import Bits, Floats
from benchmarks.papers.baselines.networks import (
    Adam,
    SetScore,
    Weights,
    batches,
)
from benchmarks.papers.baselines.thresholded import Thresholded

_HALVINGS = 40  # of the interval that holds a projection's shift


class PredictAndConstrain(Thresholded):
    """Score of label sets by networks, maximised over relaxed sets of a predicted size.

    First the labels' own scores are fitted as logistic regressions, and the size as a multinomial
    one. Then all of the score is trained through the projected gradient steps, by the squared
    distance of their last set. The projection on sets of a size is exact, where the paper stops
    Dykstra's algorithm, which converges to it; sizes are not trained further.

    Parameters
    ----------
    n_hidden, n_global : int
        Units of the features' layer and of the set's layer.
    decay : float
        L2 penalty of weights.
    rate : float
        Step of Adam in the second stage.
    n_label_batches, n_batches : int
        Batches of 64 documents in the first and the second stage, by Adam.
    n_steps : int
        Projected gradient steps, of size `step`.

    References
    ----------
    .. [1] N. Brukhim and A. Globerson, "Predict and Constrain: Modeling Cardinality in Deep
       Structured Prediction", ICML 2018, sections 3 and 4; column "PC" of C. Li et al., ECML 2019,
       Table 4.
    """

    def __init__(
        self,
        *,
        n_hidden: int = 150,
        n_global: int = 16,
        decay: float = 1e-4,
        rate: float = 1e-3,
        n_label_batches: int = 1500,
        n_batches: int = 500,
        n_steps: int = 5,
        step: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_global = n_global
        self.decay = decay
        self.rate = rate
        self.n_label_batches = n_label_batches
        self.n_batches = n_batches
        self.n_steps = n_steps
        self.step = step
        self.random_state = random_state

    def learn(self, X: csr_array, Y: csr_array) -> None:
        """Fit sizes and labels, then the score through the steps."""
        rng = np.random.default_rng(self.random_state)
        self.score_ = SetScore.around(X, Y, self.n_hidden, self.n_global, rng)
        self.sizes_ = multinomial(X, np.diff(Y.indptr), max_iter=300)
        self.score_.fit_labels(X, Y, self.n_label_batches, self.decay, rng)
        optimiser = Adam(self.score_.weights, self.rate, self.decay)
        for rows, truth in batches(X, Y, self.n_batches, rng):
            optimiser.step(self.loss_gradient(rows, truth)[1])

    def measure(self, X: csr_array) -> Floats:
        """Return the relaxed sets of the last step."""
        return self._unrolled(self.score_.of_labels(X), self._size(X))[0][-1]

    def loss_gradient(self, X: csr_array, truth: Floats) -> tuple[float, Weights]:
        """Return the mean squared distance of the last set, and its gradient in the weights."""
        a = self.score_.of_labels(X)
        path, free = self._unrolled(a, self._size(X))
        apart = path[-1] - truth
        back, of_a = 2.0 * apart / len(truth), np.zeros_like(a)
        gradient = {name: np.zeros_like(self.score_.weights[name]) for name in "Cec"}
        for y, moving in zip(path[-2::-1], free[:0:-1], strict=True):
            back = _through(back, moving)
            of_a += self.step * back
            of_weights, of_y = self.score_.slope_gradient(y, self.step * back)
            for name, part in of_weights.items():
                gradient[name] += part
            back = back + of_y
        p = expit(a)
        of_a += _through(back, free[0]) * p * (1.0 - p)
        loss = float((apart**2).sum()) / len(truth)
        return loss, {**gradient, **self.score_.of_labels_gradient(X, of_a)}

    def _size(self, X: csr_array) -> Floats:
        """Return the expected size of each document's set (n,)."""
        return np.asarray(self.sizes_.predict_proba(X) @ self.sizes_.classes_)

    def _unrolled(self, a: Floats, size: Floats) -> tuple[list[Floats], list[Bits]]:
        """Return the set after each step, and which labels the projection let move."""
        y = project(expit(a), size)
        path, free = [y], [_inside(y)]
        for _ in range(self.n_steps):
            y = project(y + self.step * self.score_.slope(a, y), size)
            path.append(y)
            free.append(_inside(y))
        return path, free


def project(u: Floats, size: Floats) -> Floats:
    """Return the nearest points of the unit cube (n, L) whose coordinates sum to size (n,)."""
    low, high = u.min(axis=1) - 1.0, u.max(axis=1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        more = np.clip(u - middle[:, None], 0.0, 1.0).sum(axis=1) > size
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(np.clip(u - high[:, None], 0.0, 1.0))


def _inside(y: Floats) -> Bits:
    return np.asarray((y > 0.0) & (y < 1.0), dtype=np.uint8)


def _through(back: Floats, free: Bits) -> Floats:
    """Return a gradient in a projection's result as one in what was projected."""
    mean = (back * free).sum(axis=1) / np.maximum(free.sum(axis=1), 1)
    return np.asarray(free * (back - mean[:, None]))
