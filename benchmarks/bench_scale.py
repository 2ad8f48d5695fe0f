"""Time and memory of training by documents, labels and vocabulary.

    python -m benchmarks.bench_scale [--axis documents|labels|vocabulary] [--sizes a,b]
        [--preset paper] [--labels-by each|clusters] [--folds 5] [--topics] [--limit-gb 8]
        [--json FILE]

Each size runs in its own process with a limited address space, so a size that does not fit is
reported and does not take the machine down.

Texts are synthetic. Each has at least twelve words of the vocabulary, enough for most words to
occur in two texts, and about four words for each of its one to three labels. Label frequencies
follow Zipf's law. With ``--topics``, a document is about two topics, as many as the root of the
labels: its labels are theirs, and each brings three words of its topic.
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
from setwise.models.options import LABELS_BY, PRESETS, TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.training import train

DEFAULT = {"documents": 10_000, "labels": 50, "vocabulary": 20_000}
SIZES = {
    "documents": [1_000, 10_000, 100_000, 1_000_000],
    "labels": [10, 100, 1_000, 10_000],
    "vocabulary": [1_000, 10_000, 100_000, 1_000_000],
}
N_TEST = 1_000
WORDS_OF_A_LABEL = 8
WORDS_OF_A_TOPIC = 40


def zipf(draw: np.random.Generator, n: int, size: int) -> np.ndarray:
    """Return numbers below ``n``, small ones often: rank r about as often as 1 / (r + 10)."""
    return np.minimum(10 * ((n + 10) / 10) ** draw.random(size) - 10, n - 1).astype(np.int64)


def synthetic(
    n: int, n_labels: int, vocabulary: int, fill: int, seed: int, *, topics: bool = False
) -> Dataset:
    """Return texts whose words tell their labels, most of the time, among ``fill`` others."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 4, n)
    row = np.repeat(np.arange(n), sizes)
    of_topic = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if topics:
        count = round(n_labels**0.5)
        size = -(-n_labels // count)
        about = zipf(draw, count, 2 * n).reshape(n, 2)
        topic = about[row, (draw.random(len(row)) < 0.3).astype(int)]
        label = np.minimum(topic * size + zipf(draw, size, len(row)), n_labels - 1)
        words = np.repeat(topic, 3) * WORDS_OF_A_TOPIC + draw.integers(
            0, WORDS_OF_A_TOPIC, 3 * len(row)
        )
        of_topic = np.repeat(row, 3), words * 7 % vocabulary
    else:
        label = zipf(draw, n_labels, len(row))
    Y = csr_array((np.ones(len(row), np.uint8), (row, label)), shape=(n, n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1
    own = np.repeat(np.arange(len(row)), 4)
    drawn = label[own] * WORDS_OF_A_LABEL + draw.integers(0, WORDS_OF_A_LABEL, len(own))
    drawn = np.where(
        draw.random(len(own)) < 0.7, drawn % vocabulary, zipf(draw, vocabulary, len(own))
    )
    words = np.concatenate([drawn, of_topic[1], draw.integers(0, vocabulary, fill * n)])
    document = np.concatenate([row[own], of_topic[0], np.repeat(np.arange(n), fill)])
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


def found_first(predictor: SetPredictor, test: Dataset) -> list[float]:
    """Return the precision of the likeliest label, and of the three and five likeliest."""
    hits = np.zeros(5)
    truth = test.Y.tolil().rows
    for start in range(0, test.n, 100):
        assert test.texts is not None
        shown = predictor.predict_texts(test.texts[start : start + 100]).marginals
        first = np.argsort(-shown, axis=1, kind="stable")[:, :5]
        for i, labels in enumerate(first):
            hits += np.isin(labels, truth[start + i])
    return [round(float(hits[:k].sum() / (k * test.n)), 3) for k in (1, 3, 5)]


def measure(
    shape: dict[str, int],
    options: TrainingOptions,
    limit_gb: float,
    answer: Connection,
    *,
    topics: bool,
) -> None:
    """Train and evaluate once; send what it took."""
    limit = int(limit_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    result: dict[str, object] = dict(shape)
    try:
        train(synthetic(300, 5, 200, 12, 1), options)  # compiled code
        fill = max(12, 4 * shape["vocabulary"] // shape["documents"])
        dataset = synthetic(
            shape["documents"], shape["labels"], shape["vocabulary"], fill, 0, topics=topics
        )
        result["data_mb"] = round(peak_mb())
        stages: list[tuple[str, float]] = []

        def stage(_: float, what: str) -> None:
            name = what.split(" without", maxsplit=1)[0]
            if not stages or stages[-1][0] != name:
                stages.append((name, time.perf_counter()))

        started, cpu = time.perf_counter(), time.process_time()
        predictor = train(dataset, options, stage)
        ended = time.perf_counter()
        result["train_seconds"] = round(ended - started, 2)
        result["train_cpu_seconds"] = round(time.process_time() - cpu, 2)
        result["n_features"] = len(predictor.feature_names)
        result["train_peak_mb"] = round(peak_mb())
        times = [*(at for _, at in stages), ended]
        result["stages"] = {
            name: round(after - at, 2) for (name, at), after in zip(stages, times[1:], strict=True)
        }
        test = synthetic(N_TEST, shape["labels"], shape["vocabulary"], fill, 1, topics=topics)
        metrics = evaluate(predictor, test)
        result["set_accuracy"] = round(metrics.set_accuracy, 4)
        result["precision"] = found_first(predictor, test)
        result["predict_us"] = round(1e6 * (metrics.predict_seconds or 0.0) / test.n, 1)
    except MemoryError as error:
        result["error"] = f"out of memory at {limit_gb:g} GB: {error}"
    except ValueError as error:
        result["error"] = str(error)
    answer.send(result)


def run(
    shape: dict[str, int], options: TrainingOptions, limit_gb: float, *, topics: bool
) -> dict[str, object]:
    """Measure one size in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=measure,
        args=(shape, options, limit_gb, theirs),
        kwargs={"topics": topics},
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
    parser.add_argument("--labels-by", choices=list(LABELS_BY), default="each")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--topics", action="store_true")
    parser.add_argument("--documents", type=int, default=DEFAULT["documents"])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--limit-gb", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    options = TrainingOptions(
        preset=chosen.preset,
        labels_by=chosen.labels_by,
        n_folds=chosen.folds,
        n_jobs=chosen.jobs,
    )
    base = DEFAULT | {"documents": chosen.documents}
    results = []
    for axis in chosen.axis or SIZES:
        sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else SIZES[axis]
        heads = ("train s", "CPU s", "peak MB", "features", "predict µs")
        print(f"\n{axis:>12}{''.join(f'{head:>11}' for head in heads)}  stages")
        for size in sizes:
            result = run(base | {axis: size}, options, chosen.limit_gb, topics=chosen.topics)
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
            found = f"set accuracy {result['set_accuracy']}, P@1/3/5 {result['precision']}"
            print(f"{size:12,}{cells}  {found}  {result['stages']}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
