"""The papers' methods by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from benchmarks.papers.baselines.chains import (
    BeamChain,
    ChainEnsemble,
    GreedyChain,
    SetVotingChains,
)
from benchmarks.papers.baselines.constrained_networks import PredictAndConstrain
from benchmarks.papers.baselines.energy_networks import EnergyNetwork
from benchmarks.papers.baselines.forests import FeatureTrees
from benchmarks.papers.baselines.label_subsets import LabelSubsets
from benchmarks.papers.baselines.method import Method
from benchmarks.papers.baselines.neighbours import NeighbourCounts
from benchmarks.papers.baselines.pairwise_crf import PairwiseCRF
from benchmarks.papers.baselines.sized_labels import SizedLabels
from benchmarks.papers.baselines.smooth_link import SmoothLink
from benchmarks.papers.baselines.sparse_margins import SparseMargins
from benchmarks.papers.baselines.stacking import (
    DependencyNetwork,
    DependentRelevance,
    TwoStageRelevance,
)
from benchmarks.papers.baselines.support import PowerSet, SupportedBinaryRelevance
from benchmarks.papers.baselines.value_networks import ValueNetwork

_ALPHAS = (1e-4, 1e-2, 1e-1)


@dataclass(frozen=True)
class PaperMethod:
    """A method that a paper compares.

    Attributes
    ----------
    make : callable
        Returns it unfitted.
    yields : {"set", "scores", "joint"}
        A set of its own besides label scores; label scores; or probabilities of whole sets.
    grid : mapping
        Values of parameters, chosen on a fifth of the training documents set aside. Those without a
        grid choose the penalty of each label by rows set aside.
    """

    make: Callable[..., Method]
    yields: Literal["set", "scores", "joint"]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


PAPER_METHODS: Mapping[str, PaperMethod] = {
    "power-set": PaperMethod(PowerSet, "joint", {"C": (0.1, 1.0, 10.0)}),
    "cc": PaperMethod(GreedyChain, "scores"),
    "pcc": PaperMethod(BeamChain, "joint"),
    "ecc-label": PaperMethod(ChainEnsemble, "scores"),
    "ecc-subset": PaperMethod(SetVotingChains, "joint"),
    "cdn": PaperMethod(DependencyNetwork, "joint"),
    "crf": PaperMethod(PairwiseCRF, "joint", {"alpha": _ALPHAS}),
    "crf-unary": PaperMethod(partial(PairwiseCRF, pairs=False), "joint", {"alpha": _ALPHAS}),
    "br-support": PaperMethod(SupportedBinaryRelevance, "joint"),
    "lsf": PaperMethod(SizedLabels, "set"),
    "2br": PaperMethod(TwoStageRelevance, "scores"),
    "dbr": PaperMethod(DependentRelevance, "scores"),
    "rakel": PaperMethod(LabelSubsets, "scores"),
    "ml-knn": PaperMethod(NeighbourCounts, "scores", {"k": (5, 9, 15, 21)}),
    "forest": PaperMethod(FeatureTrees, "scores", {"max_features": ("sqrt", 0.3)}),
    "smooth-link": PaperMethod(
        SmoothLink, "scores", {"bandwidth": (1.0, 2.0), "ridge": (1.0, 10.0, 1000.0)}
    ),
    "smooth-link-br": PaperMethod(
        partial(SmoothLink, embedded=False), "scores", {"bandwidth": (1.0, 2.0)}
    ),
    "pd-sparse": PaperMethod(SparseMargins, "set", {"l1": (0.1, 0.01, 0.001), "C": (1.0, 10.0)}),
    "spen": PaperMethod(EnergyNetwork, "set", {"rate": (1e-4, 1e-3)}),
    "dvn": PaperMethod(ValueNetwork, "set", {"decay": (1e-5, 1e-4)}),
    "pc": PaperMethod(PredictAndConstrain, "set", {"rate": (1e-4, 1e-3)}),
    "low-rank": PaperMethod(
        partial(SmoothLink, n_cosines=0), "scores", {"ridge": (1.0, 10.0, 1000.0)}
    ),
}

RERANKED = "-rerank"
"""Ends the name of a method that has the set calibrator on top."""


def names() -> tuple[str, ...]:
    """Return the name of each method, by itself and with the set calibrator on top."""
    return tuple(name + end for name in PAPER_METHODS for end in ("", RERANKED))
