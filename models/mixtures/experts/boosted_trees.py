"""Boosted trees as gate and experts of a mixture."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.calibration.trees import (
    Nodes,
    join_trees,
    read_tree,
    restored_nodes,
    stored_nodes,
)
from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.mixtures.experts.separate_experts import component_rates
from setwise.models.mixtures.mixture_em import WeightedDocuments
from setwise.models.mixtures.mixture_scoring import MAX_LOGIT, run_in_threads
from setwise.models.storage.fields import StoredArray
from setwise.models.storage.state import Lengths, StoredPart

# Documents' worth of the overall label rates in the scores that boosting starts from.
_SMOOTHING = 1.0

# A settled row keeps this much curvature, so that no leaf divides by zero.
_LEAST_CURVATURE = 1e-6


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown; see `BoostedBernoulliMixture`."""

    learning_rate: float
    max_leaves: int
    min_child_weight: float
    reg_lambda: float

    def parameters(self, n_outputs: int) -> dict[str, Any]:
        """Return XGBoost's parameters for one tree per output."""
        return {
            "objective": "multi:softprob",  # for the number of outputs; gradients come from here
            "num_class": n_outputs,
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": self.max_leaves,
            "eta": self.learning_rate,
            "min_child_weight": self.min_child_weight,
            "lambda": self.reg_lambda,
            "nthread": 1,  # sums would depend on the number of threads
        }


@dataclass(frozen=True, eq=False)
class TreeScores(StoredPart):
    """Scores of several outputs, each a constant plus trees."""

    initial: NDArray[np.float64]  # (n_outputs,)
    output: NDArray[np.int32]  # (n_trees,) output that each tree adds to
    nodes: Nodes
    stored: ClassVar = (
        StoredArray("initial", "initial", np.float64, ("outputs",)),
        StoredArray("output", "output", np.int32, ("trees",), picks="outputs"),
        *stored_nodes("nodes"),
    )

    @classmethod
    def of(cls, initial: NDArray[np.float64]) -> Self:
        """Return constant scores."""
        return cls(initial, np.empty(0, np.int32), join_trees([]))

    def plus(self, trees: Sequence[Nodes]) -> Self:
        """Return the scores with one more tree for each output."""
        outputs = np.arange(len(trees), dtype=np.int32)
        nodes = join_trees([self.nodes, *trees])
        return replace(self, output=np.concatenate([self.output, outputs]), nodes=nodes)

    def keep(self, outputs: NDArray[np.int64]) -> Self:
        """Return the scores of these outputs alone."""
        place = np.full(len(self.initial), -1, dtype=np.int32)
        place[outputs] = np.arange(len(outputs))
        remaining = place[self.output] >= 0
        return replace(
            self,
            initial=self.initial[outputs],
            output=place[self.output[remaining]],
            nodes=self.nodes._replace(root=self.nodes.root[remaining]),
        )

    def scores(self, X: sp.csr_array, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Return the scores of documents, shape (n, n_outputs)."""
        out = np.tile(self.initial, (X.shape[0], 1))
        rows = SparseRows.of(X)
        run_in_threads(
            lambda first, last: _add_trees(self.nodes, self.output, rows, first, last, out),
            X.shape[0],
            n_jobs,
        )
        return out

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # nothing of lengths
        """Rebuild the trees."""
        return cls(fields["initial"], fields["output"], restored_nodes(fields))


@njit(cache=True, nogil=True)
def _add_trees(  # noqa: PLR0917  # compiled: no keywords
    nodes: Nodes,
    output: NDArray[np.int32],
    X: SparseRows,
    first: int,
    last: int,
    out: NDArray[np.float64],
) -> None:
    """Add the trees to the scores of a range of documents."""
    root, feature, child, split = nodes
    row = np.zeros(X.n_features, dtype=np.float32)  # an absent entry is the number zero
    for i in range(first, last):
        for a in range(X.indptr[i], X.indptr[i + 1]):
            row[X.features[a]] = X.values[a]
        for t in range(len(root)):
            node = root[t]
            while feature[node] >= 0:
                node = child[node] + (0 if row[feature[node]] < split[node] else 1)
            out[i, output[t]] += split[node]
        for a in range(X.indptr[i], X.indptr[i + 1]):
            row[X.features[a]] = 0.0


@dataclass(frozen=True, eq=False)
class BoostedMixture:
    """Scores documents under a boosted gate and boosted experts."""

    gate: TreeScores  # one output per component
    experts: TreeScores  # one output per component and label
    n_jobs: int | None = None  # threads; results do not depend on it

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        z = self.gate.scores(X, self.n_jobs)
        z -= z.max(axis=1, keepdims=True)
        log_weights = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        logits = self.experts.scores(X, self.n_jobs)
        np.clip(logits, -MAX_LOGIT, MAX_LOGIT, out=logits)
        return log_weights, logits.reshape(*z.shape, -1)

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        log_weights, logits = self.parameters(X)
        present = Y.toarray()[:, None, :]
        inside = (present * logits - np.logaddexp(0.0, logits)).sum(axis=2)
        joint: NDArray[np.float64] = log_weights + inside
        return joint


@dataclass(frozen=True, eq=False)
class BoostedState:
    """A boosted mixture between two EM steps; only leaves are penalised."""

    mixture: BoostedMixture
    penalty: float = 0.0

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        mixture = self.mixture
        n_labels = len(mixture.experts.initial) // len(mixture.gate.initial)
        outputs = (components[:, None] * n_labels + np.arange(n_labels)).ravel()
        gate, experts = mixture.gate.keep(components), mixture.experts.keep(outputs)
        return replace(self, mixture=replace(mixture, gate=gate, experts=experts))


class BoostedLearner:
    """M steps that add a tree to each score (thesis, section 3.4.2).

    Each tree takes a Newton step on the bound: slopes and curvatures of the soft targets, times the
    membership for the experts, which makes it the weight of the document.
    """

    def __init__(
        self, documents: WeightedDocuments, settings: TreeSettings, n_jobs: int | None = None
    ) -> None:
        import xgboost  # noqa: PLC0415  # slow import, not needed by other models

        self.documents = documents
        self.settings = settings
        self.n_jobs = n_jobs
        self.labels = documents.Y.toarray().astype(np.float64)
        # Dense, so that an absent entry is the number zero and not a missing value.
        self.rows = xgboost.QuantileDMatrix(documents.X.toarray(), nthread=1)

    def maximise(
        self, memberships: NDArray[np.float64], before: BoostedState | None
    ) -> BoostedState:
        """Add trees for these memberships, starting from constants."""
        mixture = self._begin(memberships) if before is None else before.mixture
        log_weights, logits = mixture.parameters(self.documents.X)
        weight = self.documents.weight[:, None]
        p = np.exp(log_weights)
        gate = self._grow(mixture.gate, weight, p, memberships)
        owned = (weight * memberships)[:, :, None]
        q = 1.0 / (1.0 + np.exp(-logits))
        experts = self._grow(mixture.experts, owned, q, self.labels[:, None, :])
        return BoostedState(replace(mixture, gate=gate, experts=experts))

    def _begin(self, memberships: NDArray[np.float64]) -> BoostedMixture:
        owned = memberships * self.documents.weight[:, None]
        share = np.maximum(owned.sum(axis=0) / owned.sum(), np.finfo(np.float64).tiny)
        rates = component_rates(self.documents.Y, owned, _SMOOTHING)[1]
        logits = (np.log(rates) - np.log1p(-rates)).ravel()
        return BoostedMixture(TreeScores.of(np.log(share)), TreeScores.of(logits), self.n_jobs)

    def _grow(
        self,
        scores: TreeScores,
        weight: NDArray[np.float64],
        p: NDArray[np.float64],
        target: NDArray[np.float64],
    ) -> TreeScores:
        """Add a tree to each output, with probabilities ``p`` and soft targets."""
        import xgboost  # noqa: PLC0415  # slow import, not needed by other models

        slope = weight * (p - target)
        curvature = weight * np.maximum(p * (1.0 - p), _LEAST_CURVATURE)
        booster = xgboost.Booster(self.settings.parameters(len(scores.initial)), [self.rows])
        booster.boost(
            self.rows,
            iteration=0,
            grad=slope.reshape(len(p), -1).astype(np.float32),
            hess=curvature.reshape(len(p), -1).astype(np.float32),
        )
        model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
        width = self.documents.X.shape[1]
        return scores.plus([read_tree(tree, width, width) for tree in model["trees"]])
