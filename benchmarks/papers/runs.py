"""Trains and evaluates one method on a data set with a seed."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from setwise.models.data.datasets import Dataset, concatenate_datasets
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.evaluation.metrics import Metrics, RunningMetrics
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.candidates import SOURCE_MARGINALS, merge, one_each
from setwise.models.training import train

Progress = Callable[[float, str], None]

PLAIN_BR = "BR"
NON_EMPTY_BR = "BR without the empty set"

_RANDOM_TEST_SHARE = 0.1
_TRAINING_SHARE = 0.95  # of a run, for the progress bar
_DOCUMENTS_AT_ONCE = 1024


@dataclass(frozen=True)
class Run:
    """Result of one row of the comparison with one seed."""

    method: str
    seed: int
    metrics: Metrics


@dataclass(frozen=True)
class Spread:
    """A metric over several seeds."""

    mean: float
    # Of the mean over seeds; None for a single one. Seeds share the documents of a given split, so
    # this says nothing about other documents.
    standard_error: float | None


def random_split(first: Dataset, second: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Pool two parts and draw a tenth as test part.

    Returns
    -------
    train, test : Dataset
    """
    pooled = concatenate_datasets(first, second)
    order = np.random.default_rng(seed).permutation(pooled.n)
    n_test = round(_RANDOM_TEST_SHARE * pooled.n)
    return pooled.take(np.sort(order[n_test:])), pooled.take(np.sort(order[:n_test]))


def row_name(options: TrainingOptions) -> str:
    """Return a row's name: the options for ``setwise train``.

    Examples
    --------
    >>> row_name(TrainingOptions(method="cbm"))
    'cbm'
    >>> row_name(TrainingOptions(method="br", preset="fast"))  # has no presets
    'br'
    >>> row_name(TrainingOptions(preset="fast"))
    'br-rerank --preset fast'
    >>> row_name(TrainingOptions(optimize="f1"))
    'br-rerank --optimize f1'
    """
    name: str = options.method
    if options.method != "br" and options.preset != TrainingOptions().preset:
        name += f" --preset {options.preset}"
    if options.optimize != TrainingOptions().optimize:
        name += f" --optimize {options.optimize}"
    return name


def run_method(
    train_part: Dataset,
    test_part: Dataset,
    options: TrainingOptions,
    progress: Progress | None = None,
    *,
    bootstrap: int = 0,
) -> Iterator[Run]:
    """Train and evaluate one method; ``br`` also yields plain BR.

    Parameters
    ----------
    train_part, test_part : Dataset
        Columns of the test part's labels begin with those of the training part.
    options : TrainingOptions
    progress : callable, optional
        Called with the share of the run done and the name of the current stage.
    bootstrap : int
        Draws for the intervals of the method's own metrics; 0 for none.

    Yields
    ------
    Run
        Of the method itself, timed; then of what is derived from it, untimed.
    """
    report = progress or _silent
    started, cpu_started = time.perf_counter(), time.process_time()
    predictor = train(train_part, options, lambda done, what: report(_TRAINING_SHARE * done, what))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    report(_TRAINING_SHARE, "evaluation")
    metrics = evaluate(predictor, test_part, bootstrap=bootstrap)
    metrics = replace(metrics, train_seconds=seconds, train_cpu_seconds=cpu_seconds)
    yield Run(row_name(options), options.seed, metrics)
    if options.method == "br":
        never_empty = bool((np.diff(train_part.Y.indptr) > 0).all())
        yield Run(PLAIN_BR, options.seed, judge_majority(predictor, test_part))
        if never_empty:
            judged = judge_majority(predictor, test_part, never_empty=True)
            yield Run(NON_EMPTY_BR, options.seed, judged)
    report(1.0, "done")


def judge_majority(
    predictor: SetPredictor, dataset: Dataset, *, never_empty: bool = False
) -> Metrics:
    """Evaluate plain binary relevance: labels with probability above one half.

    Its confidence is that of the predictor's set calibrator, which sees the set that is predicted
    among the predictor's candidates; an empty set that cannot be right gets 0.

    Parameters
    ----------
    predictor : SetPredictor
    dataset : Dataset
    never_empty : bool
        Whether the most probable label stands in for an empty set.
    """
    judged = RunningMetrics()
    for start in range(0, dataset.n, _DOCUMENTS_AT_ONCE):
        rows = slice(start, start + _DOCUMENTS_AT_ONCE)
        texts = None if dataset.texts is None else dataset.texts[rows]
        X = dataset.X if texts is None else None
        if X is not None:
            features = X[rows]
        elif predictor.vectorizer is not None and texts is not None:
            features = predictor.vectorizer.transform(texts)
        else:
            raise ValueError(f"the data holds {dataset.kind}, but the model takes {predictor.kind}")
        evidence = predictor.evidence(features)
        predicted = evidence.logits > 0.0
        empty = ~predicted.any(axis=1)
        if never_empty:
            predicted[empty, evidence.logits[empty].argmax(axis=1)] = True
        marginals = evidence.marginals
        log_score = np.where(predicted, np.log(marginals), np.log1p(-marginals)).sum(axis=1)
        sets = one_each(csr_array(predicted), log_score, SOURCE_MARGINALS)
        beside = merge(sets, predictor.source.propose(evidence))
        table = predictor.features.transform(evidence, beside)
        confidence = predictor.calibrator.predict(table)[beside.doc_indptr[:-1]]
        if not getattr(predictor.source, "allow_empty_", True):
            confidence = np.where(sets.sizes == 0, 0.0, confidence)
        judged.add(dataset.Y[rows], sets.to_matrix(), confidence, marginals=expit(evidence.logits))
    return judged.result()


def summarise(runs: Sequence[Run]) -> dict[str, Spread]:
    """Return every number of `Metrics` over the seeds of one row.

    Metrics that some seed lacks are left out.

    Raises
    ------
    ValueError
        If there is no run.
    """
    if not runs:
        raise ValueError("there is no run to summarise")
    summary = {}
    for field in fields(Metrics):
        values = [getattr(run.metrics, field.name) for run in runs]
        if not all(isinstance(value, int | float) for value in values):
            continue
        error = None
        if len(values) > 1:
            error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        summary[field.name] = Spread(float(np.mean(values)), error)
    return summary


def _silent(_: float, __: str) -> None:
    """Ignore progress."""
