"""Models trained on noisy labels, measured on clean ones.

    python -m benchmarks.bench_noisy_history [SEED]

For each data set in ``SETWISE_TEST_DATA``, a share alpha of the training documents gets a wrong
label set: a random label is added or, as often, replaces one (thesis, section 4.10.6). `train` then
fits with the preset ``fast``, on the labels as they are or with their noise rate. The test part is
clean.
"""

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.lines import DataWarning
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.options import TrainingOptions
from setwise.models.training import train

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("scene", "bibtex", "reuters21578")
TARGET = 0.9


def corrupted(data: Dataset, alpha: float, draw: np.random.Generator) -> Dataset:
    """Return the data with a wrong label set for a share of the documents."""
    Y = data.Y.toarray()
    for row in np.flatnonzero(draw.random(data.n) < alpha):
        present, absent = np.flatnonzero(Y[row]), np.flatnonzero(Y[row] == 0)
        if len(present) and draw.random() < 0.5:
            Y[row, draw.choice(present)] = 0
        Y[row, draw.choice(absent)] = 1
    return replace(data, Y=csr_array(Y))


def show(name: str, data: Dataset, test: Dataset, options: TrainingOptions) -> None:
    """Train, test and print a line."""
    model = train(data, options)
    found = evaluate(model, test)
    sent = next(point for point in found.automation if point.target == TARGET)
    print(
        f"  {name:18}{found.set_accuracy:9.3f}{found.brier:8.4f}{found.alignment_error:10.4f}"
        f"{sent.coverage:9.3f}  {model.manifest['training']['calibrator_chosen']}",
        flush=True,
    )


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    folder = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    warnings.simplefilter("ignore", DataWarning)  # labels that only the test part has
    options = TrainingOptions(preset="fast", seed=seed)
    for name in NAMES:
        data, test = read_dataset(folder / name, "train"), read_dataset(folder / name, "test")
        print(
            f"{name}, {data.n} documents\n  {'':18}{'accuracy':>9}{'Brier':>8}{'aligned':>10}"
            f"{'at .9':>9}"
        )
        show("clean", data, test, options)
        for alpha in (0.3, 0.5):
            noisy = corrupted(data, alpha, np.random.default_rng(seed))
            show(f"{alpha} as they are", noisy, test, options)
            rates = {"*": {"alpha": alpha}}
            show(f"{alpha} with --noise", noisy, test, replace(options, noise=rates))


if __name__ == "__main__":
    main()
