r"""Compiled scores of a mixture whose gate and experts are linear.

Gate and experts share one table by feature: a document's features are read once, and each feature
adds to the scores that use it. The logit of a label in a component is the score of an expert, if
there is one, plus a bias: with shared experts one score a label and a bias a component, with
separate ones a score of the component's own, or the bias alone.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.mixtures.experts.gating import LinearGate
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


class ScoredMixture(Protocol):
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
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the experts."""
        component, label = fields["expert_component"], fields["expert_label"]
        if (np.diff(component.astype(np.int64) * lengths["labels"] + label) <= 0).any():
            raise ValueError("experts out of order")
        linear = restored_linear(fields, "expert", lengths["features"])
        return cls(*linear, component, label, fields["constants"])

    @cached_property
    def layout(self) -> "ExpertLayout":
        """Where the experts stand."""
        expert = np.full(self.constants.shape, -1, dtype=np.int32)
        expert[self.component, self.label] = np.arange(len(self.label))
        return ExpertLayout.of(expert, np.where(expert < 0, _clipped(self.constants), 0.0))

    def logits(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds (n, K, L) by the experts' scores (n, n_experts)."""
        logits = np.tile(self.layout.bias, (len(scores), 1, 1))
        logits[:, self.component, self.label] = scores
        return logits


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
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the experts."""
        return cls(*restored_linear(fields, "expert", lengths["features"]), fields["bias"])

    @cached_property
    def layout(self) -> "ExpertLayout":
        """Where the experts stand."""
        expert = np.arange(self.bias.shape[1], dtype=np.int32)
        return ExpertLayout.of(np.broadcast_to(expert, self.bias.shape), _clipped(self.bias))

    @cached_property
    def biases(self) -> Biases:
        """The biases, for searches."""
        return Biases.of([self.layout.bias])

    def logits(self, scores: NDArray[np.float64]) -> SharedLogits:
        """Return the log-odds by the experts' scores (n, n_labels)."""
        return SharedLogits(scores[:, None], self.biases)


def stored_experts(
    arrays: Mapping[str, object],
    settings: object,  # noqa: ARG001  # arrays tell
) -> type[SharedExperts | SeparateExperts]:
    """Return the class of stored experts."""
    return SharedExperts if "bias" in arrays else SeparateExperts


class ScoreTable(NamedTuple):
    """Linear scores by feature: K gate scores, then those of the experts."""

    indptr: NDArray[np.int64]  # (d + 1,)
    output: NDArray[np.int32]
    weight: NDArray[np.float64]
    intercept: NDArray[np.float64]  # (K + E,)
    n_components: int

    @classmethod
    def of(cls, gate: LinearGate, experts: SharedExperts | SeparateExperts) -> Self:
        """Return the table of a gate and experts."""
        rows = sp.csc_array(sp.vstack([gate.coef, experts.coef]))
        return cls(
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data.astype(np.float64),
            np.concatenate([gate.intercept, experts.intercept]),
            len(gate.intercept),
        )


class ExpertLayout(NamedTuple):
    """Experts by component and label."""

    expert: NDArray[np.int32]  # (K, L) the expert whose score the label's logit has, -1 for none
    bias: NDArray[np.float64]  # (K, L) added to the score
    # indptr, experts and odds: the experts of each component, and the exponentials of their biases.
    indptr: NDArray[np.int64]  # (K + 1,)
    experts: NDArray[np.int32]
    odds: NDArray[np.float64]
    base: NDArray[np.float64]  # (K,) sum of log(1 - mu) over the labels without an expert

    @classmethod
    def of(cls, expert: NDArray[np.int32], bias: NDArray[np.float64]) -> Self:
        """Return the layout of experts and biases, each (n_components, n_labels)."""
        scored = expert >= 0
        return cls(
            np.ascontiguousarray(expert),
            bias,
            np.concatenate([[0], np.cumsum(scored.sum(axis=1))]).astype(np.int64),
            expert[scored],
            np.exp(bias[scored]),
            np.where(scored, 0.0, -np.logaddexp(0.0, bias)).sum(axis=1),
        )


class LinearMixture:
    """Scores documents under a gate and experts of either kind.

    Parameters
    ----------
    gate : LinearGate
    experts : SharedExperts or SeparateExperts
    n_jobs : int or None
        Threads; every usable core by default. Results do not depend on it.
    """

    def __init__(
        self, gate: LinearGate, experts: SharedExperts | SeparateExperts, n_jobs: int | None = None
    ) -> None:
        self.experts = experts
        self.n_jobs = n_jobs
        self._table = ScoreTable.of(gate, experts)

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        out = np.empty((X.shape[0], self._table.n_components))
        rows, sets, layout = SparseRows.of(X), SparseRows.of(Y), self.experts.layout
        run_in_threads(
            lambda a, b: _fill_log_joint(self._table, layout, rows, sets, a, b, out),
            X.shape[0],
            self.n_jobs,
        )
        return out

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], Logits]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        log_weights, scores = self.scores(X)
        return log_weights, self.experts.logits(scores)

    def scores(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the experts' scores (n, n_experts)."""
        n_components = self._table.n_components
        log_weights = np.empty((X.shape[0], n_components))
        scores = np.empty((X.shape[0], len(self._table.intercept) - n_components))
        rows = SparseRows.of(X)
        run_in_threads(
            lambda a, b: _fill_scores(self._table, rows, a, b, log_weights, scores),
            X.shape[0],
            self.n_jobs,
        )
        return log_weights, scores


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


def _clipped(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(logits, -MAX_LOGIT, MAX_LOGIT)


@njit(cache=True, nogil=True)
def _score(table: ScoreTable, X: SparseRows, i: int, out: NDArray[np.float64]) -> None:
    """Fill ``out`` (K + E,) with gate log-weights and experts' scores."""
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
def _fill_log_joint(  # noqa: PLR0917  # compiled: no keywords
    table: ScoreTable,
    layout: ExpertLayout,
    X: SparseRows,
    Y: SparseRows,
    first: int,
    last: int,
    log_joint: NDArray[np.float64],
) -> None:
    n_components = table.n_components
    out = np.empty(len(table.intercept))
    odds = np.empty(len(table.intercept) - n_components)
    for i in range(first, last):
        _score(table, X, i, out)
        # One exponential per expert, not per label and component: odds multiply.
        for e in range(len(odds)):
            odds[e] = math.exp(out[n_components + e])
        for k in range(n_components):
            total = out[k] + layout.base[k]
            product = 1.0
            for a in range(layout.indptr[k], layout.indptr[k + 1]):
                product *= 1.0 + odds[layout.experts[a]] * layout.odds[a]
                if product > _LARGE_PRODUCT:
                    total -= math.log(product)
                    product = 1.0
            total -= math.log(product)
            for t in range(Y.indptr[i], Y.indptr[i + 1]):
                label = Y.features[t]
                expert = layout.expert[k, label]
                total += layout.bias[k, label]
                if expert >= 0:
                    total += out[n_components + expert]
            log_joint[i, k] = total


@njit(cache=True, nogil=True)
def _fill_scores(  # noqa: PLR0917  # compiled: no keywords
    table: ScoreTable,
    X: SparseRows,
    first: int,
    last: int,
    log_weights: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    out = np.empty(len(table.intercept))
    for i in range(first, last):
        _score(table, X, i, out)
        log_weights[i] = out[: table.n_components]
        scores[i] = out[table.n_components :]
