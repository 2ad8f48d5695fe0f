"""Set calibrators: estimate the probability that a predicted set is right.

All share one protocol, so that they are interchangeable.
"""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from setwise.models.calibration.sampling import least_doubt
from setwise.models.calibration.trees import CompiledTrees
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.parameters import check_parameters
from setwise.models.sets.answer_features import N_ANSWERS, SCORE, SCORED, SHARE
from setwise.models.sets.features import SetFeatureTable
from setwise.models.storage.checks import checked_value
from setwise.models.storage.fields import StoredArray, StoredParameters, StoredSetting
from setwise.models.storage.state import Lengths, Storable, StoredPart

Objective = Literal["squared", "logistic", "softmax"]

MOST_UNPROVEN = 0.5
"""Largest confidence of a predictor without checked answers."""

# What XGBoost calls them; the softmax is computed here.
_OBJECTIVES = {
    "squared": "reg:squarederror",
    "logistic": "binary:logistic",
    "softmax": "reg:squarederror",
}

# Gradient and curvature of a loss at given margins; XGBoost passes the second argument.
_Gradient = Callable[[NDArray[np.float32], object], tuple[NDArray[Any], NDArray[Any]]]


class SetCalibrator(Storable, Protocol):
    """Maps candidate sets to confidences in [0, 1].

    Fitted on rows that the base model was not fitted on.
    """

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to sets and their outcomes (n_sets,): 0/1 or a share."""

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return the confidence of each set, shape (n_sets,), in [0, 1]."""


def check_outcomes(
    table: SetFeatureTable, correct: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return checked outcomes and weights, one per row.

    Raises
    ------
    ValueError
        If they do not match the table, are not finite, or no weight is positive.
    """
    outcome = np.asarray(correct, dtype=np.float64)
    weight = np.ones(len(table)) if sample_weight is None else np.asarray(sample_weight, float)
    if outcome.shape != (len(table),) or weight.shape != (len(table),):
        raise ValueError(
            f"a table of {len(table)} sets needs as many outcomes and weights, "
            f"not {outcome.shape} and {weight.shape}"
        )
    if not (np.isfinite(outcome).all() and np.isfinite(weight).all()):
        raise ValueError("outcomes and weights must be finite")
    if (weight < 0).any() or not weight.sum() > 0:
        raise ValueError("weights must not be negative, and one must be positive")
    return outcome, weight


class UncalibratedSets(StoredPart, Estimator):
    """Uses the set's probability under independent labels as confidence."""

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Check the rows and learn nothing."""
        check_outcomes(table, correct, sample_weight)
        return self

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return the column ``score``."""
        return table.column("score")


class AgreementSets(StoredPart, Estimator):
    """Half the agreement of another model's answers, or of the score.

    For predictors without any history: no confidence is above `MOST_UNPROVEN`, and confidences
    rank as another model would. The share of answers that gave a set is multiplied by the sigmoid
    of the score that came with it, if any, which rises with scores on any scale. Reviews teach the
    rest (`setwise.models.calibration.recalibration`).
    """

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Check the rows and learn nothing."""
        check_outcomes(table, correct, sample_weight)
        return self

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return half the share of answers, or half the score."""
        answered = table.column(N_ANSWERS) > 0.0
        sure = np.where(table.column(SCORED) > 0.0, expit(table.column(SCORE)), 1.0)
        return MOST_UNPROVEN * np.where(answered, table.column(SHARE) * sure, table.column("score"))


class IsotonicSets(StoredPart, Estimator):
    """One isotonic curve from score to confidence (thesis, section 4.4)."""

    curve_: IsotonicCurve
    stored = (
        StoredArray("x", "curve_.x", np.float64, ("knots",)),
        StoredArray("y", "curve_.y", np.float64, ("knots",), low=0.0, high=1.0),
    )

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the curve on the sets' scores."""
        outcome, weight = check_outcomes(table, correct, sample_weight)
        self.curve_ = _doubtful_curve(table.column("score"), outcome, weight)
        return self

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return the curve's value at each score."""
        check_fitted(self, "curve_")
        return self.curve_(table.column("score"))

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # nothing of lengths
        """Rebuild the fitted calibrator."""
        calibrator = cls()
        calibrator.curve_ = IsotonicCurve.from_knots(fields["x"], fields["y"])
        return calibrator


def _doubtful_curve(
    score: NDArray[np.float64], outcome: NDArray[np.float64], weight: NDArray[np.float64]
) -> IsotonicCurve:
    """Return a curve that is never sure, strictly inside (0, 1)."""
    curve = IsotonicCurve.fit(score, outcome, weight, doubt=1.0)
    # Targets of noisy outcomes may lie outside [0, 1].
    edge = least_doubt(weight.sum())
    return IsotonicCurve(curve.x, np.clip(curve.y, edge, 1.0 - edge))


class RaggedKnots(NamedTuple):
    """The knots of several curves: curve ``c`` holds ``indptr[c]:indptr[c + 1]``."""

    indptr: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]


class CardinalityIsotonicSets(StoredPart, Estimator):
    """One isotonic curve for each cardinality (thesis, section 4.4).

    Parameters
    ----------
    min_rows : int, default 20
        Cardinalities with fewer rows share one curve, or use the curve of all rows if these
        are too few as well.
    """

    stored = (
        StoredSetting("min_rows", "min_rows", int, low=0),
        StoredArray("cardinalities", "cardinalities_", np.int64, ("curves",), low=-1),
        StoredArray("indptr", "knots_.indptr", np.int64, ("curves+1",), cuts="knots", least=1),
        StoredArray("x", "knots_.x", np.float64, ("knots",)),
        StoredArray("y", "knots_.y", np.float64, ("knots",), low=0.0, high=1.0),
    )

    def __init__(self, min_rows: int = 20) -> None:
        self.min_rows = min_rows

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the curves on the sets' scores."""
        check_parameters(self)
        outcome, weight = check_outcomes(table, correct, sample_weight)
        score, sizes = table.column("score"), table.sizes
        used = weight > 0
        cardinalities, counts = np.unique(sizes[used], return_counts=True)
        frequent = cardinalities[counts >= self.min_rows]
        rest = ~np.isin(sizes, frequent)
        if np.count_nonzero(rest & used) < self.min_rows:
            rest = np.ones(len(table), dtype=bool)
        self.cardinalities_ = np.concatenate([[-1], frequent]).astype(np.int64)
        self.curves_ = [
            _doubtful_curve(score[rows], outcome[rows], weight[rows])
            for rows in [rest, *(sizes == size for size in frequent)]
        ]
        return self

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return the value of each set's curve at its score."""
        check_fitted(self, "curves_")
        score, sizes = table.column("score"), table.sizes
        out = self.curves_[0](score)
        for size, curve in zip(self.cardinalities_[1:], self.curves_[1:], strict=True):
            rows = sizes == size
            out[rows] = curve(score[rows])
        return out

    @property
    def knots_(self) -> RaggedKnots:
        """The knots of all curves; the first is that of rare cardinalities."""
        return RaggedKnots(
            np.cumsum([0, *(len(curve.x) for curve in self.curves_)], dtype=np.int64),
            np.concatenate([curve.x for curve in self.curves_]),
            np.concatenate([curve.y for curve in self.curves_]),
        )

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted calibrator."""
        if lengths["curves"] == 0:
            raise ValueError("there is no curve")
        calibrator = cls(fields["min_rows"])
        calibrator.cardinalities_ = fields["cardinalities"]
        x, y = fields["x"], fields["y"]
        calibrator.curves_ = [
            IsotonicCurve.from_knots(x[start:end], y[start:end])
            for start, end in pairwise(fields["indptr"])
        ]
        return calibrator


class BoostedSets(StoredPart, Estimator):
    """Gradient-boosted trees on all set features and label indicators (thesis, section 4.5).

    Parameters
    ----------
    objective : {"squared", "logistic"}, default "squared"
        ``"squared"`` minimises the Brier score and clips the sum of trees (GB-MSE);
        ``"logistic"`` minimises the cross-entropy of its sigmoid (GB-KL). ``"softmax"`` belongs to
        `setwise.models.calibration.group_softmax.SoftmaxSets`.
    n_trees, max_leaves, learning_rate : int, int, float
        Size and shrinkage of the ensemble.
    monotone : bool, default True
        Whether confidence may not fall as a column that the table marks monotone rises.
    min_child_weight : float, default 5
        Least sum of curvatures in a leaf.
    reg_lambda : float, default 1
        L2 penalty of leaf values.
    max_rows : int, default 300,000
        Maximum number of rows to learn from; more are sampled at random, because a few hundred
        leaves gain nothing from them.
    random_state : int, default 0

    Notes
    -----
    The fit uses one thread, because sums would depend on the number of threads.
    """

    trees_: CompiledTrees
    model_: dict[str, Any]  # XGBoost's JSON document of the same trees
    least_: float  # smallest confidence that the wrong sets of the fit support
    most_: float  # largest confidence that the right ones support
    stored = (
        StoredParameters("parameters"),
        StoredSetting("shape", "shape_", list),
        StoredSetting("least", "least_", float, low=0.0, high=0.5),
        StoredSetting("most", "most_", float, low=0.5, high=1.0),
        StoredSetting("xgboost", "model_", dict),
    )

    def __init__(
        self,
        objective: Objective = "squared",
        n_trees: int = 100,
        max_leaves: int = 10,
        learning_rate: float = 0.1,
        *,
        monotone: bool = True,
        min_child_weight: float = 5.0,
        reg_lambda: float = 1.0,
        max_rows: int = 300_000,
        random_state: int = 0,
    ) -> None:
        self.objective = objective
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.learning_rate = learning_rate
        self.monotone = monotone
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Boost ``n_trees`` trees.

        Raises
        ------
        ValueError
            If the objective is unknown, or outcomes or weights do not match the table.
        """
        check_parameters(self)
        outcome, weight = check_outcomes(table, correct, sample_weight)
        if len(table) > self.max_rows:
            used = np.flatnonzero(weight)
            draw = np.random.default_rng(self.random_state)
            drawn = np.sort(draw.choice(used, min(self.max_rows, len(used)), replace=False))
            table, outcome, weight = table.take(drawn), outcome[drawn], weight[drawn]
        mean = float(np.average(outcome, weights=weight))
        if self.objective == "squared":
            start = {"objective": "reg:squarederror", "base_score": mean}
        elif self.objective == "logistic":
            edge = 0.5 / (weight.sum() + 1.0)
            start = {"objective": "binary:logistic", "base_score": np.clip(mean, edge, 1 - edge)}
        else:
            raise ValueError(f"objective must be 'squared' or 'logistic', not {self.objective!r}")
        self._boost(start, table, outcome, weight)
        return self

    def _boost(
        self,
        objective: Mapping[str, Any],
        table: SetFeatureTable,
        outcome: NDArray[np.float64],
        weight: NDArray[np.float64],
        gradient: _Gradient | None = None,
        *,
        n_trees: int | None = None,
    ) -> None:
        import xgboost  # noqa: PLC0415  # slow import, not needed for loading and predicting

        signs = table.monotone if self.monotone else (0,) * len(table.names)
        parameters = {
            **objective,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": self.max_leaves,
            "learning_rate": self.learning_rate,
            "min_child_weight": self.min_child_weight,
            "reg_lambda": self.reg_lambda,
            "monotone_constraints": str((*signs, *(0,) * table.n_labels)),
            "seed": self.random_state,
            "nthread": 1,
            "verbosity": 0,
        }
        rows = xgboost.DMatrix(table.to_csr(), label=outcome, weight=weight, nthread=1)
        share = np.clip(outcome, 0.0, 1.0)  # targets of noisy outcomes may lie outside
        self.least_ = least_doubt(float(weight @ (1.0 - share)))
        self.most_ = 1.0 - least_doubt(float(weight @ share))
        rounds = self.n_trees if n_trees is None else n_trees
        booster = xgboost.train(parameters, rows, num_boost_round=rounds, obj=gradient)
        self._adopt(json.loads(booster.save_raw("json")), len(table.names), table.n_labels)

    def _adopt(self, model: dict[str, Any], n_dense: int, n_labels: int) -> None:
        self.model_ = model
        self.shape_ = (n_dense, n_labels)
        self.trees_ = CompiledTrees.from_xgboost(model, n_dense, n_labels)

    def predict(self, table: SetFeatureTable) -> NDArray[np.float64]:
        """Return the confidence of each set."""
        return self._confidence(table, None)

    def _confidence(self, table: SetFeatureTable, n_trees: int | None) -> NDArray[np.float64]:
        confidence = self._margin(table, n_trees)
        # The limits keep exp finite. These two functions are faster than np.clip.
        if self.objective != "squared":
            confidence = 1.0 / (1.0 + np.exp(-np.minimum(np.maximum(confidence, -30.0), 30.0)))
        return np.minimum(np.maximum(confidence, self.least_), self.most_)

    def _margin(self, table: SetFeatureTable, n_trees: int | None) -> NDArray[np.float64]:
        check_fitted(self, "trees_")
        if (table.dense.shape[1], table.n_labels) != self.shape_:
            raise ValueError(
                f"a table of {table.dense.shape[1]} columns and {table.n_labels} labels does not "
                f"suit a calibrator fitted on {self.shape_[0]} and {self.shape_[1]}"
            )
        return self.trees_.margin(table, n_trees)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted calibrator, without importing XGBoost."""
        calibrator = cls(**fields["parameters"])
        n_dense, n_labels = (checked_value("shape", side, int, low=0) for side in fields["shape"])
        if lengths.get("labels", n_labels) != n_labels:
            raise ValueError(f"its trees count {n_labels} labels")
        calibrator.least_, calibrator.most_ = fields["least"], fields["most"]
        calibrator._adopt(fields["xgboost"], n_dense, n_labels)  # own class
        if calibrator.trees_.objective != _OBJECTIVES[calibrator.objective]:
            raise ValueError(f"its trees have the objective {calibrator.trees_.objective!r}")
        return calibrator


class TreeSets(BoostedSets):
    """A single regression tree on all set features (thesis, Table 4.1).

    Parameters
    ----------
    max_leaves : int, default 50
    min_child_weight : float, default 20
        Least weight in a leaf.
    random_state : int, default 0
    """

    def __init__(
        self, max_leaves: int = 50, *, min_child_weight: float = 20.0, random_state: int = 0
    ) -> None:
        # One boosting step without shrinkage: each leaf holds the mean of its rows and, by the
        # penalty, of one more with the mean of all.
        super().__init__(
            "squared",
            n_trees=1,
            max_leaves=max_leaves,
            learning_rate=1.0,
            monotone=False,
            min_child_weight=min_child_weight,
            reg_lambda=1.0,
            random_state=random_state,
        )
