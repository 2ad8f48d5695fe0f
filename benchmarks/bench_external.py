"""Another model's answers: what Setwise makes of them.

    python -m benchmarks.bench_external [SEED] [--validate]

For each data set in ``SETWISE_TEST_DATA`` a foreign classifier of scikit-learn gives scores:
one-vs-rest logistic regression, and for SCENE also a random forest. The history is its out-of-fold
scores (five folds) of the training part. Fitted on all of that part it answers for the test part,
which only measures. With ``--validate`` a random fifth of the training part measures instead, for
choices.

The first row of each classifier is its own set, every label above one half, with that set's
probability under independent labels as confidence. The others are trained on its scores or on its
bare label sets, alone or beside the documents (preset ``fast``). The last column is the largest
share of documents that one threshold on the confidence sends with .95 right sets.
"""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.data.splits import fold_ids
from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.evaluation import predict_in_blocks
from setwise.models.options import TrainingOptions
from setwise.models.training import train

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("reuters21578", "bibtex", "scene")
TARGET = 0.95

Floats = NDArray[np.float64]


class Case(NamedTuple):
    """A foreign classifier's scores of two parts of a data set."""

    history: Dataset
    measured: Dataset
    of_history: Floats  # out of fold
    of_measured: Floats


def parts(name: str, seed: int, *, validate: bool) -> tuple[Dataset, Dataset]:
    """Return the history and the documents that measure."""
    folder = Path(os.environ.get("SETWISE_TEST_DATA", ROOT / "data")) / name
    history = read_dataset(folder, "train")
    if validate:
        order = np.random.default_rng(seed).permutation(history.n)
        aside = history.n // 5
        return history.take(np.sort(order[aside:])), history.take(np.sort(order[:aside]))
    names = history.label_names, history.feature_names
    measured = read_dataset(folder, "test", label_names=names[0], feature_names=names[1])
    return history, measured


def matrices(history: Dataset, measured: Dataset) -> tuple[Any, Any]:
    """Return both parts as the foreign classifier reads them."""
    if history.texts is None:
        return history.X, measured.X
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2)
    return vectorizer.fit_transform(history.texts), vectorizer.transform(measured.texts)


def probabilities(model: Any, X: Any) -> Floats:  # noqa: ANN401  # scikit-learn's own
    """Return the probability of each label."""
    found = model.predict_proba(X)
    if isinstance(found, list):  # a forest: one matrix for each label
        found = np.column_stack([one[:, -1] for one in found])
    return np.asarray(found, dtype=np.float64)


def answer(model: Any, history: Dataset, measured: Dataset, seed: int) -> Case:  # noqa: ANN401
    """Let a foreign classifier answer for both parts."""
    X, X_measured = matrices(history, measured)
    Y = history.Y.toarray()
    folds = fold_ids(history.Y, 5, seed)
    of_history = np.empty(Y.shape)
    for fold in range(5):
        inside = folds == fold
        of_history[inside] = probabilities(clone(model).fit(X[~inside], Y[~inside]), X[inside])
    return Case(history, measured, of_history, probabilities(clone(model).fit(X, Y), X_measured))


def judge(Y: csr_array, chosen: csr_array, confidence: Floats) -> str:
    """Return set accuracy, Brier score and the sendable share as cells."""
    wide = csr_array((chosen.data, chosen.indices, chosen.indptr), shape=Y.shape)
    right = np.asarray(abs(wide.astype(int) - Y.astype(int)).sum(axis=1)).ravel() == 0
    sendable = automation_at(TARGET, np.clip(confidence, 0, 1), right).coverage
    return f"{right.mean():.3f} | {np.mean((confidence - right) ** 2):.3f} | {sendable:.3f}"


def answered(data: Dataset, answers: ModelAnswers, *, beside: bool) -> Dataset:
    """Return a data set of answers, with or without the documents."""
    if not beside:
        data = replace(
            data, texts=None, X=None, feature_names=None, kind="external", answers=answers
        )
    return replace(data, kind="external", answers=answers)


def label_sets(names: Sequence[str], scores: NDArray[np.float64]) -> ModelAnswers:
    """Return each document's labels above one half as another model's answer."""
    sets = [[names[label] for label in np.flatnonzero(row > 0.5).tolist()] for row in scores]
    return ModelAnswers.of(names, [parse_answer({"labels": one}) for one in sets])


def rows(case: Case, seed: int) -> Iterator[tuple[str, str]]:
    """Yield what each way makes of the answers, with its name."""
    above = csr_array((case.of_measured > 0.5).astype(np.uint8))
    alone = np.where(case.of_measured > 0.5, case.of_measured, 1 - case.of_measured).prod(axis=1)
    yield "every label above one half", judge(case.measured.Y, above, alone)
    given = {
        "scores": (
            ModelAnswers.of_scores(case.of_history),
            ModelAnswers.of_scores(case.of_measured),
        ),
        "label sets": (
            label_sets(case.history.label_names, case.of_history),
            label_sets(case.history.label_names, case.of_measured),
        ),
    }
    options = TrainingOptions(preset="fast", seed=seed)
    for what, (of_history, of_measured) in given.items():
        for beside in (False, True):
            history = answered(case.history, of_history, beside=beside)
            measured = answered(case.measured, of_measured, beside=beside)
            found = [one for _, one in predict_in_blocks(train(history, options), measured)]
            chosen = csr_array(np.vstack([one.chosen().toarray() for one in found]))
            confidence = np.concatenate([one.top_confidence() for one in found])
            name = f"Setwise, {what}{' and documents' if beside else ''}"
            yield name, judge(case.measured.Y, chosen, confidence)


def main(seed: int, *, validate: bool) -> None:
    """Print a table row for each way, data set and classifier."""
    warnings.simplefilter("ignore", DataWarning)
    warnings.filterwarnings("ignore", module="sklearn")
    for name in NAMES:
        history, measured = parts(name, seed, validate=validate)
        models = {
            "logistic regression": OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=300))
        }
        if name == "scene":
            models["random forest"] = RandomForestClassifier(300, random_state=seed)
        for model_name, model in models.items():
            case = answer(model, history, measured, seed)
            for way, cells in rows(case, seed):
                print(f"| {name}, {model_name} | {way} | {cells} |", flush=True)


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if one != "--validate"]
    main(int(arguments[0]) if arguments else 0, validate="--validate" in sys.argv)
