"""Fits a whole predictor: label scores, label calibrator, set features, set calibrator.

Calibrators are fitted on out-of-fold rows (`crossfit`); every part that scores new documents is
then refitted on all rows. Two steps use all rows at once. The text vectorizer counts document
frequencies, which do not depend on the labels. The penalties of binary relevance are chosen once,
so that out-of-fold scores and final scores are on the same scale.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from setwise.models.calibration.announced_curve import AnnouncedCurve, cross_corrected
from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.choice import ChosenCalibrator, choose_calibrator, refit_calibrator
from setwise.models.calibration.crossfit import CrossFitted, Progress, cross_fit, out_of_fold_logits
from setwise.models.calibration.losses import shifted_target
from setwise.models.calibration.noisy_history import RowRates
from setwise.models.data.capacity import check_room, rows_at_once
from setwise.models.data.dataset_files import MIN_TRAINING_DOCUMENTS
from setwise.models.data.datasets import Dataset, check_dataset
from setwise.models.data.formats.reviews import GOLD
from setwise.models.data.rows import SparseRows
from setwise.models.data.scaler import FeatureScaler
from setwise.models.data.splits import fold_ids
from setwise.models.data.support import Support
from setwise.models.data.text import TextVectorizer
from setwise.models.evaluation.automation import AUTOMATION_TARGETS, automation_at
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.labels.scaling import as_rows, no_features
from setwise.models.methods import METHODS, method_of
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.proposals import Proposal
from setwise.models.options import (
    PRESETS,
    TrainingOptions,
    TrainingWarning,
    extras_of,
)
from setwise.models.predictor import SetPredictor, count_trained, trained_features
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.coherence import coherent_confidence, coherent_marginals
from setwise.models.sets.decider import Decider, announced_order
from setwise.models.sets.deciding import fit_decider
from setwise.models.sets.reranker import SetReranker
from setwise.models.storage.artifacts import content_versions

MOST_RARE = 0.5
"""Share of words that may be too rare to learn from before training warns."""


def train(
    dataset: Dataset,
    options: TrainingOptions | None = None,
    progress: Progress | None = None,
    *,
    folds: NDArray[np.int64] | None = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> SetPredictor:
    """Fit a predictor on labelled documents.

    Parameters
    ----------
    dataset : Dataset
        At least ten documents, one of which carries a label. With answers of another model, these
        stand in the place of binary relevance; they must not come from a model that was fitted on
        these documents.
    options : TrainingOptions, optional
    progress : callable, optional
        Called with the share of the work done, in [0, 1], and the name of the current stage.
    folds : int64 ndarray of shape (n_documents,), optional
        Fold of each document in the cross-fitting, at least two different; by default
        `options.n_folds` at random.
    sample_weight : float64 ndarray of shape (n_documents,), optional
        Weights of the documents in binary relevance. Calibrators count each document once, since a
        confidence is a share of documents.

    Returns
    -------
    SetPredictor
        Its manifest holds ``metrics``, estimated by cross-fitting.

    Raises
    ------
    ValueError
        If there is too little data to learn from.

    Warns
    -----
    TrainingWarning
        If there are too few documents for the calibrator that would otherwise be used, or most
        words are in too few documents to learn from.
    """
    check_dataset(dataset)
    options = options or TrainingOptions()
    report = progress or _silent
    started = time.monotonic()
    rates = (
        None if options.noise is None else RowRates.of(options.noise, dataset.annotators, dataset.n)
    )
    fitted = fit_base(
        dataset, options, _part(report, 0.0, 0.88), folds=folds, sample_weight=sample_weight
    )
    fitted = fitted._replace(rows=replace(fitted.rows, rates=rates))
    report(0.88, "set calibrators")
    chosen = choose_calibrator(fitted.rows, options)
    decider: Decider | None = None
    if options.optimize != "set-accuracy":
        report(0.95, "decision rule")
        decider, rows = fit_decider(
            fitted.rows, dataset.Y, chosen.confidence, options.optimize, fitted.proposal.final
        )
        fitted = fitted._replace(rows=rows)
        chosen = refit_calibrator(chosen, rows, options)
    report(0.98, "final parts")
    seconds = time.monotonic() - started
    predictor = assemble(dataset, fitted, chosen, options, decider, seconds=seconds)
    report(1.0, "done")
    return predictor


class FittedBase(NamedTuple):
    """All fitted parts that come before the set calibrator."""

    vectorizer: TextVectorizer | None
    scaler: FeatureScaler | None
    X: csr_array  # (n_documents, n_features), scaled
    base: BinaryRelevance | GivenScores  # fitted on all documents
    proposal: Proposal
    rows: CrossFitted


def fit_base(
    dataset: Dataset,
    options: TrainingOptions,
    progress: Progress | None = None,
    *,
    folds: NDArray[np.int64] | None = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> FittedBase:
    """Fit the label scores and cross-fit the rows for set calibrators.

    The parameters are those of `train`.

    Raises
    ------
    ValueError
        If there is too little data to learn from, or too much for the available memory.
    """
    report = progress or _silent
    _check(dataset)
    method = method_of(dataset, options)
    whole = options.optimize != "set-accuracy"
    check_room(dataset.n, len(dataset.label_names), whole=whole)
    report(0.0, "features")
    vectorizer, scaler, X = fit_features(dataset, options)
    report(0.05, "binary relevance on all documents")
    scores = method.label_scores(X, sample_weight)
    if folds is None:
        folds = fold_ids(dataset.Y, min(options.n_folds, dataset.n), options.seed)
    extras = extras_of(options, dense=scaler is not None and scaler.dense, n_documents=dataset.n)
    logits = out_of_fold_logits(
        scores.for_folds,
        scores.read,
        dataset.Y,
        folds,
        _part(report, 0.4 * method.scored, method.scored),
        sample_weight=sample_weight,
        n_jobs=options.n_jobs,
    )
    report(method.scored, method.stage)
    proposal = method.proposal(X, extras)
    report(method.proposed, "candidates and their features")
    with warnings.catch_warnings():
        # The fit on all documents has already warned about the number of components.
        warnings.simplefilter("ignore", ComponentWarning)
        rows = cross_fit(
            X,
            dataset.Y,
            folds,
            logits,
            label_calibrator=_label_calibrator(options),
            source=proposal.for_folds,
            features=proposal.features,
            voters=proposal.voters,
            answers=scores.answers,
            n_jobs=options.n_jobs,
        )
    return FittedBase(vectorizer, scaler, X, scores.base, proposal, rows)


def _label_calibrator(options: TrainingOptions) -> LabelCalibrator:
    return LabelCalibrator(1.0) if options.preset == "paper" else LabelCalibrator()


def assemble(
    dataset: Dataset,
    fitted: FittedBase,
    chosen: ChosenCalibrator,
    options: TrainingOptions,
    decider: Decider | None = None,
    *,
    seconds: float | None = None,
) -> SetPredictor:
    """Fit the remaining parts on all documents and return the predictor.

    ``seconds`` is the training time so far; it is stored in the manifest.
    """
    vectorizer, scaler, X, base, proposal, rows = fitted
    Y, read = dataset.Y, X if dataset.X is None else dataset.X
    trained = trained_features(read)
    if vectorizer is not None:
        trained[vectorizer.n_named :] = False  # parts of unknown words are no knowledge
    announced = _announced(rows, chosen.confidence, options)
    first = announced.candidates.doc_indptr[:-1]
    predictor = SetPredictor(
        kind=dataset.kind,
        label_names=dataset.label_names,
        feature_names=_feature_names(dataset, vectorizer),
        vectorizer=vectorizer,
        scaler=scaler,
        trained_features=trained,
        support=_support(dataset, vectorizer, count_trained(SparseRows.of(read), trained)),
        base=base,
        label_calibrator=_label_calibrator(options).fit(rows.logits, Y),
        voters=proposal.voters,
        decider=decider,
        source=proposal.final,
        reranker=SetReranker(
            clone(proposal.features).fit(X, Y),
            chosen.calibrator,
            by_confidence=options.reranks,
        ),
        curve=AnnouncedCurve.fit(
            announced.uncorrected[first], announced.right[first], rates=rows.rates
        ),
        calibration_rows=CalibrationRows.of(
            announced.candidates,
            announced.confidence,
            announced.right,
            rates=rows.rates,
            random_state=options.seed,
        ),
        manifest={
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "setwise_version": installed("setwise"),
            "method": options.method,
            "libraries": libraries(),
            "training": {
                **asdict(options),
                "alpha_range": (
                    [float(base.alpha_.min()), float(base.alpha_.max())]
                    if isinstance(base, BinaryRelevance)
                    else None
                ),
                "noise": _noise_json(rows.rates, dataset.annotators),
                "calibrator_chosen": chosen.name,
                "calibrator_brier": chosen.brier,
                "decision_rule": None if decider is None else decider.get_state()[1],
                "seconds": None if seconds is None else round(seconds, 3),
            },
            "data": {
                "kind": dataset.kind,
                "fingerprint": dataset.fingerprint,
                "n_documents": dataset.n,
                "n_labels": len(dataset.label_names),
                "n_features": int(X.shape[1]),
            },
            "metrics": _cross_fitted_metrics(rows, announced, Y),
        },
    )
    version, calibrator_version = content_versions(predictor)
    return replace(predictor, version=version, calibrator_version=calibrator_version)


def _check(dataset: Dataset) -> None:
    if dataset.n < MIN_TRAINING_DOCUMENTS:
        raise ValueError(
            f"{dataset.n} documents are too few to train on; give at least {MIN_TRAINING_DOCUMENTS}"
        )
    if dataset.Y.nnz == 0:
        raise ValueError("no document carries a label; give labelled documents")


def fit_features(
    dataset: Dataset, options: TrainingOptions
) -> tuple[TextVectorizer | None, FeatureScaler | None, csr_array]:
    """Return the parts that read documents, fitted, and the rows (n, n_features), float32."""
    if dataset.texts is None:
        if dataset.X is None and dataset.answers is not None:
            return None, None, no_features(dataset.n)
        if dataset.X is None:
            raise ValueError("the data set holds neither texts nor vectors")
        exact = as_rows(dataset.X, np.float64)
        scaler = FeatureScaler().fit(exact)
        if scaler.active:
            return None, scaler, scaler.transform(exact)
        return None, None, as_rows(dataset.X)
    ngrams = options.texts_by == "characters"
    whole_words = METHODS[options.method].whole_words
    vectorizer = TextVectorizer(
        bigrams=options.bigrams,
        beginnings=0 if ngrams or whole_words else PRESETS[options.preset].beginnings,
        ngrams=ngrams,
        first_line_twice=True,
    ).fit(dataset.texts)
    if vectorizer.rare_share_ > MOST_RARE:
        warnings.warn(
            f"{vectorizer.rare_share_:.0%} of the words in the texts occur in fewer than "
            f"{vectorizer.min_df} documents, so that little can be learnt from them: are the texts "
            "encrypted, encoded, or in a script whose words are not found?",
            TrainingWarning,
            stacklevel=3,
        )
    return vectorizer, None, vectorizer.transform(dataset.texts)


def _feature_names(dataset: Dataset, vectorizer: TextVectorizer | None) -> tuple[str, ...]:
    if vectorizer is not None:
        return tuple(vectorizer.get_feature_names_out())
    return dataset.feature_names or ()


def _noise_json(
    rates: RowRates | None, annotators: Sequence[str | None] | None
) -> dict[str, Any] | None:
    """Return a summary of the rates; an artifact keeps no names."""
    if rates is None:
        return None
    by = annotators or (None,) * len(rates.alpha)
    unnamed = [name is None for name in by]
    noisy = np.array(unnamed if any(unnamed) else [name != GOLD for name in by])
    means = {name: float(x[noisy].mean()) for name, x in rates._asdict().items() if any(noisy)}
    return {
        "mean_alpha": float(rates.alpha.mean()),
        "mean_beta": float(rates.beta.mean()),
        "unnamed": means or None,
    }


def _support(
    dataset: Dataset, vectorizer: TextVectorizer | None, known: NDArray[np.int32]
) -> Support:
    """Return the bounds of the training documents; answers speak of any document."""
    if dataset.kind == "external":
        return Support.of([1])
    if vectorizer is not None and dataset.texts is not None:
        return Support.of(known, vectorizer.known_share(dataset.texts))
    return Support.of(known)


class _Announced(NamedTuple):
    """Cross-fitted candidates with the announced one first in each document."""

    candidates: CandidateSets
    right: NDArray[np.uint8]  # (n_sets,)
    uncorrected: NDArray[np.float64]  # (n_sets,) the calibrator's confidences
    confidence: NDArray[np.float64]  # (n_sets,) corrected by curves of other folds


def _announced(
    rows: CrossFitted, confidence: NDArray[np.float64], options: TrainingOptions
) -> _Announced:
    candidates, right = rows.candidates, rows.correct
    by_confidence = options.reranks
    if by_confidence or options.optimize != "set-accuracy":
        order = announced_order(candidates, confidence, by_confidence=by_confidence)
        candidates, right, confidence = candidates.reorder(order), right[order], confidence[order]
    confidence = coherent_confidence(candidates, confidence)
    corrected = cross_corrected(candidates, confidence, right, rows.folds, rows.rates)
    return _Announced(candidates, right, confidence, corrected)


def _cross_fitted_metrics(rows: CrossFitted, announced: _Announced, Y: csr_array) -> dict[str, Any]:
    candidates, confidence = announced.candidates, announced.confidence
    judged = RunningMetrics()
    step = rows_at_once(Y.shape[1])
    for start in range(0, len(rows.folds), step):
        part = np.arange(start, min(start + step, len(rows.folds)))
        candidates_here = candidates.take_documents(part)
        sure = confidence[candidates.doc_indptr[start] : candidates.doc_indptr[part[-1] + 1]]
        judged.add(
            Y[part],
            candidates_here.first(),
            sure[candidates_here.doc_indptr[:-1]],
            marginals=coherent_marginals(candidates_here, sure, rows.marginals[part]),
            candidates=candidates_here,
        )
    metrics = judged.result()
    report = {"estimated_by": "cross-fitting on the training documents", **metrics.to_json()}
    if rows.rates is None:
        return report
    first = candidates.doc_indptr[:-1]
    correct, sure = announced.right[first].astype(np.float64), confidence[first]
    right = shifted_target(correct, *rows.rates)
    corrected = {
        "set_accuracy": float(right.mean()),
        "brier": float(np.mean((sure - right) ** 2 + right - right**2)),
        "automation": [
            automation_at(
                target, sure, correct, alpha=rows.rates.alpha, beta=rows.rates.beta
            ).to_json()
            for target in AUTOMATION_TARGETS
        ],
    }
    return {**report, "judged_by": "the labels as given, with their noise", "corrected": corrected}


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that shape a model."""
    names = ["numba", "numpy", "safetensors", "scikit-learn", "scipy", "xgboost-cpu", "xgboost"]
    return {name: release for name in names if (release := installed(name)) is not None}


def installed(distribution: str) -> str | None:
    """Return the version of an installed distribution, None if it is not there."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _silent(_: float, __: str) -> None:
    """Ignore progress."""


def _part(report: Progress, start: float, end: float) -> Callable[[float, str], None]:
    """Return a callback that maps [0, 1] to ``start``..``end`` of ``report``."""
    return lambda done, what: report(start + (end - start) * done, what)
