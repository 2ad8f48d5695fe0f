"""Chooses a robust calibrator by the amount of data."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from setwise.models.calibration.calibrators import check_outcomes
from setwise.models.calibration.losses import checked_rates
from setwise.models.calibration.robust_calibrators import (
    NoisyTable,
    RobustBoostedSets,
    RobustLogisticSets,
    document_folds,
    forward_loss,
)
from setwise.models.calibration.sampling import effective_rows
from setwise.models.sets.features import SetFeatureTable

Floats = NDArray[np.float64]

FEW_ROWS = 3000
"""Effective rows below which trees learn less than a linear margin does."""

RobustSets = RobustLogisticSets | RobustBoostedSets


RobustName = Literal["robust-logistic", "robust-boosted"]


class RobustChoice(NamedTuple):
    """A robust calibrator fitted on all rows, with cross-fitted losses."""

    name: RobustName
    calibrator: RobustSets
    confidence: Floats  # cross-fitted, one a row
    effective_rows: float
    losses: dict[RobustName, float]  # cross-fitted `forward_loss` of what was tried


def choose_robust(
    table: SetFeatureTable,
    agreed: ArrayLike,
    *,
    alpha: ArrayLike,
    beta: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_folds: int = 5,
    random_state: int = 0,
) -> RobustChoice:
    """Choose a calibrator by the amount of data and fit it.

    Below half of `FEW_ROWS` effective rows the linear margin is taken, above twice as many the
    trees; in between the cross-fitted likelihood of the answers decides.

    Parameters
    ----------
    table : SetFeatureTable
    agreed : array-like of shape (n_sets,)
        1 where the answer equals the set, else 0.
    alpha, beta : float or array-like of shape (n_sets,)
        Noise rates of the answers.
    sample_weight : array-like of shape (n_sets,), optional
    n_folds : int, default 5
        Of documents.
    random_state : int, default 0

    Raises
    ------
    ValueError
        If arguments do not match the table, ``alpha + beta`` reaches 1, or there are fewer
        documents than folds.
    """
    answers, weight = check_outcomes(table, agreed, sample_weight)
    alphas, betas = checked_rates(alpha, beta, len(table))
    rows = NoisyTable(table, answers, weight, alphas, betas)
    if len(table.doc_indptr) - 1 < n_folds:
        raise ValueError(f"{n_folds} folds need as many documents")
    folds = document_folds(table, n_folds, np.random.default_rng(random_state))
    n_effective = effective_rows(alphas, betas, weight)
    contenders: dict[RobustName, RobustSets] = {}
    if n_effective < 2 * FEW_ROWS:
        contenders["robust-logistic"] = RobustLogisticSets()
    if n_effective >= FEW_ROWS / 2:
        contenders["robust-boosted"] = RobustBoostedSets(random_state=random_state)
    confidences = {name: _cross_fit(sets, rows, folds) for name, sets in contenders.items()}
    losses = {
        name: forward_loss(confidence, answers, alphas, betas, weight)
        for name, confidence in confidences.items()
    }
    best = min(contenders, key=lambda name: losses[name])
    fitted = contenders[best].fit(table, answers, sample_weight=weight, alpha=alphas, beta=betas)
    return RobustChoice(best, fitted, confidences[best], n_effective, losses)


def _cross_fit(calibrator: RobustSets, rows: NoisyTable, folds: NDArray[np.int64]) -> Floats:
    confidence = np.empty(len(folds))
    for fold in np.unique(folds):
        inside, others = np.flatnonzero(folds == fold), rows.take(np.flatnonzero(folds != fold))
        fitted = clone(calibrator).fit(
            others.table,
            others.agreed,
            sample_weight=others.weight,
            alpha=others.alpha,
            beta=others.beta,
        )
        confidence[inside] = fitted.predict(rows.table.take(inside))
    return confidence
