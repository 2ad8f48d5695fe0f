"""Conditional Bernoulli mixtures with linear gate and experts, fitted by EM."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from models.base.bernoulli_mixture import BernoulliMixture, ComponentWarning
from models.base.binary_relevance import as_labels
from models.base.gating import Gate, constant_gate
from models.base.linear import LinearFit, fit_elastic_net
from models.base.mixture_em import (
    Documents,
    EMRun,
    StepReport,
    StoppingRule,
    responsibilities,
    run_em,
)
from models.base.mixture_explanation import ComponentSummary
from models.base.mixture_inference import MixtureInference
from models.base.mixture_learners import (
    GateSettings,
    SeparateLearner,
    SharedLearner,
    SharedState,
)
from models.base.mixture_scoring import SeparateExperts, SharedExperts, as_mixture
from models.base.mixture_storage import pack_mixture, unpack_mixture
from models.base.penalty import choose_penalty
from models.base.scaling import FeatureWeighting, Scheme
from models.base.separate_experts import SeparateSettings, component_rates
from models.base.shared_experts import SharedSettings
from models.sets.mixture_support import distinct_sets
from models.state import checked_array

Matrix = Any  # array-like or scipy sparse: scipy's stubs know no common type of both


# On SCENE and YEAST a share of 0.1 is two points of set accuracy better than 0.7, on MEDICAL eight
# points worse (validation rows).
_L1_RATIO_DENSE = 0.1
_L1_RATIO_SPARSE = 0.7
_DENSE_SHARE = 0.3

# Penalty of a fit that cannot set a single row aside.
_ALPHA_WITHOUT_VALIDATION = 1e-3

# Penalties need not be compared at the optimum: where the order of two is that close, either will
# do. The same holds of the mixture of label sets that EM starts from.
_PATH_TOLERANCE = 1e-4
_PATH_STEPS = 50
_START_TOLERANCE = 1e-4

# The gate's penalty is the labels' median times a power of this. Where experts know nearly all, a
# gate as free as they are repeats them and overfits; where label sets follow from the features
# better than labels do, a freer one is better. Each is tried for a few steps.
_GATE_STEP = 4.0
_TRIAL_STEPS = 4

# Newton steps of the independent classifiers that shared experts start from.
_INDEPENDENT_STEPS = 6

# Share of the validation log-likelihood that a weaker penalty of the gate has to gain. BIBTEX and
# OHSUMED lose set accuracy for gains below one percent, YEAST wins some with three.
_NEARLY = 0.01

# EM steps on all rows after validation ended a trial without those set aside.
_FINAL_STEPS = 2


@dataclass(frozen=True)
class _Strengths:
    """Penalties of a fit."""

    alpha: NDArray[np.float64]  # (L,)
    gate_alpha: float


@dataclass(frozen=True, eq=False)
class _Start:
    """Where EM goes on."""

    memberships: NDArray[np.float64]
    state: Any  # of the learner's kind, or None
    reports: tuple[StepReport, ...]


# The states of both kinds of learner go the same ways, but a learner only takes its own kind.
_Learner = Any
_Run = EMRun[Any]


@dataclass(frozen=True, eq=False)
class _Trial:
    """A few steps with one strength of the gate's penalty."""

    strengths: _Strengths
    run: _Run

    @property
    def log_likelihood(self) -> float:
        """Mean over the validation rows at the best step, in nats."""
        return self.run.reports[self.run.n_iter - 1].valid_log_likelihood


def _prefer(trials: list[_Trial]) -> _Trial:
    """Return the strongest penalty whose likelihood is as good as the best, nearly.

    A freer gate than necessary repeats what experts know: likelihood hardly moves, set accuracy
    falls.
    """
    best = max(trial.log_likelihood for trial in trials)
    close = [t for t in trials if t.log_likelihood >= best - _NEARLY * abs(best)]
    return max(close, key=lambda trial: trial.strengths.gate_alpha)


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
        Penalty strength of the gate; ``"auto"`` compares multiples of the labels' median,
        from 1/4 to 16, by the likelihood of validation rows after four EM steps.
    l1_ratio : "auto" or float
        Share of the L1 norm in the penalties, in [0, 1]; ``"auto"`` takes 0.1 for dense features
        and 0.7 for sparse ones, where most features are noise to a label.
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
    typical_ : ndarray of shape (n_features,)
        Root mean square of each weighted feature: how much a coefficient can matter.
    l1_ratio_ : float
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
    typical_: NDArray[np.float64]
    l1_ratio_: float
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
        l1_ratio: Literal["auto"] | float = "auto",
        bias_penalty: float = 1e-4,
        weighting: Scheme = "auto",
        max_iter: int = 20,
        tol: float = 1e-2,
        patience: int = 1,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        newton_steps: int = 2,
        membership_floor: float = 1e-2,
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
        ComponentWarning
            If fewer components remain: label sets are few, or components died.
        ConvergenceWarning
            If EM was still moving after ``max_iter`` steps and ``tol`` is not 0.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        self.weighting_ = FeatureWeighting(self.weighting).fit(X)
        everything = self._documents(X, Y, sample_weight)
        self.l1_ratio_ = self._choose_l1_ratio(everything.X)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        held_out = None if validation is None else self._documents(*validation, None)
        with warnings.catch_warnings():
            # Every trial says how many components it was left with; `_keep` says it once.
            warnings.simplefilter("ignore", ComponentWarning)
            run, strengths = self._search(everything, held_out, seed, rng)
        if not run.converged and self.tol > 0.0:
            warnings.warn(
                f"EM was still moving after {self.max_iter} steps: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(run, everything, strengths)
        return self

    def _search(
        self,
        everything: Documents,
        held_out: Documents | None,
        seed: int,
        rng: np.random.RandomState,
    ) -> tuple[_Run, _Strengths]:
        """Choose penalties and run EM, on rows set aside where that helps."""
        training, aside = everything, held_out
        chooses = isinstance(self.alpha, str) or isinstance(self.gate_alpha, str)
        if held_out is None and (self.early_stopping or chooses):
            training, aside = self._set_aside(everything, rng)
        strengths, start = self._choose_strengths(training, aside, seed)
        if aside is None or not (self.early_stopping or held_out is not None):
            begun = self._begin(everything, seed, strengths.alpha)
            run = self._run(self._learner(everything, strengths), everything, None, begun)
        else:
            run = self._run(self._learner(training, strengths), training, aside, start)
            if held_out is None:
                run = self._carry_on(run, everything, strengths)
        return run, strengths

    def _choose_strengths(
        self, training: Documents, held_out: Documents | None, seed: int
    ) -> tuple[_Strengths, _Start]:
        """Choose the penalties; return them with where EM is to go on."""
        alpha, independent = self._choose_alpha(training, held_out)
        start = self._begin(training, seed, alpha, independent)
        if not isinstance(self.gate_alpha, str):
            return _Strengths(alpha, self.gate_alpha), start
        middle = float(np.median(alpha))
        if held_out is None:  # a single row
            return _Strengths(alpha, middle), start
        rule = StoppingRule(_TRIAL_STEPS, 0.0, _TRIAL_STEPS)

        def attempt(factor: float) -> _Trial:
            strengths = _Strengths(alpha, factor * middle)
            run: _Run = run_em(
                self._learner(training, strengths, newton_steps=1),
                start.memberships,
                training,
                rule,
                validation=held_out,
                start=start.state,
            )
            return _Trial(strengths, run)

        weaker, stronger = attempt(1.0), attempt(_GATE_STEP)
        if _prefer([weaker, stronger]) is stronger:
            best = _prefer([stronger, attempt(_GATE_STEP**2)])
        else:
            best = _prefer([weaker, attempt(1.0 / _GATE_STEP)])
        mixture = best.run.state.mixture
        memberships, _ = responsibilities(mixture.log_joint(training.X, training.Y))
        return best.strengths, _Start(memberships, best.run.state, best.run.reports)

    def _choose_alpha(
        self, training: Documents, held_out: Documents | None
    ) -> tuple[NDArray[np.float64], LinearFit | None]:
        """Choose the labels' penalties; return them with independent classifiers, if fitted."""
        n_labels = training.Y.shape[1]
        if not isinstance(self.alpha, str):
            alpha = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), (n_labels,))
            return alpha.copy(), None
        if held_out is None:  # a single row
            return np.full(n_labels, _ALPHA_WITHOUT_VALIDATION), None
        choice = choose_penalty(
            training.X,
            training.Y,
            held_out.X,
            held_out.Y,
            l1_ratio=self.l1_ratio_,
            tol=_PATH_TOLERANCE,
            sample_weight=training.weight,
            max_iter=_PATH_STEPS,
            n_jobs=self.n_jobs,
            random_state=0,
        )
        complete = choice.fit.coef.shape[0] == n_labels
        return choice.alpha, choice.fit if complete else None

    def _learner(
        self, documents: Documents, strengths: _Strengths, newton_steps: int | None = None
    ) -> SharedLearner | SeparateLearner:
        steps = newton_steps or self.newton_steps
        gate = GateSettings(strengths.gate_alpha, self.l1_ratio_, steps)
        if self.experts == "shared":
            shared = SharedSettings(self.l1_ratio_, self.bias_penalty, self.membership_floor, steps)
            return SharedLearner(documents, strengths.alpha, gate, shared, self.n_jobs)
        separate = SeparateSettings(
            self.l1_ratio_,
            self.per_component,
            self.membership_floor,
            self.rate_floor,
            self.smoothing,
            steps,
        )
        return SeparateLearner(documents, strengths.alpha, gate, separate, self.n_jobs)

    def _begin(
        self,
        documents: Documents,
        seed: int,
        alpha: NDArray[np.float64],
        independent: LinearFit | None = None,
    ) -> _Start:
        """Start at a Bernoulli mixture of the label sets, with experts that know the labels."""
        mixture = BernoulliMixture(
            self.n_components, n_init=self.n_init, tol=_START_TOLERANCE, random_state=seed
        ).fit(documents.Y, sample_weight=documents.weight)
        memberships = mixture.predict_proba(documents.Y)
        if self.experts != "shared":
            return _Start(memberships, None, ())
        if independent is None:
            independent = fit_elastic_net(
                documents.X,
                documents.Y,
                alpha=alpha,
                l1_ratio=self.l1_ratio_,
                sample_weight=documents.weight,
                max_iter=_INDEPENDENT_STEPS,
                n_jobs=self.n_jobs,
            )
        bias = np.zeros((memberships.shape[1], documents.Y.shape[1]))
        state = SharedState(
            constant_gate(memberships, documents.weight, documents.X.shape[1]),
            SharedExperts(independent.coef, independent.intercept, bias),
            0.0,
            self.n_jobs,
        )
        return _Start(memberships, state, ())

    def _run(
        self, learner: _Learner, training: Documents, held_out: Documents | None, start: _Start
    ) -> _Run:
        rule = StoppingRule(self.max_iter, self.tol, self.patience)
        run: _Run = run_em(
            learner, start.memberships, training, rule, validation=held_out, start=start.state
        )
        return replace(
            run, n_iter=len(start.reports) + run.n_iter, reports=start.reports + run.reports
        )

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
        self.typical_ = np.sqrt(np.asarray(documents.X.power(2).mean(axis=0), dtype=np.float64))
        self.n_components_ = len(self.share_)
        self.n_features_in_ = documents.X.shape[1]
        self.classes_ = np.arange(documents.Y.shape[1])
        self.support_ = distinct_sets(documents.Y)
        self.allow_empty_ = bool((np.diff(documents.Y.indptr) == 0).any())

        if self.n_components_ < self.n_components:
            warnings.warn(
                f"{self.n_components_} of {self.n_components} components remain: there are "
                f"{self.support_.shape[0]} distinct label sets, and components that lose all "
                "their documents are dropped",
                ComponentWarning,
                stacklevel=3,
            )

    def _choose_l1_ratio(self, X: sp.csr_array) -> float:
        if not isinstance(self.l1_ratio, str):
            return self.l1_ratio
        dense = X.nnz > _DENSE_SHARE * X.shape[0] * X.shape[1]
        return _L1_RATIO_DENSE if dense else _L1_RATIO_SPARSE

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
        for name in ("alpha", "gate_alpha", "l1_ratio"):
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

    def describe_components(
        self, n_labels: int = 5, n_features: int = 10
    ) -> tuple[ComponentSummary, ...]:
        """Summarise the components, largest first.

        Parameters
        ----------
        n_labels, n_features : int
            Labels and features named at most.
        """
        check_is_fitted(self)
        coef = self.gate_.coef.toarray()
        # The softmax ignores what all components share, and so does the reader.
        contrast = (coef - coef.mean(axis=0)) * self.typical_
        summaries = []
        for k in np.argsort(-self.share_, kind="stable"):
            labels = np.argsort(-self.rates_[k], kind="stable")[:n_labels]
            features = np.argsort(-contrast[k], kind="stable")[:n_features]
            summaries.append(
                ComponentSummary(
                    int(k),
                    float(self.share_[k]),
                    tuple((int(j), float(self.rates_[k, j])) for j in labels),
                    tuple((int(j), float(coef[k, j])) for j in features if contrast[k, j] > 0.0),
                )
            )
        return tuple(summaries)

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the fitted state: arrays, and settings that JSON can carry."""
        check_is_fitted(self)
        arrays = pack_mixture(self.gate_, self.experts_, self.support_)
        arrays |= {
            "scale": self.weighting_.scale_,
            "share": self.share_,
            "rates": self.rates_,
            "typical": self.typical_,
            "alpha": self.alpha_,
        }
        params = self.get_params()
        if not isinstance(params["alpha"], str):
            params["alpha"] = np.asarray(params["alpha"], dtype=np.float64).tolist()
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = None
        return arrays, {
            "params": params,
            "scheme": self.weighting_.scheme_,
            "allow_empty": self.allow_empty_,
            "l1_ratio": self.l1_ratio_,
            "gate_alpha": self.gate_alpha_,
            "n_iter": self.n_iter_,
            "reports": [report.to_json() for report in self.reports_],
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
        d = len(checked_array(arrays, "scale", np.float64, (None,)))
        n_components, n_labels = checked_array(arrays, "rates", np.float64, (None, None)).shape
        model.weighting_ = FeatureWeighting.from_state(
            arrays["scale"], settings["scheme"], model.weighting
        )
        shape = (n_components, n_labels, d)
        model.gate_, model.experts_, model.support_ = unpack_mixture(arrays, shape)
        model.mixture_ = as_mixture(model.gate_, model.experts_, model.n_jobs)
        model.share_ = checked_array(arrays, "share", np.float64, (n_components,))
        model.rates_ = arrays["rates"]
        model.typical_ = checked_array(arrays, "typical", np.float64, (d,))
        model.alpha_ = checked_array(arrays, "alpha", np.float64, (n_labels,))
        model.l1_ratio_ = float(settings["l1_ratio"])
        model.gate_alpha_ = float(settings["gate_alpha"])
        model.n_iter_ = int(settings["n_iter"])
        model.reports_ = tuple(StepReport.from_json(stored) for stored in settings["reports"])
        model.allow_empty_ = bool(settings["allow_empty"])
        model.n_components_ = n_components
        model.n_features_in_ = d
        model.classes_ = np.arange(n_labels)
        return model
