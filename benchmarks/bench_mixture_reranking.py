"""What the thesis leaves open about mixtures and reranking, on test parts.

    python -m benchmarks.bench_mixture_reranking [FOLDER…] [--components 50] [--seed 0]

By default the folders are BIBTEX, Reuters and SCENE in ``SETWISE_TEST_DATA``.

Does reranking help a conditional Bernoulli mixture (CBM)? Do its candidates help where binary
relevance (BR) is reranked? How badly calibrated is its raw joint probability? Base models,
candidates and features are fitted once for each data set, by cross-fitting on the training part;
the rows only choose among the candidates and columns. All reranked rows have the same boosted
calibrator.
"""

import argparse
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.calibration.calibrators import UncalibratedSets
from setwise.models.calibration.choice import ChosenCalibrator, set_calibrators
from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.metrics import Metrics, RunningMetrics
from setwise.models.mixtures.mixture_mode import SOURCE_MIXTURE
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import SOURCE_MARGINALS, CandidateSets
from setwise.models.sets.features import SetFeatureTable
from setwise.models.training import assemble, fit_base

BY_MIXTURE = ("score", "log_score", "cardinality", "log_prior")
BY_LABELS = ("log_independent", "cardinality", "log_prior")
BOTH = ("score", "log_score", "log_independent", "cardinality", "log_prior")

# Row of the table: whose candidates, the column that orders them, and the columns that rerank them
# instead, if any.
METHODS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "BR, best non-empty set": (SOURCE_MARGINALS, "log_independent", ()),
    "CBM": (SOURCE_MIXTURE, "log_score", ()),
    "BR reranked": (SOURCE_MARGINALS, "log_independent", BY_LABELS),
    "BR reranked, CBM's candidates too": (
        SOURCE_MARGINALS | SOURCE_MIXTURE,
        "log_independent",
        BY_LABELS,
    ),
    "CBM reranked": (SOURCE_MIXTURE, "log_score", BY_MIXTURE),
    "CBM reranked, BR's candidates too": (
        SOURCE_MARGINALS | SOURCE_MIXTURE,
        "log_score",
        BY_MIXTURE,
    ),
    "both, by the columns of both": (SOURCE_MARGINALS | SOURCE_MIXTURE, "log_score", BOTH),
}


class Described(NamedTuple):
    """Candidates of documents, what describes them, and the true sets."""

    candidates: CandidateSets
    table: SetFeatureTable
    Y: csr_array

    def only(self, sources: int, columns: tuple[str, ...]) -> "Described":
        """Return the candidates of these sources, described by these columns."""
        rows = np.flatnonzero(self.candidates.source & sources)
        counts = np.bincount(self.candidates.document[rows], minlength=self.Y.shape[0])
        bounds = np.concatenate([[0], np.cumsum(counts)])
        table = self.table.take(rows)
        kept = [table.names.index(name) for name in columns or table.names]
        table = replace(
            table,
            names=tuple(table.names[k] for k in kept),
            monotone=tuple(table.monotone[k] for k in kept),
            dense=np.ascontiguousarray(table.dense[:, kept]),
        )
        return Described(self.candidates.take(rows, bounds), table, self.Y)

    def judge(self, order: NDArray[np.float64], confidence: NDArray[np.float64]) -> Metrics:
        """Choose each document's first set by an order, and judge it and its confidence."""
        ranked = np.lexsort((-order, self.candidates.document))
        chosen = ranked[self.candidates.doc_indptr[:-1]]
        sets = self.candidates.take(chosen, np.arange(len(chosen) + 1)).to_matrix()
        return RunningMetrics().add(self.Y, sets, np.clip(confidence[chosen], 0.0, 1.0)).result()


def describe(folder: Path, n_components: int, seed: int) -> tuple[Described, Described]:
    """Return the cross-fitted training part and the test part."""
    train = read_dataset(folder, "train")
    options = TrainingOptions(
        method="cbm-rerank", preset="paper", n_components=n_components, seed=seed
    )
    fitted = fit_base(train, options)
    rows = fitted.rows
    raw = UncalibratedSets().fit(rows.table, rows.correct)
    blank = ChosenCalibrator("uncalibrated", raw, np.zeros(len(rows.correct)), {})
    predictor = assemble(train, fitted, blank, options)
    test = read_dataset(
        folder, "test", label_names=train.label_names, feature_names=train.feature_names
    )
    vectorizer = predictor.vectorizer
    X = test.X if vectorizer is None else vectorizer.transform(test.texts or ())
    assert X is not None  # a data set holds texts or vectors
    evidence = predictor.evidence(X)
    proposed = predictor.source.propose(evidence)
    table = predictor.features.transform(evidence, proposed)
    Y = test.Y[:, : len(train.label_names)]
    return Described(rows.candidates, rows.table, train.Y), Described(proposed, table, Y)


def compare_methods(train: Described, test: Described, seed: int) -> None:
    """Print a row a method: accuracy, F1, oracle and confidence."""
    print("| | set accuracy | instance F1 | true set among candidates | Brier | alignment |")
    print("|---|---|---|---|---|---|")
    for name, (sources, first, columns) in METHODS.items():
        learnt, asked = train.only(sources, columns), test.only(sources, columns)
        if columns:
            calibrator = set_calibrators(seed)["boosted-logistic"]
            calibrator.fit(learnt.table, learnt.candidates.correct(learnt.Y))
            confidence = np.asarray(calibrator.predict(asked.table))
            found = asked.judge(confidence, confidence)
        else:
            order = asked.table.column(first)
            found = asked.judge(order, np.exp(order))
        right = asked.candidates.correct(asked.Y)
        oracle = np.bincount(asked.candidates.document, weights=right).mean()
        print(
            f"| {name} | {found.set_accuracy:.4f} | {found.instance_f1:.4f} | {oracle:.4f} | "
            f"{found.brier:.4f} | {found.alignment_error:.4f} |",
            flush=True,
        )


def compare_calibrators(train: Described, test: Described, seed: int) -> None:
    """Print a row a set calibrator: the confidence in the mixture's own prediction."""
    print("| confidence in CBM's own prediction | Brier | alignment | sharpness | mean |")
    print("|---|---|---|---|---|")
    learnt = train.only(SOURCE_MIXTURE, BY_MIXTURE)
    asked = test.only(SOURCE_MIXTURE, BY_MIXTURE)
    order = asked.table.column("log_score")
    first = asked.candidates.doc_indptr[:-1]
    accuracy = 0.0
    for name, calibrator in set_calibrators(seed).items():
        calibrator.fit(learnt.table, learnt.candidates.correct(learnt.Y))
        confidence = np.asarray(calibrator.predict(asked.table))
        found = asked.judge(order, confidence)
        accuracy = found.set_accuracy
        print(
            f"| {name} | {found.brier:.4f} | {found.alignment_error:.4f} | "
            f"{found.sharpness:.4f} | {confidence[first].mean():.3f} |",
            flush=True,
        )
    print(
        f"| a constant, its accuracy {accuracy:.4f} | {accuracy * (1 - accuracy):.4f} | 0 | 0 | "
        f"{accuracy:.3f} |"
    )


def main() -> None:
    """Print both tables of every data set."""
    parser = argparse.ArgumentParser(description="Mixtures and reranking, measured.")
    data = Path(os.environ.get("SETWISE_TEST_DATA", "data"))
    folders = [data / name for name in ("bibtex", "reuters21578", "scene")]
    parser.add_argument("folders", type=Path, nargs="*", default=folders, metavar="FOLDER")
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for folder in given.folders:
        if not folder.is_dir():
            sys.exit(f"no data at {folder}: give folders or set SETWISE_TEST_DATA")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    for folder in given.folders:
        train, test = describe(folder, given.components, given.seed)
        print(f"\n{folder.name}: {test.Y.shape[0]} documents, seed {given.seed}\n", flush=True)
        compare_methods(train, test, given.seed)
        print()
        compare_calibrators(train, test, given.seed)


if __name__ == "__main__":
    main()
