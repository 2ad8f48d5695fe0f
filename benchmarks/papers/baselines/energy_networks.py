"""Structured prediction energy networks (SPEN)."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.method import Floats
from benchmarks.papers.baselines.networks import Adam, SetScore, batches
from benchmarks.papers.baselines.thresholded import Thresholded


class EnergyNetwork(Thresholded):
    """Score of label sets by networks, maximised by gradient steps on relaxed sets.

    First the features' layer and the labels' own scores are fitted as logistic regressions, then
    all but the features' layer by the structured hinge loss with squared distance as cost. The
    relaxed set maximises score plus entropy, by mirror ascent.

    Parameters
    ----------
    n_hidden, n_global : int
        Units of the features' layer and of the set's layer, as in the authors' runs.
    decay : float
        L2 penalty of weights.
    rate : float
        Step of Adam in the second stage.
    n_label_batches, n_batches : int
        Batches of 64 documents in the first and the second stage, by Adam.
    n_steps : int
        Steps of mirror ascent, of size `step`.

    References
    ----------
    .. [1] D. Belanger and A. McCallum, "Structured Prediction Energy Networks", ICML 2016, sections
       3 to 5; column "SPEN" of C. Li et al., ECML 2019, Table 4.
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
        n_steps: int = 20,
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
        """Fit both stages."""
        rng = np.random.default_rng(self.random_state)
        self.score_ = SetScore.around(X, Y, self.n_hidden, self.n_global, rng)
        self.score_.fit_labels(X, Y, self.n_label_batches, self.decay, rng)
        optimiser = Adam(self.score_.weights, self.rate, self.decay)
        for rows, truth in batches(X, Y, self.n_batches, rng):
            a = self.score_.of_labels(rows)
            worst = self._ascend(a, truth)
            share = np.full(len(truth), 1.0 / len(truth))
            slope = self.score_.of_labels_gradient(rows, (worst - truth) / len(truth))
            above = self.score_.total_gradient(worst, share)
            below = self.score_.total_gradient(truth, share)
            step = {name: above[name] - below[name] for name in above}
            optimiser.step({**step, "A": slope["A"], "d": slope["d"]})

    def measure(self, X: csr_array) -> Floats:
        """Return the relaxed sets."""
        return self._ascend(self.score_.of_labels(X))

    def _ascend(self, a: Floats, truth: Floats | None = None) -> Floats:
        """Return the relaxed sets of highest score and entropy, and cost where truth is given."""
        z = a.copy()
        for _ in range(self.n_steps):
            y = expit(z)
            slope = self.score_.slope(a, y)
            if truth is not None:
                slope += 2.0 * (y - truth)
            z += self.step * (slope - z)
        return np.asarray(expit(z))
