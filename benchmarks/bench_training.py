"""CPU seconds of a whole training, beside one-vs-rest logistic regression.

    python -m benchmarks.bench_training [--preset fast] [--seeds 1] [--record] [FOLDER…]

Both run on one thread and read the same features of the ``train`` part: those of Setwise, which
count towards its own time alone. scikit-learn fits liblinear with its defaults. Compilation
happens before the clock starts. Set accuracy and Brier score are those that training estimates by
cross-fitting. The default is BIBTEX and Reuters in ``SETWISE_TEST_DATA``.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from threadpoolctl import threadpool_limits

from benchmarks.rows import RERANKING, Figure, record
from setwise.models.data.dataset_files import read_dataset
from setwise.models.options import PRESETS, TrainingOptions
from setwise.models.training import fit_features, train

DATA = Path(os.environ.get("SETWISE_TEST_DATA", "../shared/data"))
WARM_UP = 500  # documents of a first training, which compiles


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--preset", choices=list(PRESETS), default="fast")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write rows")
    parser.add_argument("folders", nargs="*", default=[DATA / "bibtex", DATA / "reuters21578"])
    arguments = parser.parse_args()
    threadpool_limits(1)  # the seconds of waiting threads would count too
    warnings.simplefilter("ignore", UserWarning)
    print("| | seed | CPU s | liblinear | ratio | set accuracy | Brier score |")
    for folder in map(Path, arguments.folders):
        dataset = read_dataset(folder, "train")
        sample = dataset.take(np.arange(0, dataset.n, max(1, dataset.n // WARM_UP)))
        train(sample, TrainingOptions(preset=arguments.preset, n_jobs=1))
        _, _, X = fit_features(dataset, TrainingOptions(preset=arguments.preset))
        for seed in range(arguments.seeds):
            options = TrainingOptions(preset=arguments.preset, seed=seed, n_jobs=1)
            start = time.process_time()
            metrics = train(dataset, options).manifest["metrics"]
            ours = time.process_time() - start
            start = time.process_time()
            single = LogisticRegression(solver="liblinear", random_state=seed)
            OneVsRestClassifier(single).fit(X, dataset.Y.toarray())
            theirs = time.process_time() - start
            print(
                f"| {folder.name} | {seed} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} "
                f"| {metrics['set_accuracy']:.4f} | {metrics['brier']:.4f} |",
                flush=True,
            )
            if arguments.record:
                figures: dict[str, Figure] = {
                    "seconds": round(ours, 2),
                    "liblinear": round(theirs, 2),
                    "ratio": round(ours / theirs, 2),
                    "accuracy": round(metrics["set_accuracy"], 4),
                    "brier": round(metrics["brier"], 4),
                }
                subject = f"{folder.name}, {arguments.preset}"
                record("training", subject, figures, seed=seed, code=RERANKING)


if __name__ == "__main__":
    main()
