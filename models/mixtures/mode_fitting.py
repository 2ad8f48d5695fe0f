r"""Fits a mixture for its most probable set instead of its likelihood.

EM maximises the mean of :math:`\log p(y \mid x)`. If labels follow from features with little
noise, the components of the most likely mixture are sure of their labels: the mode of their sum is
then the mode of the largest component, and modes in between are lost. The aim is that the true set
is more probable than all others, whatever its probability. A smooth form is the likelihood of
sharpened probabilities (minimum risk annealing [1]_; maximum mutual information with a scale [2]_),

.. math:: F_\beta = -\frac{1}{\sum_n w_n} \sum_n w_n \log
          \frac{p(y_n \mid x_n)^\beta}{\sum_{y \in S_n} p(y \mid x_n)^\beta} + \Omega ,

with the penalty :math:`\Omega` of EM; :math:`F_1` over all sets is EM's own objective. As
:math:`\beta` grows, documents whose set is ahead count less, and :math:`F_\beta / \beta`
approaches the lead of the best other set over the true one. :math:`S_n` holds the true set and
those that have been among the most probable so far, a working set as in the training of structured
support vector machines [3]_: all sets where labels are few. If they are many, probability can
move to sets that are not listed yet, and a stage may end with worse modes than it began with; then
the rows set aside decide for the likelihood.

With :math:`q_{ny}` the normalised :math:`p^\beta` and memberships :math:`\gamma_{nk}(y)`, the
slopes of a document's term in the gate's scores and in the labels' log-odds are those of EM's M
step, with memberships that may be negative:

.. math:: \sum_y a_{nk}(y), \quad \sum_y a_{nk}(y) (y_l - \mu_{nkl}), \qquad
          a_{nk}(y) = \beta ([y = y_n] - q_{ny}) \gamma_{nk}(y).

Stages of growing :math:`\beta` follow each other, each from the result of the last. Coefficients
that the elastic net left at zero stay there, and none changes its sign, so that the objective of
L-BFGS-B is smooth.

Fitting mixtures of label sets in this way, and choosing :math:`\beta` by the modes of rows
set aside, is new here; the papers on these mixtures maximise the likelihood.

References
----------
.. [1] D. A. Smith and J. Eisner, "Minimum Risk Annealing for Training Log-Linear Models",
   COLING/ACL 2006.
.. [2] D. Povey, "Discriminative Training for Large Vocabulary Speech Recognition", thesis,
   University of Cambridge, 2003.
.. [3] I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large Margin Methods for
   Structured and Interdependent Output Variables", JMLR 6, 2005.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import minimize

from setwise.models.mixtures.experts.gating import Gate
from setwise.models.mixtures.mixture_em import Documents
from setwise.models.mixtures.mixture_mode import most_probable_sets
from setwise.models.mixtures.mixture_scoring import (
    SeparateExperts,
    SeparateMixture,
    SharedExperts,
    SharedMixture,
    as_mixture,
    run_in_threads,
)
from setwise.models.mixtures.mixture_search import Found, MixtureSearch
from setwise.models.sets.candidates import CandidateSets, RaggedSets, merge, one_each

# Sharpness of the stages.
STAGES = (4.0, 16.0, 64.0)

# In each round, this many of the most probable sets join the competitors of the true one.
N_COMPETITORS = 16

# Rounds of a stage: each adds newly probable sets to the competitors.
_ROUNDS = 5

# L-BFGS-B: maximum number of steps of a round, and steps in its memory.
_STEPS = 30
_MEMORY = 20

# Rows per block of the biases' slopes, so that sums do not depend on the threads.
_BLOCK = 256

# Standard errors that a sharpness must gain, because several are tried.
_CHANCE = 2.0

_SOURCE_TRUTH = 4


@dataclass(frozen=True, eq=False)
class LinearMixture:
    """Gate and experts with their penalties.

    Attributes
    ----------
    gate : Gate
    experts : SharedExperts or SeparateExperts
    gate_alpha : float
        Penalty strength of the gate.
    alpha : ndarray of shape (n_labels,)
        Penalty strengths of the experts.
    l1_ratio : float
        In [0, 1].
    bias_penalty : float
        Ridge on the biases of shared experts.
    n_jobs : int or None
    """

    gate: Gate
    experts: SharedExperts | SeparateExperts
    gate_alpha: float
    alpha: NDArray[np.float64]
    l1_ratio: float
    bias_penalty: float
    n_jobs: int | None

    @property
    def mixture(self) -> SharedMixture | SeparateMixture:
        """The mixture with these parameters."""
        return as_mixture(self.gate, self.experts, self.n_jobs)

    def most_probable(self, X: sp.csr_array, k: int, *, allow_empty: bool) -> CandidateSets:
        """Return each document's ``k`` most probable sets."""
        mixture = self.mixture.compact_parameters(X)
        return most_probable_sets(*mixture, k, allow_empty=allow_empty).candidates


class _Places(NamedTuple):
    """Sources of a component's log-odds: a score plus a constant."""

    slot: NDArray[np.int64]  # (K, L) column of the scores, or -1
    base: NDArray[np.float64]  # (K, L)


class Objective:
    r"""The penalised :math:`F_\beta` and its gradient, for L-BFGS-B.

    Parameters
    ----------
    mixture : LinearMixture
        Its zero coefficients stay zero; `start` holds its parameters.
    documents : Documents
    candidates : CandidateSets
        Candidates of the same documents, each document's true set first.
    sharpness : float
        :math:`\beta`, positive.
    """

    def __init__(
        self,
        mixture: LinearMixture,
        documents: Documents,
        candidates: CandidateSets,
        sharpness: float,
    ) -> None:
        self._mixture = mixture
        self._X = documents.X
        self._share = documents.weight / documents.weight.sum()
        self._candidates = candidates
        self._sharpness = sharpness
        experts = mixture.experts
        coef = sp.csr_array(sp.vstack([mixture.gate.coef, experts.coef]))
        coef.eliminate_zeros()
        self._pattern = coef
        self._row = np.repeat(np.arange(coef.shape[0]), np.diff(coef.indptr))
        n_components = len(mixture.gate.intercept)
        n_labels = len(mixture.alpha)
        if isinstance(experts, SharedExperts):
            labels = np.arange(n_labels)
            slot = np.tile(n_components + labels, (n_components, 1))
            self._places = _Places(slot, experts.bias)
        else:
            labels = experts.label.astype(np.int64)
            slot = np.full((n_components, n_labels), -1)
            slot[experts.component, labels] = n_components + np.arange(len(labels))
            self._places = _Places(slot, np.where(slot < 0, experts.constants, 0.0))
        strengths = np.concatenate(
            [np.full(n_components, mixture.gate_alpha), mixture.alpha[labels]]
        )
        self._strength = strengths[self._row]
        biases = experts.bias.ravel() if isinstance(experts, SharedExperts) else np.zeros(0)
        self.start = np.concatenate([coef.data, mixture.gate.intercept, experts.intercept, biases])

    @property
    def bounds(self) -> list[tuple[float | None, float | None]] | None:
        """Sign bounds of the coefficients, needed for an L1 penalty only."""
        if self._mixture.l1_ratio == 0.0:
            return None
        signs = [(0.0, None) if value > 0.0 else (None, 0.0) for value in self._pattern.data]
        return [*signs, *[(None, None)] * (len(self.start) - len(signs))]

    def __call__(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the objective, in nats per document, and its gradient."""
        coef, intercept, bias = self._split(theta)
        weights = np.zeros(self._pattern.shape)
        weights[self._row, self._pattern.indices] = coef
        scores = np.ascontiguousarray(self._X @ weights.T + intercept)
        n, (n_components, n_labels) = len(scores), self._places.slot.shape
        places = self._places
        if len(bias):
            places = places._replace(base=bias.reshape(n_components, n_labels))
        losses, slopes = np.empty(n), np.zeros_like(scores)
        by_block = np.zeros((-(-n // _BLOCK), n_components, n_labels))
        truth_first = self._candidates

        def run(first: int, last: int) -> None:
            _differentiate(
                scores,
                places,
                truth_first.doc_indptr,
                truth_first.sets,
                self._share,
                self._sharpness,
                (first, last),
                losses,
                slopes,
                by_block,
            )

        run_in_threads(run, n, self._mixture.n_jobs)
        m, size = self._mixture, np.abs(coef)
        cost = self._strength * (m.l1_ratio * size + 0.5 * (1.0 - m.l1_ratio) * size**2)
        steep = self._strength * (m.l1_ratio * np.sign(self._pattern.data))
        steep += self._strength * (1.0 - m.l1_ratio) * coef
        table = np.asarray(self._X.T @ slopes)  # (d, K + E)
        gradient = [table[self._pattern.indices, self._row] + steep, slopes.sum(axis=0)]
        if len(bias):
            gradient.append(by_block.sum(axis=0).ravel() + m.bias_penalty * bias)
        ridge = 0.5 * m.bias_penalty * float(bias @ bias)
        return float(losses.sum() + cost.sum()) + ridge, np.concatenate(gradient)

    def mixture_at(self, theta: NDArray[np.float64]) -> LinearMixture:
        """Return the mixture with these parameters."""
        coef, intercept, bias = self._split(theta)
        stacked = self._pattern.copy()
        stacked.data = coef.copy()
        n_components = len(self._mixture.gate.intercept)
        gate = Gate(stacked[:n_components], intercept[:n_components].copy())
        experts = replace(
            self._mixture.experts,
            coef=stacked[n_components:],
            intercept=intercept[n_components:].copy(),
        )
        if isinstance(experts, SharedExperts):
            experts = replace(experts, bias=bias.reshape(n_components, -1).copy())
        return replace(self._mixture, gate=gate, experts=experts)

    def _split(
        self, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        n_coef = self._pattern.nnz
        n_linear = n_coef + self._pattern.shape[0]
        return theta[:n_coef], theta[n_coef:n_linear], theta[n_linear:]


class Stage(NamedTuple):
    """A mixture and its last sharpness."""

    sharpness: float
    mixture: LinearMixture


def sharpen(
    mixture: LinearMixture, documents: Documents, *, allow_empty: bool, most: float = STAGES[-1]
) -> Iterator[Stage]:
    """Fit a mixture for its modes, in stages of growing sharpness.

    Parameters
    ----------
    mixture : LinearMixture
        From EM.
    documents : Documents
    allow_empty : bool
        Whether the empty set can be predicted.
    most : float
        Sharpness of the last stage.

    Yields
    ------
    Stage
    """
    candidates = one_each(documents.Y, np.zeros(documents.Y.shape[0]), _SOURCE_TRUTH)
    for sharpness in STAGES:
        if sharpness > most:
            return
        for _ in range(_ROUNDS):
            probable = mixture.most_probable(documents.X, N_COMPETITORS, allow_empty=allow_empty)
            candidates = merge(candidates, probable)
            objective = Objective(mixture, documents, candidates, sharpness)
            found = minimize(
                objective,
                objective.start,
                jac=True,
                method="L-BFGS-B",
                bounds=objective.bounds,
                options={"maxiter": _STEPS, "maxcor": _MEMORY},
            )
            mixture = objective.mixture_at(found.x)
        yield Stage(sharpness, mixture)


def choose_sharpness(
    mixture: LinearMixture, training: Documents, aside: Documents, *, allow_empty: bool
) -> float:
    """Return the sharpness with the most accurate modes on rows set aside.

    1, the likelihood, unless another one gains more than two standard errors of the difference.

    Parameters
    ----------
    mixture : LinearMixture
        From EM on the training rows.
    training, aside : Documents
    allow_empty : bool
    """

    def right(fitted: LinearMixture) -> NDArray[np.float64]:
        modes = fitted.most_probable(aside.X, 1, allow_empty=allow_empty)
        return modes.correct(aside.Y).astype(np.float64)

    before = right(mixture)
    chosen, best = 1.0, 0.0
    for stage in sharpen(mixture, training, allow_empty=allow_empty):
        gains = right(stage.mixture) - before
        gain = float(np.average(gains, weights=aside.weight))
        if gain > max(best, _CHANCE * _standard_error(gains, aside.weight)):
            chosen, best = stage.sharpness, gain
    return chosen


def fit_for_modes(
    search: MixtureSearch,
    found: Found,
    everything: Documents,
    held_out: Documents | None,
    *,
    seed: int,
    rng: np.random.RandomState,
) -> tuple[Found, float]:
    """Continue after EM if it improves modes on rows set aside.

    Parameters
    ----------
    search : MixtureSearch
    found : Found
        Its result on all documents.
    everything : Documents
    held_out : Documents or None
        Rows that EM was not fitted on; without any, some are set aside and the search repeated
        without them.
    seed : int
        Seed of the search.
    rng : RandomState
        Chooses the rows set aside.

    Returns
    -------
    found : Found
        Unchanged if the likelihood is kept.
    sharpness : float
        1 if the likelihood is kept.
    """
    allow_empty = bool((np.diff(everything.Y.indptr) == 0).any())
    training, aside, trial = everything, held_out, found
    if aside is None:
        n = len(everything.weight)
        n_aside = min(max(1, round(search.validation_fraction * n)), n - 1)
        if n_aside == 0:
            return found, 1.0
        training, aside = everything.split(rng.permutation(n), n_aside)
        trial = search.find(training, None, seed, rng)
    before = _as_linear(search, trial)
    sharpness = choose_sharpness(before, training, aside, allow_empty=allow_empty)
    mixture = _as_linear(search, found)
    for stage in sharpen(mixture, everything, allow_empty=allow_empty, most=sharpness):
        found = found._replace(run=replace(found.run, state=stage.mixture))
    return found, sharpness


def _as_linear(search: MixtureSearch, found: Found) -> LinearMixture:
    state = found.run.state
    return LinearMixture(
        state.gate,
        state.experts,
        found.gate_alpha,
        found.alpha,
        search.l1_ratio,
        search.bias_penalty,
        search.n_jobs,
    )


def _standard_error(values: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    share = weight / weight.sum()
    around = values - share @ values
    return float(np.sqrt((share**2) @ around**2))


@njit(cache=True, nogil=True)
def _softplus(z: float) -> float:
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@njit(cache=True, nogil=True)
def _log_sum_exp(values: NDArray[np.float64]) -> float:
    top = values.max()
    return float(top + math.log(np.exp(values - top).sum()))


@njit(cache=True, nogil=True)
def _fill_logits(
    scores: NDArray[np.float64],
    places: _Places,
    logits: NDArray[np.float64],
    none: NDArray[np.float64],
) -> None:
    """Fill log-odds (K, L) and log-probabilities (K,) of empty sets."""
    n_components, n_labels = places.slot.shape
    normaliser = _log_sum_exp(scores[:n_components])
    for k in range(n_components):
        none[k] = scores[k] - normaliser
        for label in range(n_labels):
            z = places.base[k, label]
            if places.slot[k, label] >= 0:
                z += scores[places.slot[k, label]]
            logits[k, label] = z
            none[k] -= _softplus(z)


@njit(cache=True, nogil=True)
def _fill_joint(
    logits: NDArray[np.float64],
    none: NDArray[np.float64],
    sets: RaggedSets,
    first: int,
    joint: NDArray[np.float64],
) -> None:
    """Fill log-probabilities (S, K) of components and the sets from ``first`` on."""
    for s in range(joint.shape[0]):
        joint[s] = none
        for a in range(sets.indptr[first + s], sets.indptr[first + s + 1]):
            joint[s] += logits[:, sets.labels[a]]


@njit(cache=True, nogil=True)
def _fill_slopes(
    logits: NDArray[np.float64],
    pull: NDArray[np.float64],
    sets: RaggedSets,
    first: int,
    slopes: NDArray[np.float64],
) -> None:
    """Fill slopes by log-odds (K, L) from those by log-probabilities (S, K)."""
    for k in range(logits.shape[0]):
        own = pull[:, k].sum()
        for label in range(logits.shape[1]):
            slopes[k, label] = -own / (1.0 + math.exp(-logits[k, label]))
    for s in range(pull.shape[0]):
        for a in range(sets.indptr[first + s], sets.indptr[first + s + 1]):
            slopes[:, sets.labels[a]] += pull[s]


@njit(cache=True, nogil=True)
def _differentiate(  # noqa: PLR0917  # compiled: no keywords
    scores: NDArray[np.float64],
    places: _Places,
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    share: NDArray[np.float64],
    sharpness: float,
    rows: tuple[int, int],
    losses: NDArray[np.float64],
    slopes: NDArray[np.float64],
    base_slopes: NDArray[np.float64],
) -> None:
    """Fill losses (n,), slopes (n, K + E) and the bases' slopes."""
    n_components, n_labels = places.slot.shape
    logits = np.empty((n_components, n_labels))
    of_logits = np.empty((n_components, n_labels))
    none = np.empty(n_components)
    for i in range(rows[0], rows[1]):
        _fill_logits(scores[i], places, logits, none)
        first, n_sets = doc_indptr[i], doc_indptr[i + 1] - doc_indptr[i]
        pull = np.empty((n_sets, n_components))
        _fill_joint(logits, none, sets, first, pull)
        log_p = np.empty(n_sets)
        for s in range(n_sets):
            log_p[s] = _log_sum_exp(pull[s])
        total = _log_sum_exp(sharpness * log_p)
        losses[i] = share[i] * (total - sharpness * log_p[0])
        for s in range(n_sets):
            excess = math.exp(sharpness * log_p[s] - total) - (1.0 if s == 0 else 0.0)
            pull[s] = share[i] * sharpness * excess * np.exp(pull[s] - log_p[s])
        # The gate's normaliser has no slope, because the pulls sum to zero.
        slopes[i, :n_components] = pull.sum(axis=0)
        _fill_slopes(logits, pull, sets, first, of_logits)
        base_slopes[i // _BLOCK] += of_logits
        for k in range(n_components):
            for label in range(n_labels):
                if places.slot[k, label] >= 0:
                    slopes[i, places.slot[k, label]] += of_logits[k, label]
