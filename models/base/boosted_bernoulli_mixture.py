"""Conditional Bernoulli mixtures whose gate and experts are boosted trees."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from models.base.bernoulli_mixture import BernoulliMixture, ComponentWarning
from models.base.binary_relevance import as_labels
from models.base.linear import usable_cores
from models.base.mixture_em import Documents, EMRun, StepReport, StoppingRule, run_em
from models.base.mixture_inference import MixtureInference
from models.base.mixture_scoring import MAX_LOGIT
from models.base.scaling import FeatureWeighting
from models.base.separate_experts import component_rates
from models.sets.mixture_support import distinct_sets
from models.state import check_labels, checked_array

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both
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
    """Scores that start from constants and add trees: the constants stay in the sum.

    Attributes
    ----------
    initial : float64 ndarray of shape (n_outputs,)
    booster : xgboost.Booster
        May have grown since: only the first ``rounds`` count.
    rounds : int
    """

    initial: NDArray[np.float64]
    booster: Booster
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

    def to_json(self) -> dict[str, Any]:
        """Return the trees as XGBoost's own document."""
        document: dict[str, Any] = json.loads(self.booster[: self.rounds].save_raw("json"))
        return document


def _as_dmatrix(X: sp.csr_array) -> Any:  # noqa: ANN401  # xgboost ships no types
    import xgboost  # noqa: PLC0415  # two seconds that other models never need

    # Dense, so that an absent entry is the number zero and not a missing value.
    return xgboost.DMatrix(X.toarray(), nthread=1)


@dataclass(frozen=True, eq=False)
class BoostedMixture:
    """Scores documents under a boosted gate and boosted experts.

    Attributes
    ----------
    gate : Trees
        One output per component that boosting started with.
    experts : Trees
        One output per such component and label.
    components : int64 ndarray
        The components that are left.
    """

    gate: Trees
    experts: Trees
    components: NDArray[np.int64]

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        n, n_all = X.shape[0], len(self.gate.initial)
        z = self.gate.scores(X)[:, self.components]
        z -= z.max(axis=1, keepdims=True)
        log_weights = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        logits = self.experts.scores(X).reshape(n, n_all, -1)[:, self.components]
        return log_weights, np.clip(logits, -MAX_LOGIT, MAX_LOGIT)

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        log_weights, logits = self.parameters(X)
        present = Y.toarray()[:, None, :]
        inside = (present * logits - np.logaddexp(0.0, logits)).sum(axis=2)
        joint: NDArray[np.float64] = log_weights + inside
        return joint


@dataclass(frozen=True, eq=False)
class BoostedState:
    """A boosted mixture between two EM steps; trees are not penalised beside their leaves."""

    mixture: BoostedMixture
    penalty: float = 0.0

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        kept = self.mixture.components[components]
        return replace(self, mixture=replace(self.mixture, components=kept))


class BoostedLearner:
    """M steps that add a few trees to gate and experts (thesis, section 3.4.2).

    Each output's trees take a Newton step on the bound: slopes and curvatures of the soft targets,
    times the membership for the experts, which makes it the weight of the document.
    """

    def __init__(self, documents: Documents, settings: TreeSettings) -> None:
        import xgboost  # noqa: PLC0415  # two seconds that other models never need

        self.documents = documents
        self.settings = settings
        self.labels = documents.Y.toarray().astype(np.float64)
        # One matrix for both boosters and all outputs: the data is there once.
        self.rows = xgboost.QuantileDMatrix(documents.X.toarray(), nthread=1)

    def maximise(
        self, memberships: NDArray[np.float64], before: BoostedState | None
    ) -> BoostedState:
        """Add trees for these memberships, or start from constants and add the first."""
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
        import xgboost  # noqa: PLC0415  # two seconds that other models never need

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


class BoostedBernoulliMixture(MixtureInference, ClassifierMixin, BaseEstimator):
    """Conditional Bernoulli mixture with gradient-boosted gate and experts.

    For a few labels and features that interact; it grows a tree per component and label in every
    round. EM is generalised: an M step adds trees and never changes those that are there.

    Parameters
    ----------
    n_components : int, default 20
        Fewer remain, with a warning, where there are fewer distinct label sets or some die.
    trees_per_step : int
        Boosting rounds in each EM step.
    learning_rate : float
        Shrinkage of the trees.
    max_leaves : int
        Leaves per tree.
    min_child_weight, reg_lambda : float
        Least curvature in a leaf, and ridge on its value.
    max_iter : int
        EM steps at most.
    patience : int
        Steps without a better validation likelihood after which EM ends.
    validation_fraction : float
        Share of rows that, without validation rows given, decide the number of steps; the mixture
        is then fitted on all rows with that number. 0 takes ``max_iter`` steps.
    n_init : int
        Starts of the Bernoulli mixture of the label sets that initialises the components.
    n_jobs : int, optional
        Threads; by default every usable core.
    random_state : int, RandomState or None

    Attributes
    ----------
    mixture_ : BoostedMixture
    support_ : csr_array of shape (n_sets, n_labels), uint8
        Label sets seen in training.
    allow_empty_ : bool
    n_components_, n_iter_ : int
    reports_ : tuple of StepReport

    References
    ----------
    .. [1] C. Li, B. Wang, V. Pavlu and J. Aslam, "Conditional Bernoulli Mixtures for Multi-label
       Classification", ICML 2016, section 3.2.

    Examples
    --------
    >>> X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (30, 1))
    >>> Y = np.tile([[1, 1], [0, 1], [0, 1], [1, 0]], (30, 1))
    >>> model = BoostedBernoulliMixture(2, max_iter=20, validation_fraction=0.0, n_jobs=1)
    >>> model.fit(X, Y).predict(X[:4]).tolist()
    [[1, 1], [0, 1], [0, 1], [1, 0]]
    """

    mixture_: BoostedMixture
    n_iter_: int
    reports_: tuple[StepReport, ...]
    n_features_in_: int
    classes_: NDArray[np.int64]

    def __init__(
        self,
        n_components: int = 20,
        *,
        trees_per_step: int = 1,
        learning_rate: float = 0.3,
        max_leaves: int = 5,
        min_child_weight: float = 1.0,
        reg_lambda: float = 1.0,
        max_iter: int = 60,
        patience: int = 5,
        validation_fraction: float = 0.2,
        n_init: int = 8,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.trees_per_step = trees_per_step
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.max_iter = max_iter
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Matrix,
        Y: Matrix,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Matrix, Matrix] | None = None,
    ) -> Self:
        """Fit the mixture by EM, started at a Bernoulli mixture of the label sets.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        Y : array-like or sparse of shape (n_samples, n_labels)
            Zeros and ones.
        sample_weight : array-like of shape (n_samples,), optional
            Not negative, not all zero.
        validation : tuple (X, Y), optional
            Rows that end the steps; never fitted on.

        Raises
        ------
        ValueError
            If shapes disagree, or a value is out of its range or not finite.

        Warns
        -----
        ComponentWarning
            If fewer components remain: label sets are few, or components died.
        ConvergenceWarning
            If validation likelihood was still rising after ``max_iter`` steps.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        # Trees do not care for monotone weighting: none.
        self.weighting_ = FeatureWeighting("none").fit(X)
        everything = _documents(self.weighting_.transform(X), Y, sample_weight)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        n_aside = round(self.validation_fraction * len(everything.weight))
        steps, rising = self.max_iter, False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ComponentWarning)  # said once, below
            if validation is not None:
                held_out = _documents(self.weighting_.transform(validation[0]), validation[1], None)
                run = self._run(everything, held_out, steps, seed)
                rising = not run.converged
            else:
                if 0 < n_aside < len(everything.weight):
                    order = rng.permutation(len(everything.weight))
                    training, held_out = _split(everything, order, n_aside)
                    trial = self._run(training, held_out, steps, seed)
                    steps, rising = trial.n_iter, not trial.converged
                run = self._run(everything, None, steps, seed)
        if rising:
            warnings.warn(
                f"validation likelihood was still rising after {self.max_iter} steps: raise "
                "max_iter or learning_rate",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(run, everything)
        return self

    def _run(
        self, training: Documents, held_out: Documents | None, steps: int, seed: int
    ) -> EMRun[BoostedState]:
        start = BernoulliMixture(
            self.n_components, n_init=self.n_init, tol=1e-4, random_state=seed
        ).fit(training.Y, sample_weight=training.weight)
        settings = TreeSettings(
            self.trees_per_step,
            self.learning_rate,
            self.max_leaves,
            self.min_child_weight,
            self.reg_lambda,
            self.n_jobs,
        )
        return run_em(
            BoostedLearner(training, settings),
            start.predict_proba(training.Y),
            training,
            StoppingRule(steps, 0.0, self.patience),
            validation=held_out,
        )

    def _keep(self, run: EMRun[BoostedState], documents: Documents) -> None:
        self.mixture_ = run.state.mixture
        self.n_components_ = len(self.mixture_.components)
        self.n_iter_ = run.n_iter
        self.reports_ = run.reports
        self.support_ = distinct_sets(documents.Y)
        self.allow_empty_ = bool((np.diff(documents.Y.indptr) == 0).any())
        self.n_features_in_ = documents.X.shape[1]
        self.classes_ = np.arange(documents.Y.shape[1])
        if self.n_components_ < self.n_components:
            warnings.warn(
                f"{self.n_components_} of {self.n_components} components remain: there are "
                f"{self.support_.shape[0]} distinct label sets, and components that lose all "
                "their documents are dropped",
                ComponentWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        for name in ("n_components", "trees_per_step", "max_iter", "patience", "n_init"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; it is {getattr(self, name)}")
        if self.max_leaves < 2:
            raise ValueError(f"max_leaves must be at least 2; it is {self.max_leaves}")
        if not 0.0 <= self.validation_fraction < 1.0:
            raise ValueError(
                f"validation_fraction must lie in [0, 1); it is {self.validation_fraction}"
            )

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and settings; the trees stand under ``xgboost`` as XGBoost writes them."""
        check_is_fitted(self)
        mixture = self.mixture_
        arrays: dict[str, NDArray[Any]] = {
            "gate_initial": mixture.gate.initial,
            "expert_initial": mixture.experts.initial,
            "components": mixture.components,
            "support_indptr": self.support_.indptr.astype(np.int64),
            "support_labels": self.support_.indices.astype(np.int32),
        }
        params = self.get_params()
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = None
        return arrays, {
            "params": params,
            "allow_empty": self.allow_empty_,
            "n_features": self.n_features_in_,
            "n_labels": len(self.classes_),
            "n_iter": self.n_iter_,
            "rounds": mixture.gate.rounds,
            "reports": [report.to_json() for report in self.reports_],
            "xgboost": {"gate": mixture.gate.to_json(), "experts": mixture.experts.to_json()},
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        """Rebuild what `get_state` took apart.

        Raises
        ------
        ValueError
            If an array is missing, has a wrong type or shape, or points outside another.
        """
        model = cls(**settings["params"])
        d, n_labels = int(settings["n_features"]), int(settings["n_labels"])
        initial = checked_array(arrays, "gate_initial", np.float64, (None,))
        logits = checked_array(arrays, "expert_initial", np.float64, (len(initial) * n_labels,))
        components = checked_array(arrays, "components", np.int64, (None,))
        if not (np.diff(components) > 0).all() or not set(components) <= set(range(len(initial))):
            raise ValueError("array 'components' names components that do not exist")
        rounds = int(settings["rounds"])
        model.mixture_ = BoostedMixture(
            Trees(initial, _booster(settings["xgboost"]["gate"], d, rounds), rounds),
            Trees(logits, _booster(settings["xgboost"]["experts"], d, rounds), rounds),
            components,
        )
        labels = checked_array(arrays, "support_labels", np.int32, (None,))
        indptr = checked_array(arrays, "support_indptr", np.int64, (None,))
        check_labels("support_labels", indptr, labels, n_labels)
        ones = np.ones(len(labels), dtype=np.uint8)
        model.support_ = sp.csr_array((ones, labels, indptr), shape=(len(indptr) - 1, n_labels))
        model.weighting_ = FeatureWeighting.from_state(np.ones(d), "none", "none")
        model.allow_empty_ = bool(settings["allow_empty"])
        model.n_components_ = len(components)
        model.n_iter_ = int(settings["n_iter"])
        model.reports_ = tuple(StepReport.from_json(stored) for stored in settings["reports"])
        model.n_features_in_ = d
        model.classes_ = np.arange(n_labels)
        return model


def _booster(document: Mapping[str, Any], n_features: int, rounds: int) -> Booster:
    import xgboost  # noqa: PLC0415  # two seconds that other models never need

    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(document), "utf-8"))
    if booster.num_features() != n_features or booster.num_boosted_rounds() != rounds:
        raise ValueError(
            f"trees over {booster.num_features()} features in {booster.num_boosted_rounds()} "
            f"rounds do not suit {n_features} features and {rounds} rounds"
        )
    return booster


def _documents(rows: sp.csr_array, Y: Matrix, sample_weight: ArrayLike | None) -> Documents:
    labels = as_labels(Y)
    n = rows.shape[0]
    if labels.shape[0] != n:
        raise ValueError(f"X has {n} rows, Y {labels.shape[0]}")
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"sample_weight must hold {n} finite weights, none negative")
    kept = np.flatnonzero(weight > 0.0)
    if len(kept) == 0:
        raise ValueError("all sample weights are zero: no document is left")
    return Documents(rows[kept], labels[kept], weight[kept])


def _split(
    documents: Documents, order: NDArray[np.int64], n_aside: int
) -> tuple[Documents, Documents]:
    aside, kept = np.sort(order[:n_aside]), np.sort(order[n_aside:])
    training, held_out = (
        Documents(documents.X[rows], documents.Y[rows], documents.weight[rows])
        for rows in (kept, aside)
    )
    return training, held_out
