"""Conditional Bernoulli mixtures with linear gate and experts, fitted by EM."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.estimator import check_fitted, draws_of, warn_of_unfinished
from setwise.models.labels.scaling import (
    STORED_WEIGHTING,
    FeatureWeighting,
    Matrix,
    Scheme,
    checked_rows,
)
from setwise.models.labels.targets import as_labels
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.experts.gating import LinearGate
from setwise.models.mixtures.kernel_map import KernelMap
from setwise.models.mixtures.mixture_em import (
    StepReport,
    WeightedDocuments,
    warn_of_missing,
)
from setwise.models.mixtures.mixture_explanation import (
    ComponentSummary,
    feature_contrast,
    summarise_components,
)
from setwise.models.mixtures.mixture_inference import MixtureByEM
from setwise.models.mixtures.mixture_scoring import (
    LinearMixture,
    SeparateExperts,
    SharedExperts,
    stored_experts,
)
from setwise.models.mixtures.mixture_search import MixtureFit, MixtureSearch
from setwise.models.mixtures.mixture_storage import restored_linear, stored_linear
from setwise.models.parameters import check_parameters
from setwise.models.storage.checks import checked_array
from setwise.models.storage.fields import (
    StoredArray,
    StoredParameters,
    StoredPiece,
    StoredSetting,
    stored_ragged,
)
from setwise.models.storage.state import Lengths

# A small share is more accurate on dense features, a large one on sparse features.
_L1_RATIO_DENSE = 0.1
_L1_RATIO_SPARSE = 0.7
_DENSE_SHARE = 0.3

# Kernel features of all training documents are stored; this bounds their memory.
_MOST_KERNEL_ENTRIES = 4_000_000
_MOST_LANDMARKS = 1000
_LEAST_LANDMARKS = 100

_CHOICES = {
    "experts": ("shared", "separate"),
    "features": ("auto", "linear", "kernel"),
}


class ConditionalBernoulliMixture(MixtureByEM):
    r"""Mixture of independent label classifiers, weighted by a gate.

    .. math:: p(y \mid x) = \sum_k \pi_k(x) \prod_l \mathrm{Ber}(y_l; \mu_{kl}(x))

    Parameters
    ----------
    n_components : int, default 50
        Fewer are fitted, with a warning, if there are fewer distinct label sets.
    experts : {"shared", "separate"}, default "shared"
        Whether components share one classifier per label, with a bias per component, or each have
        their own classifiers.
    alpha : "auto", float or array-like of shape (n_labels,)
        Penalty strength of the experts relative to the mean loss; ``"auto"`` chooses it for each
        label on validation rows with independent classifiers, see `choose_penalty`.
    gate_alpha : "auto" or float
        Penalty strength of the gate; ``"auto"`` compares multiples of the labels' median,
        from 1/4 to 16, by the likelihood of validation rows after four EM steps.
    l1_ratio : "auto" or float
        Share of the L1 norm in the penalties, in [0, 1]; ``"auto"`` takes 0.1 for dense features
        and 0.7 for sparse ones, of which most are irrelevant to a label.
    penalty_scale : float
        Positive factor on the penalties that ``"auto"`` chooses; below 1 for fits that are
        averaged, see `AveragedMixture`.
    weighting : {"auto", "idf", "deviation", "none"}
        Weighting of features before the fit, see `FeatureWeighting`.
    features : {"auto", "linear", "kernel"}
        Whether gate and experts are linear in the weighted features or in those of a Gaussian
        kernel, see `KernelMap`; ``"auto"`` uses the kernel for dense features if there are few
        enough documents.
    max_iter : int
        Maximum number of EM steps.
    tol : float
        EM ends when a step changes the objective by less, in nats per document; 0 runs
        ``max_iter`` steps.
    early_stopping : bool
        Whether, without validation rows, a fifth of the rows are set aside to end the steps; two
        more steps then use all rows.
    membership_floor : float
        Documents with a smaller membership are left out of a component's experts.
    rate_floor : float
        Separate experts: a label whose rate in a component is within this of 0 or 1 is constant.
    n_init : int
        Starts of the Bernoulli mixture of the label sets that initialises the components.
    n_jobs : int, optional
        Threads; by default every usable core. The result does not depend on it.
    random_state : int, RandomState or None

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
           [0, 0, 1]])
    """

    mixture_: LinearMixture
    gate_: LinearGate
    experts_: SharedExperts | SeparateExperts
    # (n_components, n_features) with a kernel, the number of deviations by which a feature's mean
    # in a component exceeds the mean of all documents.
    contrast_: NDArray[np.float64] | None
    # (n_features,) root mean square of each weighted feature: the scale of a coefficient's effect.
    typical_: NDArray[np.float64]
    l1_ratio_: float
    # alpha_ and gate_alpha_: penalty strengths used.
    alpha_: NDArray[np.float64]
    gate_alpha_: float
    stored = (
        StoredParameters("params"),
        *STORED_WEIGHTING,
        StoredArray("share", "share_", np.float64, ("components",)),
        StoredArray("rates", "rates_", np.float64, ("components", "labels")),
        StoredArray("typical", "typical_", np.float64, ("features",), infinite=True),
        StoredArray("alpha", "alpha_", np.float64, ("labels",), infinite=True),
        StoredArray("contrast", "contrast_", np.float64, ("components", "features"), optional=True),
        StoredPiece(
            "kernel_",
            KernelMap,
            "kernel_",
            "kernel",
            {"features": "features", "described": "described"},
            nullable=True,
        ),
        *stored_linear("gate", "gate_.", "components", "described"),
        StoredPiece(
            "experts_",
            stored_experts,
            shares={"components": "components", "labels": "labels", "features": "described"},
        ),
        *stored_ragged(
            "support_indptr", "support_labels", "support_", "indices", "sets", count="members"
        ),
        StoredSetting("allow_empty", "allow_empty_", bool),
        StoredSetting("l1_ratio", "l1_ratio_", float),
        StoredSetting("gate_alpha", "gate_alpha_", float),
        StoredSetting("n_iter", "n_iter_", int),
        StoredSetting("reports", "step_reports_", list),
    )

    def __init__(
        self,
        n_components: int = 50,
        *,
        experts: Literal["shared", "separate"] = "shared",
        alpha: Literal["auto"] | float | NDArray[np.float64] = "auto",
        gate_alpha: Literal["auto"] | float = "auto",
        l1_ratio: Literal["auto"] | float = "auto",
        penalty_scale: float = 1.0,
        weighting: Scheme = "auto",
        features: Literal["auto", "linear", "kernel"] = "auto",
        max_iter: int = 20,
        tol: float = 1e-2,
        early_stopping: bool = True,
        membership_floor: float = 1e-2,
        rate_floor: float = 2e-3,
        n_init: int = 8,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.experts = experts
        self.alpha = alpha
        self.gate_alpha = gate_alpha
        self.l1_ratio = l1_ratio
        self.penalty_scale = penalty_scale
        self.weighting = weighting
        self.features = features
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.membership_floor = membership_floor
        self.rate_floor = rate_floor
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Matrix,
        y: Matrix,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Matrix, Matrix] | None = None,
    ) -> Self:
        """Fit by EM, started at a Bernoulli mixture of the label sets.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : array-like or sparse of shape (n_samples, n_labels)
            Zeros and ones; or anything else that `read_targets` reads.
        sample_weight : array-like of shape (n_samples,), optional
            Not negative, not all zero.
        validation : tuple (X, y), optional
            Rows that select penalty and number of steps; never fitted on.

        Raises
        ------
        ValueError
            If shapes disagree, or a value is out of its range or not finite.

        Warns
        -----
        ComponentWarning
            If fewer components remain: there are few label sets, or components were dropped.
        ConvergenceWarning
            If EM had not converged after ``max_iter`` steps and ``tol`` is not 0.
        """
        self._check_parameters()
        rng = draws_of(self.random_state)
        rows = checked_rows(self, X, reset=True)
        labels = self._adopt_targets(y, rows)
        self.weighting_ = FeatureWeighting(self.weighting).fit(rows, sample_weight=sample_weight)
        documents = WeightedDocuments.of(self.weighting_.transform(rows), labels, sample_weight)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        self.kernel_ = self._make_kernel(documents.X, seed)
        everything = self._describe(documents)
        self.l1_ratio_ = self._choose_l1_ratio(everything.X)
        held_out = None
        if validation is not None:
            rows = self.weighting_.transform(validation[0])
            held_out = self._describe(WeightedDocuments.of(rows, as_labels(validation[1])))
        params = {**self.get_params(deep=False), "l1_ratio": self.l1_ratio_}
        for name in ("weighting", "features", "random_state"):
            del params[name]
        with warnings.catch_warnings():
            # Each trial would warn; `_keep` warns once.
            warnings.simplefilter("ignore", ComponentWarning)
            best = MixtureSearch(**params).find(everything, held_out, seed, rng)
        if not best.run.converged and self.tol > 0.0:
            warn_of_unfinished(
                f"EM was still moving after {self.max_iter} steps: raise max_iter or tol"
            )
        self._keep(best, everything, documents.X)
        return self

    def _make_kernel(self, X: sp.csr_array, seed: int) -> KernelMap | None:
        """Return a kernel fitted to weighted features, or None."""
        n_landmarks = min(_MOST_LANDMARKS, _MOST_KERNEL_ENTRIES // max(X.shape[0], 1))
        fits = n_landmarks >= _LEAST_LANDMARKS and self.weighting_.scheme_ == "deviation"
        if self.features == "linear" or (self.features == "auto" and not (fits and _is_dense(X))):
            return None
        kernel = KernelMap(n_landmarks=max(n_landmarks, 1), random_state=seed)
        return kernel.fit(X)

    def _describe(self, documents: WeightedDocuments) -> WeightedDocuments:
        if self.kernel_ is None:
            return documents
        return replace(documents, X=self.kernel_.transform(documents.X))

    def _keep(self, fit: MixtureFit, documents: WeightedDocuments, X: sp.csr_array) -> None:
        """Store the fit to these documents, whose weighted features are ``X``."""
        owned = self._keep_run(fit.run, documents)
        self.gate_, self.experts_ = fit.run.state.gate, fit.run.state.experts
        self.alpha_, self.gate_alpha_ = fit.alpha, fit.gate_alpha
        self.typical_ = np.sqrt(np.asarray(X.power(2).mean(axis=0), dtype=np.float64))
        self.contrast_ = None if self.kernel_ is None else feature_contrast(X, owned)
        warn_of_missing(self.n_components_, self.n_components, self.support_.shape[0])

    def _choose_l1_ratio(self, X: sp.csr_array) -> float:
        if not isinstance(self.l1_ratio, str):
            return self.l1_ratio
        return _L1_RATIO_DENSE if _is_dense(X) else _L1_RATIO_SPARSE

    def _check_parameters(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
                raise ValueError(f"{name} must be {listed}, got {getattr(self, name)!r}")
        for name in ("alpha", "gate_alpha", "l1_ratio"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f'{name} must be a number or "auto", got {value!r}')
        check_parameters(self)

    def describe_components(
        self, n_labels: int = 5, n_features: int = 10
    ) -> tuple[ComponentSummary, ...]:
        """Summarise the components, largest first.

        At most ``n_labels`` labels and ``n_features`` features are listed.
        """
        check_fitted(self, "mixture_")
        if self.contrast_ is None:
            weights = self.gate_.coef.toarray()
            # The softmax ignores what all components share, so subtract it.
            contrast = (weights - weights.mean(axis=0)) * self.typical_
        else:
            weights = contrast = self.contrast_
        return summarise_components(
            self.share_, self.rates_, weights, contrast, n_labels, n_features
        )

    @property
    def step_reports_(self) -> list[dict[str, Any]]:
        """The reports as they are stored."""
        return [report.to_json() for report in self.reports_]

    @classmethod
    def read(
        cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], lengths: Lengths
    ) -> Self:
        """Rebuild the mixture from its state."""
        if settings.get("kernel") is None:  # gate and experts read the features themselves
            lengths["described"] = len(checked_array(arrays, "scale", np.float64, (None,)))
        return super().read(arrays, settings, lengths)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted mixture."""
        model = cls(**fields["parameters"])
        model.weighting_ = FeatureWeighting.from_state(
            fields["scale"], fields["scheme"], model.weighting
        )
        model.kernel_, model.contrast_ = fields["kernel_"], fields["contrast"]
        if model.kernel_ is not None and model.contrast_ is None:
            raise ValueError("array 'contrast' is missing")
        model.gate_ = LinearGate(*restored_linear(fields, "gate", lengths["described"]))
        model.experts_ = fields["experts_"]
        model._restore(fields, lengths)
        model.mixture_ = LinearMixture(model.gate_, model.experts_, model.n_jobs)
        for name in ("typical", "alpha", "l1_ratio", "gate_alpha"):
            setattr(model, f"{name}_", fields[name])
        model.reports_ = tuple(StepReport.from_json(stored) for stored in fields["reports"])
        return model


def _is_dense(X: sp.csr_array) -> bool:
    return bool(X.nnz > _DENSE_SHARE * X.shape[0] * X.shape[1])
