"""M steps of conditional mixtures with linear gate and experts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.mixtures.experts.gating import LinearGate, fit_gate
from setwise.models.mixtures.experts.separate_experts import (
    ComponentExperts,
    SeparateSettings,
    component_rates,
    fit_component,
    join_components,
)
from setwise.models.mixtures.experts.shared_experts import SharedSettings, fit_shared_experts
from setwise.models.mixtures.mixture_em import WeightedDocuments
from setwise.models.mixtures.mixture_scoring import LinearMixture, SeparateExperts, SharedExperts
from setwise.models.parallel import thread_count


@dataclass(frozen=True)
class GateSettings:
    """Settings of the gate; see `fit_gate`."""

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

    gate: LinearGate
    components: tuple[ComponentExperts, ...]
    constants: NDArray[np.float64]
    penalty: float
    n_jobs: int | None

    @property
    def experts(self) -> SeparateExperts:
        """The joined experts."""
        return join_components(self.components, self.constants, self.gate.coef.shape[1])

    @property
    def mixture(self) -> LinearMixture:
        """The mixture with these parameters."""
        return LinearMixture(self.gate, self.experts, self.n_jobs)

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        return replace(
            self,
            gate=LinearGate(self.gate.coef[components], self.gate.intercept[components]),
            components=tuple(self.components[k] for k in components),
            constants=self.constants[components],
        )


@dataclass(frozen=True, eq=False)
class SharedState:
    """Gate and shared experts between two EM steps."""

    gate: LinearGate
    experts: SharedExperts
    penalty: float
    n_jobs: int | None

    @property
    def mixture(self) -> LinearMixture:
        """The mixture with these parameters."""
        return LinearMixture(self.gate, self.experts, self.n_jobs)

    def keep(self, components: NDArray[np.int64]) -> Self:
        """Return the state with only these components."""
        return replace(
            self,
            gate=LinearGate(self.gate.coef[components], self.gate.intercept[components]),
            experts=replace(self.experts, bias=self.experts.bias[components]),
        )


class _LinearLearner:
    """Base of both learners: the data and the gate's M step."""

    def __init__(
        self,
        documents: WeightedDocuments,
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

    def fit_gate(self, memberships: NDArray[np.float64], start: LinearGate | None) -> LinearGate:
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


class SeparateLearner(_LinearLearner):
    """M steps of a mixture with separate experts."""

    def __init__(
        self,
        documents: WeightedDocuments,
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

        # Large components first, to balance the threads.
        order = np.argsort(-(owned.sum(axis=0) * active.sum(axis=1)), kind="stable")
        with ThreadPoolExecutor(thread_count(self.n_jobs)) as pool:
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
        documents: WeightedDocuments,
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
                n_jobs=self.n_jobs,
            )
            gate = gate_task.result()
        penalty = (
            gate.penalty(self.gate.alpha, self.gate.l1_ratio)
            + _elastic_net(experts.coef, self.alpha, self.settings.l1_ratio)
            + 0.5 * self.settings.bias_penalty * float((experts.bias**2).sum())
        )
        return SharedState(gate, experts, penalty, self.n_jobs)
