r"""Corrects a model's confidences by the outcomes of its predictions.

A service's records of reviewed predictions hold the announced label set, the confidences and scores
of its candidates, and whether the set was right; the document itself may have been deleted. The
correction needs nothing else: with the model's confidence :math:`c` in the announced set

.. math:: c' = \sigma\Bigl(\operatorname{logit} c + b + w^\top x + \sum_{l \in y} u_l\Bigr),

where :math:`x` are a few columns (`COLUMNS`) and :math:`u_l` belongs to a label of the set, so that
all sets with a label that has begun to fail lose confidence. Penalties shrink ``w`` and ``u`` to
0, where the model's confidence is unchanged: a few answers change little. The likelihood is that of
noisy answers (`setwise.models.calibration.losses.ForwardLoss`).

The announced set stays the same. Other candidates share the rest in the old proportions, so
confidences that summed to at most one still do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from setwise.models.calibration.losses import ForwardLoss, checked_rates, doubtful_target
from setwise.models.calibration.sampling import least_doubt
from setwise.models.compilation import njit
from setwise.models.sets.candidates import CandidateSets, RaggedSets, gather
from setwise.models.sets.coherence import coherent_confidence
from setwise.models.storage.fields import StoredArray, StoredSetting
from setwise.models.storage.state import StoredPart

Floats = NDArray[np.float64]

# Size of a weight in a file: any margin is a certainty long before.
_LARGEST = 1e6

COLUMNS = ("confidence", "score", "runner-up", "rest", "size")
"""Inputs besides the labels: logits of the model's confidence, the score, the most confident other
candidate and the mass without a candidate; and the number of labels."""

PENALTY = 5.0
"""Penalty of a standardised column's weight, in rows."""

LABEL_PENALTY = 20.0
"""Penalty of a label's weight, in rows: most labels are rare."""

_EDGE = 1e-6  # bounds logits
_LARGEST_SIZE = 20.0  # cap of the set size as a column
_STEPS = 500  # L-BFGS steps, far more than usual


@dataclass(frozen=True, eq=False)
class AnnouncedSets:
    """Records of announced label sets, without their documents."""

    confidence: Floats  # (n,) the model's confidence, in [0, 1]
    score: Floats  # (n,) the model's probability of the set before any calibration, in [0, 1]
    runner_up: Floats  # (n,) the model's largest confidence in another candidate; 0 without one
    rest: Floats  # (n,) one minus the confidences of all candidates, at least 0
    sets: RaggedSets  # the announced sets; set ``i`` belongs to row ``i``
    n_labels: int

    def __len__(self) -> int:
        return len(self.confidence)

    @classmethod
    def of(cls, candidates: CandidateSets, confidence: ArrayLike) -> Self:
        """Return the announced sets, each document's first candidate.

        Parameters
        ----------
        candidates : CandidateSets
            At least one per document.
        confidence : array-like of shape (n_sets,)
            The model's confidences.

        Raises
        ------
        ValueError
            If a document has no candidate, or lengths differ.
        """
        # Calibrators and rounding may leave [0, 1].
        coherent = np.clip(np.asarray(confidence, dtype=np.float64), 0.0, 1.0)
        bounds = candidates.doc_indptr
        if coherent.shape != (len(candidates),) or (np.diff(bounds) == 0).any():
            raise ValueError("every document needs a candidate, and every candidate a confidence")
        coherent = coherent_confidence(candidates, coherent)
        first = bounds[:-1]
        rows = np.arange(candidates.n_documents + 1, dtype=np.int64)
        sets = candidates.take(first, rows).sets
        runner_up, rest = _others(bounds, coherent)
        return cls(
            coherent[first],
            np.minimum(np.exp(candidates.log_score[first]), 1.0),
            runner_up,
            rest,
            sets,
            candidates.n_labels,
        )

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Return these rows."""
        places = np.asarray(rows, dtype=np.int64)
        return type(self)(
            self.confidence[places],
            self.score[places],
            self.runner_up[places],
            self.rest[places],
            RaggedSets(*gather(self.sets, places)),
            self.n_labels,
        )

    def beside(self, others: Self) -> Self:
        """Return these rows followed by others.

        Raises
        ------
        ValueError
            If their numbers of labels differ.
        """
        if self.n_labels != others.n_labels:
            raise ValueError("rows of models with different labels cannot stand together")
        bounds = np.concatenate([self.sets.indptr, self.sets.indptr[-1] + others.sets.indptr[1:]])
        labels = np.concatenate([self.sets.labels, others.sets.labels])
        return type(self)(
            np.concatenate([self.confidence, others.confidence]),
            np.concatenate([self.score, others.score]),
            np.concatenate([self.runner_up, others.runner_up]),
            np.concatenate([self.rest, others.rest]),
            RaggedSets(bounds, labels),
            self.n_labels,
        )

    def columns(self) -> Floats:
        """Return `COLUMNS`, shape (n, 5)."""
        sizes = np.minimum(np.diff(self.sets.indptr), _LARGEST_SIZE)
        parts = (self.confidence, self.score, self.runner_up, self.rest)
        return np.column_stack(
            [*(logit(np.clip(part, _EDGE, 1.0 - _EDGE)) for part in parts), sizes]
        )

    def indicators(self) -> csr_array:
        """Return the labels of each set, shape (n, n_labels)."""
        ones = np.ones(len(self.sets.labels))
        shape = (len(self), self.n_labels)
        return csr_array((ones, self.sets.labels, self.sets.indptr), shape=shape)


class ReviewOutcomes(NamedTuple):
    """Answers of people or later events about announced sets."""

    agreed: Floats  # (n,) 1 where the answer is the announced set, else 0
    # (n,) positive; `setwise.models.calibration.sampling.inclusion_weights`, for instance.
    weight: Floats
    # (n,) alpha and beta: noise rates of each answer.
    alpha: Floats
    beta: Floats

    @classmethod
    def of(
        cls,
        agreed: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        alpha: ArrayLike = 0.0,
        beta: ArrayLike = 0.0,
    ) -> Self:
        """Return checked answers; see the attributes.

        Raises
        ------
        ValueError
            If lengths differ, a value is out of range, or ``alpha + beta`` reaches 1.
        """
        v = np.asarray(agreed, dtype=np.float64)
        w = np.ones(len(v)) if weight is None else np.asarray(weight, dtype=np.float64)
        if v.ndim != 1 or w.shape != v.shape:
            raise ValueError(f"answers and weights must be two lists of one length, not {w.shape}")
        if not np.all((v == 0) | (v == 1)):
            raise ValueError("an answer is 0 or 1")
        if not np.all((w > 0) & np.isfinite(w)):
            raise ValueError("every answer needs a positive, finite weight")
        alphas, betas = checked_rates(alpha, beta, len(v))
        return cls(v, w, np.array(alphas), np.array(betas))

    def take(self, rows: NDArray[np.integer]) -> "ReviewOutcomes":
        """Return these rows."""
        return ReviewOutcomes(*(part[rows] for part in self))

    def beside(self, others: "ReviewOutcomes") -> "ReviewOutcomes":
        """Return these rows followed by others."""
        return ReviewOutcomes(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


@dataclass(frozen=True, eq=False)
class ConfidenceCorrection(StoredPart):
    """The fitted correction."""

    intercept: float
    weights: Floats  # (5,) of `COLUMNS`, not standardised
    label_weights: Floats  # (n_labels,)
    edge: float = 0.0  # least distance of a corrected confidence from 0 and 1
    column_names = COLUMNS
    stored = (
        StoredSetting("columns", "column_names", list, choices=(list(COLUMNS),)),
        StoredSetting("intercept", "intercept", float, low=-_LARGEST, high=_LARGEST),
        StoredArray(
            "weights", "weights", np.float64, (len(COLUMNS),), low=-_LARGEST, high=_LARGEST
        ),
        StoredArray(
            "label_weights", "label_weights", np.float64, ("labels",), low=-_LARGEST, high=_LARGEST
        ),
        StoredSetting("edge", "edge", float, low=0.0, high=0.5),
    )

    @classmethod
    def identity(cls, n_labels: int) -> Self:
        """Return the correction that changes nothing."""
        return cls(0.0, np.zeros(len(COLUMNS)), np.zeros(n_labels))

    @classmethod
    def fit(
        cls,
        sets: AnnouncedSets,
        answers: ReviewOutcomes,
        *,
        always: tuple[AnnouncedSets, ReviewOutcomes] | None = None,
        penalty: float = PENALTY,
        label_penalty: float = LABEL_PENALTY,
    ) -> Self:
        """Maximise the penalised likelihood by L-BFGS.

        Weights are scaled to sum to their effective number of equal rows (Kish), so that a penalty
        always stands for a number of rows. Answers count as `doubtful_target` has them, so that no
        confidence says more than the rows do.

        ``sets`` has a row or more; ``always`` are further rows, whose weights are in rows already.

        Raises
        ------
        ValueError
            If there is no row or lengths differ.

        References
        ----------
        .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999, for a logistic
           correction of a score; the offset, the noise and the labels are additions.
        """
        if len(sets) == 0 or len(sets) != len(answers.agreed):
            raise ValueError(
                f"{len(sets)} sets and {len(answers.agreed)} answers: give as many of both, not 0"
            )
        worth = answers.weight * (answers.weight.sum() / (answers.weight @ answers.weight))
        if always is not None:
            sets, answers = sets.beside(always[0]), answers.beside(always[1])
            worth = np.concatenate([worth, always[1].weight])
        loss = ForwardLoss(answers.alpha, answers.beta)
        informative = worth * (1.0 - answers.alpha - answers.beta) ** 2
        target = doubtful_target(answers.agreed, informative)
        columns, labels = sets.columns(), sets.indicators()
        offset, n_columns = columns[:, 0], columns.shape[1]
        mean = np.average(columns, axis=0, weights=worth)
        spread = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=worth))
        scale = np.where(spread > _EDGE, spread, 1.0)
        design = (columns - mean) / scale
        shrink = np.concatenate(
            [np.full(n_columns, penalty), np.full(sets.n_labels, label_penalty)]
        )

        def objective(parameters: Floats) -> tuple[float, Floats]:
            w, u = parameters[1 : 1 + n_columns], parameters[1 + n_columns :]
            margin = offset + parameters[0] + design @ w + labels @ u
            slope = worth * loss.gradient(margin, target)
            weighted = shrink * parameters[1:]
            value = worth @ loss.value(margin, target) + 0.5 * weighted @ parameters[1:]
            back = np.concatenate([design.T @ slope, labels.T @ slope]) + weighted
            return float(value), np.concatenate([[slope.sum()], back])

        optimum = scipy.optimize.minimize(
            objective,
            np.zeros(1 + len(shrink)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS},
        ).x
        weights = optimum[1 : 1 + n_columns] / scale
        return cls(
            float(optimum[0] - weights @ mean),
            weights,
            optimum[1 + n_columns :].copy(),
            least_doubt(informative.sum()),
        )

    def predict(self, sets: AnnouncedSets) -> Floats:
        """Return the corrected confidence of announced sets, shape (n,)."""
        columns = sets.columns()
        margin = columns[:, 0] + self.intercept + columns @ self.weights
        confidence = expit(margin + sets.indicators() @ self.label_weights)
        return np.asarray(np.clip(confidence, self.edge, 1.0 - self.edge))

    def correct(self, candidates: CandidateSets, confidence: Floats) -> Floats:
        """Return the corrected confidences of all candidates, in compiled code.

        Parameters
        ----------
        candidates : CandidateSets
            The announced one first in each document.
        confidence : float64 ndarray of shape (n_sets,)
            The model's confidences.
        """
        correction = _Correction(self.intercept, self.weights, self.label_weights, self.edge)
        return _correct(
            candidates.doc_indptr, candidates.sets, candidates.log_score, confidence, correction
        )


def cross_fit(
    sets: AnnouncedSets,
    answers: ReviewOutcomes,
    folds: NDArray[np.integer],
    *,
    always: tuple[AnnouncedSets, ReviewOutcomes] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Floats:
    """Return each row's confidence by a correction fitted without its fold.

    Rows of one document must share a fold, ``folds`` (n,). Every fit also learns from ``always``.
    ``progress`` is called before each fit with its number, from 1, and the number of fits.

    Raises
    ------
    ValueError
        If there are fewer than two folds.
    """
    names = np.unique(folds)
    if len(names) < 2:
        raise ValueError("cross-fitting needs at least two folds")
    confidence = np.empty(len(sets))
    for number, name in enumerate(names, start=1):
        if progress is not None:
            progress(number, len(names))
        inside, outside = np.flatnonzero(folds == name), np.flatnonzero(folds != name)
        fitted = ConfidenceCorrection.fit(sets.take(outside), answers.take(outside), always=always)
        confidence[inside] = fitted.predict(sets.take(inside))
    return confidence


def _others(bounds: NDArray[np.int64], confidence: Floats) -> tuple[Floats, Floats]:
    """Return each document's largest other confidence and one minus the sum."""
    first = bounds[:-1]
    others = confidence.copy()
    others[first] = 0.0
    total = np.add.reduceat(confidence, first)
    return np.maximum.reduceat(others, first), np.clip(1.0 - total, 0.0, 1.0)


class _Correction(NamedTuple):
    """A recalibration as plain arrays for compiled code."""

    intercept: float
    weights: Floats
    label_weights: Floats
    edge: float


@njit(cache=True, nogil=True)
def _logit(share: float) -> float:  # pragma: no cover - compiled
    inside = min(max(share, _EDGE), 1.0 - _EDGE)
    return float(np.log(inside / (1.0 - inside)))


@njit(cache=True, nogil=True)
def _correct(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    log_score: Floats,
    confidence: Floats,
    correction: _Correction,
) -> Floats:  # pragma: no cover - compiled
    set_indptr, weights = sets.indptr, correction.weights
    corrected = confidence.copy()
    for i in range(len(doc_indptr) - 1):
        first, last = doc_indptr[i], doc_indptr[i + 1]
        if first == last:
            continue
        runner_up, total = 0.0, confidence[first]
        for s in range(first + 1, last):
            runner_up = max(runner_up, confidence[s])
            total += confidence[s]
        rest = min(max(1.0 - total, 0.0), 1.0)
        size = min(float(set_indptr[first + 1] - set_indptr[first]), _LARGEST_SIZE)
        margin = _logit(confidence[first])
        margin += (
            correction.intercept
            + weights[0] * margin
            + weights[1] * _logit(np.exp(log_score[first]))
            + weights[2] * _logit(runner_up)
            + weights[3] * _logit(rest)
            + weights[4] * size
        )
        for place in range(set_indptr[first], set_indptr[first + 1]):
            margin += correction.label_weights[sets.labels[place]]
        now = 1.0 / (1.0 + np.exp(-margin))
        now = min(max(now, correction.edge), 1.0 - correction.edge)
        share = (1.0 - now) / max(1.0 - confidence[first], _EDGE)
        corrected[first] = now
        for s in range(first + 1, last):
            # If the model's confidences sum to more than one, none may exceed the rest, nor shrink
            # without a correction.
            corrected[s] = min(confidence[s] * share, max(confidence[s], 1.0 - now))
    return corrected
