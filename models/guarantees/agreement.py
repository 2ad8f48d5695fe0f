"""Estimates noise from answers without gold labels, for diagnosis only.

Two reviewers who err on the same hard documents look more accurate than they are, and no test on
their answers alone detects it. So these estimates are only compared with those from gold labels.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.noise import SURPRISE, NoiseFault, NoiseFinding
from setwise.models.guarantees.proportions import Proportion

Floats = NDArray[np.float64]

_EM_STEPS = 5000
_EM_TOLERANCE = 1e-10  # of the largest parameter change; sampling errors are a million times larger
_EDGE = 1e-6  # keeps probabilities off 0 and 1, where information is infinite
_DIFFERENCE = 1e-6  # step of the numerical derivative


@dataclass(frozen=True)
class OverlapEstimate:
    """Noise rates from documents that two reviewers answered blindly.

    Attributes
    ----------
    alpha, alpha_error : float
        Estimate and its standard error.
    beta : float
    accuracy : float
        Accuracy of the predictions.
    n : int
        Number of documents.
    misfit_p_value : float or None
        Of the hypothesis that two rates explain all the answers; None without degrees of freedom.
    """

    alpha: float
    alpha_error: float
    beta: float
    accuracy: float
    n: int
    misfit_p_value: float | None


def estimate_from_pairs(both: int, one: int, none: int) -> OverlapEstimate | None:
    r"""Estimate alpha from pairs of answers, assuming that beta is 0.

    With :math:`n_{11}` pairs that agree with the prediction and :math:`n_{10}` of which exactly
    one does, :math:`1 - \alpha = n_{11} / (n_{11} + n_{10} / 2)` and the accuracy is
    :math:`(n_{11} + n_{10} / 2)^2 / (n\, n_{11})`: the capture-recapture estimate.

    Parameters
    ----------
    both, one, none : int
        Documents on which both answers, exactly one, or none equals the predicted set.

    Returns
    -------
    OverlapEstimate or None
        None if no pair agrees with the prediction.

    Raises
    ------
    ValueError
        If a count is negative.

    References
    ----------
    .. [1] F. Lincoln, "Calculating waterfowl abundance on the basis of banding returns", USDA
       Circular 118, 1930.

    Examples
    --------
    >>> found = estimate_from_pairs(512, 256, 232)  # alpha .2, accuracy .8
    >>> round(found.alpha, 3), round(found.accuracy, 3)
    (0.2, 0.8)
    """
    if min(both, one, none) < 0:
        raise ValueError(f"counts must not be negative: {both}, {one}, {none}")
    if both == 0:
        return None
    n, odds = both + one + none, one / both
    error = 2 * odds / (2 + odds) ** 2 * np.sqrt(1 / both + 1 / max(one, 1))
    accuracy = min((both + one / 2) ** 2 / (n * both), 1.0)
    return OverlapEstimate(odds / (2 + odds), float(error), 0.0, accuracy, n, None)


def estimate_from_strata(counts: ArrayLike) -> OverlapEstimate | None:
    """Estimate alpha and beta from answer pairs in strata.

    The two rates are the same in all strata, the accuracies differ. EM maximises the likelihood.

    Parameters
    ----------
    counts : array-like of int, shape (n_strata, 3)
        Documents on which both answers, exactly one, or none equals the predicted set; for
        example strata of confidence. Empty strata are left out.

    Returns
    -------
    OverlapEstimate or None
        None with fewer than two strata, which do not determine the rates.

    Raises
    ------
    ValueError
        If the shape is wrong, or a count is negative.

    References
    ----------
    .. [1] S. Hui and S. Walter, "Estimating the Error Rates of Diagnostic Tests", Biometrics 36,
       1980.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != 3 or (table < 0).any():
        raise ValueError("counts must have three columns (both, one, none), none negative")
    table = table[table.sum(axis=1) > 0]
    if len(table) < 2:
        return None
    fitted = _maximise(table)
    law = _law(fitted)
    expected = table.sum(axis=1, keepdims=True) * law
    seen = table > 0
    deviance = 2 * float((table[seen] * np.log(table[seen] / expected[seen])).sum())
    freedom = len(table) - 2
    accuracy = float(fitted[2:] @ table.sum(axis=1) / table.sum())
    return OverlapEstimate(
        float(fitted[0]),
        _alpha_error(fitted, table.sum(axis=1)),
        float(fitted[1]),
        accuracy,
        int(table.sum()),
        float(scipy.stats.chi2.sf(deviance, freedom)) if freedom else None,
    )


def _law(parameters: Floats) -> Floats:
    """Return the outcome probabilities of each stratum, shape (n_strata, 3)."""
    accuracy = parameters[2:, None]
    return accuracy * _answers(1 - parameters[0]) + (1 - accuracy) * _answers(parameters[1])


def _answers(agreement: float) -> Floats:
    """Return the probabilities that both, one or none of two answers agree."""
    return np.array([agreement**2, 2 * agreement * (1 - agreement), (1 - agreement) ** 2])


def _maximise(table: Floats) -> Floats:
    """Return the maximum-likelihood alpha, beta and accuracy of each stratum."""
    n = table.sum(axis=1)
    agreements = table @ np.array([1.0, 0.5, 0.0]) / n
    parameters = np.concatenate([[0.2, 0.05], np.clip(agreements / 0.8, 0.05, 0.95)])
    for _ in range(_EM_STEPS):
        right = parameters[2:, None] * _answers(1 - parameters[0])
        wrong = (1 - parameters[2:, None]) * _answers(parameters[1])
        member = table * right / (right + wrong)
        rest = table - member
        share = np.array([1.0, 0.5, 0.0])  # of the two answers that agree
        updated = np.concatenate(
            [
                [1 - (member @ share).sum() / max(member.sum(), _EDGE)],
                [(rest @ share).sum() / max(rest.sum(), _EDGE)],
                member.sum(axis=1) / n,
            ]
        ).clip(_EDGE, 1 - _EDGE)
        moved = np.abs(updated - parameters).max()
        parameters = updated
        if moved < _EM_TOLERANCE:
            break
    return np.asarray(parameters)


def _alpha_error(parameters: Floats, n: Floats) -> float:
    """Return the standard error of alpha from the expected information."""
    steps = np.eye(len(parameters)) * _DIFFERENCE
    slopes = np.stack(
        [(_law(parameters + step) - _law(parameters - step)) / (2 * _DIFFERENCE) for step in steps]
    )
    weight = n[:, None] / _law(parameters)
    information = np.einsum("asj,bsj,sj->ab", slopes, slopes, weight)
    return float(np.sqrt(max(np.linalg.pinv(information)[0, 0], 0.0)))


def compare_with_overlap(
    source: str, gold_alpha: Proportion, overlap: OverlapEstimate
) -> tuple[NoiseFinding, ...]:
    """Compare overlap estimates with those from gold labels.

    Returns
    -------
    tuple of NoiseFinding
        Conflicts that block learning from this source until they are resolved.
    """
    findings = []
    error = float(np.hypot(gold_alpha.standard_error, overlap.alpha_error))
    if abs(gold_alpha.estimate - overlap.alpha) > 2 * error:
        findings.append(
            NoiseFinding(
                NoiseFault.OVERLAP_CONFLICT,
                source,
                f"gold labels put alpha of {source!r} at {gold_alpha.estimate:.2f}, overlapping "
                f"answers at {overlap.alpha:.2f}, more than two standard errors apart: check that "
                "answers are blind and gold labels drawn at random",
            )
        )
    if overlap.misfit_p_value is not None and overlap.misfit_p_value < SURPRISE:
        findings.append(
            NoiseFinding(
                NoiseFault.OVERLAP_MISFIT,
                source,
                f"one alpha and one beta do not explain the overlapping answers of {source!r} "
                f"(p = {overlap.misfit_p_value:.4f}): noise depends on the document",
            )
        )
    return tuple(findings)
