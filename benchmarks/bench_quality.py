"""Quality of each preset of a method on unseen documents.

    python -m benchmarks.bench_quality [--methods br-rerank] [--presets paper,fast,best]
        [--json FILE] [FOLDER…]

A folder holds ``train`` and ``test`` parts; ``FOLDER:SEED`` pools them and draws a tenth as the
test part. The default is Reuters in ``SETWISE_TEST_DATA``. All that comes before the set calibrator
is fitted once for each preset. The rows are

- the set of highest confidence, and the set of highest expected F1 (``--optimize f1``);
- with ``br-rerank``: binary relevance alone, each label with a probability above one half, with the
  confidence that the preset's calibrator has in that set. This is the prediction whose calibration
  the papers report.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.papers.runs import judge_majority, random_split
from setwise.models.calibration.choice import choose_calibrator, refit_calibrator
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.evaluation.metrics import Metrics
from setwise.models.options import METHODS, PRESETS, MethodName, Preset, TrainingOptions
from setwise.models.sets.deciding import fit_decider
from setwise.models.training import assemble, fit_base

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {
    "set_accuracy": "set acc",
    "instance_f1": "F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "oracle_accuracy": "oracle",
    "brier": "Brier",
    "uncertainty": "uncert.",
    "alignment_error": "align.",
    "train_seconds": "train s",
    "predict_seconds": "predict s",
}


def read_parts(name: str) -> tuple[Dataset, Dataset]:
    """Return the training and test part of ``FOLDER`` or ``FOLDER:SEED``."""
    path, _, seed = name.partition(":")
    folder = Path(path)
    if not folder.is_dir():
        sys.exit(f"no data at {folder}: give a folder or set SETWISE_TEST_DATA")
    train = read_dataset(folder, "train")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # labels that only the test part has
        test = read_dataset(
            folder, "test", label_names=train.label_names, feature_names=train.feature_names
        )
    return random_split(train, test, int(seed)) if seed else (train, test)


def judged(
    train: Dataset, test: Dataset, method: MethodName, preset: Preset
) -> Iterator[tuple[str, Metrics]]:
    """Yield the rows of one preset of a method, each as soon as it is known."""
    options = TrainingOptions(method=method, preset=preset)
    name = preset if method == TrainingOptions().method else f"{method} {preset}"
    started = time.perf_counter()
    fitted = fit_base(train, options)
    chosen = choose_calibrator(fitted.rows, options)
    predictor = assemble(train, fitted, chosen, options, seconds=time.perf_counter() - started)
    yield name, evaluate(predictor, test)
    if method == TrainingOptions().method:
        yield f"{name}: BR's own set", judge_majority(predictor, test)
    source = fitted.proposal.final
    decider, rows = fit_decider(fitted.rows, train.Y, chosen.confidence, "f1", source)
    f1 = replace(options, optimize="f1")
    refitted = refit_calibrator(chosen, rows, f1)
    announced = assemble(train, fitted._replace(rows=rows), refitted, f1, decider)
    yield f"{name} --optimize f1", evaluate(announced, test)


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--methods", default=TrainingOptions().method)
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--json", type=Path, help="a file that rows are added to, one a line")
    parser.add_argument("folders", nargs="*", default=[str(data / "reuters21578")])
    asked = parser.parse_args()
    wanted = [
        (method, preset)
        for method in METHODS
        for preset in PRESETS
        if method in asked.methods.split(",") and preset in asked.presets.split(",")
    ]
    for name in asked.folders:
        train, test = read_parts(name)
        print(f"\n{Path(name).name}: {train.n} documents to train, {test.n} to test")
        print(f"{'':26}" + "".join(f"{head:>10}" for head in COLUMNS.values()))
        for method, preset in wanted:
            for row, metrics in judged(train, test, method, preset):
                values = metrics.to_json()
                cells = [values.get(column) for column in COLUMNS]
                shown = "".join(" " * 10 if cell is None else f"{cell:10.4f}" for cell in cells)
                print(f"{row:26}{shown}", flush=True)
                if asked.json is not None:
                    with asked.json.open("a") as file:
                        record = {"data": Path(name).name, "row": row, "metrics": values}
                        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
