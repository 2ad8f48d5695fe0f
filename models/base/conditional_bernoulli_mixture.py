"""Conditional Bernoulli mixtures with linear gate and experts, fitted by EM."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from models.base.bernoulli_mixture import BernoulliMixture
from models.base.binary_relevance import as_labels
from models.base.gating import Gate, fit_gate
from models.base.linear import usable_cores
from models.base.mixture_em import (
    Documents,
    EMRun,
    StepReport,
    StoppingRule,
    responsibilities,
    run_em,
)
from models.base.mixture_inference import MixtureInference
from models.base.mixture_scoring import (
    SeparateExperts,
    SeparateMixture,
    SharedExperts,
    SharedMixture,
)
from models.base.penalty import choose_penalty
from models.base.scaling import FeatureWeighting, Scheme
from models.base.separate_experts import (
    ComponentExperts,
    SeparateSettings,
    component_rates,
    fit_component,
    join_components,
)
from models.base.shared_experts import SharedSettings, fit_shared_experts
from models.sets.mixture_support import distinct_sets

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both


# Penalty of a fit that cannot set a single row aside.
_ALPHA_WITHOUT_VALIDATION = 1e-3

# Penalties need not be compared at the optimum: where the order of two is that close, either will
# do. The same holds of the mixture of label sets that EM starts from.
_PATH_TOLERANCE = 1e-4
_PATH_STEPS = 50
_START_TOLERANCE = 1e-4

# EM steps on all rows after validation ended a trial without those set aside.
_FINAL_STEPS = 2


@dataclass(frozen=True)
class GateSettings:
    """How the gate is fitted; see `fit_gate`."""

    alpha: float
    l1_ratio: float
    passes: int = 2
    max_sweeps: int = 3


def _elastic_net(coef: sp.csr_array, alpha: NDArray[np.float64], l1_ratio: float) -> float:
    """Return the penalty of coefficient rows of different strengths."""
    strength = np.repeat(alpha, np.diff(coef.indptr))
    size = l1_ratio * np.abs(coef.data) + 0.5 * (1.0 - l1_ratio) * coef.data**2
    return float(strength @ size)


@dataclass(frozen=True, eq=False)
class SeparateState:
    """Gate and experts of each component between two EM steps."""

    gate: Gate
    components: tuple[ComponentExperts, ...]
    constants: NDArray[np.float64]
    penalty: float
    n_jobs: int | None

    @property
    def experts(self) -> SeparateExperts:
        """The experts in one piece."""
        return join_components(self.components, self.constants, self.gate.coef.shape[1])

    @property
    def mixture(self) -> SeparateMixture:
        """The mixture with these parameters."""
        return SeparateMixture(self.gate, self.experts, self.n_jobs)

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        return replace(
            self,
            gate=Gate(self.gate.coef[components], self.gate.intercept[components]),
            components=tuple(self.components[k] for k in components),
            constants=self.constants[components],
        )


@dataclass(frozen=True, eq=False)
class SharedState:
    """Gate and shared experts between two EM steps."""

    gate: Gate
    experts: SharedExperts
    penalty: float
    n_jobs: int | None

    @property
    def mixture(self) -> SharedMixture:
        """The mixture with these parameters."""
        return SharedMixture(self.gate, self.experts, self.n_jobs)

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        return replace(
            self,
            gate=Gate(self.gate.coef[components], self.gate.intercept[components]),
            experts=replace(self.experts, bias=self.experts.bias[components]),
        )


class _LinearLearner:
    """What both kinds of experts need: the data by rows and columns, and the gate's M step."""

    def __init__(
        self,
        documents: Documents,
        alpha: NDArray[np.float64],
        gate: GateSettings,
        n_jobs: int | None,
    ) -> None:
        self.documents = documents
        self.columns = sp.csc_array(documents.X)
        self.share = documents.weight / documents.weight.sum()
        self.alpha = alpha
        self.gate = gate
        self.n_jobs = n_jobs

    def fit_gate(self, memberships: NDArray[np.float64], start: Gate | None) -> Gate:
        """Improve the gate."""
        return fit_gate(
            self.columns,
            memberships,
            alpha=self.gate.alpha,
            l1_ratio=self.gate.l1_ratio,
            sample_weight=self.share,
            start=start,
            max_passes=self.gate.passes,
            max_sweeps=self.gate.max_sweeps,
        )[0]

    @property
    def threads(self) -> int:
        """Threads to use."""
        return usable_cores() if self.n_jobs is None or self.n_jobs < 0 else max(1, self.n_jobs)


class SeparateLearner(_LinearLearner):
    """M steps of a mixture whose components have experts of their own."""

    def __init__(
        self,
        documents: Documents,
        alpha: NDArray[np.float64],
        gate: GateSettings,
        settings: SeparateSettings,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(documents, alpha, gate, n_jobs)
        self.settings = settings

    def maximise(
        self, memberships: NDArray[np.float64], before: SeparateState | None
    ) -> SeparateState:
        """Improve gate and experts for these memberships."""
        s = self.settings
        owned = memberships * self.documents.weight[:, None]
        rates, smoothed = component_rates(self.documents.Y, owned, s.smoothing)
        active = (rates > s.rate_floor) & (rates < 1.0 - s.rate_floor)

        def fit(k: int) -> ComponentExperts:
            rows = np.flatnonzero(memberships[:, k] > s.membership_floor)
            return fit_component(
                self.documents.X[rows],
                self.documents.Y[rows],
                memberships[rows, k] * self.share[rows],
                np.flatnonzero(active[k]),
                self.alpha,
                settings=s,
                start=None if before is None else before.components[k],
            )

        # Large components first, so that no thread is left with one at the end.
        order = np.argsort(-(owned.sum(axis=0) * active.sum(axis=1)), kind="stable")
        with ThreadPoolExecutor(self.threads) as pool:
            gate_task = pool.submit(
                self.fit_gate, memberships, None if before is None else before.gate
            )
            tasks = {int(k): pool.submit(fit, int(k)) for k in order}
            components = tuple(tasks[k].result() for k in range(len(order)))
            gate = gate_task.result()
        constants = np.log(smoothed) - np.log1p(-smoothed)
        penalty = gate.penalty(self.gate.alpha, self.gate.l1_ratio)
        for component in components:
            if component.fit is not None:
                strength = self.alpha[component.labels]
                penalty += _elastic_net(component.fit.coef, strength, s.l1_ratio)
        return SeparateState(gate, components, constants, penalty, self.n_jobs)


class SharedLearner(_LinearLearner):
    """M steps of a mixture with shared experts."""

    def __init__(
        self,
        documents: Documents,
        alpha: NDArray[np.float64],
        gate: GateSettings,
        settings: SharedSettings,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(documents, alpha, gate, n_jobs)
        self.settings = settings

    def maximise(self, memberships: NDArray[np.float64], before: SharedState | None) -> SharedState:
        """Improve gate and experts for these memberships."""
        with ThreadPoolExecutor(1) as pool:
            gate_task = pool.submit(
                self.fit_gate, memberships, None if before is None else before.gate
            )
            experts = fit_shared_experts(
                self.columns,
                self.documents.Y,
                memberships,
                self.share,
                self.alpha,
                settings=self.settings,
                start=None if before is None else before.experts,
                n_jobs=self.threads,
            )
            gate = gate_task.result()
        penalty = (
            gate.penalty(self.gate.alpha, self.gate.l1_ratio)
            + _elastic_net(experts.coef, self.alpha, self.settings.l1_ratio)
            + 0.5 * self.settings.bias_penalty * float((experts.bias**2).sum())
        )
        return SharedState(gate, experts, penalty, self.n_jobs)


@dataclass(frozen=True)
class _Strengths:
    """Penalties of a fit."""

    alpha: NDArray[np.float64]  # (L,)
    gate_alpha: float


# The states of both kinds of learner go the same ways, but a learner only takes its own kind.
_Learner = Any
_Run = EMRun[Any]


class ConditionalBernoulliMixture(MixtureInference, ClassifierMixin, BaseEstimator):
    r"""Mixture of independent label classifiers, weighted by a gate that sees the document.

    .. math:: p(y \mid x) = \sum_k \pi_k(x) \prod_l \mathrm{Ber}(y_l; \mu_{kl}(x))

    Parameters
    ----------
    n_components : int, default 50
        Fewer are fitted, with a warning, where there are fewer distinct label sets.
    experts : {"shared", "separate"}, default "shared"
        Whether components share one classifier per label and have biases of their own, or have
        classifiers of their own.
    alpha : "auto", float or array-like of shape (n_labels,)
        Penalty strength of the experts beside the mean loss; ``"auto"`` chooses each label's on
        validation rows by independent classifiers, see `choose_penalty`.
    gate_alpha : "auto" or float
        Penalty strength of the gate; ``"auto"`` takes the median of the labels'.
    l1_ratio : float
        Share of the L1 norm in the penalties, in [0, 1].
    bias_penalty : float
        Ridge on the biases of shared experts.
    weighting : {"auto", "idf", "deviation", "none"}
        Weighting of features before the fit, see `FeatureWeighting`.
    max_iter : int
        EM steps at most.
    tol : float
        EM ends when a step changes the objective by less, in nats per document; 0 takes
        ``max_iter`` steps.
    patience : int
        Steps without a better validation likelihood after which EM ends.
    early_stopping : bool
        Whether, without validation rows, ``validation_fraction`` of the rows are set aside to
        end the steps; two more then bring in the rows set aside.
    validation_fraction : float
        Share of rows set aside, in (0, 1).
    newton_steps : int
        Solver steps of gate and experts in each EM step.
    membership_floor : float
        Documents with a smaller membership are left out of a component's experts.
    rate_floor : float
        Separate experts: a label whose rate in a component is within this of 0 or 1 is constant.
    smoothing : float
        Separate experts: documents' worth of the overall label rates in each constant.
    per_component : bool
        Separate experts: normalise each component's weights before the penalty.
    n_init : int
        Starts of the Bernoulli mixture of the label sets that initialises the components.
    n_jobs : int, optional
        Threads; by default every usable core. The result does not depend on it.
    random_state : int, RandomState or None

    Attributes
    ----------
    gate_ : Gate
    experts_ : SharedExperts or SeparateExperts
    weighting_ : FeatureWeighting
    support_ : csr_array of shape (n_sets, n_labels), uint8
        Label sets seen in training.
    allow_empty_ : bool
        Whether a training document carries no label: only then is the empty set predicted.
    n_components_ : int
    share_ : ndarray of shape (n_components,)
        Share of the training documents' weight that belongs to each component.
    rates_ : ndarray of shape (n_components, n_labels)
        Label rates of the training documents inside each component.
    alpha_, gate_alpha_ : ndarray, float
        Penalty strengths used.
    n_iter_ : int
        EM steps behind the parameters.
    reports_ : tuple of StepReport
        What each step of the last run did.

    References
    ----------
    .. [1] C. Li, B. Wang, V. Pavlu and J. Aslam, "Conditional Bernoulli Mixtures for Multi-label
       Classification", ICML 2016.
    .. [2] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern
       University, 2019, chapter 3.

    Examples
    --------
    >>> X = np.repeat(np.eye(2), 40, axis=0)
    >>> Y = np.tile([[1, 1, 0], [0, 0, 1]], (20, 1)).repeat([1, 3] * 20, axis=0)
    >>> model = ConditionalBernoulliMixture(2, alpha=1e-3, random_state=0).fit(X, Y)
    >>> model.predict(np.eye(2))
    array([[0, 0, 1],
           [0, 0, 1]], dtype=uint8)
    """

    gate_: Gate
    experts_: SharedExperts | SeparateExperts
    share_: NDArray[np.float64]
    rates_: NDArray[np.float64]
    alpha_: NDArray[np.float64]
    gate_alpha_: float
    n_iter_: int
    reports_: tuple[StepReport, ...]
    n_features_in_: int
    classes_: NDArray[np.int64]

    def __init__(
        self,
        n_components: int = 50,
        *,
        experts: Literal["shared", "separate"] = "shared",
        alpha: Literal["auto"] | float | ArrayLike = "auto",
        gate_alpha: Literal["auto"] | float = "auto",
        l1_ratio: float = 0.7,
        bias_penalty: float = 1e-4,
        weighting: Scheme = "auto",
        max_iter: int = 20,
        tol: float = 1e-3,
        patience: int = 1,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        newton_steps: int = 2,
        membership_floor: float = 1e-3,
        rate_floor: float = 2e-3,
        smoothing: float = 1.0,
        per_component: bool = False,
        n_init: int = 8,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.experts = experts
        self.alpha = alpha
        self.gate_alpha = gate_alpha
        self.l1_ratio = l1_ratio
        self.bias_penalty = bias_penalty
        self.weighting = weighting
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.newton_steps = newton_steps
        self.membership_floor = membership_floor
        self.rate_floor = rate_floor
        self.smoothing = smoothing
        self.per_component = per_component
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
            Rows that choose penalty and number of steps; never fitted on.

        Raises
        ------
        ValueError
            If shapes disagree, or a value is out of its range or not finite.

        Warns
        -----
        UserWarning
            If there are fewer distinct label sets than components, or components die.
        ConvergenceWarning
            If EM was still moving after ``max_iter`` steps and ``tol`` is not 0.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        self.weighting_ = FeatureWeighting(self.weighting).fit(X)
        everything = self._documents(X, Y, sample_weight)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        held_out = None if validation is None else self._documents(*validation, None)
        training, aside = everything, held_out
        if held_out is None and (self.early_stopping or isinstance(self.alpha, str)):
            training, aside = self._set_aside(everything, rng)
        strengths = self._choose_strengths(training, aside)
        if aside is None or not (self.early_stopping or held_out is not None):
            run = self._run(self._learner(everything, strengths), everything, None, seed)
        else:
            run = self._run(self._learner(training, strengths), training, aside, seed)
            if held_out is None:
                run = self._carry_on(run, everything, strengths)
        if not run.converged and self.tol > 0.0:
            warnings.warn(
                f"EM was still moving after {self.max_iter} steps: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(run, everything, strengths)
        return self

    def _choose_strengths(self, training: Documents, held_out: Documents | None) -> _Strengths:
        alpha = self._choose_alpha(training, held_out)
        gate = self.gate_alpha
        return _Strengths(alpha, float(np.median(alpha)) if isinstance(gate, str) else gate)

    def _choose_alpha(self, training: Documents, held_out: Documents | None) -> NDArray[np.float64]:
        n_labels = training.Y.shape[1]
        if not isinstance(self.alpha, str):
            return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), (n_labels,)).copy()
        if held_out is None:  # a single row
            return np.full(n_labels, _ALPHA_WITHOUT_VALIDATION)
        return choose_penalty(
            training.X,
            training.Y,
            held_out.X,
            held_out.Y,
            l1_ratio=self.l1_ratio,
            tol=_PATH_TOLERANCE,
            sample_weight=training.weight,
            max_iter=_PATH_STEPS,
            n_jobs=self.n_jobs,
            random_state=0,
        ).alpha

    def _learner(
        self, documents: Documents, strengths: _Strengths
    ) -> SharedLearner | SeparateLearner:
        gate = GateSettings(strengths.gate_alpha, self.l1_ratio, self.newton_steps)
        if self.experts == "shared":
            shared = SharedSettings(
                self.l1_ratio, self.bias_penalty, self.membership_floor, self.newton_steps
            )
            return SharedLearner(documents, strengths.alpha, gate, shared, self.n_jobs)
        separate = SeparateSettings(
            self.l1_ratio,
            self.per_component,
            self.membership_floor,
            self.rate_floor,
            self.smoothing,
            self.newton_steps,
        )
        return SeparateLearner(documents, strengths.alpha, gate, separate, self.n_jobs)

    def _run(
        self, learner: _Learner, training: Documents, held_out: Documents | None, seed: int
    ) -> _Run:
        """Run EM from a Bernoulli mixture of the label sets."""
        start = BernoulliMixture(
            self.n_components, n_init=self.n_init, tol=_START_TOLERANCE, random_state=seed
        ).fit(training.Y, sample_weight=training.weight)
        rule = StoppingRule(self.max_iter, self.tol, self.patience)
        memberships = start.predict_proba(training.Y)
        return run_em(learner, memberships, training, rule, validation=held_out)

    def _carry_on(self, trial: _Run, everything: Documents, strengths: _Strengths) -> _Run:
        """Bring in the rows set aside: a few steps from where validation ended the trial."""
        log_joint = trial.state.mixture.log_joint(everything.X, everything.Y)
        final = run_em(
            self._learner(everything, strengths),
            responsibilities(log_joint)[0],
            everything,
            StoppingRule(_FINAL_STEPS, 0.0, self.patience),
            start=trial.state,
        )
        return replace(
            final,
            n_iter=trial.n_iter + final.n_iter,
            reports=trial.reports + final.reports,
            converged=trial.converged,
        )

    def _keep(self, run: _Run, documents: Documents, strengths: _Strengths) -> None:
        self.gate_ = run.state.gate
        self.experts_ = run.state.experts
        self.mixture_ = run.state.mixture
        memberships, _ = responsibilities(self.mixture_.log_joint(documents.X, documents.Y))
        owned = memberships * documents.weight[:, None]
        self.share_ = owned.sum(axis=0) / owned.sum()
        self.rates_ = component_rates(documents.Y, owned, 0.0)[0]
        self.alpha_, self.gate_alpha_ = strengths.alpha, strengths.gate_alpha
        self.n_iter_ = run.n_iter
        self.reports_ = run.reports
        self.n_components_ = len(self.share_)
        self.n_features_in_ = documents.X.shape[1]
        self.classes_ = np.arange(documents.Y.shape[1])
        self.support_ = distinct_sets(documents.Y)
        self.allow_empty_ = bool((np.diff(documents.Y.indptr) == 0).any())

    def _documents(self, X: Matrix, Y: Matrix, sample_weight: ArrayLike | None) -> Documents:
        rows = self.weighting_.transform(X)
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
        if len(kept) < n:
            return Documents(rows[kept], labels[kept], weight[kept])
        return Documents(rows, labels, weight)

    def _set_aside(
        self, documents: Documents, rng: np.random.RandomState
    ) -> tuple[Documents, Documents | None]:
        n = len(documents.weight)
        order = rng.permutation(n)
        n_aside = min(max(1, round(self.validation_fraction * n)), n - 1)
        if n_aside < 1:
            return documents, None
        aside, kept = np.sort(order[:n_aside]), np.sort(order[n_aside:])
        return (
            Documents(documents.X[kept], documents.Y[kept], documents.weight[kept]),
            Documents(documents.X[aside], documents.Y[aside], documents.weight[aside]),
        )

    def _check_parameters(self) -> None:
        if self.experts not in {"shared", "separate"}:
            raise ValueError(f"experts must be shared or separate, got {self.experts!r}")
        for name in ("alpha", "gate_alpha"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f'{name} must be a number or "auto", got {value!r}')
        for name in ("n_components", "max_iter", "patience", "newton_steps", "n_init"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; it is {getattr(self, name)}")
        if not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(
                f"validation_fraction must lie in (0, 1); it is {self.validation_fraction}"
            )
        if self.experts == "separate" and not self.smoothing > 0.0:
            raise ValueError(f"smoothing must be positive; it is {self.smoothing}")
