"""No estimator takes a number that its parameter cannot be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from setwise.models.calibration.calibrators import BoostedSets, CardinalityIsotonicSets, TreeSets
from setwise.models.calibration.group_softmax import SoftmaxSets
from setwise.models.calibration.robust_calibrators import RobustBoostedSets, RobustLogisticSets
from setwise.models.data.text import TextVectorizer
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.kernel_map import KernelMap
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.options import TrainingOptions
from setwise.models.voters.neighbours import NearestVotes, NeighbourVotes
from setwise.models.voters.regression_votes import LinearVotes, SmoothVotes
from tests.models.calibration.tables import make_table

X = sp.csr_array(np.eye(4, dtype=np.float32))
Y = sp.csr_array(np.eye(4, dtype=np.uint8))
TABLE, CORRECT, _ = make_table(0, n=20)
VOTED = (np.arange(4, dtype=np.int32), 4, np.arange(4) % 2)

MAY_BE_0 = {
    "alpha", "gate_alpha", "l1_ratio", "tol", "validation_fraction", "membership_floor",
    "rate_floor",
    "min_child_weight", "reg_lambda", "beginnings", "isotonic_share", "min_rows",
}  # fmt: skip
ALSO_NUMBERS = {"alpha", "gate_alpha", "l1_ratio"}  # by default "auto"


def numbers(kind: type[BaseEstimator]) -> list[tuple[str, float]]:
    """Return each numeric parameter with values that it cannot be."""
    return [
        (name, value)
        for name, default in kind().get_params(deep=False).items()
        if name in ALSO_NUMBERS or type(default) in {int, float}
        if name != "random_state"
        for value in (-1, np.nan, np.inf, *(() if name in MAY_BE_0 else (0,)))
    ]


FITS: dict[type[BaseEstimator], Callable[[Any], object]] = {
    **dict.fromkeys(
        (
            BinaryRelevance,
            ClusteredRelevance,
            ConditionalBernoulliMixture,
            AveragedMixture,
            BoostedBernoulliMixture,
        ),
        lambda one: one.fit(X, Y),
    ),
    **dict.fromkeys(
        (
            BoostedSets,
            TreeSets,
            CardinalityIsotonicSets,
            SoftmaxSets,
            RobustBoostedSets,
            RobustLogisticSets,
        ),
        lambda one: one.fit(TABLE, CORRECT),
    ),
    **dict.fromkeys(
        (NeighbourVotes, NearestVotes, LinearVotes), lambda one: one.fit_folds(X, *VOTED)
    ),
    SmoothVotes: lambda one: one.fit_folds(X, np.full((4, 4), 0.5), *VOTED),
    LabelScores: lambda one: one.fit_transform(X, Y),
    LabelCalibrator: lambda one: one.fit(np.zeros((4, 4)), Y),
    BernoulliMixture: lambda one: one.fit(Y),
    KernelMap: lambda one: one.fit(X),
    TextVectorizer: lambda one: one.fit(["fever", "cough"]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind in FITS for name, value in numbers(kind)],
)
def test_a_number_out_of_range_is_refused_by_name(kind: Any, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .*; it is {value}"):
        FITS[kind](kind(**{name: value}))


@pytest.mark.parametrize("name", ["n_candidates", "n_folds", "n_components", "alpha", "l1_ratio"])
@pytest.mark.parametrize("value", [-1, np.nan])
def test_options_are_refused_before_training(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        TrainingOptions(**{name: value})
