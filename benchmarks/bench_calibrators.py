"""Compares all set calibrators on binary relevance's own prediction.

    python -m benchmarks.bench_calibrators [FOLDER] [SEED]

FOLDER holds ``train`` and ``test`` parts; the default is Reuters in ``SETWISE_TEST_DATA``. Each
calibrator learns from the same cross-fitted rows, the most probable set of each training document
(Table 4.1 of the thesis), and is measured on the test part. Binary relevance never predicts the
empty set if training has none, so no calibrator gains from sets that are trivially wrong. The lines
below the table show the whole predictor with and without reranking.
"""

import os
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.calibrators import SetCalibrator
from setwise.models.calibration.choice import choose_calibrator, set_calibrators
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.options import TrainingOptions
from setwise.models.predictions import SetPredictions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.reranker import SetReranker
from setwise.models.training import assemble, fit_base

ROOT = Path(__file__).resolve().parents[1]


def predict(
    predictor: SetPredictor, calibrator: SetCalibrator, test: Dataset, *, by_confidence: bool
) -> SetPredictions:
    """Predict with another calibrator; ``by_confidence`` reranks."""
    reranker = SetReranker(predictor.features, calibrator, by_confidence=by_confidence)
    changed = replace(predictor, reranker=reranker, curve=None)
    if test.texts is not None:
        return changed.predict_texts(test.texts)
    assert test.X is not None  # a data set holds texts or vectors
    return changed.predict(test.X)


def exactly_right(found: SetPredictions, test: Dataset) -> NDArray[np.bool_]:
    """Tell which chosen sets are the true ones; labels unknown to the model are always missed."""
    n_known = len(found.label_names)
    right = found.candidates.top(1).correct(test.Y[:, :n_known])
    unknown = np.asarray(test.Y[:, n_known:].sum(axis=1))
    return np.asarray((right == 1) & (unknown == 0), dtype=bool)


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else data / "reuters21578"
    if not folder.is_dir():
        sys.exit(f"no data at {folder}: give a folder or set SETWISE_TEST_DATA")
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    options = TrainingOptions(preset="paper", seed=seed)
    train = read_dataset(folder, "train")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # labels that only the test part has
        test = read_dataset(
            folder, "test", label_names=train.label_names, feature_names=train.feature_names
        )

    started = time.perf_counter()
    fitted = fit_base(train, options)
    chosen = choose_calibrator(fitted.rows, options)
    predictor = assemble(train, fitted, chosen, options)
    seconds = time.perf_counter() - started

    best = fitted.rows.candidates.doc_indptr[:-1]
    table, correct = fitted.rows.table.take(best), fitted.rows.correct[best]
    print(f"{folder.name}: {train.n} documents to train, {test.n} to test; {seconds:.1f} s\n")
    print(f"{'calibrator':22}{'Brier':>9}{'sharpness':>11}{'alignment':>11}   BR's own set")
    for name, calibrator in set_calibrators(options.seed).items():
        calibrator.fit(table, correct)
        found = predict(predictor, calibrator, test, by_confidence=False)
        right = exactly_right(found, test)
        scores = score_calibration(found.top_confidence(), right)
        print(
            f"{name:22}{scores.brier:9.4f}{scores.sharpness:11.4f}{scores.alignment_error:11.5f}"
            f"   uncertainty {scores.uncertainty:.4f}"
        )
    print(f"\nwhole predictor, calibrator {chosen.name} chosen by cross-validation")
    for method, by_confidence in (("br", False), ("br-rerank", True)):
        found = predict(predictor, chosen.calibrator, test, by_confidence=by_confidence)
        metrics = (
            RunningMetrics()
            .add(test.Y, found.chosen(), found.top_confidence(), candidates=found.candidates)
            .result()
        )
        print(
            f"{method:10} set accuracy {metrics.set_accuracy:.4f}  F1 {metrics.instance_f1:.4f}"
            f"  Brier {metrics.brier:.4f}  alignment {metrics.alignment_error:.5f}"
            f"  oracle {metrics.oracle_accuracy:.4f}"
        )
    expected = predictor.manifest["metrics"]
    print(
        f"expected   set accuracy {expected['set_accuracy']:.4f}"
        f"  F1 {expected['instance_f1']:.4f}  Brier {expected['brier']:.4f} by cross-fitting"
    )


if __name__ == "__main__":
    main()
