"""Mixtures of independent Bernoulli labels, fitted to label sets alone."""

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.estimator import Estimator, check_fitted, draws_of, warn_of_unfinished
from setwise.models.labels.scaling import Matrix, check_sample_weight
from setwise.models.labels.targets import as_labels
from setwise.models.parameters import check_parameters

# Steps of each start; then only the best one continues, because starts differ early or not at all.
_TRIAL_STEPS = 25

# A component with less than this weight of documents is dropped.
_LEAST_DOCUMENTS = 1e-3


class ComponentWarning(UserWarning):
    """A mixture has fewer components than asked for."""


class BernoulliMixture(Estimator):
    r"""Mixture of products of Bernoulli distributions over label sets.

    .. math:: p(y) = \sum_k \pi_k \prod_l \mathrm{Ber}(y_l; \mu_{kl})

    Labels are independent inside a component and, in general, dependent in the mixture. EM runs on
    the distinct label sets, so its cost does not depend on how often each occurs.

    Parameters
    ----------
    n_components : int, default 10
        Fewer are fitted, with a warning, if there are fewer distinct label sets.
    n_init : int, default 8
        Random starts; the one with the best objective after a few steps is continued.
    max_iter : int, default 200
        Maximum number of EM steps.
    tol : float, default 1e-6
        EM ends when a step raises the mean objective by less, in nats per document.
    smoothing : float, default 0.1
        Weight, in documents, of the overall label rates in each component. It must be positive:
        otherwise a label that never occurs in a component would stay impossible there.
    random_state : int, RandomState or None

    References
    ----------
    .. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, section 3.2.

    Examples
    --------
    >>> Y = [[1, 1, 0, 0]] * 20 + [[0, 0, 1, 1]] * 10
    >>> mixture = BernoulliMixture(n_components=2, random_state=0).fit(Y)
    >>> mixture.weights_.round(2), mixture.means_.round(1)
    (array([0.67, 0.33]), array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]]))
    """

    weights_: NDArray[np.float64]  # (n_components,) mixture weights, summing to one
    # (n_components, n_labels) label probabilities inside each component, strictly between 0 and 1.
    means_: NDArray[np.float64]
    # Mean log-likelihood plus log-prior per document, in nats; never falls during the fit.
    objective_: float
    n_iter_: int
    converged_: bool
    n_features_in_: int

    def __init__(
        self,
        n_components: int = 10,
        *,
        n_init: int = 8,
        max_iter: int = 200,
        tol: float = 1e-6,
        smoothing: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.smoothing = smoothing
        self.random_state = random_state

    def fit(self, X: Matrix, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to label sets.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_labels)
            Label sets as zeros and ones.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Not negative; an integer weight equals that many copies of the row.

        Raises
        ------
        ValueError
            If ``X`` holds values other than 0 and 1, all weights are zero, or a parameter is out of
            range.
        """
        del y
        check_parameters(self)
        sets = _DistinctSets.collect(as_labels(X), sample_weight, self.smoothing)
        self.n_features_in_ = sets.members.shape[1]
        n_components = min(self.n_components, len(sets.weight))
        if n_components < self.n_components:
            warnings.warn(
                f"{self.n_components} components for {len(sets.weight)} distinct label sets: "
                f"fitted {n_components}",
                ComponentWarning,
                stacklevel=2,
            )
        rng = draws_of(self.random_state)
        starts = [sets.draw_start(n_components, rng) for _ in range(self.n_init)]
        trial = min(_TRIAL_STEPS, self.max_iter) if self.n_init > 1 else 0
        best = max((_run(sets, s, trial, 0.0) for s in starts), key=lambda run: run.objective)
        run = _run(sets, best.mixture, self.max_iter - trial, self.tol)
        self.n_iter_ = trial + run.n_iter
        self.converged_ = run.converged
        if not run.converged:
            warn_of_unfinished(
                f"the Bernoulli mixture still improved after {self.max_iter} steps: raise max_iter "
                "or tol"
            )
        mixture = _without_dead(run.mixture, sets)
        order = np.argsort(-mixture.weights, kind="stable")
        self.weights_ = mixture.weights[order] / mixture.weights.sum()
        self.means_ = mixture.means[order]
        self.objective_ = run.objective
        return self

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Return the responsibilities of the components, shape (n_samples, n_components)."""
        log_joint = self._log_joint(X)
        responsibilities: NDArray[np.float64] = np.exp(log_joint - _log_sum_exp(log_joint)[:, None])
        return responsibilities

    def _log_joint(self, X: Matrix) -> NDArray[np.float64]:
        check_fitted(self, "means_")
        labels = as_labels(X)
        if labels.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {labels.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return _log_joint(labels, _Mixture(self.weights_, self.means_))


def mixture_covariance(
    weights: NDArray[np.float64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Return the covariance of the labels of a Bernoulli mixture.

    .. math:: \mathrm{cov}[y] = \sum_k \pi_k (\Sigma_k + \mu_k \mu_k^T) - E[y] E[y]^T,
              \quad \Sigma_k = \mathrm{diag}(\mu_{kl} (1 - \mu_{kl}))

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_labels)

    References
    ----------
    .. [1] C. Li, thesis, 2019, equation 3.3.
    """
    expectation = weights @ means
    centred = means - expectation
    covariance: NDArray[np.float64] = (weights[:, None] * centred).T @ centred
    covariance[np.diag_indices_from(covariance)] = expectation * (1.0 - expectation)
    return covariance


@dataclass(frozen=True, eq=False)
class _Mixture:
    weights: NDArray[np.float64]
    means: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _BernoulliRun:
    mixture: _Mixture
    objective: float
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _DistinctSets:
    """The distinct label sets, their weights and the overall label rates."""

    members: sp.csr_array  # (n_sets, L)
    weight: NDArray[np.float64]  # (n_sets,)
    rates: NDArray[np.float64]  # (L,) strictly between 0 and 1
    smoothing: float  # weight, in documents, of the rates in each component

    @classmethod
    def collect(cls, Y: sp.csr_array, sample_weight: ArrayLike | None, smoothing: float) -> Self:
        n = Y.shape[0]
        row_weight = np.ones(n) if sample_weight is None else check_sample_weight(sample_weight, n)
        keys = [row.tobytes() for row in np.split(Y.indices.astype(np.int32), Y.indptr[1:-1])]
        weight: dict[bytes, float] = {}
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if row_weight[i] > 0.0:
                weight[key] = weight.get(key, 0.0) + row_weight[i]
                first.setdefault(key, i)
        # Sorted, so that the starts do not depend on the order of the rows.
        ordered = sorted(weight)
        members = Y[[first[key] for key in ordered]].astype(np.float64)
        weights = np.array([weight[key] for key in ordered])
        rates = (weights @ members + 0.5) / (weights.sum() + 1.0)
        return cls(members, weights, rates, smoothing)

    def draw_start(self, k: int, rng: np.random.RandomState) -> _Mixture:
        """Start each component half-way between a label set and the overall rates.

        Seeds are drawn far apart, as in k-means++: a set's probability is proportional to its
        weight and its squared Euclidean distance to the nearest seed.
        """
        sizes = np.diff(self.members.indptr).astype(np.float64)
        chance = self.weight.copy()
        distance = np.full(len(chance), np.inf)
        seeds = np.empty(k, dtype=np.int64)
        for i in range(k):
            seeds[i] = rng.choice(len(chance), p=chance / chance.sum())
            shared = self.members @ self.members[[seeds[i]]].toarray().ravel()
            distance = np.minimum(distance, sizes + sizes[seeds[i]] - 2.0 * shared)
            chance = self.weight * distance
        means = 0.5 * self.members[seeds].toarray() + 0.5 * self.rates
        return _Mixture(np.full(k, 1.0 / k), means)


def _log_joint(Y: sp.csr_array, mixture: _Mixture) -> NDArray[np.float64]:
    """Return log pi_k + log p_k(y), shape (n, K)."""
    with np.errstate(divide="ignore"):  # a dead component has weight 0, its logarithm -inf
        base = np.log(mixture.weights) + np.log1p(-mixture.means).sum(axis=1)
    logits = np.log(mixture.means) - np.log1p(-mixture.means)
    log_joint: NDArray[np.float64] = np.asarray(Y @ logits.T) + base
    return log_joint


def _log_sum_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    top = values.max(axis=1, keepdims=True)
    total: NDArray[np.float64] = np.log(np.exp(values - top).sum(axis=1)) + top[:, 0]
    return total


def _run(sets: _DistinctSets, mixture: _Mixture, max_iter: int, tol: float) -> _BernoulliRun:
    """Run EM until a step gains less than ``tol`` per document."""
    n = sets.weight.sum()
    before = -np.inf
    for iteration in range(max_iter + 1):
        log_joint = _log_joint(sets.members, mixture)
        log_p = _log_sum_exp(log_joint)
        objective = float((sets.weight @ log_p + _log_prior(mixture, sets)) / n)
        if objective - before <= tol and iteration > 0:
            return _BernoulliRun(mixture, objective, iteration, converged=True)
        if iteration == max_iter:
            break
        before = objective
        mixture = _maximise(sets, np.exp(log_joint - log_p[:, None]))
    return _BernoulliRun(mixture, objective, max_iter, converged=False)


def _maximise(sets: _DistinctSets, responsibilities: NDArray[np.float64]) -> _Mixture:
    owned = responsibilities * sets.weight[:, None]
    size = owned.sum(axis=0)
    counts = np.asarray(sets.members.T @ owned).T
    means = (counts + sets.smoothing * sets.rates) / (size + sets.smoothing)[:, None]
    return _Mixture(size / size.sum(), means)


def _log_prior(mixture: _Mixture, sets: _DistinctSets) -> float:
    logs = sets.rates * np.log(mixture.means) + (1.0 - sets.rates) * np.log1p(-mixture.means)
    return float(sets.smoothing * logs.sum())


def _without_dead(mixture: _Mixture, sets: _DistinctSets) -> _Mixture:
    alive = mixture.weights * sets.weight.sum() >= _LEAST_DOCUMENTS
    if alive.all():
        return mixture
    warnings.warn(
        f"{np.count_nonzero(~alive)} of {len(alive)} components of the Bernoulli mixture died "
        "(no document belongs to them) and were dropped",
        ComponentWarning,
        stacklevel=3,
    )
    return _Mixture(mixture.weights[alive], mixture.means[alive])
