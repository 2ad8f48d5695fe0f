"""Compares the presets with what scikit-learn offers for label sets.

    python -m benchmarks.bench_peers [--peers fast,best,logistic,…] [--draw 10000] [--seed 0]
        [--record] [NAME…]

Every row is fitted on the ``train`` part of a data set in ``SETWISE_TEST_DATA``, of which a seed
draws at most ``--draw`` documents, and judged on its ``test`` part. The peers are

- *logistic*: one-vs-rest logistic regression (liblinear), each label with a probability above one
  half; the confidence is the product of the probabilities of all those decisions;
- *power set*: a linear support vector machine (`LinearSVC`) whose classes are the label sets of the
  training part; the score is the margin between the two likeliest;
- on dense measurements, *forest* and *extra trees*, 300 trees each, per label like *logistic*, and
  over label sets, where the share of the trees is the confidence.

A peer's constant C is chosen by the set accuracy of a cross-validation on the training part, from
tenth to tenfold, and on in that direction while the best lies at an end. On the scores of the same
cross-validation, Platt scaling learns the confidence that Brier score and calibration error judge.
CPU seconds are those of one fit by one thread, without the choice. ± is the standard error over
documents.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import setwise
from benchmarks.rows import RERANKING, Figure, record
from setwise.models.data.lines import DataWarning
from setwise.models.evaluation.metrics import Metrics, RunningMetrics
from setwise.models.options import TrainingOptions
from setwise.models.training import train as train_model

ROOT = Path(__file__).resolve().parents[1]
SETS = ("bibtex", "ohsumed", "reuters21578", "scene", "yeast", "medical", "tmc2007_500")
PRESETS = ("fast", "best")
STRENGTHS = (0.1, 1.0, 10.0)
WEAKEST, STRONGEST = 0.01, 1000.0  # beyond them, no data set here gains
N_FOLDS = 3
N_TREES = 300
DENSE = 0.5  # share of features that are not zero, from which trees are tried

Scored = tuple[csr_array, NDArray[np.float64]]
"""Predicted sets, shape (n, L), and a score that is larger for surer ones, shape (n,)."""


class PerLabel:
    """A classifier for each label; the labels decide one by one."""

    def __init__(self, classifier: Any) -> None:  # noqa: ANN401  # scikit-learn has no types
        self.classifier = classifier

    def fit(self, X: csr_matrix, Y: csr_array) -> None:
        """Fit the labels that some, but not all documents have."""
        dense = Y.toarray()
        counts = dense.sum(axis=0)
        self.fitted = np.flatnonzero((counts > 0) & (counts < len(dense)))
        self.constant = (counts == len(dense)).astype(float)
        self.classifier.fit(X, dense[:, self.fitted])

    def score(self, X: csr_matrix) -> Scored:
        """Return the likelier decision on each label, and the product of their probabilities."""
        marginals = np.tile(self.constant, (X.shape[0], 1))
        given = self.classifier.predict_proba(X)
        if isinstance(given, list):  # of trees, a matrix for each label
            given = np.column_stack([of_label[:, 1] for of_label in given])
        marginals[:, self.fitted] = given
        chosen = marginals > 0.5
        sure = np.where(chosen, marginals, 1 - marginals).prod(axis=1)
        return csr_array(chosen.astype(np.uint8)), sure


class OverSets:
    """One classifier whose classes are the label sets seen in training."""

    def __init__(self, classifier: Any) -> None:  # noqa: ANN401  # as above
        self.classifier = classifier

    def fit(self, X: csr_matrix, Y: csr_array) -> None:
        """Fit one class for each label set."""
        self.sets, classes = np.unique(Y.toarray(), axis=0, return_inverse=True)
        self.classifier.fit(X, classes.ravel())

    def score(self, X: csr_matrix) -> Scored:
        """Return the likeliest set, and its share or its margin over the next."""
        if hasattr(self.classifier, "predict_proba"):
            scores = self.classifier.predict_proba(X)
            sure = scores.max(axis=1)
        else:
            scores = self.classifier.decision_function(X)
            two = np.partition(scores, -2, axis=1)[:, -2:]
            sure = two[:, 1] - two[:, 0]
        return csr_array(self.sets[scores.argmax(axis=1)].astype(np.uint8)), sure


class Peer(NamedTuple):
    """A classifier to compare with."""

    make: Callable[[float, int], PerLabel | OverSets]
    """Makes it from the constant C and a seed."""
    strengths: tuple[float, ...] = (1.0,)
    dense_only: bool = False


def _logistic(C: float, _: int) -> PerLabel:
    return PerLabel(OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear")))


def _trees(wrapper: Callable[[Any], PerLabel | OverSets], trees: Callable[..., Any]) -> Peer:
    return Peer(lambda _, seed: wrapper(trees(N_TREES, random_state=seed)), dense_only=True)


PEERS = {
    "logistic": Peer(_logistic, STRENGTHS),
    "power set": Peer(lambda C, seed: OverSets(LinearSVC(C=C, random_state=seed)), STRENGTHS),
    "forest per label": _trees(PerLabel, RandomForestClassifier),
    "extra trees per label": _trees(PerLabel, ExtraTreesClassifier),
    "forest over sets": _trees(OverSets, RandomForestClassifier),
    "extra trees over sets": _trees(OverSets, ExtraTreesClassifier),
}


class Parts(NamedTuple):
    """A data set as both sides read it."""

    train: setwise.Dataset
    test: setwise.Dataset
    X: csr_matrix
    """Features of the training part for scikit-learn; texts by tf-idf."""
    X_test: csr_matrix

    @property
    def dense(self) -> bool:
        """Whether most features of a document are not zero."""
        return bool(self.X.nnz / np.prod(self.X.shape, dtype=float) > DENSE)


def read(folder: Path, draw: int, seed: int) -> Parts:
    """Return both parts of a data set, at most ``draw`` documents of the training part."""
    train = setwise.read_dataset(folder, "train")
    drawn = np.random.default_rng(seed).permutation(train.n)[:draw]
    train = train.take(np.sort(drawn))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # labels that only the test part has
        test = setwise.read_dataset(folder, "test")
    test = test.in_columns_of(train.label_names, train.feature_names)
    if train.X is not None and test.X is not None:
        return Parts(train, test, csr_matrix(train.X), csr_matrix(test.X))
    assert train.texts is not None  # a data set has vectors or texts
    assert test.texts is not None
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = words.fit_transform(train.texts)
    return Parts(train, test, csr_matrix(X), csr_matrix(words.transform(test.texts)))


def exact(predicted: csr_array, Y: csr_array) -> NDArray[np.bool_]:
    """Return whether each set is exactly right."""
    return np.asarray(abs(predicted.astype(int) - Y.astype(int)).sum(axis=1) == 0).ravel()


class Trial(NamedTuple):
    """What cross-validation says about a constant."""

    right: NDArray[np.bool_]
    """Whether each document's set was right by the fit that had not seen it."""
    score: NDArray[np.float64]


def cross_validate(peer: Peer, C: float, X: csr_matrix, Y: csr_array, seed: int) -> Trial:
    """Return how a constant does on documents that its fits have not seen."""
    trial = Trial(np.zeros(X.shape[0], dtype=bool), np.zeros(X.shape[0]))
    for inside, outside in KFold(N_FOLDS, shuffle=True, random_state=seed).split(X):
        fitted = peer.make(C, seed)
        fitted.fit(X[inside], Y[inside])
        predicted, trial.score[outside] = fitted.score(X[outside])
        trial.right[outside] = exact(predicted, Y[outside])
    return trial


def choose(peer: Peer, X: csr_matrix, Y: csr_array, seed: int) -> tuple[float, Trial]:
    """Return the constant that gets most sets right in cross-validation, and its trial."""
    trials = {C: cross_validate(peer, C, X, Y, seed) for C in peer.strengths}
    while True:
        best = max(trials, key=lambda C: float(trials[C].right.mean()))
        beyond = {min(trials): best / 10, max(trials): best * 10}.get(best, best)
        if len(trials) == 1 or beyond in trials or not WEAKEST <= beyond <= STRONGEST:
            return best, trials[best]
        trials[beyond] = cross_validate(peer, beyond, X, Y, seed)


def judge_peer(peer: Peer, parts: Parts, seed: int) -> tuple[Metrics, float]:
    """Return the metrics of a peer on the test part, and the CPU seconds of its fit."""
    best, trial = choose(peer, parts.X, parts.train.Y, seed)
    fitted = peer.make(best, seed)
    began = time.process_time()
    fitted.fit(parts.X, parts.train.Y)
    seconds = time.process_time() - began
    predicted, score = fitted.score(parts.X_test)
    scaled = LogisticRegression().fit(_column(trial.score), trial.right)
    confidence = scaled.predict_proba(_column(score))[:, 1]
    return RunningMetrics().add(parts.test.Y, predicted, confidence).result(), seconds


def _column(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as Platt scaling reads them: on the scale of log-odds if in [0, 1]."""
    if score.min() < 0 or score.max() > 1:
        return score[:, None]
    held = np.clip(score, 1e-6, 1 - 1e-6)
    return np.log(held / (1 - held))[:, None]


def judge_preset(preset: str, parts: Parts, seed: int) -> tuple[Metrics, float]:
    """Return the metrics of a preset on the test part, and the CPU seconds of its training."""
    options = TrainingOptions(preset=preset, seed=seed, n_jobs=1)  # type: ignore[arg-type]
    train_model(parts.train.take(np.arange(200)), options)  # compiles
    began = time.process_time()
    model = train_model(parts.train, options)
    seconds = time.process_time() - began
    X, texts = parts.test.X, parts.test.texts
    if X is None:
        assert texts is not None  # a data set has vectors or texts
        predictions = model.predict_texts(list(texts))
    else:
        predictions = model.predict(X)
    judged = RunningMetrics().add(parts.test.Y, predictions.chosen(), predictions.top_confidence())
    return judged.result(), seconds


def rows_of(names: list[str], parts: Parts, seed: int) -> Iterator[tuple[str, Metrics, float]]:
    """Yield the metrics and CPU seconds of each contender that fits the data."""
    for name in names:
        if name in PRESETS:
            yield name, *judge_preset(name, parts, seed)
        elif parts.dense or not PEERS[name].dense_only:
            yield name, *judge_peer(PEERS[name], parts, seed)


def shown(metrics: Metrics, seconds: float) -> dict[str, float]:
    """Return the numbers of a row."""
    sendable = {row.target: row.coverage for row in metrics.automation}
    accuracy, auroc = metrics.set_accuracy, metrics.judgement.auroc
    return {
        "accuracy": accuracy,
        "error": (accuracy * (1 - accuracy) / metrics.n) ** 0.5,
        "f1": metrics.instance_f1,
        "brier": metrics.brier,
        "ece": metrics.judgement.ece.value,
        "auroc": float("nan") if auroc is None else auroc.value,
        "at_90": sendable[0.9],
        "at_95": sendable[0.95],
        "seconds": seconds,
    }


def main() -> None:
    """Print one table for all data sets."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description="The presets beside scikit-learn's classifiers.")
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--peers", default=",".join([*PRESETS, *PEERS]))
    parser.add_argument("--draw", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write rows to results/peers.jsonl")
    given = parser.parse_args()
    names = given.peers.split(",")
    if unknown := set(names) - {*PRESETS, *PEERS}:
        sys.exit(
            f"no such peer: {', '.join(sorted(unknown))}; give {', '.join([*PRESETS, *PEERS])}"
        )
    threadpool_limits(1)  # the seconds of waiting threads would count too
    warnings.simplefilter("ignore")
    heads = ("set accuracy", "F1", "Brier", "ECE", "AUROC", "at 90 %", "at 95 %", "CPU s")
    print(f"| | {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.sets or SETS:
        parts = read(data / name, given.draw, given.seed)
        for peer, metrics, seconds in rows_of(names, parts, given.seed):
            row = shown(metrics, seconds)
            print(
                f"| {name}, {peer} | {row['accuracy']:.3f} ± {row['error']:.3f} | {row['f1']:.3f} "
                f"| {row['brier']:.3f} | {row['ece']:.3f} | {row['auroc']:.3f} "
                f"| {row['at_90']:.2f} | {row['at_95']:.2f} | {seconds:.1f} |",
                flush=True,
            )
            if given.record:
                figures: dict[str, Figure] = {head: round(value, 4) for head, value in row.items()}
                measured = RERANKING if peer in PRESETS else ()
                record("peers", f"{name}, {peer}", figures, seed=given.seed, code=measured)


if __name__ == "__main__":
    main()
