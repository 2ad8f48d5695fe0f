r"""Compiled scores of a mixture whose gate and experts are linear.

Gate and experts share one table by feature: a document's features are read once, and each feature
adds to the scores that use it. With separate experts, a component has a constant logit for each
label without an expert; with shared experts, the label's logit plus a bias.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from setwise.models.data.rows import SparseRows
from setwise.models.mixtures.experts.gating import Gate
from setwise.models.mixtures.mixture_measure import Biases, Logits, SharedLogits
from setwise.models.mixtures.mixture_storage import restored_linear, stored_linear
from setwise.models.parallel import thread_count
from setwise.models.storage.fields import StoredArray
from setwise.models.storage.state import Lengths, StoredPart

# Probabilities are kept at least e^-30 (1e-13) from 0 and 1, so that no set is impossible.
MAX_LOGIT = 30.0

# The logarithm of a product of factors 1 + e^z is taken before it can overflow.
_LARGE_PRODUCT = 1e250

_ROWS_PER_TASK = 256


class Mixture(Protocol):
    """Scores documents under the components."""

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], Logits]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""


@dataclass(frozen=True, eq=False)
class SeparateExperts(StoredPart):
    """Label classifiers of each component, or constant logits."""

    coef: sp.csr_array  # (n_experts, n_features)
    intercept: NDArray[np.float64]  # (n_experts,)
    # (n_experts,) component and label of each row, ascending.
    component: NDArray[np.int32]
    label: NDArray[np.int32]
    # (n_components, n_labels) logits of the labels without an expert; ignored for labels with one.
    constants: NDArray[np.float64]
    stored: ClassVar = (
        StoredArray("constants", "constants", np.float64, ("components", "labels")),
        *stored_linear("expert", "", "experts"),
        StoredArray("expert_component", "component", np.int32, ("experts",), picks="components"),
        StoredArray("expert_label", "label", np.int32, ("experts",), picks="labels"),
    )

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the experts."""
        component, label = found["expert_component"], found["expert_label"]
        if (np.diff(component.astype(np.int64) * lengths["labels"] + label) <= 0).any():
            raise ValueError("experts out of order")
        linear = restored_linear(found, "expert", lengths["features"])
        return cls(*linear, component, label, found["constants"])


@dataclass(frozen=True, eq=False)
class SharedExperts(StoredPart):
    """Label classifiers shared by all components, with a bias for each."""

    coef: sp.csr_array  # (n_labels, n_features)
    intercept: NDArray[np.float64]  # (n_labels,)
    # (n_components, n_labels) added to the intercept inside each component.
    bias: NDArray[np.float64]
    stored: ClassVar = (
        StoredArray("bias", "bias", np.float64, ("components", "labels")),
        *stored_linear("expert", "", "labels"),
    )

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the experts."""
        return cls(*restored_linear(found, "expert", lengths["features"]), found["bias"])


def stored_experts(
    arrays: Mapping[str, object],
    settings: object,  # noqa: ARG001  # arrays tell
) -> type[SharedExperts | SeparateExperts]:
    """Return the class of stored experts."""
    return SharedExperts if "bias" in arrays else SeparateExperts


class Table(NamedTuple):
    """Linear scores by feature: K gate scores, then the experts' logits."""

    indptr: NDArray[np.int64]  # (d + 1,)
    output: NDArray[np.int32]
    weight: NDArray[np.float64]
    intercept: NDArray[np.float64]  # (K + E,)
    n_components: int


class _Layout(NamedTuple):
    """Outputs of the experts by component and label."""

    first: NDArray[np.int64]  # (K + 1,) first output of each component's experts
    label: NDArray[np.int32]  # (K + E,)
    slot: NDArray[np.int32]  # (K, L) output of the expert, or -1
    constants: NDArray[np.float64]  # (K, L) logits where there is no expert
    base: NDArray[np.float64]  # (K,) sum of log(1 - mu) over the labels without an expert


class SeparateMixture:
    """Scores documents under a gate and experts of each component.

    Parameters
    ----------
    gate : Gate
    experts : SeparateExperts
    n_jobs : int or None
        Threads; every usable core by default. Results do not depend on it.
    """

    def __init__(self, gate: Gate, experts: SeparateExperts, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs
        self._table = _tabulate(gate, experts.coef, experts.intercept)
        self._layout = _lay_out(experts)

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        out = np.empty((X.shape[0], self._table.n_components))
        rows, sets = SparseRows.of(X), SparseRows.of(Y)
        run_in_threads(
            lambda a, b: _separate_log_joint(self._table, self._layout, rows, sets, a, b, out),
            X.shape[0],
            self.n_jobs,
        )
        return out

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        weights = np.empty((X.shape[0], self._table.n_components))
        logits = np.empty((*weights.shape, self._layout.slot.shape[1]))
        rows = SparseRows.of(X)
        run_in_threads(
            lambda a, b: _separate_parameters(
                self._table, self._layout, rows, a, b, weights, logits
            ),
            X.shape[0],
            self.n_jobs,
        )
        return weights, logits


class SharedMixture:
    """Scores documents under a gate and shared experts.

    Parameters
    ----------
    gate : Gate
    experts : SharedExperts
    n_jobs : int or None
        Threads; every usable core by default. Results do not depend on it.
    """

    def __init__(self, gate: Gate, experts: SharedExperts, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs
        self._table = _tabulate(gate, experts.coef, experts.intercept)
        self._bias = np.clip(experts.bias, -MAX_LOGIT, MAX_LOGIT)
        self.biases = Biases.of([self._bias])

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        out = np.empty((X.shape[0], self._table.n_components))
        rows, sets = SparseRows.of(X), SparseRows.of(Y)
        odds = np.exp(self._bias)
        run_in_threads(
            lambda a, b: _shared_log_joint(self._table, self._bias, odds, rows, sets, a, b, out),
            X.shape[0],
            self.n_jobs,
        )
        return out

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], SharedLogits]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        weights, shared = self.shared_parameters(X)
        return weights, SharedLogits(shared[:, None], self.biases)

    def shared_parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the classifiers' log-odds (n, L)."""
        weights = np.empty((X.shape[0], self._table.n_components))
        shared = np.empty((X.shape[0], self._bias.shape[1]))
        rows = SparseRows.of(X)
        run_in_threads(
            lambda a, b: _shared_parameters(self._table, rows, a, b, weights, shared),
            X.shape[0],
            self.n_jobs,
        )
        return weights, shared


def as_mixture(
    gate: Gate, experts: SharedExperts | SeparateExperts, n_jobs: int | None = None
) -> SharedMixture | SeparateMixture:
    """Return the mixture of a gate and experts of either kind."""
    if isinstance(experts, SharedExperts):
        return SharedMixture(gate, experts, n_jobs)
    return SeparateMixture(gate, experts, n_jobs)


def run_in_threads(run: Callable[[int, int], object], n: int, n_jobs: int | None) -> None:
    """Call ``run(first, last)`` over consecutive ranges of ``n`` rows, on threads."""
    threads = thread_count(n_jobs)
    ranges = [(i, min(i + _ROWS_PER_TASK, n)) for i in range(0, n, _ROWS_PER_TASK)]
    if threads == 1 or len(ranges) == 1:
        run(0, n)
        return
    with ThreadPoolExecutor(threads) as pool:
        for task in [pool.submit(run, *bounds) for bounds in ranges]:
            task.result()


def _tabulate(gate: Gate, coef: sp.csr_array, intercept: NDArray[np.float64]) -> Table:
    stacked = sp.csc_array(sp.vstack([gate.coef, coef]))
    return Table(
        stacked.indptr.astype(np.int64),
        stacked.indices.astype(np.int32),
        stacked.data.astype(np.float64),
        np.concatenate([gate.intercept, intercept]),
        len(gate.intercept),
    )


def _lay_out(experts: SeparateExperts) -> _Layout:
    n_components, n_labels = experts.constants.shape
    slot = np.full((n_components, n_labels), -1, dtype=np.int32)
    outputs = n_components + np.arange(len(experts.label))
    slot[experts.component, experts.label] = outputs
    constants = np.clip(experts.constants, -MAX_LOGIT, MAX_LOGIT)
    counts = np.bincount(experts.component, minlength=n_components)
    return _Layout(
        n_components + np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([np.full(n_components, -1), experts.label]).astype(np.int32),
        slot,
        constants,
        np.where(slot < 0, -np.logaddexp(0.0, constants), 0.0).sum(axis=1),
    )


@njit(cache=True, nogil=True)
def _score(table: Table, X: SparseRows, i: int, out: NDArray[np.float64]) -> None:
    """Fill ``out`` (K + E,) with gate log-weights and experts' logits."""
    out[:] = table.intercept
    for a in range(X.indptr[i], X.indptr[i + 1]):
        j = X.features[a]
        x = X.values[a]
        for b in range(table.indptr[j], table.indptr[j + 1]):
            out[table.output[b]] += x * table.weight[b]
    top = -math.inf
    for k in range(table.n_components):
        top = max(top, out[k])
    total = 0.0
    for k in range(table.n_components):
        total += math.exp(out[k] - top)
    log_total = top + math.log(total)
    for k in range(table.n_components):
        out[k] -= log_total
    for e in range(table.n_components, len(out)):
        out[e] = min(max(out[e], -MAX_LOGIT), MAX_LOGIT)


@njit(cache=True, nogil=True)
def _separate_log_joint(  # noqa: PLR0917  # compiled: no keywords
    table: Table,
    layout: _Layout,
    X: SparseRows,
    Y: SparseRows,
    first: int,
    last: int,
    log_joint: NDArray[np.float64],
) -> None:
    out = np.empty(len(table.intercept))
    for i in range(first, last):
        _score(table, X, i, out)
        for k in range(table.n_components):
            total = out[k] + layout.base[k]
            product = 1.0
            for e in range(layout.first[k], layout.first[k + 1]):
                product *= 1.0 + math.exp(out[e])
                if product > _LARGE_PRODUCT:
                    total -= math.log(product)
                    product = 1.0
            total -= math.log(product)
            for t in range(Y.indptr[i], Y.indptr[i + 1]):
                slot = layout.slot[k, Y.features[t]]
                total += out[slot] if slot >= 0 else layout.constants[k, Y.features[t]]
            log_joint[i, k] = total


@njit(cache=True, nogil=True)
def _separate_parameters(  # noqa: PLR0917  # compiled: no keywords
    table: Table,
    layout: _Layout,
    X: SparseRows,
    first: int,
    last: int,
    weights: NDArray[np.float64],
    logits: NDArray[np.float64],
) -> None:
    out = np.empty(len(table.intercept))
    for i in range(first, last):
        _score(table, X, i, out)
        weights[i] = out[: table.n_components]
        logits[i] = layout.constants
        for k in range(table.n_components):
            for e in range(layout.first[k], layout.first[k + 1]):
                logits[i, k, layout.label[e]] = out[e]


@njit(cache=True, nogil=True)
def _shared_log_joint(  # noqa: PLR0917  # compiled: no keywords
    table: Table,
    bias: NDArray[np.float64],
    bias_odds: NDArray[np.float64],
    X: SparseRows,
    Y: SparseRows,
    first: int,
    last: int,
    log_joint: NDArray[np.float64],
) -> None:
    n_components, n_labels = bias.shape
    out = np.empty(len(table.intercept))
    odds = np.empty(n_labels)
    for i in range(first, last):
        _score(table, X, i, out)
        for label in range(n_labels):
            odds[label] = math.exp(out[n_components + label])
        for k in range(n_components):
            total = out[k]
            product = 1.0
            # One exponential per label, not per label and component: odds multiply.
            for label in range(n_labels):
                product *= 1.0 + odds[label] * bias_odds[k, label]
                if product > _LARGE_PRODUCT:
                    total -= math.log(product)
                    product = 1.0
            total -= math.log(product)
            for t in range(Y.indptr[i], Y.indptr[i + 1]):
                total += out[n_components + Y.features[t]] + bias[k, Y.features[t]]
            log_joint[i, k] = total


@njit(cache=True, nogil=True)
def _shared_parameters(  # noqa: PLR0917  # compiled: no keywords
    table: Table,
    X: SparseRows,
    first: int,
    last: int,
    weights: NDArray[np.float64],
    shared: NDArray[np.float64],
) -> None:
    out = np.empty(len(table.intercept))
    for i in range(first, last):
        _score(table, X, i, out)
        weights[i] = out[: table.n_components]
        shared[i] = out[table.n_components :]
