"""What `SetClassifier` adds to the marginals of a scikit-learn classifier.

    python -m benchmarks.bench_estimator FOLDER:ESTIMATOR…

ESTIMATOR is ``logistic``, one-vs-rest logistic regression whose C is chosen on a fifth of the
``train`` part set aside, or ``forest``, 300 trees. `SetClassifier` is fitted over it on the
``train`` part, preset ``best``, seed 0. The same fitted classifier's marginals for the ``test``
part are thresholded at one half; the product over all labels of the probability of what was chosen
is then the confidence. The default is BIBTEX and Reuters with ``logistic`` and SCENE with
``forest``, in ``SETWISE_TEST_DATA``.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import setwise
from setwise.models.evaluation.metrics import Metrics, RunningMetrics
from setwise.models.labels.foreign_classifier import ForeignClassifier

SEED = 0
STRENGTHS = (1.0, 10.0, 100.0)
DEFAULT = ("bibtex:logistic", "reuters21578:logistic", "scene:forest")


def logistic(C: float, *, of_texts: bool) -> Any:  # noqa: ANN401  # scikit-learn has no types
    """Return a logistic regression, over tf-idf if it reads texts."""
    last = LogisticRegression(C=C, max_iter=1000)
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), last) if of_texts else last


def choose(train: setwise.Dataset) -> Any:  # noqa: ANN401  # as above
    """Return the logistic regression that gets most sets right on documents set aside."""
    order = np.random.default_rng(SEED).permutation(train.n)
    aside, kept = train.take(order[: train.n // 5]), train.take(order[train.n // 5 :])
    found = {}
    for C in STRENGTHS:
        estimator = logistic(C, of_texts=train.texts is not None)
        fitted = ForeignClassifier(estimator).fit(rows_of(kept), kept.Y)
        found[C] = thresholded(fitted.probability(rows_of(aside)), aside).set_accuracy
    best = max(found, key=lambda C: found[C])
    print(f"  C = {best:g} of {found}", flush=True)
    return logistic(best, of_texts=train.texts is not None)


def rows_of(data: setwise.Dataset) -> Any:  # noqa: ANN401  # texts or a matrix
    """Return the documents as a classifier reads them."""
    return data.X if data.texts is None else list(data.texts)


def thresholded(marginals: np.ndarray, data: setwise.Dataset) -> Metrics:
    """Return the metrics of marginals thresholded at one half."""
    chosen = marginals > 0.5
    confidence = np.where(chosen, marginals, 1.0 - marginals).prod(axis=1)
    return RunningMetrics().add(data.Y, csr_array(chosen.astype(np.uint8)), confidence).result()


def show(name: str, found: Metrics) -> None:
    """Print one row of the table."""
    sendable = next(row.coverage for row in found.automation if row.target == 0.95)
    print(
        f"| {name} | {found.set_accuracy:.3f} | {found.instance_f1:.3f} | {found.brier:.3f} "
        f"| {found.alignment_error:.4f} | {sendable:.3f} |",
        flush=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Print a table of two rows for each folder."""
    data = os.environ.get("SETWISE_TEST_DATA", "")
    print(
        "| | set accuracy | F1 | Brier | alignment | sendable at 95 % |\n|---|---|---|---|---|---|"
    )
    for argument in arguments or [str(Path(data, name)) for name in DEFAULT]:
        folder, _, kind = argument.rpartition(":")
        train, test = setwise.read_dataset(folder, "train"), setwise.read_dataset(folder, "test")
        test = test.in_columns_of(train.label_names, train.feature_names)
        if kind == "forest":
            estimator: Any = RandomForestClassifier(300, random_state=SEED)
        else:
            estimator = choose(train)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", setwise.TrainingWarning)
            model = setwise.SetClassifier(estimator, preset="best", random_state=SEED)
            model.fit(rows_of(train), train.Y)
        asked = rows_of(test)
        name = f"{Path(folder).name}, {kind}"
        show(name, thresholded(model.estimator_.probability(asked), test))
        predicted = csr_array(model.predict(asked))
        found = RunningMetrics().add(test.Y, predicted, model.predict_confidence(asked)).result()
        show(f"{name}, SetClassifier", found)


if __name__ == "__main__":
    main(sys.argv[1:])
