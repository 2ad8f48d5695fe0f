"""What all estimators, calibrators, mixtures and voters share, proved for each by one table.

A row says how a part is fitted and what it shows; the tests below it say what must hold: equal fits
from equal seeds on any number of threads, weights that count as repeated rows, a state that comes
back from arrays and JSON, and refusals. `setwise.models.storage.state` proves what a declared state
checks; here each declaration is proved to be complete.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from setwise.models.calibration.calibrators import (
    BoostedSets,
    CardinalityIsotonicSets,
    IsotonicSets,
    TreeSets,
    UncalibratedSets,
)
from setwise.models.calibration.conditional_logit import ConditionalLogitSets
from setwise.models.calibration.group_softmax import SoftmaxSets
from setwise.models.calibration.robust_calibrators import RobustBoostedSets, RobustLogisticSets
from setwise.models.data.rows import SparseRows
from setwise.models.data.text import TextVectorizer
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.labels.scaling import FeatureWeighting
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.kernel_map import KernelMap
from setwise.models.options import TrainingOptions
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.search import k_best_sets
from setwise.models.sets.sources import MarginalCandidates
from setwise.models.voters.forest_votes import ForestVotes
from setwise.models.voters.neighbours import NearestVotes, NeighbourVotes
from setwise.models.voters.regression_votes import SmoothVotes
from setwise.models.voters.similarity import UnitRows
from tests.models.calibration.tables import make_table

N, RNG = 80, np.random.default_rng(0)
X = sp.csr_array((RNG.random((N, 8)) * (RNG.random((N, 8)) < 0.6)).astype(np.float32))
Y = sp.csr_array((X.toarray()[:, :4] + 0.3 * RNG.random((N, 4)) > 0.5).astype(np.uint8))
LOGITS = 4.0 * X.toarray()[:, :4].astype(float) - 2.0
SET_OF, FOLDS = (np.arange(N, dtype=np.int32) % 7) - 1, np.arange(N) % 4
TEXTS = [f"fever {'cough' * (i % 2)} {'rash' * (i % 3 > 0)} word{i % 5}" for i in range(N)]
P = RNG.uniform(0.01, 0.99, (N, 4))
EVIDENCE = DocumentEvidence(SparseRows.of(X), np.log(P / (1 - P)), P)
CANDIDATES = k_best_sets(P, 4, allow_empty=True)
TABLE, RIGHT, _ = make_table(0, n=400)
# Sketches of weighted and of repeated rows cut columns elsewhere, unless they hold few values.
TABLE = dataclasses.replace(TABLE, dense=np.round(TABLE.dense * 4) / 4)


class Family(NamedTuple):
    """How parts of one kind are fitted, and what they show afterwards."""

    n: int
    fit: Callable[..., Any]  # of a part and rows, and weights where the family takes them
    shown: Callable[[Any], Any]
    weighted: bool = False


def _fit_table(part, rows, sample_weight=None):
    table = dataclasses.replace(TABLE.take(rows), doc_indptr=np.arange(len(rows) + 1))
    return part.fit(table, RIGHT[rows], sample_weight=sample_weight)


def _fit_votes(part, rows, *more):
    part.fit_folds(X[rows], *more, SET_OF[rows], 6, FOLDS[rows])
    return part


LABELS = Family(
    N,
    lambda part, rows, w=None: part.fit(X[rows], Y[rows], w),
    lambda p: p.predict_proba(X),
    weighted=True,
)
UNWEIGHTED = LABELS._replace(fit=lambda part, rows: part.fit(X[rows], Y[rows]), weighted=False)
SETS = Family(
    N,
    lambda part, rows, w=None: part.fit(Y[rows], sample_weight=w),
    lambda p: p.predict_proba(Y),
    weighted=True,
)
FEATURES = Family(
    N,
    lambda part, rows, w=None: part.fit(X[rows], sample_weight=w),
    lambda p: p.transform(X).toarray(),
    weighted=True,
)
ROWS = Family(N, lambda part, rows: part.fit(X[rows]), lambda p: p.transform(X).toarray())
TABLES = Family(400, _fit_table, lambda p: p.predict(TABLE), weighted=True)
CURVES = Family(
    N, lambda part, rows: part.fit(LOGITS[rows], Y[rows]), lambda p: p.transform(LOGITS)
)
VOTES = Family(N, _fit_votes, lambda p: p.vote(SparseRows.of(X)))
BOTH = Family(
    N,
    lambda part, rows: _fit_votes(part, rows, P[rows]),
    lambda p: p.vote(SparseRows.of(X), P),
)
WORDS = Family(
    N,
    lambda part, rows: part.fit([TEXTS[row] for row in rows]),
    lambda p: p.transform(TEXTS).toarray(),
)
COLUMNS = Family(
    N,
    lambda part, rows: part.fit(X[rows], Y[rows]),
    lambda p: p.transform(EVIDENCE, CANDIDATES).dense,
)
SOURCES = Family(
    N, lambda part, rows: part.fit(X[rows], Y[rows]), lambda p: p.propose(EVIDENCE).log_score
)

EM = {
    "alpha": 1e-2,
    "gate_alpha": 1e-2,
    "early_stopping": False,
    "weighting": "none",
    "features": "linear",
    "max_iter": 2,
    "tol": 0.0,
    "random_state": 0,
}
SHARED = ConditionalBernoulliMixture(3, **EM)
SEPARATE = ConditionalBernoulliMixture(3, experts="separate", **EM)
KERNEL = ConditionalBernoulliMixture(3, **{**EM, "features": "kernel"})

PARTS: list[tuple[BaseEstimator, Family]] = [
    (BinaryRelevance(alpha=1e-2, tol=1e-12), LABELS),
    (ClusteredRelevance(alpha=1e-2, tol=1e-12, clusters=2), LABELS),
    (SHARED, LABELS),
    (SEPARATE, LABELS),
    (KERNEL, UNWEIGHTED),  # landmarks are drawn from rows
    (AveragedMixture(SHARED, 2), LABELS),
    (BoostedBernoulliMixture(2, max_iter=2, validation_fraction=0.0), UNWEIGHTED),
    (BernoulliMixture(3, random_state=5), SETS),
    (FeatureWeighting("idf"), FEATURES),
    (FeatureWeighting("deviation"), FEATURES),
    (UnitRows(), ROWS),
    (KernelMap(0.5, 20), ROWS),
    (LabelCalibrator(), CURVES),
    (UncalibratedSets(), TABLES),
    (IsotonicSets(), TABLES),
    (CardinalityIsotonicSets(min_rows=1), TABLES),
    (TreeSets(), TABLES),
    (BoostedSets("squared", n_trees=20), TABLES),
    (BoostedSets("logistic", n_trees=20), TABLES),
    (SoftmaxSets(), TABLES),
    (ConditionalLogitSets(), TABLES),
    (RobustLogisticSets(), TABLES._replace(weighted=False)),  # its scale is that of all rows
    (RobustBoostedSets(n_trees=10), TABLES._replace(weighted=False)),  # stops by folds of rows
    (NeighbourVotes(5), VOTES),
    (NearestVotes(), VOTES),
    (SmoothVotes(), BOTH),
    (ForestVotes(10), VOTES),
    (TextVectorizer(bigrams=True, beginnings=3), WORDS),
    (SetFeatures(), COLUMNS),
    (MarginalCandidates(4), SOURCES),
]


def cases(chosen: Callable[[BaseEstimator, Family], bool]) -> pytest.MarkDecorator:
    rows = [(part, family) for part, family in PARTS if chosen(part, family)]
    return pytest.mark.parametrize(("part", "family"), rows, ids=lambda one: type(one).__name__)


def fitted(part: BaseEstimator, family: Family, **parameters: object) -> Any:
    return family.fit(clone(part).set_params(**parameters), np.arange(family.n))


pytestmark = pytest.mark.filterwarnings("ignore")  # few rows, few steps


@cases(lambda *_: True)
def test_equal_seeds_give_equal_fits_on_any_number_of_threads(part, family) -> None:
    threads = [{"n_jobs": n} for n in (1, 3)] if "n_jobs" in part.get_params() else [{}, {}]
    first, second = (family.shown(fitted(part, family, **one)) for one in threads)
    np.testing.assert_array_equal(first, second)


@cases(lambda _, family: family.weighted)
def test_whole_weights_count_as_repeated_rows_and_zero_as_absence(part, family) -> None:
    weight = np.random.default_rng(1).integers(0, 3, family.n)
    weighted = family.fit(clone(part), np.arange(family.n), weight.astype(float))
    repeated = family.fit(clone(part), np.repeat(np.arange(family.n), weight))
    np.testing.assert_allclose(family.shown(weighted), family.shown(repeated), atol=1e-5)


@cases(lambda _, family: family.weighted)
def test_weights_that_are_none_are_refused(part, family) -> None:
    rows = np.arange(family.n)
    for weight in (-np.ones(family.n), np.zeros(family.n), np.ones(family.n - 1)):
        with pytest.raises(ValueError, match="weight"):
            family.fit(clone(part), rows, weight)


@cases(lambda part, _: not isinstance(part, UncalibratedSets | KernelMap))
def test_nothing_is_shown_before_fitting(part, family) -> None:
    with pytest.raises(NotFittedError):
        family.shown(clone(part))


@cases(lambda part, _: hasattr(part, "get_state"))
def test_a_state_of_arrays_and_json_comes_back(part, family) -> None:
    known = fitted(part, family)
    arrays, settings = known.get_state()
    for array in arrays.values():
        array.flags.writeable = False  # as memory-mapped
    again = type(part).from_state(arrays, json.loads(json.dumps(settings)))
    np.testing.assert_array_equal(family.shown(again), family.shown(known))
    stored = again.get_state()
    assert stored[1] == settings
    assert stored[0].keys() == arrays.keys()
    assert all(np.array_equal(array, arrays[name]) for name, array in stored[0].items())


FREE_LENGTHS = (
    "support_indptr", "set_indptr", "set_of", "coefficients", "weights", "probability_indptr",
)  # fmt: skip
"""Arrays that nothing else in the part is as long as; the whole model prescribes their lengths."""

FREE_VALUES = ("alpha", "n_iter", "typical", "cardinalities")
"""Arrays that are shown, or looked up by value, but never followed."""


def damaged(name: str, array: np.ndarray) -> list[np.ndarray]:
    """Return what no fit leaves in place of an array."""
    changed = [array.astype(np.float16), array[None]]
    if not name.endswith(FREE_LENGTHS):
        changed.append(np.append(array, array[-1:], axis=0))
    if not name.endswith(FREE_VALUES) and array.dtype != np.int16:  # rounded weights
        whole = np.issubdtype(array.dtype, np.integer)
        changed.append(np.full_like(array, np.iinfo(array.dtype).max if whole else np.nan))
    return changed


@cases(lambda part, _: hasattr(part, "get_state"))
def test_a_damaged_state_is_refused(part, family) -> None:
    arrays, settings = fitted(part, family).get_state()
    for name, array in arrays.items():
        with pytest.raises(ValueError, match=r"array '.*' is missing"):
            type(part).from_state({n: a for n, a in arrays.items() if n != name}, settings)
        for other in damaged(name, array):
            with pytest.raises(ValueError, match=r"array|it counts|there are"):
                type(part).from_state({**arrays, name: other}, settings)
    for name in settings:
        with pytest.raises(ValueError, match=r"setting|parameter"):
            type(part).from_state(arrays, {**settings, name: object()})


# Parameters

MAY_BE_0 = {
    "alpha", "gate_alpha", "l1_ratio", "tol", "validation_fraction", "membership_floor",
    "rate_floor",
    "min_child_weight", "reg_lambda", "beginnings", "isotonic_share", "min_rows",
}  # fmt: skip
ALSO_NUMBERS = {"alpha", "gate_alpha", "l1_ratio"}  # by default "auto"
NO_NUMBERS = (FeatureWeighting, UnitRows, UncalibratedSets, IsotonicSets)
KINDS = {
    type(part): family
    for part, family in PARTS
    if not isinstance(part, (*NO_NUMBERS, SetFeatures, MarginalCandidates))
}


def wrong_numbers(kind: type[BaseEstimator]) -> list[tuple[str, float]]:
    """Return each numeric parameter with values that it cannot be."""
    return [
        (name, value)
        for name, default in kind().get_params(deep=False).items()
        if name in ALSO_NUMBERS or type(default) in {int, float}
        if name != "random_state"
        for value in (-1, np.nan, np.inf, *(() if name in MAY_BE_0 else (0,)))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_out_of_range_is_refused_by_name(kind: Any) -> None:
    family = KINDS[kind]
    for name, value in wrong_numbers(kind):
        with pytest.raises(ValueError, match=rf"^{name} must be .*; it is {value}"):
            family.fit(kind(**{name: value}), np.arange(family.n))


@pytest.mark.parametrize("name", ["n_candidates", "n_folds", "n_components", "alpha", "l1_ratio"])
@pytest.mark.parametrize("value", [-1, np.nan])
def test_options_are_refused_before_training(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        TrainingOptions(**{name: value})
