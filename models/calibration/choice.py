"""Chooses the set calibrator with the lowest cross-validated Brier score."""

import warnings
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from setwise.models.calibration.calibrators import (
    BoostedSets,
    CardinalityIsotonicSets,
    IsotonicSets,
    SetCalibrator,
    TreeSets,
    UncalibratedSets,
)
from setwise.models.calibration.conditional_logit import ConditionalLogitSets
from setwise.models.calibration.crossfit import CrossFitted
from setwise.models.calibration.group_softmax import SoftmaxSets
from setwise.models.calibration.losses import shifted_target
from setwise.models.calibration.noisy_history import RowRates, checked_noise
from setwise.models.calibration.robust_calibrators import (
    LossName,
    RobustBoostedSets,
    RobustLogisticSets,
)
from setwise.models.calibration.sampling import effective_rows
from setwise.models.options import (
    CalibratorName,
    TrainingOptions,
    TrainingWarning,
    preset_of,
)
from setwise.models.parallel import Threads, thread_count
from setwise.models.sets.features import SetFeatureTable

# With fewer documents a flexible calibrator overfits. Trees also need enough right and enough
# wrong candidates to separate; a penalised logit does with a few.
MIN_DOCUMENTS_ISOTONIC = 50
LINEAR = "conditional-logit"
MIN_DOCUMENTS_TREES = 200
MIN_OUTCOMES_TREES = 20

# With so many documents, a calibrator fitted on about half of them is judged as well as one fitted
# on all folds but one, at less than half the cost.
MIN_DOCUMENTS_HALVES = 3_000


class ChosenCalibrator(NamedTuple):
    """A set calibrator fitted on all cross-fitted rows, with its cross-validated scores."""

    name: str
    calibrator: SetCalibrator
    confidence: NDArray[np.float64]  # cross-validated, one per candidate
    # Cross-validated Brier score of every calibrator tried, corrected for noise.
    brier: dict[str, float]


def choose_calibrator(rows: CrossFitted, options: TrainingOptions) -> ChosenCalibrator:
    """Compare set calibrators by cross-validation and fit the best on all rows.

    The comparison uses the rows that the method shows: every candidate when reranking, each
    document's most probable set otherwise. When reranking, of calibrators whose Brier scores are
    within one standard error of the lowest the one wins whose first candidates are right most
    often: few documents tell rankings apart before they tell confidences apart, and the announced
    curve corrects these.
    """
    n_documents = rows.candidates.n_documents
    if rows.rates is not None:
        n_documents = int(effective_rows(*rows.rates))
    right = int(rows.correct.sum())
    available = _contenders(options)
    if options.noise is None and options.calibrator == "auto":
        calibrators = preset_of(options, rows.candidates.n_documents).calibrators
        available = {name: available[name] for name in calibrators}
    names = _affordable(
        available, n_documents, right, len(rows.correct) - right, options.calibrator
    )
    contenders = {name: available[name] for name in names}
    confidences = cross_validate(contenders, rows, options.n_jobs)
    shown = np.arange(len(rows.correct))
    if not options.reranks:
        shown = rows.candidates.doc_indptr[:-1]
    losses = {name: _losses(rows, confidence) for name, confidence in confidences.items()}
    brier = {name: float(np.mean(loss[shown])) for name, loss in losses.items()}
    best = min(names, key=lambda name: (brier[name], names.index(name)))
    if options.reranks:
        first = rows.candidates.doc_indptr[:-1]
        totals = {name: np.add.reduceat(loss, first) for name, loss in losses.items()}
        alike = [name for name in names if _is_alike(totals[name] - totals[best])]
        right_share = {name: _right_share(rows, confidences[name]) for name in alike}
        best = max(alike, key=lambda name: (right_share[name], -brier[name]))
    calibrator = _fit(contenders[best], _Judged.of(rows))
    return ChosenCalibrator(best, calibrator, confidences[best], brier)


def refit_calibrator(
    choice: ChosenCalibrator, rows: CrossFitted, options: TrainingOptions
) -> ChosenCalibrator:
    """Refit the chosen kind of calibrator on rows that include announced sets."""
    unfitted = _contenders(options)[choice.name]
    confidence = cross_validate({choice.name: unfitted}, rows, options.n_jobs)[choice.name]
    return ChosenCalibrator(choice.name, _fit(unfitted, _Judged.of(rows)), confidence, choice.brier)


def cross_validate(
    contenders: dict[str, SetCalibrator], rows: CrossFitted, n_jobs: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the cross-validated confidences of each calibrator, in two parts of many documents."""
    judged = _Judged.of(rows)
    folds = np.unique(judged.folds)
    parts = [(calibrator, fold) for calibrator in contenders.values() for fold in folds]
    # In this process always: each worker would hold the table, gigabytes for a million documents.
    results = iter(Threads(thread_count(n_jobs)).run(_confidence, judged, parts))
    out = {name: np.empty(len(judged.folds)) for name in contenders}
    for confidence in out.values():
        for fold in folds:
            confidence[judged.folds == fold] = next(results)
    return out


class _Judged(NamedTuple):
    """Candidates, and what is known of their being right."""

    folds: NDArray[np.int64]
    table: SetFeatureTable
    correct: NDArray[np.uint8]
    rates: RowRates | None

    @classmethod
    def of(cls, rows: CrossFitted) -> Self:
        many = rows.candidates.n_documents >= MIN_DOCUMENTS_HALVES
        folds = rows.set_folds % 2 if many else rows.set_folds
        return cls(folds, rows.table, rows.correct, rows.set_rates)

    def take(self, some: NDArray[np.int64]) -> Self:
        """Return some of the candidates."""
        rates = None if self.rates is None else self.rates.take(some)
        return self._replace(
            folds=self.folds[some],
            table=self.table.take(some),
            correct=self.correct[some],
            rates=rates,
        )


def _confidence(judged: _Judged, part: tuple[SetCalibrator, int]) -> NDArray[np.float64]:
    """Return a fold's confidences by a calibrator fitted on the other folds."""
    calibrator, fold = part
    # Copy tables part by part: copies for all folds at once would take too much memory.
    fitted = _fit(clone(calibrator), judged.take(np.flatnonzero(judged.folds != fold)))
    return np.asarray(fitted.predict(judged.table.take(np.flatnonzero(judged.folds == fold))))


def _fit(calibrator: SetCalibrator, judged: _Judged) -> SetCalibrator:
    """Fit a calibrator to candidates, as their noise asks for."""
    _, table, labels, rates = judged
    if rates is None:
        return calibrator.fit(table, labels)
    if isinstance(calibrator, RobustLogisticSets | RobustBoostedSets):
        return calibrator.fit(table, labels, alpha=rates.alpha, beta=rates.beta)
    return calibrator.fit(table, shifted_target(labels, *rates))  # they minimise a square loss


def _losses(rows: CrossFitted, confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared error of each candidate without noise, (4.3) of the thesis."""
    target = _target(rows)
    return np.asarray((confidence - target) ** 2 + target - target**2)


def _target(rows: CrossFitted) -> NDArray[np.float64]:
    labels = rows.correct.astype(np.float64)
    return labels if rows.set_rates is None else shifted_target(labels, *rows.set_rates)


def _is_alike(differences: NDArray[np.float64]) -> bool:
    """Return whether the mean difference is within one standard error of zero."""
    n = len(differences)
    return bool(differences.mean() <= differences.std(ddof=n > 1) / np.sqrt(n))


def _right_share(rows: CrossFitted, confidence: NDArray[np.float64]) -> float:
    """Return the share of documents whose most confident candidate is right."""
    bounds = rows.candidates.doc_indptr
    most = np.repeat(np.maximum.reduceat(confidence, bounds[:-1]), np.diff(bounds))
    places = np.flatnonzero(confidence == most)
    _, first = np.unique(rows.candidates.document[places], return_index=True)
    return float(_target(rows)[places[first]].mean())


def set_calibrators(seed: int) -> dict[str, SetCalibrator]:
    """Return every set calibrator by name, simplest first."""
    return {
        "uncalibrated": UncalibratedSets(),
        "isotonic": IsotonicSets(),
        "cardinality-isotonic": CardinalityIsotonicSets(),
        "conditional-logit": ConditionalLogitSets(random_state=seed),
        "tree": TreeSets(random_state=seed),
        "boosted-squared": BoostedSets("squared", random_state=seed),
        "boosted-logistic": BoostedSets("logistic", random_state=seed),
        "group-softmax": SoftmaxSets(random_state=seed),
    }


def robust_set_calibrators(seed: int, *, uniform: bool) -> dict[str, SetCalibrator]:
    """Return the set calibrators for noisy labels by name, simplest first.

    Parameters
    ----------
    seed : int
    uniform : bool
        Whether all labels are equally noisy.
    """
    algorithm: LossName = "uniform" if uniform else "annotator"  # 4.3 and 4.4 of the thesis
    return {
        "uncalibrated": UncalibratedSets(),
        "isotonic": IsotonicSets(),
        "cardinality-isotonic": CardinalityIsotonicSets(),
        "robust-logistic": RobustLogisticSets(),
        "boosted-squared": BoostedSets("squared", random_state=seed),
        "robust-boosted": RobustBoostedSets(random_state=seed),
        # A leaf is a mean, a fourth of a Newton step; so they learn four times as fast.
        "robust-trees": RobustBoostedSets(algorithm, learning_rate=0.2, random_state=seed),
    }


def _contenders(options: TrainingOptions) -> dict[str, SetCalibrator]:
    if options.noise is None:
        return set_calibrators(options.seed)
    uniform = len(set(checked_noise(options.noise).values())) == 1
    return robust_set_calibrators(options.seed, uniform=uniform)


def _affordable(
    available: Iterable[str], n_documents: int, right: int, wrong: int, requested: CalibratorName
) -> list[str]:
    """Return the names of the calibrators that this many documents support."""
    names = ["uncalibrated"]
    if n_documents >= MIN_DOCUMENTS_ISOTONIC:
        names += ["isotonic", "cardinality-isotonic"]
        names += [LINEAR] if LINEAR in available else []
    if n_documents >= MIN_DOCUMENTS_TREES and min(right, wrong) >= MIN_OUTCOMES_TREES:
        names += [name for name in available if name not in names]
    if requested in names:
        return [requested]
    if requested != "auto" or set(names) != set(available):
        warnings.warn(
            f"{n_documents} documents with {right} right and {wrong} wrong candidate sets are too "
            + (
                f"few for exact confidences, so fewer documents can be sent; label more: "
                f"{MIN_DOCUMENTS_TREES} documents with {MIN_OUTCOMES_TREES} right and "
                f"{MIN_OUTCOMES_TREES} wrong candidate sets suffice"
                if requested == "auto"
                else f"few for a {requested} calibrator: using the best of {', '.join(names)}; "
                f"trees need {MIN_DOCUMENTS_TREES} documents and {MIN_OUTCOMES_TREES} candidates "
                f"of either outcome, curves and a logit {MIN_DOCUMENTS_ISOTONIC} documents"
            ),
            TrainingWarning,
            stacklevel=4,
        )
    return names
