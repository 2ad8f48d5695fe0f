"""Deep value networks (DVN)."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.method import Floats
from benchmarks.papers.baselines.networks import Adam, SetScore, batches
from benchmarks.papers.baselines.thresholded import Thresholded

_KINDS = 3  # of sets that each document is met with


class ValueNetwork(Thresholded):
    """A network estimates the F1 of relaxed label sets; gradient steps maximise the estimate.

    It learns, by cross-entropy, the values of three sets of each document: the true one, the one
    that such steps find, and an adversarial one, a step that raises its loss from the true set or
    the empty one.

    Parameters
    ----------
    n_hidden, n_global : int
        Units of the features' layer and of the set's layer, as in the authors' runs.
    decay : float
        L2 penalty of weights.
    n_batches : int
        Batches of 64 documents, by Adam.
    n_steps : int
        Steps from the empty set, of size `step`.

    References
    ----------
    .. [1] M. Gygli, M. Norouzi and A. Angelova, "Deep Value Networks Learn to Evaluate and
       Iteratively Refine Structured Outputs", ICML 2017, sections 3 and 4; column "DVN" of C. Li et
       al., ECML 2019, Table 4.
    """

    def __init__(
        self,
        *,
        n_hidden: int = 150,
        n_global: int = 16,
        decay: float = 1e-5,
        n_batches: int = 4000,
        n_steps: int = 20,
        step: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_global = n_global
        self.decay = decay
        self.n_batches = n_batches
        self.n_steps = n_steps
        self.step = step
        self.random_state = random_state

    def learn(self, X: csr_array, Y: csr_array) -> None:
        """Fit the network to the values of sets that it meets."""
        rng = np.random.default_rng(self.random_state)
        self.score_ = SetScore.around(X, Y, self.n_hidden, self.n_global, rng)
        optimiser = Adam(self.score_.weights, 2e-3, self.decay)
        for rows, truth in batches(X, Y, self.n_batches, rng):
            a = self.score_.of_labels(rows)
            met = np.vstack([truth, self._adversarial(a, truth, rng), self._ascend(a)])
            estimate = expit(self.score_.total(np.tile(a, (_KINDS, 1)), met))
            surplus = (estimate - relaxed_f1(met, np.tile(truth, (_KINDS, 1)))) / len(met)
            upstream = (met * surplus[:, None]).reshape(_KINDS, *truth.shape).sum(axis=0)
            of_labels = self.score_.of_labels_gradient(rows, upstream)
            optimiser.step({**of_labels, **self.score_.total_gradient(met, surplus)})

    def measure(self, X: csr_array) -> Floats:
        """Return the relaxed sets of highest estimated value."""
        return self._ascend(self.score_.of_labels(X))

    def _ascend(self, a: Floats) -> Floats:
        y = np.zeros_like(a)
        for _ in range(self.n_steps):
            value = expit(self.score_.total(a, y))[:, None]
            slope = value * (1.0 - value) * self.score_.slope(a, y)
            y = np.clip(y + self.step * slope, 0.0, 1.0)
        return y

    def _adversarial(self, a: Floats, truth: Floats, rng: np.random.Generator) -> Floats:
        y = truth * (rng.random((len(truth), 1)) < 0.5)
        surplus = expit(self.score_.total(a, y)) - relaxed_f1(y, truth)
        slope = surplus[:, None] * self.score_.slope(a, y)
        return np.asarray(np.clip(y + self.step * slope, 0.0, 1.0))


def relaxed_f1(y: Floats, truth: Floats) -> Floats:
    """Return the F1 (n,) of relaxed sets (n, L), by sums of minima and of maxima."""
    common, either = np.minimum(y, truth).sum(axis=1), np.maximum(y, truth).sum(axis=1)
    return np.asarray(np.where(either > 0, 2 * common / np.maximum(common + either, 1e-12), 1.0))
