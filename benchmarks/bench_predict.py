"""Time of a prediction, compared with library calls for the same model.

    python -m benchmarks.bench_predict [--data FOLDER] [--preset paper] [--artifact FOLDER]
        [--lines 50000]

The default data set is Reuters in ``SETWISE_TEST_DATA``. Single calls are measured in CPU time, so
other work on the machine lengthens them little. Only the preset ``paper`` has library calls for
comparison, because no library has voters.

The library path uses the same vocabulary, coefficients and trees: scikit-learn's tf-idf for texts,
its one-vs-rest of logistic regressions, and XGBoost's ``inplace_predict``. It leaves out the label
calibrator, which would cost it one isotonic regression a label, and takes its candidate sets from
here, because no library makes them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.rows import SparseRows
from setwise.models.data.text import repeat_first_line
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import k_best_sets
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from setwise.service.cli.prediction_lines import LinePredictor

ROOT = Path(__file__).resolve().parents[1]
ALONE = 300  # documents timed one by one
AT_ONCE = 256


class Library:
    """A predictor's model as scikit-learn and XGBoost estimators."""

    def __init__(self, predictor: SetPredictor) -> None:
        labels = predictor.base
        if not isinstance(predictor.calibrator, BoostedSets) or not isinstance(
            labels, BinaryRelevance
        ):
            sys.exit("the model has no boosted calibrator; train on more documents")
        self._predictor = predictor
        if predictor.vectorizer is not None:
            words = predictor.vectorizer.vocabulary_
            self._tfidf = TfidfVectorizer(
                sublinear_tf=True,
                vocabulary=words,
                preprocessor=lambda text: repeat_first_line(text).lower(),
            )
            self._tfidf.idf_ = predictor.vectorizer.idf_.astype(np.float64)
        coef, self._scaling = labels.coef_.toarray(), labels.weighting_
        self._labels = OneVsRestClassifier(LogisticRegression())
        self._labels.estimators_ = []
        for row, intercept in zip(coef, labels.intercept_, strict=True):
            estimator = LogisticRegression()
            estimator.classes_ = np.array([0, 1])
            estimator.coef_, estimator.intercept_ = row[None, :], np.array([intercept])
            self._labels.estimators_.append(estimator)
        binarizer = LabelBinarizer(sparse_output=True)
        binarizer.fit(np.eye(len(coef), dtype=np.int64))
        self._labels.label_binarizer_ = binarizer
        self._trees = xgboost.Booster({"nthread": 1})
        self._trees.load_model(bytearray(json.dumps(predictor.calibrator.model_), "utf-8"))

    def vectors(self, texts: Sequence[str]) -> csr_matrix[Any]:
        """Return tf-idf vectors."""
        vectors: csr_matrix[Any] = self._tfidf.transform(texts)
        return vectors

    def of_texts(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the confidence of every candidate set of texts."""
        return self.confidence(self.vectors(texts))

    def confidence(self, X: csr_array | csr_matrix[Any]) -> NDArray[np.float64]:
        """Return the confidence of every candidate set."""
        predictor = self._predictor
        rows = SparseRows.of(csr_array(X))
        marginals = self._labels.predict_proba(csr_matrix(self._scaling.weigh(rows).to_matrix()))
        sets = k_best_sets(marginals, 10, allow_empty=False)
        evidence = DocumentEvidence(rows, np.zeros_like(marginals), marginals)
        table = predictor.features.transform(evidence, sets)
        confidence: NDArray[np.float64] = self._trees.inplace_predict(csr_matrix(table.to_csr()))
        return confidence


def us_each(call: Callable[[Any], object], items: Sequence[Any], n: int = 1) -> float:
    """Return the median CPU microseconds of a call, or of one of the ``n`` documents in it."""
    call(items[0])
    times = []
    for item in items:
        start = time.process_time_ns()
        call(item)
        times.append(time.process_time_ns() - start)
    return float(np.median(times)) / n / 1e3


def row(name: str, ours: float, theirs: float | None = None) -> None:
    beside = "" if theirs is None else f"{theirs:12.1f}{theirs / ours:8.1f}"
    print(f"{name:44}{ours:10.1f}{beside}")


def single_documents(predictor: SetPredictor, library: Library | None, test: Dataset) -> None:
    """Time documents one by one, and in batches."""
    if test.texts is not None:
        texts = test.texts
        alone = [[text] for text in texts[:ALONE]]
        row(
            "one text to sets with confidence",
            us_each(predictor.predict_texts, alone),
            None if library is None else us_each(library.of_texts, alone),
        )
        batches = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)][:-1]
        if batches:
            row(
                f"the same in batches of {AT_ONCE}",
                us_each(predictor.predict_texts, batches, AT_ONCE),
                None if library is None else us_each(library.of_texts, batches, AT_ONCE),
            )
    elif test.X is not None:
        X = test.X
        rows = [X[[number]] for number in range(min(ALONE, test.n))]
        named = [
            [{predictor.feature_names[c]: float(v) for c, v in zip(r.indices, r.data, strict=True)}]
            for r in rows
        ]
        theirs = None if library is None else us_each(library.confidence, rows)
        row("one sparse row", us_each(predictor.predict, rows), theirs)
        row("one document of named features", us_each(predictor.predict_features, named))
        blocks = [X[start : start + AT_ONCE] for start in range(0, test.n, AT_ONCE)][:-1]
        if blocks:
            row(
                f"in batches of {AT_ONCE}",
                us_each(predictor.predict, blocks, AT_ONCE),
                None if library is None else us_each(library.confidence, blocks, AT_ONCE),
            )


def stages(predictor: SetPredictor, lines: Sequence[tuple[int, bytes]]) -> None:
    """Time what one core does for a line of JSON, stage by stage."""
    from setwise.models.data.documents import parse_document  # noqa: PLC0415 - reads as one of the stages

    blocks = [lines[start : start + AT_ONCE] for start in range(0, len(lines), AT_ONCE)][:-1]
    if not blocks:
        return
    texts = [
        [d.text or "" for line in block if (d := parse_document("", *line)) is not None]
        for block in blocks
    ]
    parse = us_each(lambda b: [parse_document("", *line) for line in b], blocks, AT_ONCE)
    row("JSON in", parse)
    if predictor.vectorizer is not None:
        row("vectorise", us_each(predictor.vectorizer.rows, texts, AT_ONCE))
    row("vectorise and predict", predicted := us_each(predictor.predict_texts, texts, AT_ONCE))
    whole = us_each(LinePredictor(predictor, "", 10), blocks, AT_ONCE)
    row("JSON out", whole - parse - predicted)
    row("a line altogether", whole)


def library_rate(library: Library, lines: Iterable[bytes]) -> float:
    """Return the lines a second of the library path in a loop."""
    records = [json.loads(line) for line in islice(lines, 10 * AT_ONCE)]
    started = time.perf_counter()
    for start in range(0, len(records), AT_ONCE):
        batch = records[start : start + AT_ONCE]
        confidence = library.confidence(library.vectors([each["text"] for each in batch]))
        for number, each in enumerate(batch):
            json.dumps({"id": each["id"], "confidence": float(confidence[10 * number])})
    return len(records) / (time.perf_counter() - started)


def stream(
    predictor: SetPredictor, library: Library | None, lines: Iterable[bytes], n: int
) -> None:
    """Time the command on a long file."""
    with tempfile.TemporaryDirectory() as folder:
        artifact, path = Path(folder) / "model", Path(folder) / "in.jsonl"
        save(predictor, artifact)
        with path.open("wb") as file:
            file.writelines(islice(cycle(lines), n))
        theirs = None
        if library is not None:
            with path.open("rb") as file:
                theirs = library_rate(library, file)
        print(f"\n{n} lines by the command, its start included")
        for jobs in (1, 2):
            run = "from setwise.service.cli import main; main()"
            command = [sys.executable, "-c", run, "predict", artifact, path]
            started, cpu = time.perf_counter(), children_cpu()
            subprocess.run(
                [*map(str, command), "--out", f"{folder}/out", "--jobs", str(jobs)],
                check=True,
                cwd=ROOT,
                stderr=subprocess.DEVNULL,
            )
            ours = n / (time.perf_counter() - started)
            alone = jobs * n / (children_cpu() - cpu)
            beside = "" if theirs is None else f"; the library path {theirs:,.0f}, in a loop"
            print(
                f"{jobs} process{'es' if jobs > 1 else ''}: {ours:,.0f} documents a second, "
                f"{alone:,.0f} by CPU time{beside}"
            )


def children_cpu() -> float:
    """Return the CPU seconds of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=root / "reuters21578")
    parser.add_argument("--preset", choices=["paper", "fast", "best"], default="paper")
    parser.add_argument("--artifact", type=Path, help="a trained model; trained first if omitted")
    parser.add_argument("--lines", type=int, default=50_000)
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        sys.exit(f"no data at {chosen.data}: give a folder or set SETWISE_TEST_DATA")
    if chosen.artifact:
        predictor = load(chosen.artifact)
    else:
        predictor = train(read_dataset(chosen.data, "train"), TrainingOptions(preset=chosen.preset))
    names = predictor.feature_names if predictor.kind == "vectors" else None
    test = read_dataset(chosen.data, "test", label_names=predictor.label_names, feature_names=names)
    library = Library(predictor) if predictor.voters is None else None
    print(f"{chosen.data.name}: {len(predictor.label_names)} labels; CPU µs a document, median")
    print(f"{'':44}{'setwise':>10}{'libraries':>12}{'ratio':>8}")
    single_documents(predictor, library, test)
    if test.texts is not None:
        lines = [
            json.dumps({"id": id_, "text": text}).encode() + b"\n"
            for id_, text in zip(test.ids, test.texts, strict=True)
        ]
        print()
        stages(predictor, list(enumerate(lines, 1)))
        stream(predictor, library, lines, chosen.lines)


if __name__ == "__main__":
    main()
