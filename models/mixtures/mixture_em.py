r"""Generalised EM for conditional mixtures.

With memberships :math:`\gamma_{nk} = p(k \mid x_n, y_n)` the objective

.. math:: F = -\frac{1}{\sum_n w_n} \sum_n w_n \log \sum_k \pi_k(x_n) p_k(y_n \mid x_n) + \Omega

is bounded by a sum of separate problems, tight where the memberships were computed (thesis,
eq. 3.5). A step that lowers the bound at fixed penalty :math:`\Omega` lowers :math:`F`, even if it
does not reach the bound's minimum. Sparse shortcuts void this guarantee; `run_em` therefore
monitors the likelihood of validation rows.

A fit consists of an immutable state, a step and a separate stopping rule.
"""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.labels.scaling import check_sample_weight
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.mixture_scoring import ScoredMixture

# A component with less than this weight of documents is dropped.
LEAST_DOCUMENTS = 0.1


class MixtureState(Protocol):
    """Parameters of a mixture between two steps."""

    @property
    def mixture(self) -> ScoredMixture:
        """The mixture with these parameters."""

    @property
    def penalty(self) -> float:
        r"""The penalty :math:`\Omega`, in nats per document."""

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""


S = TypeVar("S", bound=MixtureState)


class Learner(Protocol[S]):
    """Holds the data and performs M steps."""

    def maximise(self, memberships: NDArray[np.float64], before: S | None) -> S:
        """Return parameters with a lower bound than ``before`` (M step)."""


@dataclass(frozen=True)
class StoppingRule:
    """Conditions that end EM."""

    max_iter: int  # maximum number of steps
    # EM ends when a step changes the objective by less, in nats per document; smaller gains on
    # validation rows do not count as improvements either.
    tol: float
    patience: int  # steps without an improvement on validation rows, if any, after which EM ends


@dataclass(frozen=True)
class StepReport:
    """Report of one step, in nats per document."""

    objective: float  # penalised negative log-likelihood of the training rows
    log_likelihood: float  # mean over the training rows
    valid_log_likelihood: float  # mean over the validation rows; NaN without any
    n_components: int

    def to_json(self) -> dict[str, float | int | None]:
        """Return the report for JSON, with None for NaN."""
        stored: dict[str, float | int | None] = asdict(self)
        if np.isnan(self.valid_log_likelihood):
            stored["valid_log_likelihood"] = None
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Rebuild a report from its JSON."""
        held_out = stored["valid_log_likelihood"]
        return cls(
            float(stored["objective"]),
            float(stored["log_likelihood"]),
            float("nan") if held_out is None else float(held_out),
            int(stored["n_components"]),
        )


@dataclass(frozen=True, eq=False)
class EMRun(Generic[S]):
    """Result of `run_em`."""

    state: S  # with validation rows the state of best validation likelihood, else the last one
    n_iter: int  # steps to ``state``
    reports: tuple[StepReport, ...]  # one per step taken
    converged: bool  # whether the stopping rule, not ``max_iter``, ended the run


@dataclass(frozen=True, eq=False)
class WeightedDocuments:
    """Rows, label sets and weights."""

    X: sp.csr_array
    Y: sp.csr_array
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, X: sp.csr_array, Y: sp.csr_array, sample_weight: ArrayLike | None = None) -> Self:
        """Return rows, sets and weights, without rows of zero weight.

        Raises
        ------
        ValueError
            If the lengths disagree, a weight is negative or not finite, or all are zero.
        """
        n = X.shape[0]
        if Y.shape[0] != n:
            raise ValueError(f"X has {n} rows, Y {Y.shape[0]}")
        weight = np.ones(n) if sample_weight is None else check_sample_weight(sample_weight, n)
        weighted = np.flatnonzero(weight > 0.0)
        documents = cls(X, Y, weight)
        return documents if len(weighted) == n else documents.take(weighted)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return these documents."""
        return type(self)(self.X[rows], self.Y[rows], self.weight[rows])

    def split(self, order: NDArray[np.int64], n_aside: int) -> tuple[Self, Self]:
        """Split off the first ``n_aside`` documents of an order."""
        return self.take(np.sort(order[n_aside:])), self.take(np.sort(order[:n_aside]))


def warn_of_missing(n_left: int, n_asked: int, n_sets: int) -> None:
    """Warn if a fit has fewer components than requested."""
    reasons = []
    if n_sets < n_asked:
        reasons.append(f"there are only {n_sets} distinct label sets")
    died = min(n_sets, n_asked) - n_left
    if died > 0:
        reasons.append(f"{died} died: fewer than {LEAST_DOCUMENTS} documents belonged to each")
    if reasons:
        warnings.warn(
            f"{n_left} of {n_asked} components remain; {', and '.join(reasons)}",
            ComponentWarning,
            stacklevel=4,
        )


def responsibilities(
    log_joint: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return each document's memberships and log-likelihood (E step).

    See equation 3.6 of the thesis.

    Parameters
    ----------
    log_joint : ndarray of shape (n_samples, n_components)
        :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, in nats.

    Returns
    -------
    memberships : ndarray of shape (n_samples, n_components)
        Rows sum to one.
    log_likelihood : ndarray of shape (n_samples,)
        In nats.

    Raises
    ------
    ValueError
        If a label set is impossible under all components.

    Examples
    --------
    >>> memberships, log_likelihood = responsibilities(np.log([[0.1, 0.3]]))
    >>> memberships.round(2), np.exp(log_likelihood).round(2)
    (array([[0.25, 0.75]]), array([0.4]))
    """
    top = log_joint.max(axis=1, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("a label set is impossible under all components")
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, (top + np.log(total))[:, 0]


def run_em(
    learner: Learner[S],
    memberships: NDArray[np.float64],
    training: WeightedDocuments,
    rule: StoppingRule,
    *,
    validation: WeightedDocuments | None = None,
    start: S | None = None,
) -> EMRun[S]:
    """Alternate M and E steps until the stopping rule applies.

    It begins with an M step for the given memberships, from the parameters ``start`` if given.

    Components that lose all their documents are dropped, with a warning.
    """
    reports: list[StepReport] = []
    state = start
    best: tuple[float, S, int] | None = None
    improved_at, improved_to = 0, -np.inf
    converged = False
    for iteration in range(1, rule.max_iter + 1):
        state = learner.maximise(memberships, state)
        memberships, log_likelihood = responsibilities(
            state.mixture.log_joint(training.X, training.Y)
        )
        memberships, state = _drop_dead(memberships, training.weight, state)
        mean = float(training.weight @ log_likelihood / training.weight.sum())
        held_out = np.nan if validation is None else _mean_log_likelihood(state, validation)
        reports.append(StepReport(state.penalty - mean, mean, held_out, memberships.shape[1]))
        score = mean if validation is None else held_out
        if best is None or score > best[0] or validation is None:
            best = score, state, iteration
        if score > improved_to + rule.tol or validation is None:
            improved_at, improved_to = iteration, score
        if iteration - improved_at >= rule.patience or _settled(reports, rule.tol):
            converged = True
            break
    if best is None:
        raise ValueError(f"max_iter must be at least 1; it is {rule.max_iter}")
    return EMRun(best[1], best[2], tuple(reports), converged)


def _settled(reports: list[StepReport], tol: float) -> bool:
    if len(reports) < 2:
        return False
    return abs(reports[-1].objective - reports[-2].objective) < tol


def _mean_log_likelihood(state: MixtureState, documents: WeightedDocuments) -> float:
    _, log_likelihood = responsibilities(state.mixture.log_joint(documents.X, documents.Y))
    return float(documents.weight @ log_likelihood / documents.weight.sum())


def _drop_dead(
    memberships: NDArray[np.float64], weight: NDArray[np.float64], state: S
) -> tuple[NDArray[np.float64], S]:
    size = weight @ memberships
    alive = size >= LEAST_DOCUMENTS * weight.sum() / len(weight)
    if alive.all():
        return memberships, state
    survivors = np.flatnonzero(alive)
    if len(survivors) == 0:  # only if a few documents are spread over many components
        survivors = np.array([int(np.argmax(size))])
    warnings.warn(
        f"{len(alive) - len(survivors)} of {len(alive)} components died (fewer than "
        f"{LEAST_DOCUMENTS} documents belong to them) and were dropped",
        ComponentWarning,
        stacklevel=4,
    )
    remaining = memberships[:, survivors]
    total = remaining.sum(axis=1, keepdims=True)
    even = np.full_like(remaining, 1.0 / len(survivors))
    return np.where(total > 0.0, remaining / np.maximum(total, 1e-300), even), state.keep(survivors)
