"""Time and memory of training by documents, labels and vocabulary.

    python benchmarks/bench_scale.py [--axis documents|labels|vocabulary] [--sizes a,b]
        [--preset paper] [--limit-gb 8] [--json FILE]

Each size runs in its own process with a limited address space, so a size that does not fit is
reported and does not take the machine down.

Texts are synthetic. Each has at least twelve words of the vocabulary, enough for most words to
occur in two texts, and about four words for each of its one to three labels. Label frequencies
follow Zipf's law.
"""

import argparse
import json
import multiprocessing
import resource
import time
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.options import PRESETS, Preset, TrainingOptions
from setwise.models.training import train

DEFAULT = {"documents": 10_000, "labels": 50, "vocabulary": 20_000}
SIZES = {
    "documents": [1_000, 10_000, 100_000, 1_000_000],
    "labels": [10, 100, 1_000, 10_000],
    "vocabulary": [1_000, 10_000, 100_000, 1_000_000],
}
N_TEST = 1_000
WORDS_OF_A_LABEL = 8


def zipf(draw: np.random.Generator, n: int, size: int) -> np.ndarray:
    """Return numbers below ``n``, small ones often: rank r about as often as 1 / (r + 10)."""
    return np.minimum(10 * ((n + 10) / 10) ** draw.random(size) - 10, n - 1).astype(np.int64)


def synthetic(n: int, n_labels: int, vocabulary: int, fill: int, seed: int) -> Dataset:
    """Return texts whose words tell their labels, most of the time, among ``fill`` others."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 4, n)
    row = np.repeat(np.arange(n), sizes)
    label = zipf(draw, n_labels, len(row))
    Y = csr_array((np.ones(len(row), np.uint8), (row, label)), shape=(n, n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1
    own = np.repeat(np.arange(len(row)), 4)
    told = label[own] * WORDS_OF_A_LABEL + draw.integers(0, WORDS_OF_A_LABEL, len(own))
    told = np.where(
        draw.random(len(own)) < 0.7, told % vocabulary, zipf(draw, vocabulary, len(own))
    )
    words = np.concatenate([told, draw.integers(0, vocabulary, fill * n)])
    document = np.concatenate([row[own], np.repeat(np.arange(n), fill)])
    order = np.argsort(document, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(document, minlength=n))])
    names = [f"w{word:x}" for word in range(vocabulary)]
    ordered = words[order].tolist()
    texts = tuple(" ".join([names[w] for w in ordered[a:b]]) for a, b in pairwise(bounds.tolist()))
    return Dataset(
        kind="text",
        ids=tuple(map(str, range(n))),
        label_names=tuple(f"label {i}" for i in range(n_labels)),
        Y=csr_array((Y.data, Y.indices.astype(np.int32), Y.indptr.astype(np.int32)), shape=Y.shape),
        texts=texts,
        X=None,
        feature_names=None,
        fingerprint="0" * 64,
    )


def peak_mb() -> float:
    """Return the largest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(shape: dict[str, int], preset: Preset, limit_gb: float, answer: Connection) -> None:
    """Train and evaluate once; send what it took."""
    limit = int(limit_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    result: dict[str, object] = dict(shape)
    try:
        train(synthetic(300, 5, 200, 12, 1), TrainingOptions(preset=preset))  # compiled code
        fill = max(12, 4 * shape["vocabulary"] // shape["documents"])
        dataset = synthetic(shape["documents"], shape["labels"], shape["vocabulary"], fill, 0)
        result["data_mb"] = round(peak_mb())
        stages: list[tuple[str, float]] = []

        def stage(_: float, what: str) -> None:
            name = what.split(" without", maxsplit=1)[0]
            if not stages or stages[-1][0] != name:
                stages.append((name, time.perf_counter()))

        started, cpu = time.perf_counter(), time.process_time()
        predictor = train(dataset, TrainingOptions(preset=preset), stage)
        ended = time.perf_counter()
        result["train_seconds"] = round(ended - started, 2)
        result["train_cpu_seconds"] = round(time.process_time() - cpu, 2)
        result["n_features"] = len(predictor.feature_names)
        result["train_peak_mb"] = round(peak_mb())
        times = [*(at for _, at in stages), ended]
        result["stages"] = {
            name: round(after - at, 2) for (name, at), after in zip(stages, times[1:], strict=True)
        }
        test = synthetic(N_TEST, shape["labels"], shape["vocabulary"], fill, 1)
        metrics = evaluate(predictor, test)
        result["set_accuracy"] = round(metrics.set_accuracy, 4)
        result["predict_us"] = round(1e6 * (metrics.predict_seconds or 0.0) / test.n, 1)
    except MemoryError as error:
        result["error"] = f"out of memory at {limit_gb:g} GB: {error}"
    except ValueError as error:
        result["error"] = str(error)
    answer.send(result)


def run(shape: dict[str, int], preset: Preset, limit_gb: float) -> dict[str, object]:
    """Measure one size in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=measure, args=(shape, preset, limit_gb, theirs)
    )
    process.start()
    theirs.close()
    try:
        result: dict[str, object] = ours.recv()
    except EOFError:
        result = {**shape, "error": "the process was ended from outside"}
    process.join()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axis", choices=list(SIZES), action="append")
    parser.add_argument("--sizes", help="numbers with commas; for one axis")
    parser.add_argument("--preset", choices=list(PRESETS), default="paper")
    parser.add_argument("--limit-gb", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    results = []
    for axis in chosen.axis or SIZES:
        sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else SIZES[axis]
        heads = ("train s", "CPU s", "peak MB", "features", "predict µs")
        print(f"\n{axis:>12}{''.join(f'{head:>11}' for head in heads)}  stages")
        for size in sizes:
            result = run(DEFAULT | {axis: size}, chosen.preset, chosen.limit_gb)
            results.append({"axis": axis, **result})
            if "error" in result:
                print(f"{size:12,}  {result['error']}", flush=True)
                continue
            names = (
                "train_seconds",
                "train_cpu_seconds",
                "train_peak_mb",
                "n_features",
                "predict_us",
            )
            cells = "".join(f"{result[name]:>11}" for name in names)
            print(f"{size:12,}{cells}  {result['stages']}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
