"""Set calibrators that learn from noisy answers (thesis, Algorithms 4.3 and 4.4)."""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from setwise.models.calibration.calibrators import BoostedSets, check_outcomes
from setwise.models.calibration.losses import ForwardLoss, checked_rates, shifted_target
from setwise.models.calibration.surrogate_losses import (
    AnnotatorTreeSurrogate,
    LogisticSurrogate,
    NoisyLoss,
    UniformTreeSurrogate,
)
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.parameters import check_parameters
from setwise.models.sets.features import SetFeatureTable
from setwise.models.storage.fields import StoredArray, StoredParameters
from setwise.models.storage.state import Lengths, StoredPart

Floats = NDArray[np.float64]

LossName = Literal["forward", "backward", "uniform", "annotator"]
_LOSSES: dict[str, type[ForwardLoss | LogisticSurrogate]] = {
    "forward": ForwardLoss,
    "backward": LogisticSurrogate,
    "uniform": UniformTreeSurrogate,  # Algorithm 4.3
    "annotator": AnnotatorTreeSurrogate,  # Algorithm 4.4
}

_STEPS = 500  # of L-BFGS; some fifty are usual
_STAGE = 15  # trees between two looks at the rows set aside
_FIRST_TREES = 200
_LARGEST_STEP = 1.0  # of a leaf, before shrinkage: information may be tiny where gradients are not
_LEAST_CURVATURE = 1e-6
_LARGEST_MARGIN = 30.0  # exp stays finite
_LEAST_SCORE = 1e-6  # bounds the logit of a score


def _start(agreed: Floats, weight: Floats, alpha: Floats, beta: Floats) -> float:
    """Return the best constant confidence, strictly inside (0, 1)."""
    edge = 0.5 / (weight.sum() + 1.0)
    share = np.average(shifted_target(agreed, alpha, beta), weights=weight)
    return float(np.clip(share, edge, 1.0 - edge))


# Columns of less spread are not divided by it.
_LEAST_SCALE = np.finfo(np.float64).tiny


class RobustLogisticSets(StoredPart, Estimator):
    """Linear margin over set features and labels, fitted on noisy answers.

    Columns are standardised; the score enters also as its logit. Label indicators are shrunk more,
    because most labels are rare.

    Parameters
    ----------
    loss : {"forward", "backward"}, default "forward"
        See `setwise.models.calibration.losses`.
    penalty : float, default 1
        L2 penalty of dense coefficients, in units of rows.
    label_penalty : float, default 30
        L2 penalty of the labels' coefficients.

    Attributes
    ----------
    intercept_ : float
    """

    # (n_dense + 1 + n_labels,) of the standardised columns, the logit of the score, and the labels.
    coefficients_: Floats
    stored = (
        StoredParameters("parameters"),
        StoredArray("mean", "mean_", np.float64, ("columns",)),
        StoredArray("scale", "scale_", np.float64, ("columns",), low=_LEAST_SCALE),
        StoredArray("coefficients", "joined_", np.float64, ("terms",)),
    )

    def __init__(
        self, loss: LossName = "forward", *, penalty: float = 1.0, label_penalty: float = 30.0
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.label_penalty = label_penalty

    def fit(
        self,
        table: SetFeatureTable,
        correct: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        alpha: ArrayLike = 0.0,
        beta: ArrayLike = 0.0,
    ) -> Self:
        """Minimise the penalised loss by L-BFGS.

        Parameters
        ----------
        table : SetFeatureTable
        correct : array-like of shape (n_sets,)
            1 where the answer equals the set, else 0.
        sample_weight : array-like of shape (n_sets,), optional
            Such as `setwise.models.calibration.sampling.inclusion_weights`.
        alpha, beta : float or array-like of shape (n_sets,)
            Noise rates of the answers.

        Raises
        ------
        ValueError
            If arguments do not match the table, or ``alpha + beta`` reaches 1.
        """
        check_parameters(self)
        agreed, weight = check_outcomes(table, correct, sample_weight)
        alphas, betas = checked_rates(alpha, beta, len(table))
        loss = _LOSSES[self.loss](alphas, betas)
        dense = _columns(table)
        self.mean_ = np.average(dense, axis=0, weights=weight)
        spread = np.sqrt(np.average((dense - self.mean_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 1e-9, spread, 1.0)
        self.n_labels_ = table.n_labels
        design, labels = (dense - self.mean_) / self.scale_, _labels(table)
        n_dense = design.shape[1]
        shrink = np.concatenate(
            [np.full(n_dense, self.penalty), np.full(table.n_labels, self.label_penalty)]
        )

        def objective(parameters: Floats) -> tuple[float, Floats]:
            intercept, w = parameters[0], parameters[1:]
            margin = intercept + design @ w[:n_dense] + labels @ w[n_dense:]
            slope = weight * loss.gradient(margin, agreed)
            value = weight @ loss.value(margin, agreed) + 0.5 * shrink @ w**2
            back = np.concatenate([design.T @ slope, labels.T @ slope]) + shrink * w
            return float(value), np.concatenate([[slope.sum()], back])

        first = np.zeros(1 + len(shrink))
        first[0] = logit(_start(agreed, weight, alphas, betas))
        optimum = scipy.optimize.minimize(
            objective, first, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        self.intercept_, self.coefficients_ = float(optimum.x[0]), optimum.x[1:]
        return self

    def predict(self, table: SetFeatureTable) -> Floats:
        """Return the confidence of each set."""
        check_fitted(self, "coefficients_")
        dense = _columns(table)
        if dense.shape[1] != len(self.mean_) or table.n_labels != self.n_labels_:
            raise ValueError(
                f"a table of {dense.shape[1] - 1} columns and {table.n_labels} labels does not "
                f"suit a calibrator fitted on {len(self.mean_) - 1} and {self.n_labels_}"
            )
        n_dense = len(self.mean_)
        margin = (
            self.intercept_
            + ((dense - self.mean_) / self.scale_) @ self.coefficients_[:n_dense]
            + _labels(table) @ self.coefficients_[n_dense:]
        )
        return np.asarray(expit(np.clip(margin, -_LARGEST_MARGIN, _LARGEST_MARGIN)))

    @property
    def joined_(self) -> Floats:
        """Intercept and coefficients."""
        return np.concatenate([[self.intercept_], self.coefficients_])

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the calibrator."""
        calibrator = cls(**fields["parameters"])
        calibrator.mean_, calibrator.scale_ = fields["mean"], fields["scale"]
        joined = fields["coefficients"]
        calibrator.n_labels_ = lengths["terms"] - 1 - lengths["columns"]
        if calibrator.n_labels_ < 0:
            raise ValueError("the coefficients do not suit the columns")
        calibrator.intercept_, calibrator.coefficients_ = float(joined[0]), joined[1:]
        return calibrator

    @property
    def shape_(self) -> tuple[int, int]:
        """Dense columns and labels."""
        return len(self.mean_) - 1, self.n_labels_


def _columns(table: SetFeatureTable) -> Floats:
    """Return the dense columns and the logit of the score."""
    score = np.clip(table.column("score"), _LEAST_SCORE, 1.0 - _LEAST_SCORE)
    return np.column_stack([table.dense.astype(np.float64), logit(score)])


def _labels(table: SetFeatureTable) -> csr_array:
    shape = (len(table), table.n_labels)
    return csr_array((np.ones(len(table.labels)), table.labels, table.set_indptr), shape=shape)


class RobustBoostedSets(BoostedSets):
    """Boosted trees fitted on noisy answers.

    Parameters
    ----------
    loss : {"forward", "backward", "uniform", "annotator"}, default "forward"
        ``"uniform"`` and ``"annotator"`` are the trees of Algorithms 4.3 and 4.4 of the thesis.
    n_trees : int, default 600
        At most. A fifth of the documents is set aside to see after how many trees the likelihood
        of their answers is highest; so many are then fitted on all rows. More would learn noise by
        heart.
    learning_rate, random_state
        As for `BoostedSets`. A leaf's weight is in units of information, which noise makes scarce.
    """

    n_trees_: int  # trees of the ensemble

    def __init__(
        self,
        loss: LossName = "forward",
        n_trees: int = 600,
        learning_rate: float = 0.05,
        *,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            "logistic",
            n_trees,
            8,
            learning_rate,
            min_child_weight=2.0,
            reg_lambda=2.0,
            random_state=random_state,
        )
        self.loss = loss

    def fit(
        self,
        table: SetFeatureTable,
        correct: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        alpha: ArrayLike = 0.0,
        beta: ArrayLike = 0.0,
    ) -> Self:
        """Choose the number of trees by validation and boost.

        See `RobustLogisticSets` for the parameters.

        Raises
        ------
        ValueError
            If arguments do not match the table, or ``alpha + beta`` reaches 1.
        """
        check_parameters(self)
        agreed, weight = check_outcomes(table, correct, sample_weight)
        alphas, betas = checked_rates(alpha, beta, len(table))
        rows = NoisyTable(table, agreed, weight, alphas, betas)
        draw = np.random.default_rng(self.random_state)
        if len(table) > self.max_rows:
            used = np.flatnonzero(weight)
            rows = rows.take(np.sort(draw.choice(used, min(self.max_rows, len(used)), False)))
        folds = document_folds(rows.table, 5, draw)
        inside, outside = rows.take(np.flatnonzero(folds == 0)), rows.take(np.flatnonzero(folds))
        self.n_trees_ = min(self.n_trees, _STAGE)
        if inside.weight.sum() > 0 and outside.weight.sum() > 0:
            # Most ensembles are small; only where the best is nearly all of one is a larger tried.
            for limit in sorted({min(_FIRST_TREES, self.n_trees), self.n_trees}):
                self._fit_trees(outside, limit)
                self.n_trees_ = self._best_size(inside, limit)
                if self.n_trees_ + 2 * _STAGE < limit:
                    break
        self._fit_trees(rows, self.n_trees_)
        return self

    def _fit_trees(self, rows: "NoisyTable", n_trees: int) -> None:
        table, agreed, weight, alpha, beta = rows
        loss: NoisyLoss = _LOSSES[self.loss](alpha, beta)

        def gradient(margin: NDArray[np.float32], _: object) -> tuple[Any, Any]:
            s = np.clip(margin.astype(np.float64), -_LARGEST_MARGIN, _LARGEST_MARGIN)
            curvature = np.maximum(loss.curvature(s, agreed), _LEAST_CURVATURE)
            return weight * loss.gradient(s, agreed), weight * curvature

        start = {
            "objective": "binary:logistic",
            "base_score": _start(agreed, weight, alpha, beta),
            "max_delta_step": _LARGEST_STEP,
        }
        self._boost(start, table, agreed, weight, gradient, n_trees=n_trees)

    def _best_size(self, rows: "NoisyTable", limit: int) -> int:
        """Return the number of trees at which these rows' answers are likeliest."""
        sizes = [*range(_STAGE, limit, _STAGE), limit]
        value = [
            forward_loss(confidence, rows.agreed, rows.alpha, rows.beta, rows.weight)
            for confidence in (self._confidence(rows.table, n_trees) for n_trees in sizes)
        ]
        return int(sizes[int(np.argmin(value))])


class NoisyTable(NamedTuple):
    """Rows of a table with noisy answers."""

    table: SetFeatureTable
    agreed: Floats
    weight: Floats
    alpha: Floats
    beta: Floats

    def take(self, rows: NDArray[np.integer]) -> "NoisyTable":
        """Return these rows."""
        return NoisyTable(
            self.table.take(rows),
            self.agreed[rows],
            self.weight[rows],
            self.alpha[rows],
            self.beta[rows],
        )


def document_folds(
    table: SetFeatureTable, n_folds: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Return each row's fold (n_sets,), the same within a document."""
    sizes = np.diff(table.doc_indptr)
    return np.repeat(draw.permutation(len(sizes)) % n_folds, sizes)


def forward_loss(
    confidence: ArrayLike,
    agreed: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike,
    weight: ArrayLike | None = None,
) -> float:
    """Return the mean negative log-likelihood of noisy answers, in nats.

    It is least, in expectation, at the true confidences, so that calibrators can be compared on
    noisy rows.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        In [0, 1].
    agreed : array-like of shape (n,)
        0 or 1.
    alpha, beta : float or array-like of shape (n,)
    weight : array-like of shape (n,), optional
    """
    c = np.clip(np.asarray(confidence, dtype=np.float64), _LEAST_SCORE, 1.0 - _LEAST_SCORE)
    value = ForwardLoss(alpha, beta).value(logit(c), agreed)
    return float(np.average(value, weights=None if weight is None else np.asarray(weight)))
