r"""A linear ranker of one document's candidates, for few documents.

The margin of a candidate is linear in its dense features, standardised over the candidates of the
fit, and the confidences are those of `setwise.models.calibration.group_softmax`: candidates compete
with each other and with *none of these*. With weights :math:`w` and margins :math:`s` the fit
minimises

.. math:: -\sum_i \log c_{i,\mathrm{right}} + \tfrac{\lambda}{2} |w|^2,

a conditional logit [1]_. No weight has the wrong sign where confidence may not fall.

References
----------
.. [1] D. McFadden, "Conditional logit analysis of qualitative choice behavior", 1974.
"""

from typing import Any, Self

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from setwise.limits import LARGEST_SCORE
from setwise.models.calibration.calibrators import check_outcomes
from setwise.models.calibration.group_softmax import (
    constant_margin,
    draw_documents,
    share_certainty,
    softmax_derivatives,
)
from setwise.models.calibration.sampling import least_doubt
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.parameters import check_parameters
from setwise.models.sets.features import SetFeatureTable
from setwise.models.storage.fields import StoredArray, StoredParameters, StoredSetting
from setwise.models.storage.state import Lengths, StoredPart

Floats = NDArray[np.float64]

# Standardised features beyond this many deviations count as that many: rows that no document of the
# fit resembles get no extreme confidence.
_MOST_DEVIATIONS = 5.0
# A column with a smaller deviation is constant.
_CONSTANT = 1e-9
# A fit ends here at the latest.
_MOST_ITERATIONS = 200
# Relative change of the objective at which a fit ends: confidences change by a thousandth after it.
_TOLERANCE = 1e-6


class ConditionalLogitSets(StoredPart, Estimator):
    """Ranks candidates by a ridge-penalised conditional logit on their dense features.

    Parameters
    ----------
    reg_lambda : float, default 1
        L2 penalty of the weights.
    max_rows : int, default 50,000
        With more rows, whole documents are sampled: a few dozen weights need no more.
    random_state : int, default 0
    """

    centre_: Floats
    scale_: Floats  # reciprocal deviations, 0 for constant columns
    weights_: Floats
    intercept_: float
    least_: float  # smallest and largest confidence that the fit supports
    most_: float
    stored = (
        StoredParameters("parameters"),
        StoredArray("centre", "centre_", np.float64, ("columns",)),
        StoredArray("scale", "scale_", np.float64, ("columns",), low=0.0),
        StoredArray("weights", "weights_", np.float64, ("columns",)),
        StoredSetting("intercept", "intercept_", float, low=-1e6, high=1e6),
        StoredSetting("least", "least_", float, low=0.0, high=0.5),
        StoredSetting("most", "most_", float, low=0.5, high=1.0),
    )

    def __init__(
        self, reg_lambda: float = 1.0, *, max_rows: int = 50_000, random_state: int = 0
    ) -> None:
        self.reg_lambda = reg_lambda
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(
        self, table: SetFeatureTable, correct: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the weights.

        Rows of weight 0 count as absent.

        Raises
        ------
        ValueError
            If outcomes or weights do not match the table, a document has more than one right set,
            or its rows differ in weight.
        """
        check_parameters(self)
        outcome, weight = check_outcomes(table, correct, sample_weight)
        weighted = np.flatnonzero(weight)
        if len(weighted) < len(table):
            table, outcome, weight = table.take(weighted), outcome[weighted], weight[weighted]
        start = constant_margin(table, outcome, weight)
        if len(table) > self.max_rows:
            drawn = draw_documents(table.doc_indptr, self.max_rows, self.random_state)
            table, outcome, weight = table.take(drawn), outcome[drawn], weight[drawn]
        present = _present(table)
        counted = np.where(present, weight[:, None], 0.0)
        total = np.maximum(counted.sum(axis=0), _CONSTANT)
        dense = np.where(present, table.dense, 0.0)
        self.centre_ = (counted * dense).sum(axis=0) / total
        away = np.where(present, dense - self.centre_, 0.0)
        deviation = np.sqrt((counted * away**2).sum(axis=0) / total)
        varies = deviation > _CONSTANT * np.maximum(np.abs(self.centre_), 1.0)
        self.scale_ = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
        share = np.clip(outcome, 0.0, 1.0)
        self.least_ = least_doubt(float(weight @ (1.0 - share)))
        self.most_ = 1.0 - least_doubt(float(weight @ share))
        design, bounds = self._design(table), table.doc_indptr
        first = bounds[:-1]
        of_document = weight[first]

        def objective(parameters: Floats) -> tuple[float, Floats]:
            margin = parameters[0] + design @ parameters[1:]
            slope, _ = softmax_derivatives(margin, bounds, outcome, weight)
            top = np.maximum(np.maximum.reduceat(margin, first), 0.0)
            inside = np.exp(margin - np.repeat(top, np.diff(bounds)))
            log_total = top + np.log(np.add.reduceat(inside, first) + np.exp(-top))
            gain = weight @ (outcome * margin) - of_document @ log_total
            penalty = 0.5 * self.reg_lambda * float((parameters[1:] ** 2).sum())
            back = design.T @ slope + self.reg_lambda * parameters[1:]
            return penalty - float(gain), np.append(slope.sum(), back)

        signs = [(0.0, None) if sign else (None, None) for sign in table.monotone]
        with threadpool_limits(1, user_api="blas"):  # sums would depend on the number of threads
            optimum = scipy.optimize.minimize(
                objective,
                np.append(start, np.zeros(design.shape[1])),
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, None), *signs],
                options={"maxiter": _MOST_ITERATIONS, "ftol": _TOLERANCE},
            ).x
        self.intercept_, self.weights_ = float(np.clip(optimum[0], -1e6, 1e6)), optimum[1:]
        return self

    def predict(self, table: SetFeatureTable) -> Floats:
        """Return the confidence of each set."""
        check_fitted(self, "weights_")
        if table.dense.shape[1] != len(self.weights_):
            raise ValueError(
                f"a table of {table.dense.shape[1]} columns does not suit a calibrator fitted on "
                f"{len(self.weights_)}"
            )
        confidence = np.einsum("ij,j->i", self._design(table), self.weights_) + self.intercept_
        share_certainty(confidence, table.doc_indptr)
        return np.asarray(np.minimum(np.maximum(confidence, self.least_), self.most_))

    def _design(self, table: SetFeatureTable) -> Floats:
        """Return the standardised columns; a missing number is the mean."""
        away = (table.dense.astype(np.float64) - self.centre_) * self.scale_
        limited = np.minimum(np.maximum(away, -_MOST_DEVIATIONS), _MOST_DEVIATIONS)
        return np.where(_present(table), limited, 0.0)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:  # noqa: ARG003  # nothing of lengths
        """Rebuild the fitted calibrator."""
        calibrator = cls(**fields["parameters"])
        for name in ("centre", "scale", "weights", "intercept", "least", "most"):
            setattr(calibrator, f"{name}_", fields[name])
        return calibrator


def _present(table: SetFeatureTable) -> NDArray[np.bool_]:
    """Return which numbers are not missing."""
    return np.asarray(table.dense > -2.0 * LARGEST_SCORE)
