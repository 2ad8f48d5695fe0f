"""Fit a calibrator on reviewed predictions; compare it with the current one."""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.recalibration import (
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
    cross_fit,
)
from setwise.models.calibration.sampling import effective_rows, inclusion_weights
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.judging import judge_scores
from setwise.models.evaluation.paired import compare_confidences
from setwise.models.evaluation.reports import report_calibration
from setwise.models.evaluation.shift import worth_after_shift
from setwise.models.results import AutomationAt
from setwise.models.sets.candidates import RaggedSets
from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import (
    LearningRow,
    Progress,
    RecalibrationQuestion,
    least_rows,
    sending_notice,
    undecided,
    unvouched,
)
from setwise.service.domain.recalibration.report import (
    AutomationChange,
    CalibrationMeasures,
    CalibrationReport,
    CalibratorComparison,
    ErrorsCorrected,
    GroupErrorRates,
    OriginalRows,
    RouteChange,
    RouteChanges,
    RoutesChanged,
    RowsUsed,
)
from setwise.service.services.ports import CalibratorStore, Predictor

Floats = NDArray[np.float64]


N_FOLDS = 5

LEAST_GOLD = 50
"""Gold labels, outcomes and audits, from which on they alone judge a calibrator."""

TRUTH = "taken for the truth"
"""Group, in a report, for leads' decisions and outcomes."""

MOST_LISTED = 200
"""Most documents listed whose route would change, in each direction."""


class Learnt(NamedTuple):
    """A calibrator with its report."""

    kept: StoredRecalibration
    replaces: str
    report: CalibrationReport
    blind_spot: str | None
    """Why it must not be activated automatically; None if nothing speaks against it."""

    @property
    def better(self) -> bool:
        """Whether the paired test proves it better."""
        return self.report.comparison.better


def learn(
    question: RecalibrationQuestion,
    model: Predictor,
    calibrators: CalibratorStore,
    report: Progress,
) -> Learnt:
    """Fit and cross-fit a calibrator, and compare it with the current one."""
    index = {label: column for column, label in enumerate(model.labels)}
    rows = sorted(question.lessons.rows, key=lambda row: row.document.id)
    sets = announced(question.taught, index)
    answers = _answers(rows)
    present = _present(question, calibrators, len(index))

    def folds_done(number: int, of: int) -> None:
        report(0.1 + 0.6 * (number - 1) / of, f"fold {number} of {of}")

    original = calibrators.original_rows(question.model)
    n_effective = effective_rows(answers.alpha, answers.beta, answers.weight)
    always = None if original is None else beside_reviews(original, n_effective, sets, answers)
    crossed = cross_fit(sets, answers, _folds(rows), always=always, progress=folds_done)
    report(0.7, "learning from all rows")
    fitted = ConfidenceCorrection.fit(sets, answers, always=always)
    kept = StoredRecalibration(model.version, model.own_calibrator_version, fitted)
    report(0.8, "comparing with the calibrator that serves")
    before = present.predict(sets)
    least = least_rows(question.model)
    blind_spot = unvouched(question) or _self_judged(question, rows, least)
    warnings = tuple(
        warning for warning in (blind_spot, undecided(question.lessons)) if warning is not None
    )
    recent = [
        prediction
        for prediction in question.recent
        if not prediction.scored.out_of_domain and prediction.rule is None
    ]
    return Learnt(
        kept=kept,
        replaces=(
            question.active.version if question.active is not None else model.own_calibrator_version
        ),
        report=CalibrationReport(
            rows=_rows_used(
                rows, question, answers, n_effective, _original_rows(question, original, always)
            ),
            noise=_errors_corrected(rows, question),
            before=measure(before, answers),
            after=measure(crossed, answers),
            automation=AutomationChange(
                question.policy.target_accuracy,
                _automation(question.policy, before, answers),
                _automation(question.policy, crossed, answers),
            ),
            comparison=_comparison(rows, answers, before, crossed, least),
            sending=sending_notice(question.policy, Scorer(model.version, kept.version)),
            routes=_routes_changed(question.policy, recent, present, fitted, index),
            warnings=warnings,
        ),
        blind_spot=blind_spot,
    )


def announced(predictions: Sequence[Prediction], index: Mapping[str, int]) -> AnnouncedSets:
    """Return the announced sets with the model's own confidences."""
    confidence, score, runner_up, rest = (np.zeros(len(predictions)) for _ in range(4))
    labels: list[int] = []
    bounds = [0]
    for place, prediction in enumerate(predictions):
        own = prediction.scored.own_confidences
        confidence[place] = own[0]
        score[place] = prediction.scored.candidates[0].score
        runner_up[place] = max(own[1:], default=0.0)
        rest[place] = min(max(1.0 - sum(own), 0.0), 1.0)
        labels += sorted(index[label] for label in prediction.scored.best.labels)
        bounds.append(len(labels))
    sets = RaggedSets(np.array(bounds, dtype=np.int64), np.array(labels, dtype=np.int32))
    return AnnouncedSets(confidence, score, runner_up, rest, sets, len(index))


def rescored(
    predictions: Sequence[Prediction],
    calibrator: ConfidenceCorrection | None,
    labels: Sequence[str],
) -> list[float]:
    """Return a calibrator's confidences in stored predictions.

    ``calibrator``: None is the model's own.
    ``labels``: All labels of the model, in its order.
    """
    if calibrator is None:
        return [prediction.scored.own_confidences[0] for prediction in predictions]
    index = {label: column for column, label in enumerate(labels)}
    confidences: list[float] = calibrator.predict(announced(predictions, index)).tolist()
    return confidences


def _answers(rows: Sequence[LearningRow]) -> ReviewOutcomes:
    return ReviewOutcomes.of(
        [float(row.answer.agreed) for row in rows],
        weight=inclusion_weights([row.inclusion_probability for row in rows]),
        alpha=np.array([row.rates.alpha for row in rows]),
        beta=np.array([row.rates.beta for row in rows]),
    )


def beside_reviews(
    original: CalibrationRows, n_effective: float, sets: AnnouncedSets, answers: ReviewOutcomes
) -> tuple[AnnouncedSets, ReviewOutcomes]:
    """Return the original rows, worth less the further the reviews leave the confidences."""
    older, taught = original.beside(n_effective)
    most = worth_after_shift(
        sets.confidence,
        answers.agreed,
        alpha=answers.alpha,
        beta=answers.beta,
        weight=answers.weight,
    )
    share = effective_rows(taught.alpha, taught.beta) / len(older)
    left = min(1.0, most / float(taught.weight.sum() * share))
    return older, taught._replace(weight=taught.weight * left)


def _folds(rows: Sequence[LearningRow]) -> NDArray[np.int64]:
    """Return each row's fold, which depends only on the row's document."""
    names = (f"{row.document.client_id}\0{row.document.name}" for row in rows)
    return np.array([zlib.crc32(name.encode()) % N_FOLDS for name in names], dtype=np.int64)


def _present(
    question: RecalibrationQuestion, calibrators: CalibratorStore, n_labels: int
) -> ConfidenceCorrection:
    if question.active is None:
        return ConfidenceCorrection.identity(n_labels)
    return calibrators.load_calibrator(question.active.location).recalibration


def _comparison(
    rows: Sequence[LearningRow], answers: ReviewOutcomes, before: Floats, after: Floats, least: int
) -> CalibratorComparison:
    """Compare on rows that neither calibrator has seen, if there are enough."""
    unseen, gold = _judges(rows, least)
    if len(unseen) == 0:
        n = sum(not row.seen_before for row in rows)
        return CalibratorComparison.skipped(
            n,
            f"{n} rows were reviewed since the calibrator that serves was learnt; a fair "
            f"comparison takes {least}",
        )
    asked = answers.take(unseen)
    compared = compare_confidences(
        before[unseen],
        after[unseen],
        asked.agreed,
        alpha=asked.alpha,
        beta=asked.beta,
        sample_weight=asked.weight,
    )
    return CalibratorComparison.tested(
        **vars(compared), judged_by="gold labels" if gold else "all answers"
    )


def _judges(rows: Sequence[LearningRow], least: int) -> tuple[NDArray[np.int64], bool]:
    """Return the rows to compare on, and whether they are gold labels.

    Rates that are wrong make the fit wrong and its comparison too, so gold labels judge alone where
    there are enough of them.
    """
    unseen = np.array([not row.seen_before for row in rows], dtype=bool)
    gold = unseen & np.array([row.answer.gold for row in rows], dtype=bool)
    if gold.sum() >= LEAST_GOLD:
        return np.flatnonzero(gold), True
    enough = unseen.sum() >= least
    return np.flatnonzero(unseen if enough else np.zeros_like(unseen)), False


def _self_judged(
    question: RecalibrationQuestion, rows: Sequence[LearningRow], least: int
) -> str | None:
    """Return why nothing but the rates themselves judges rates that were set by hand, or None."""
    if not question.by_hand or _judges(rows, least)[1]:
        return None
    return (
        "The error rates were set by hand, and with them every fit looks better that believes "
        f"them. It takes {LEAST_GOLD} new outcomes and audits before such a calibrator is "
        "activated automatically."
    )


def _rows_used(
    rows: Sequence[LearningRow],
    question: RecalibrationQuestion,
    answers: ReviewOutcomes,
    effective: float,
    original: OriginalRows,
) -> RowsUsed:
    agreed = int(answers.agreed.sum())
    return RowsUsed(
        used=len(rows),
        agreed=agreed,
        contradicted=len(rows) - agreed,
        by_source=dict(sorted(Counter(row.answer.source for row in rows).items())),
        seen_before=sum(row.seen_before for row in rows),
        excluded=question.lessons.excluded,
        until=max(row.answered_at for row in rows),
        effective=effective,
        original=original,
    )


def _original_rows(
    question: RecalibrationQuestion,
    original: CalibrationRows | None,
    always: tuple[AnnouncedSets, ReviewOutcomes] | None,
) -> OriginalRows:
    if original is None or always is None:
        why = "the artifact is from before they were kept"
        if question.model.without_history:
            why = "the model was started without history"
        return OriginalRows(0, 0.0, why)
    return OriginalRows(len(original), float(always[1].weight.sum()))


def _errors_corrected(
    rows: Sequence[LearningRow], question: RecalibrationQuestion
) -> ErrorsCorrected:
    groups: dict[str, list[LearningRow]] = {}
    for row in rows:
        person = row.answer.person
        name = TRUTH if person is None else person.group
        blind = person is not None and not person.shown
        groups.setdefault(f"{name}, blind" if blind else name, []).append(row)
    return ErrorsCorrected(
        question.options.noise.value,
        {
            name: GroupErrorRates(
                rows=len(inside),
                alpha=float(np.mean([row.rates.alpha for row in inside])),
                beta=float(np.mean([row.rates.beta for row in inside])),
            )
            for name, inside in sorted(groups.items())
        },
    )


def measure(confidence: Floats, answers: ReviewOutcomes) -> CalibrationMeasures:
    """Return how good confidences are; only a judgement if there are few."""
    noise: dict[str, Any] = {  # Any: arguments by name
        "alpha": answers.alpha,
        "beta": answers.beta,
        "sample_weight": answers.weight,
    }
    found = report_calibration(confidence, answers.agreed, **noise)
    judged = judge_scores(confidence, answers.agreed, **noise)
    return CalibrationMeasures(judgement=judged, **vars(found))


def _automation(policy: Policy, confidence: Floats, answers: ReviewOutcomes) -> AutomationAt:
    return automation_at(
        policy.target_accuracy,
        confidence,
        answers.agreed,
        alpha=answers.alpha,
        beta=answers.beta,
        sample_weight=answers.weight,
    )


def _routes_changed(
    policy: Policy,
    recent: Sequence[Prediction],
    present: ConfidenceCorrection,
    proposed: ConfidenceCorrection,
    index: Mapping[str, int],
) -> RoutesChanged:
    """Return the recent documents whose route would change at the current threshold."""
    thresholds = [gate.least_confidence for gate in policy.gates if policy.auto_send]
    in_force = min((each for each in thresholds if each is not None), default=None)
    least = policy.target_accuracy if in_force is None else in_force
    sets = announced(recent, index)
    before, after = present.predict(sets), proposed.predict(sets)

    def listed(places: NDArray[np.int64]) -> RouteChanges:
        items = (
            RouteChange(recent[place].id, float(before[place]), float(after[place]))
            for place in places[:MOST_LISTED].tolist()
        )
        return RouteChanges(len(places), tuple(items))

    return RoutesChanged(
        documents=len(recent),
        threshold=least,
        threshold_from="the target, as none is in force" if in_force is None else "the policy",
        to_auto=listed(np.flatnonzero((before < least) & (after >= least))),
        to_review=listed(np.flatnonzero((before >= least) & (after < least))),
    )
