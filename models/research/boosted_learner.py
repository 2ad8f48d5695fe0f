"""Boosted trees as gate and experts of a mixture."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.labels.linear import usable_cores
from setwise.models.mixtures.experts.separate_experts import component_rates
from setwise.models.mixtures.mixture_em import Documents
from setwise.models.mixtures.mixture_measure import Logits
from setwise.models.mixtures.mixture_scoring import MAX_LOGIT

Booster = Any  # xgboost ships no types, and is imported only where trees are grown or read

# Documents' worth of the overall label rates in the scores that boosting starts from.
_SMOOTHING = 1.0

# A settled row keeps this much curvature, so that no leaf divides by zero.
_LEAST_CURVATURE = 1e-6


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown; see `BoostedBernoulliMixture`."""

    trees_per_step: int
    learning_rate: float
    max_leaves: int
    min_child_weight: float
    reg_lambda: float
    n_jobs: int | None

    def parameters(self, n_outputs: int) -> dict[str, Any]:
        """Return XGBoost's parameters for boosters with this many outputs."""
        threads = usable_cores() if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
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
            "nthread": threads,
        }


@dataclass(frozen=True, eq=False)
class Trees:
    """Scores as the sum of constants and trees."""

    initial: NDArray[np.float64]  # (n_outputs,)
    booster: Booster  # may have grown since: only the first ``rounds`` count
    rounds: int

    def scores(self, X: sp.csr_array) -> NDArray[np.float64]:
        """Return the scores of documents, shape (n, n_outputs)."""
        out = np.tile(self.initial, (X.shape[0], 1))
        if self.rounds > 0 and X.shape[0] > 0:
            rows = _as_dmatrix(X)
            margin = self.booster.predict(
                rows, output_margin=True, iteration_range=(0, self.rounds)
            )
            out += np.asarray(margin, dtype=np.float64).reshape(out.shape)
        return out


def _as_dmatrix(X: sp.csr_array) -> Any:  # noqa: ANN401  # xgboost ships no types
    import xgboost  # noqa: PLC0415  # slow import, not needed by other models

    # Dense, so that an absent entry is the number zero and not a missing value.
    return xgboost.DMatrix(X.toarray(), nthread=1)


@dataclass(frozen=True, eq=False)
class BoostedMixture:
    """Scores documents under a boosted gate and boosted experts."""

    gate: Trees  # one output per component that boosting started with
    experts: Trees  # one output per such component and label
    components: NDArray[np.int64]  # the components that are left

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        n, n_all = X.shape[0], len(self.gate.initial)
        z = self.gate.scores(X)[:, self.components]
        z -= z.max(axis=1, keepdims=True)
        log_weights = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        logits = self.experts.scores(X).reshape(n, n_all, -1)[:, self.components]
        return log_weights, np.clip(logits, -MAX_LOGIT, MAX_LOGIT)

    def compact_parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], Logits]:
        """Return the `parameters`: nothing is shared."""
        return self.parameters(X)

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
        kept = self.mixture.components[components]
        return replace(self, mixture=replace(self.mixture, components=kept))


class BoostedLearner:
    """M steps that add trees to the mixture (thesis, section 3.4.2).

    Each output's trees take a Newton step on the bound: slopes and curvatures of the soft targets,
    times the membership for the experts, which makes it the weight of the document.
    """

    def __init__(self, documents: Documents, settings: TreeSettings) -> None:
        import xgboost  # noqa: PLC0415  # slow import, not needed by other models

        self.documents = documents
        self.settings = settings
        self.labels = documents.Y.toarray().astype(np.float64)
        # One matrix for both boosters and all outputs: the data is there once.
        self.rows = xgboost.QuantileDMatrix(documents.X.toarray(), nthread=1)

    def maximise(
        self, memberships: NDArray[np.float64], before: BoostedState | None
    ) -> BoostedState:
        """Add trees for these memberships, starting from constants."""
        mixture = self._begin(memberships) if before is None else before.mixture
        n_all = len(mixture.gate.initial)
        whole = np.zeros((len(memberships), n_all))
        whole[:, mixture.components] = memberships
        gate, experts = mixture.gate, mixture.experts
        for _ in range(self.settings.trees_per_step):
            gate = self._grow(gate, *self._gate_derivatives(gate, whole, mixture.components))
            experts = self._grow(experts, *self._expert_derivatives(experts, whole))
        return BoostedState(replace(mixture, gate=gate, experts=experts))

    def _begin(self, memberships: NDArray[np.float64]) -> BoostedMixture:
        import xgboost  # noqa: PLC0415  # slow import, not needed by other models

        owned = memberships * self.documents.weight[:, None]
        share = np.maximum(owned.sum(axis=0) / owned.sum(), np.finfo(np.float64).tiny)
        rates = component_rates(self.documents.Y, owned, _SMOOTHING)[1]
        logits = (np.log(rates) - np.log1p(-rates)).ravel()
        gate, experts = (
            Trees(initial, xgboost.Booster(self.settings.parameters(len(initial)), [self.rows]), 0)
            for initial in (np.log(share), logits)
        )
        return BoostedMixture(gate, experts, np.arange(len(share)))

    def _margin(self, trees: Trees) -> NDArray[np.float64]:
        added = trees.booster.predict(self.rows, output_margin=True)
        margin = np.asarray(added, dtype=np.float64).reshape(-1, len(trees.initial))
        return margin + trees.initial

    def _gate_derivatives(
        self, gate: Trees, memberships: NDArray[np.float64], components: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        z = np.full(memberships.shape, -np.inf)
        z[:, components] = self._margin(gate)[:, components]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        weight = self.documents.weight[:, None]
        return weight * (p - memberships), weight * np.maximum(p * (1.0 - p), _LEAST_CURVATURE)

    def _expert_derivatives(
        self, experts: Trees, memberships: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        n, n_all = memberships.shape
        z = self._margin(experts).reshape(n, n_all, -1)
        p = 1.0 / (1.0 + np.exp(-np.clip(z, -MAX_LOGIT, MAX_LOGIT)))
        weight = (self.documents.weight[:, None] * memberships)[:, :, None]
        slope = weight * (p - self.labels[:, None, :])
        curvature = weight * np.maximum(p * (1.0 - p), _LEAST_CURVATURE)
        return slope.reshape(n, -1), curvature.reshape(n, -1)

    def _grow(
        self, trees: Trees, slope: NDArray[np.float64], curvature: NDArray[np.float64]
    ) -> Trees:
        trees.booster.boost(
            self.rows,
            iteration=trees.rounds,
            grad=slope.astype(np.float32),
            hess=curvature.astype(np.float32),
        )
        return replace(trees, rounds=trees.rounds + 1)
