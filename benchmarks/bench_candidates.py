"""How many candidate sets BR-rerank needs, and what they cost.

    python -m benchmarks.bench_candidates FOLDER…

For each number of candidates, BR-rerank of preset ``paper`` learns from the ``train`` part with one
core, seed 0, and answers for the ``test`` part. *Oracle* is the share of documents whose own set is
among the candidates.
"""

import sys
from pathlib import Path

import setwise
from benchmarks.papers.runs import run_method

NUMBERS = (1, 2, 5, 10, 20, 50, 64)


def compare(folder: Path) -> None:
    """Print one row for each number of candidates."""
    train, test = (setwise.read_dataset(folder, part) for part in ("train", "test"))
    for number in NUMBERS:
        options = setwise.TrainingOptions(preset="paper", n_candidates=number, n_jobs=1)
        run = next(run_method(train, test, options))
        found = run.metrics
        print(
            f"{folder.name:9} {number:3} | {found.set_accuracy:.3f} | {found.instance_f1:.3f}"
            f" | {found.oracle_accuracy:.3f} | {found.brier:.4f} | {found.train_cpu_seconds:.1f}"
            f" | {found.predict_seconds:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        compare(Path(argument))
