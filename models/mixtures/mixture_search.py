"""Fits a conditional mixture: validated penalties, then EM.

Independent classifiers choose the labels' penalties; shared experts start at them. A few EM steps
compare strengths of the gate's penalty. EM continues from the best of them until validation
likelihood ends it; two more steps use all rows, including those set aside.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.labels.linear import LinearFit, fit_elastic_net
from setwise.models.labels.penalty import choose_penalty
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture
from setwise.models.mixtures.experts.gating import constant_gate
from setwise.models.mixtures.experts.mixture_learners import (
    GateSettings,
    SeparateLearner,
    SharedLearner,
    SharedState,
)
from setwise.models.mixtures.experts.separate_experts import SeparateSettings
from setwise.models.mixtures.experts.shared_experts import SharedSettings
from setwise.models.mixtures.mixture_em import (
    EMRun,
    StepReport,
    StoppingRule,
    WeightedDocuments,
    responsibilities,
    run_em,
)
from setwise.models.mixtures.mixture_scoring import SharedExperts

# Penalty of a fit that cannot set a row aside.
_ALPHA_WITHOUT_VALIDATION = 1e-3

# Penalties need not be compared at the optimum: if two are that close, either will do. The same
# holds for the mixture of label sets that EM starts from.
_PATH_TOLERANCE = 1e-4
_PATH_STEPS = 50
_START_TOLERANCE = 1e-4

# The gate's penalty is the labels' median times a power of this. A stronger one is better if the
# experts explain nearly everything, a weaker one if the features predict label sets better than
# single labels. Each is tried for a few steps.
_GATE_STEP = 4.0
_TRIAL_STEPS = 4

# Newton steps of the independent classifiers that shared experts start from.
_INDEPENDENT_STEPS = 6

# Share of the validation log-likelihood that a weaker penalty of the gate must gain: smaller gains
# can lower set accuracy.
_NEARLY = 0.01

# Solver steps of gate and experts in each EM step.
_NEWTON_STEPS = 2

# EM steps without a better validation likelihood after which EM ends, and the share set aside.
_PATIENCE = 1
_SHARE_ASIDE = 0.2

# EM steps on all rows after validation ended a trial.
_FINAL_STEPS = 2


@dataclass(frozen=True)
class _Strengths:
    """Penalties of a fit."""

    alpha: NDArray[np.float64]  # (L,)
    gate_alpha: float


@dataclass(frozen=True, eq=False)
class _SearchStart:
    """State that EM continues from."""

    memberships: NDArray[np.float64]
    state: Any  # of the learner's kind, or None
    reports: tuple[StepReport, ...]


# Any, because a learner only accepts its own kind of state.
_Learner = Any
_Run = EMRun[Any]


@dataclass(frozen=True, eq=False)
class _Trial:
    """A short run with one strength of the gate's penalty."""

    strengths: _Strengths
    run: _Run

    @property
    def log_likelihood(self) -> float:
        """Mean over the validation rows at the best step, in nats."""
        return self.run.reports[self.run.n_iter - 1].valid_log_likelihood


def _prefer(trials: list[_Trial]) -> _Trial:
    """Return the trial of strongest penalty among the nearly best.

    A gate with too weak a penalty duplicates the experts: the likelihood hardly changes, but set
    accuracy falls.
    """
    best = max(trial.log_likelihood for trial in trials)
    close = [t for t in trials if t.log_likelihood >= best - _NEARLY * abs(best)]
    return max(close, key=lambda trial: trial.strengths.gate_alpha)


class MixtureFit(NamedTuple):
    """A mixture and the penalties it was fitted with."""

    run: EMRun[Any]  # of a learner's own kind of state
    alpha: NDArray[np.float64]  # (L,)
    gate_alpha: float


@dataclass(frozen=True, eq=False)
class MixtureSearch:
    """Search for a mixture; fields as in `ConditionalBernoulliMixture`."""

    n_components: int
    experts: Literal["shared", "separate"]
    alpha: Literal["auto"] | float | ArrayLike
    gate_alpha: Literal["auto"] | float
    l1_ratio: float
    penalty_scale: float
    max_iter: int
    tol: float
    early_stopping: bool
    membership_floor: float
    rate_floor: float
    n_init: int
    n_jobs: int | None

    def find(
        self,
        everything: WeightedDocuments,
        held_out: WeightedDocuments | None,
        seed: int,
        rng: np.random.RandomState,
    ) -> MixtureFit:
        """Choose penalties and run EM, setting rows aside if useful.

        Parameters
        ----------
        everything : WeightedDocuments
            Training documents.
        held_out : WeightedDocuments or None
            Validation rows given by the caller; never fitted on.
        seed : int
            Seed of the mixture of label sets that EM starts from.
        rng : RandomState
            Chooses the rows set aside.
        """
        training, aside = everything, held_out
        chooses = isinstance(self.alpha, str) or isinstance(self.gate_alpha, str)
        if held_out is None and (self.early_stopping or chooses):
            n = len(everything.weight)
            n_aside = min(max(1, round(_SHARE_ASIDE * n)), n - 1)
            if n_aside > 0:
                training, aside = everything.split(rng.permutation(n), n_aside)
        best, start = self._choose_strengths(training, aside, seed)
        strengths = self._scale(best)
        if aside is None or not (self.early_stopping or held_out is not None):
            begun = self._begin(everything, seed, strengths.alpha)
            run = self._run(self._learner(everything, strengths), everything, None, begun)
        else:
            run = self._run(self._learner(training, strengths), training, aside, start)
            if held_out is None:
                run = self._carry_on(run, everything, strengths)
        return MixtureFit(run, strengths.alpha, strengths.gate_alpha)

    def _choose_strengths(
        self, training: WeightedDocuments, held_out: WeightedDocuments | None, seed: int
    ) -> tuple[_Strengths, _SearchStart]:
        """Choose the penalties; return them with the state to continue from."""
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
                self._learner(training, strengths, steps=1),
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
        return best.strengths, _SearchStart(memberships, best.run.state, best.run.reports)

    def _scale(self, strengths: _Strengths) -> _Strengths:
        """Scale the penalties chosen by validation, not the given ones."""
        return _Strengths(
            strengths.alpha * (self.penalty_scale if isinstance(self.alpha, str) else 1.0),
            strengths.gate_alpha
            * (self.penalty_scale if isinstance(self.gate_alpha, str) else 1.0),
        )

    def _choose_alpha(
        self, training: WeightedDocuments, held_out: WeightedDocuments | None
    ) -> tuple[NDArray[np.float64], LinearFit | None]:
        """Return the labels' penalties and independent classifiers, if fitted."""
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
            l1_ratio=self.l1_ratio,
            tol=_PATH_TOLERANCE,
            sample_weight=training.weight,
            max_iter=_PATH_STEPS,
            n_jobs=self.n_jobs,
            random_state=0,
        )
        complete = choice.fit.coef.shape[0] == n_labels
        return choice.alpha, choice.fit if complete else None

    def _learner(
        self, documents: WeightedDocuments, strengths: _Strengths, steps: int = _NEWTON_STEPS
    ) -> SharedLearner | SeparateLearner:
        gate = GateSettings(strengths.gate_alpha, self.l1_ratio, steps)
        if self.experts == "shared":
            shared = SharedSettings(
                self.l1_ratio, membership_floor=self.membership_floor, newton_steps=steps
            )
            return SharedLearner(documents, strengths.alpha, gate, shared, self.n_jobs)
        separate = SeparateSettings(
            self.l1_ratio, self.membership_floor, self.rate_floor, newton_steps=steps
        )
        return SeparateLearner(documents, strengths.alpha, gate, separate, self.n_jobs)

    def _begin(
        self,
        documents: WeightedDocuments,
        seed: int,
        alpha: NDArray[np.float64],
        independent: LinearFit | None = None,
    ) -> _SearchStart:
        """Return the start: a Bernoulli mixture of label sets, with experts."""
        mixture = BernoulliMixture(
            self.n_components, n_init=self.n_init, tol=_START_TOLERANCE, random_state=seed
        ).fit(documents.Y, sample_weight=documents.weight)
        memberships = mixture.predict_proba(documents.Y)
        if self.experts != "shared":
            return _SearchStart(memberships, None, ())
        if independent is None:
            independent = fit_elastic_net(
                documents.X,
                documents.Y,
                alpha=alpha,
                l1_ratio=self.l1_ratio,
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
        return _SearchStart(memberships, state, ())

    def _run(
        self,
        learner: _Learner,
        training: WeightedDocuments,
        held_out: WeightedDocuments | None,
        start: _SearchStart,
    ) -> _Run:
        rule = StoppingRule(self.max_iter, self.tol, _PATIENCE)
        run: _Run = run_em(
            learner, start.memberships, training, rule, validation=held_out, start=start.state
        )
        return replace(
            run, n_iter=len(start.reports) + run.n_iter, reports=start.reports + run.reports
        )

    def _carry_on(self, trial: _Run, everything: WeightedDocuments, strengths: _Strengths) -> _Run:
        """Run the final steps on all rows, continuing the trial."""
        log_joint = trial.state.mixture.log_joint(everything.X, everything.Y)
        final = run_em(
            self._learner(everything, strengths),
            responsibilities(log_joint)[0],
            everything,
            StoppingRule(_FINAL_STEPS, 0.0, _PATIENCE),
            start=trial.state,
        )
        return replace(
            final,
            n_iter=trial.n_iter + final.n_iter,
            reports=trial.reports + final.reports,
            converged=trial.converged,
        )
