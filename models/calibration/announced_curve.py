r"""The confidence in an announced set, by the confidence that its calibrator had in it.

A calibrator judges every candidate by itself; the announced one is the candidate that it judges
best, and so more often than not one that it judges too well. It may also stop short of both ends.
One curve with three parameters [1]_ corrects both,

.. math:: \operatorname{logit} c' = b + r \log c - w \log(1 - c), \qquad r, w \ge 0,

so that documents keep their order. It is fitted to cross-fitted confidences, with the likelihood of
noisy answers where labels are noisy, and drawn towards :math:`r = w = 1`, which changes nothing.
Targets are those of Platt [2]_: of :math:`n` sets that are all right, the curve says at most
:math:`(n + 1) / (n + 2)`.

References
----------
.. [1] M. Kull, T. Silva Filho and P. Flach, "Beta calibration: a well-founded and easily
   implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.
.. [2] J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999, section 2.2.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray

from setwise.models.calibration.losses import ForwardLoss, doubtful_target
from setwise.models.calibration.noisy_history import RowRates
from setwise.models.calibration.sampling import effective_rows, least_doubt
from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets
from setwise.models.storage.fields import StoredSetting
from setwise.models.storage.state import StoredPart

Floats = NDArray[np.float64]

_IDENTITY = np.array([0.0, 1.0, 1.0])  # intercept and exponents that change nothing

# Penalties of their squared distance from it: a hundred documents outweigh them.
_PENALTIES = np.array([1.0, 5.0, 5.0])

# Size of a parameter in a file: any margin is a certainty long before.
_LARGEST = 1e6


@dataclass(frozen=True)
class AnnouncedCurve(StoredPart):
    """The fitted curve."""

    intercept: float
    right: float  # exponent of the confidence
    wrong: float  # exponent of one minus the confidence
    edge: float  # least distance of a confidence from 0 and 1
    stored = (
        StoredSetting("intercept", "intercept", float, low=-_LARGEST, high=_LARGEST),
        StoredSetting("right", "right", float, low=0.0, high=_LARGEST),
        StoredSetting("wrong", "wrong", float, low=0.0, high=_LARGEST),
        StoredSetting("edge", "edge", float, low=1e-12, high=0.5),
    )

    @classmethod
    def fit(cls, confidence: ArrayLike, right: ArrayLike, *, rates: RowRates | None = None) -> Self:
        """Fit to cross-fitted confidences in announced sets and their outcomes.

        Parameters
        ----------
        confidence : array-like of shape (n,)
            In [0, 1].
        right : array-like of shape (n,)
            0 or 1, as labelled.
        rates : RowRates, optional
            Noise rates of the labels.
        """
        c = np.asarray(confidence, dtype=np.float64)
        agreed = np.asarray(right, dtype=np.float64)
        alpha, beta = RowRates(np.zeros(len(c)), np.zeros(len(c))) if rates is None else rates
        edge = least_doubt(effective_rows(alpha, beta))
        inside = np.clip(c, edge, 1.0 - edge)
        design = np.column_stack([np.log(inside), -np.log1p(-inside)])
        loss = ForwardLoss(alpha, beta)
        target = doubtful_target(agreed, (1.0 - alpha - beta) ** 2)

        def objective(parameters: Floats) -> tuple[float, Floats]:
            margin = parameters[0] + design @ parameters[1:]
            slope = loss.gradient(margin, target)
            away = parameters - _IDENTITY
            value = loss.value(margin, target).sum() + 0.5 * (_PENALTIES * away) @ away
            back = np.append(slope.sum(), design.T @ slope)
            return float(value), back + _PENALTIES * away

        optimum = scipy.optimize.minimize(
            objective,
            _IDENTITY,
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None), (0.0, None), (0.0, None)],
        ).x
        intercept, exponent, other = optimum.tolist()
        return cls(intercept, exponent, other, edge)

    def correct(self, candidates: CandidateSets, confidence: Floats) -> Floats:
        """Return the corrected confidences of all candidates.

        The others share the rest in their proportions; none that was below the announced set rises
        above it.

        Parameters
        ----------
        candidates : CandidateSets
            The announced one first in each document.
        confidence : float64 ndarray of shape (n_sets,)
            At most 1 in sum in each document.
        """
        curve = self.intercept, self.right, self.wrong, self.edge
        return _correct(candidates.doc_indptr, confidence, curve)


def cross_corrected(
    candidates: CandidateSets,
    confidence: Floats,
    right: NDArray[np.uint8],
    folds: NDArray[np.int64],
    rates: RowRates | None = None,
) -> Floats:
    """Return each document's confidences by a curve fitted to the other folds.

    Parameters
    ----------
    candidates : CandidateSets
        The announced one first in each document.
    confidence, right : ndarray of shape (n_sets,)
        Of each candidate; cross-fitted.
    folds : int64 ndarray of shape (n_documents,)
    rates : RowRates, optional
        Noise of each document's labels.
    """
    corrected, first = np.empty(len(confidence)), candidates.doc_indptr[:-1]
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        curve = AnnouncedCurve.fit(
            confidence[first[outside]],
            right[first[outside]],
            rates=None if rates is None else rates.take(outside),
        )
        sets = np.flatnonzero(folds[candidates.document] == fold)
        corrected[sets] = curve.correct(candidates.take_documents(inside), confidence[sets])
    return corrected


@njit(cache=True, nogil=True)
def _correct(
    doc_indptr: NDArray[np.int64],
    confidence: Floats,
    curve: tuple[float, float, float, float],
) -> Floats:  # pragma: no cover - compiled
    intercept, right, wrong, edge = curve
    corrected = confidence.copy()
    for i in range(len(doc_indptr) - 1):
        first, last = doc_indptr[i], doc_indptr[i + 1]
        if first == last:
            continue
        before = confidence[first]
        inside = min(max(before, edge), 1.0 - edge)
        margin = intercept + right * np.log(inside) - wrong * np.log1p(-inside)
        now = min(max(1.0 / (1.0 + np.exp(-margin)), edge), 1.0 - edge)
        corrected[first] = now
        share = (1.0 - now) / (1.0 - before) if before < 1.0 else 0.0
        for s in range(first + 1, last):
            most = now if confidence[s] <= before else 1.0
            corrected[s] = min(confidence[s] * share, most)
    return corrected
