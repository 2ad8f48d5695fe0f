"""Runs a method of the papers on a split, by itself or with the set calibrator on top."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks.papers.baselines.method import Method, Predicted, as_sets
from benchmarks.papers.baselines.registry import PAPER_METHODS, RERANKED
from benchmarks.papers.baselines.smooth_link import best_f1_by_label
from benchmarks.papers.runs import Progress, Run
from setwise.models.data.answers import ModelAnswers, concatenate_answers
from setwise.models.data.datasets import Dataset
from setwise.models.data.splits import fold_ids
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.labels.scaling import FeatureWeighting, as_rows
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import RaggedSets
from setwise.models.sets.decisions import Objective
from setwise.models.sets.f_measure import maximise_expected_f1
from setwise.models.training import fit_features, train

_SHARE_ASIDE = 5  # one document of so many, as in the papers
_GIVEN = 10  # sets of a joint that the set calibrator gets

# The metric by which parameters are chosen, and its sign.
_MEASURE: dict[Objective, tuple[str, int]] = {
    "set-accuracy": ("set_accuracy", 1),
    "f1": ("instance_f1", 1),
    "hamming": ("hamming_loss", -1),
    "macro-f1": ("macro_f1", 1),
}


def run_paper_method(
    name: str,
    train_part: Dataset,
    test_part: Dataset,
    options: TrainingOptions,
    progress: Progress,
    *,
    bootstrap: int = 0,
) -> Iterator[Run]:
    """Train and evaluate one method; see `run_method`.

    Parameters
    ----------
    name : str
        One of `benchmarks.papers.baselines.registry.names`.
    options : TrainingOptions
        The objective decides which sets a method announces, except for those that yield
        sets of their own. With the set calibrator on top, ``preset`` says what it sees beside the
        method's answers, which are out of fold for the training documents.
    """
    plain, on_top = name.removesuffix(RERANKED), name.endswith(RERANKED)
    predictor = None
    started, cpu_started = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        X, X_test = _matrices(train_part, test_part)
        progress(0.05, "parameters")
        method = _tuned(plain, X, train_part.Y, options)
        progress(0.3, "method on all documents")
        method.fit(X, train_part.Y)
        history = _unseen(method, X, train_part.Y, options, progress) if on_top else None
    if history is not None:
        progress(0.8, "set calibrator")
        answered = replace(train_part, kind="external", answers=history)
        predictor = train(answered, replace(options, method="br-rerank"))
    elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    predicted = method.predict(X_test)
    if predictor is None:
        chosen = decide(plain, predicted, options.optimize, train_part.Y)
        predict_seconds = time.perf_counter() - started - elapsed[0]
        judged = RunningMetrics()
        mass = np.clip(predicted.mass(chosen), 0.0, 1.0)
        judged.add(
            test_part.Y, chosen, mass, marginals=predicted.scores, candidates=predicted.candidates
        )
        metrics = judged.result(bootstrap)
    else:
        predict_seconds = time.perf_counter() - started - elapsed[0]
        test_answers = replace(test_part, kind="external", answers=as_answers(predicted))
        metrics = evaluate(predictor, test_answers, bootstrap=bootstrap)
        predict_seconds += metrics.predict_seconds or 0.0
    metrics = metrics.timed(predict_seconds=predict_seconds, train_seconds=elapsed[0])
    title = name + (f" --preset {options.preset}" if on_top else "")
    if options.optimize != TrainingOptions().optimize:
        title += f" --optimize {options.optimize}"
    yield Run(title, options.seed, replace(metrics, train_cpu_seconds=elapsed[1]))
    progress(1.0, "done")


def check_objective(name: str, objective: Objective) -> None:
    """Raise an error if a method by itself does not know an objective."""
    if name in PAPER_METHODS and objective not in _MEASURE:
        objectives = ", ".join(_MEASURE)
        raise ValueError(f"{name} optimises {objectives}; use {name}{RERANKED} for {objective}")


def decide(name: str, predicted: Predicted, objective: Objective, Y: csr_array) -> csr_array:
    """Return the sets (n, L) that a method announces for an objective.

    Parameters
    ----------
    Y : csr_array
        Label sets of the training documents.
    """
    if objective == "set-accuracy" or PAPER_METHODS[name].yields == "set":
        return predicted.sets
    if objective == "hamming":
        return as_sets(predicted.scores > 0.5)
    if objective == "macro-f1":
        prior = np.bincount(Y.indices, minlength=Y.shape[1]) / Y.shape[0]
        return as_sets(best_f1_by_label(predicted.scores, prior))
    if predicted.candidates is not None:
        mass = np.exp(predicted.candidates.log_score)
        return maximise_expected_f1(candidates=predicted.candidates, masses=mass).sets
    weights = np.ones((len(predicted.scores), 1))
    marginals = predicted.scores[:, None, :]
    return maximise_expected_f1(product_weights=weights, product_marginals=marginals).sets


def as_answers(predicted: Predicted) -> ModelAnswers:
    """Return predictions in the form of another model's answers."""
    answers = ModelAnswers.of_scores(predicted.scores)
    if predicted.candidates is None:
        return answers
    best = predicted.candidates.top(_GIVEN)
    return replace(
        answers,
        doc_indptr=best.doc_indptr,
        sets=RaggedSets(best.set_indptr, best.labels),
        counts=np.ones(len(best)),
        set_scores=np.exp(best.log_score),
    )


def _matrices(train_part: Dataset, test_part: Dataset) -> tuple[csr_array, csr_array]:
    """Return both parts' weighted features, as binary relevance reads them."""
    if train_part.texts is None and train_part.X is None:
        raise ValueError("the papers' methods need texts or features, not another model's answers")
    vectorizer, scaler, X = fit_features(train_part, TrainingOptions(preset="paper"))
    if vectorizer is not None:
        X_test = vectorizer.transform(test_part.texts or ())
    elif scaler is not None:
        X_test = scaler.transform(as_rows(test_part.X, np.float64))
    else:
        X_test = as_rows(test_part.X)
    weighting = FeatureWeighting().fit(X)
    return weighting.transform(X), weighting.transform(X_test)


def _tuned(name: str, X: csr_array, Y: csr_array, options: TrainingOptions) -> Method:
    """Return the unfitted method with the parameters that do best on documents set aside."""
    entry = PAPER_METHODS[name]
    method: Method = entry.make()
    if "random_state" in method.get_params():
        method.set_params(random_state=options.seed)
    choices: list[dict[str, Any]] = [
        dict(zip(entry.grid, values, strict=True)) for values in product(*entry.grid.values())
    ]
    if len(choices) == 1:
        return method
    order = np.random.default_rng(options.seed).permutation(X.shape[0])
    aside, rest = np.split(order, [max(1, X.shape[0] // _SHARE_ASIDE)])
    measure, sign = _MEASURE.get(options.optimize, _MEASURE["set-accuracy"])

    def worth(choice: dict[str, Any]) -> float:
        predicted = clone(method).set_params(**choice).fit(X[rest], Y[rest]).predict(X[aside])
        chosen = decide(name, predicted, options.optimize, Y[rest])
        metrics = RunningMetrics().add(Y[aside], chosen, np.zeros(len(aside))).result()
        return sign * float(getattr(metrics, measure))

    method.set_params(**max(choices, key=worth))
    return method


def _unseen(
    method: Method, X: csr_array, Y: csr_array, options: TrainingOptions, progress: Progress
) -> ModelAnswers:
    """Return what clones predict for documents that they were not fitted on."""
    folds = fold_ids(Y, options.n_folds, options.seed)
    parts = []
    for fold in range(options.n_folds):
        progress(0.4 + 0.4 * fold / options.n_folds, f"method without fold {fold + 1}")
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = clone(method).fit(X[outside], Y[outside])
        parts.append(as_answers(fitted.predict(X[inside])))
    place = np.argsort(np.argsort(folds, kind="stable"), kind="stable")
    return concatenate_answers(parts).take(place)
