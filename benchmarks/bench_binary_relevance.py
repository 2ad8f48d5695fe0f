"""Binary relevance on BIBTEX, compared with scikit-learn and liblinear.

    python -m benchmarks.bench_binary_relevance [--data FOLDER] [--repeats 3] [--seed 0]

scikit-learn fits one-vs-rest. All rows come from the training part; a random fifth of them measures
log-loss. The fits take turns, so a busy machine slows all of them alike, and the fastest of each
counts. scikit-learn gets two threads, as we do (liblinear releases the interpreter lock). "alpha
chosen" sets a fifth of the fitting rows aside to choose each label's penalty, then fits all rows.
Compilation happens before the clock starts; its result is cached on disk.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from setwise.models.data.dataset_files import read_dataset
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.scaling import FeatureWeighting, Scheme

DATA = Path(os.environ.get("SETWISE_TEST_DATA", "../shared/data"))
CORES = 2
Logits = Callable[[csr_array], NDArray[np.float64]]


def one_vs_rest(c: float, l1_ratio: float, weighting: Scheme = "none") -> Callable[..., Logits]:
    def fit(X: csr_array, Y: NDArray[np.uint8]) -> Logits:
        scale = FeatureWeighting(weighting).fit(X)
        single = LogisticRegression(
            C=c, l1_ratio=l1_ratio, solver="liblinear", random_state=0, max_iter=1000
        )
        with parallel_config(backend="threading", n_jobs=CORES):
            model = OneVsRestClassifier(single).fit(scale.transform(X), Y)
        return lambda rows: np.asarray(model.decision_function(scale.transform(rows)))

    return fit


def ours(**settings: object) -> Callable[..., Logits]:
    def fit(X: csr_array, Y: NDArray[np.uint8]) -> Logits:
        model = BinaryRelevance(n_jobs=CORES, **settings).fit(X, Y)  # type: ignore[arg-type] # a table of settings
        return model.decision_function

    return fit


def log_loss(logits: NDArray[np.float64], Y: NDArray[np.uint8]) -> float:
    return float(np.mean(np.logaddexp(0.0, logits) - Y * logits))


def searched(
    grid: tuple[float, ...], rows: csr_array, labels: NDArray[np.uint8]
) -> Callable[..., Logits]:
    """Choose C on the rows that also measure, then fit once more: what a user would wait for."""

    def fit(X: csr_array, Y: NDArray[np.uint8]) -> Logits:
        losses = [log_loss(one_vs_rest(c, 0.0)(X, Y)(rows), labels) for c in grid]
        return one_vs_rest(grid[int(np.argmin(losses))], 0.0)(X, Y)

    return fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # One label of one class in training makes one-vs-rest warn; both give such a label a constant.
    warnings.simplefilter("ignore", UserWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)

    dataset = read_dataset(arguments.data / "bibtex", part="train")
    order = np.random.default_rng(arguments.seed).permutation(dataset.n)
    cut = dataset.n // 5
    train, valid = dataset.take(np.sort(order[cut:])), dataset.take(np.sort(order[:cut]))
    X, X_valid = train.X, valid.X
    if X is None or X_valid is None:
        raise SystemExit("BIBTEX is vector data")
    Y, Y_valid = train.Y.toarray(), valid.Y.toarray()

    print(
        f"BIBTEX training part, {train.n} rows to fit, {valid.n} to measure, seed {arguments.seed}"
    )
    ours(alpha=1e-2)(X, Y)  # compiles
    # Each C is the best of a grid by factors of three on the measuring rows, in liblinear's favour.
    rows = {
        "liblinear L2, C=.3": one_vs_rest(0.3, 0.0),
        "liblinear L1, C=.3": one_vs_rest(0.3, 1.0),
        "liblinear L2, C=10, idf": one_vs_rest(10.0, 0.0, "idf"),
        "liblinear L2, C one of three": searched((0.1, 0.3, 1.0), X_valid, Y_valid),
        "ours, alpha=5e-5": ours(alpha=5e-5),
        "ours, ridge, alpha=2e-5": ours(alpha=2e-5, l1_ratio=0.0),
        "ours, alpha chosen": ours(),
    }
    wall = dict.fromkeys(rows, np.inf)
    cpu = dict.fromkeys(rows, np.inf)
    loss = dict.fromkeys(rows, np.nan)
    for _ in range(arguments.repeats):
        for name, fit in rows.items():
            wall_started, cpu_started = time.perf_counter(), time.process_time()
            logits = fit(X, Y)
            wall[name] = min(wall[name], time.perf_counter() - wall_started)
            cpu[name] = min(cpu[name], time.process_time() - cpu_started)
            loss[name] = log_loss(logits(X_valid), Y_valid)
    baseline = next(iter(rows))
    print(f"{'':30} {'log-loss':>9} {'wall s':>7} {'ratio':>6} {'CPU s':>6} {'ratio':>6}")
    for name in rows:
        wall_ratio, cpu_ratio = wall[baseline] / wall[name], cpu[baseline] / cpu[name]
        print(
            f"{name:30} {loss[name]:9.5f} {wall[name]:7.2f} {wall_ratio:6.1f} "
            f"{cpu[name]:6.2f} {cpu_ratio:6.1f}"
        )


if __name__ == "__main__":
    main()
