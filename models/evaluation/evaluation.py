"""Evaluates a predictor on a data set block by block."""

import time
from collections.abc import Callable, Iterator

from setwise.models.classifier import SetClassifier
from setwise.models.data.datasets import Dataset, check_dataset
from setwise.models.evaluation.metrics import Metrics, RunningMetrics
from setwise.models.predictions import SetPredictions
from setwise.models.predictor import SetPredictor

Progress = Callable[[float], None]

DOCUMENTS_AT_ONCE = 2048
"""Maximum number of documents per block."""

_LABELS_AT_ONCE = 20_000_000  # bounds the dense marginals of a block


def predict_in_blocks(
    predictor: SetPredictor, dataset: Dataset
) -> Iterator[tuple[slice, SetPredictions]]:
    """Yield predictions for a data set, block by block.

    Yields
    ------
    (slice, SetPredictions)
        The rows, in order, and their predictions.

    Raises
    ------
    ValueError
        If the predictor takes another kind of document.
    """
    if dataset.kind != predictor.kind:
        raise ValueError(f"the data holds {dataset.kind}, but the model takes {predictor.kind}")
    size = min(DOCUMENTS_AT_ONCE, max(1, _LABELS_AT_ONCE // len(predictor.label_names)))
    for start in range(0, dataset.n, size):
        rows = slice(start, min(start + size, dataset.n))
        if dataset.answers is not None:
            texts = None if dataset.texts is None else dataset.texts[rows]
            X = None if dataset.X is None else dataset.X[rows]
            yield rows, predictor.predict_answers(dataset.answers[rows], texts, X)
        elif dataset.texts is not None:
            yield rows, predictor.predict_texts(dataset.texts[rows])
        elif dataset.X is not None:
            yield rows, predictor.predict(dataset.X[rows])


def evaluate(
    predictor: SetPredictor | SetClassifier,
    dataset: Dataset,
    progress: Progress | None = None,
    *,
    bootstrap: int = 0,
    labels: bool = False,
) -> Metrics:
    """Return the metrics of a predictor on labelled documents.

    Parameters
    ----------
    predictor : SetPredictor or fitted SetClassifier
    dataset : Dataset
        Documents that the predictor has not seen, of its kind; for a classifier on top of another
        one, those that this one reads. Labels that it lacks count as misses.
    progress : callable, optional
        Called with the share of the documents done.
    bootstrap : int
        Draws for the metrics' intervals; 0 for none.
    labels : bool
        Whether to add the table of labels.

    Returns
    -------
    Metrics
        Including the prediction time in seconds, without evaluation and loading of compiled code.

    Raises
    ------
    ValueError
        If the data do not fit the predictor.
    TypeError
        If the predictor or the data are something else.
    """
    predictor, dataset = reading(predictor, dataset)
    running, dataset, seconds = measure(predictor, dataset, progress)
    names = dataset.label_names if labels else None
    return running.finished(names, train_seconds(predictor), seconds, bootstrap)


def reading(model: SetPredictor | SetClassifier, dataset: Dataset) -> tuple[SetPredictor, Dataset]:
    """Return what predicts in a model of either kind, and the documents as it reads them.

    Raises
    ------
    TypeError
        If it is neither, or the documents are no data set.
    NotFittedError
        If it is a classifier that was not fitted.
    """
    check_dataset(dataset)
    if isinstance(model, SetClassifier):
        return model.read(dataset)
    if not isinstance(model, SetPredictor):
        raise TypeError(
            "give a model that setwise.train or setwise.load returned, or a fitted SetClassifier, "
            f"not {type(model).__name__}"
        )
    return model, dataset


def train_seconds(predictor: SetPredictor) -> float | None:
    """Return how long training took, if that is known."""
    seconds: float | None = predictor.manifest.get("training", {}).get("seconds")
    return seconds


def measure(
    predictor: SetPredictor, dataset: Dataset, progress: Progress | None = None
) -> tuple[RunningMetrics, Dataset, float]:
    """Predict labelled documents; return what was counted, the documents and the seconds.

    The documents come back in the predictor's columns. Evaluation and the loading of compiled code
    are not timed.
    """
    features = None if predictor.vectorizer is not None else predictor.feature_names
    dataset = dataset.in_columns_of(predictor.label_names, features)
    for _ in predict_in_blocks(predictor, dataset.take(range(min(1, dataset.n)))):
        pass  # loads compiled code
    running = RunningMetrics()
    seconds, started = 0.0, time.perf_counter()
    for rows, predictions in predict_in_blocks(predictor, dataset):
        seconds += time.perf_counter() - started
        running.add(
            dataset.Y[rows],
            predictions.chosen(),
            predictions.top_confidence(),
            marginals=predictions.marginals,
            candidates=predictions.candidates,
        )
        if progress is not None:
            progress(rows.stop / dataset.n)
        started = time.perf_counter()
    return running, dataset, seconds
