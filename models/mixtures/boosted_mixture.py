"""Conditional Bernoulli mixtures whose gate and experts are boosted trees."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.data.capacity import available_memory
from setwise.models.estimator import check_fitted, draws_of, warn_of_unfinished
from setwise.models.labels.scaling import FeatureWeighting, Matrix, checked_rows
from setwise.models.labels.targets import as_labels
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture, ComponentWarning
from setwise.models.mixtures.experts.boosted_trees import (
    BoostedLearner,
    BoostedMixture,
    BoostedState,
    TreeScores,
    TreeSettings,
)
from setwise.models.mixtures.mixture_em import (
    EMRun,
    StoppingRule,
    WeightedDocuments,
    run_em,
    warn_of_missing,
)
from setwise.models.mixtures.mixture_explanation import (
    ComponentSummary,
    feature_contrast,
    summarise_components,
)
from setwise.models.mixtures.mixture_inference import MixtureByEM
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import (
    StoredArray,
    StoredParameters,
    StoredPiece,
    StoredSetting,
    stored_ragged,
)
from setwise.models.storage.state import Lengths

# Memory for each document: its features as numbers and as bins, the derivatives of its experts.
_BYTES_PER_FEATURE = 8
_BYTES_PER_EXPERT = 64


class BoostedBernoulliMixture(MixtureByEM):
    """Conditional Bernoulli mixture with gradient-boosted gate and experts.

    For a few labels and features that interact; it grows a tree per component and label in every
    round. EM is generalised: an M step adds trees and never changes those that are there.

    Parameters
    ----------
    n_components : int, default 20
        Fewer remain, with a warning, where there are fewer distinct label sets or some die.
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

    References
    ----------
    .. [1] C. Li, B. Wang, V. Pavlu and J. Aslam, "Conditional Bernoulli Mixtures for Multi-label
       Classification", ICML 2016, section 3.2.

    Examples
    --------
    >>> X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (30, 1))
    >>> Y = np.tile([[1, 1], [0, 1], [0, 1], [1, 0]], (30, 1))
    >>> model = BoostedBernoulliMixture(2, max_iter=50, validation_fraction=0.0, n_jobs=1)
    >>> model.fit(X, Y).predict(X[:4]).tolist()
    [[1, 1], [0, 1], [0, 1], [1, 0]]
    """

    mixture_: BoostedMixture
    contrast_: NDArray[np.float64]  # as of `ConditionalBernoulliMixture` with a kernel
    stored = (
        StoredParameters("boosted"),
        StoredArray("share", "share_", np.float64, ("components",)),
        StoredArray("rates", "rates_", np.float64, ("components", "labels")),
        StoredArray("contrast", "contrast_", np.float64, ("components", "features")),
        StoredPiece(
            "mixture_.gate",
            TreeScores,
            "gate_",
            shares={"outputs": "components", "features": "features"},
        ),
        StoredPiece(
            "mixture_.experts",
            TreeScores,
            "expert_",
            shares={"outputs": "experts", "features": "features"},
        ),
        *stored_ragged(
            "support_indptr", "support_labels", "support_", "indices", "sets", count="members"
        ),
        StoredSetting("allow_empty", "allow_empty_", bool),
        StoredSetting("n_iter", "n_iter_", int),
    )

    def __init__(
        self,
        n_components: int = 20,
        *,
        learning_rate: float = 0.1,
        max_leaves: int = 5,
        min_child_weight: float = 1.0,
        reg_lambda: float = 1.0,
        max_iter: int = 100,
        patience: int = 5,
        validation_fraction: float = 0.2,
        n_init: int = 8,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
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
        y: Matrix,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Matrix, Matrix] | None = None,
    ) -> Self:
        """Fit by EM, started at a Bernoulli mixture of the label sets.

        Parameters, errors and warnings are those of `ConditionalBernoulliMixture.fit`; validation
        rows end the steps.
        """
        check_parameters(self)
        rng = draws_of(self.random_state)
        # Trees do not depend on monotone weighting.
        rows = checked_rows(self, X, reset=True)
        labels = self._adopt_targets(y, rows)
        self.weighting_ = FeatureWeighting("none").fit(rows)
        everything = WeightedDocuments.of(rows, labels, sample_weight)
        self._check_room(*rows.shape, labels.shape[1])
        seed = int(rng.randint(np.iinfo(np.int32).max))
        n_aside = round(self.validation_fraction * len(everything.weight))
        steps, rising = self.max_iter, False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ComponentWarning)  # one warning for all, below
            if validation is not None:
                aside = self.weighting_.transform(validation[0]), as_labels(validation[1])
                held_out = WeightedDocuments.of(*aside)
                run = self._run(everything, held_out, steps, seed)
                rising = not run.converged
            else:
                if 0 < n_aside < len(everything.weight):
                    order = rng.permutation(len(everything.weight))
                    training, held_out = everything.split(order, n_aside)
                    trial = self._run(training, held_out, steps, seed)
                    steps, rising = trial.n_iter, not trial.converged
                run = self._run(everything, None, steps, seed)
        if rising:
            warn_of_unfinished(
                f"validation likelihood was still rising after {self.max_iter} steps: raise "
                "max_iter or learning_rate"
            )
        self._keep(run, everything)
        return self

    def _run(
        self, training: WeightedDocuments, held_out: WeightedDocuments | None, steps: int, seed: int
    ) -> EMRun[BoostedState]:
        start = BernoulliMixture(
            self.n_components, n_init=self.n_init, tol=1e-4, random_state=seed
        ).fit(training.Y, sample_weight=training.weight)
        settings = TreeSettings(
            self.learning_rate,
            self.max_leaves,
            self.min_child_weight,
            self.reg_lambda,
        )
        return run_em(
            BoostedLearner(training, settings, self.n_jobs),
            start.predict_proba(training.Y),
            training,
            StoppingRule(steps, 0.0, self.patience),
            validation=held_out,
        )

    def _keep(self, run: EMRun[BoostedState], documents: WeightedDocuments) -> None:
        self.contrast_ = feature_contrast(documents.X, self._keep_run(run, documents))
        warn_of_missing(self.n_components_, self.n_components, self.support_.shape[0])

    def describe_components(
        self, n_labels: int = 5, n_features: int = 10
    ) -> tuple[ComponentSummary, ...]:
        """Summarise the components, largest first, by the features of their documents.

        At most ``n_labels`` labels and ``n_features`` features are listed.
        """
        check_fitted(self, "mixture_")
        return summarise_components(
            self.share_, self.rates_, self.contrast_, self.contrast_, n_labels, n_features
        )

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted mixture."""
        if lengths["experts"] != lengths["components"] * lengths["labels"]:
            raise ValueError(f"it counts {lengths['experts']} experts")
        model = cls(**fields["parameters"])
        model.mixture_ = BoostedMixture(fields["mixture_.gate"], fields["mixture_.experts"])
        model.contrast_ = fields["contrast"]
        model._restore(fields, lengths)
        model.weighting_ = FeatureWeighting.from_state(
            np.ones(model.n_features_in_), "none", "none"
        )
        return model

    def _check_room(self, n: int, n_features: int, n_labels: int) -> None:
        n_experts = self.n_components * n_labels
        needed = n * (_BYTES_PER_FEATURE * n_features + _BYTES_PER_EXPERT * n_experts)
        room = available_memory()
        if room is not None and needed > room:
            raise ValueError(
                f"{n:,} documents with {n_features:,} features and {n_experts:,} boosted experts "
                f"need {needed / 1e9:.0f} GB of memory; {room / 1e9:.0f} GB are free. Use linear "
                "experts ('cbm'), or fewer components"
            )
