"""Time, memory and equality of training and predicting on Dask workers that get killed.

    python -m benchmarks.bench_cluster train [--documents 20000] [--labels 1000] [--runs 0,1,2,2k]
        [--labels-by each|clusters] [--folds 2] [--jobs 2]
    python -m benchmarks.bench_cluster predict [--documents 1000000] [--file parquet] [--runs 0,2]

A run is a number of workers with one thread each, or 0 for this process alone. With ``k``, a worker
is killed every ``--kill-every`` seconds, ten times. The documents are generated as in
``bench_scale.py``, for clusters of labels with its topics. Each run is a separate process.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pyarrow as pa
from distributed import LocalCluster
from pyarrow import parquet

from benchmarks.bench_scale import peak_mb, synthetic
from setwise.models.data.formats.reading import document_lines
from setwise.models.options import LABELS_BY, TrainingOptions
from setwise.models.storage.artifacts import load, save
from setwise.models.training import train
from setwise.service.cli.cluster import cluster_of, trained_on
from setwise.service.cli.prediction_lines import dask_workers, predicted_lines

KILLS = 10
VOCABULARY, FILL = 20_000, 12
AT_ONCE = 10_000


class Watched:
    """Workers whose memory is watched, and of whom one at a time is killed."""

    def __init__(self, cluster: LocalCluster, kill_every_s: float | None) -> None:
        self.peak_mb = 0.0
        self.killed = 0
        self._cluster = cluster
        self._every = kill_every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._done.wait(0.1):
            alive = [worker.pid for worker in self._cluster.workers.values() if worker.pid]
            self.peak_mb = max([self.peak_mb, *map(_resident_mb, alive)])
            due = self._every is not None and time.monotonic() - last > self._every
            if due and alive and self.killed < KILLS:
                os.kill(alive[self.killed % len(alive)], signal.SIGKILL)
                self.killed += 1
                last = time.monotonic()


def _resident_mb(process_id: int) -> float:
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**20


def write_documents(path: Path, n: int, labels: int) -> None:
    """Write texts as JSON Lines or Parquet, in constant memory."""
    parts = (
        synthetic(min(AT_ONCE, n - first), labels, VOCABULARY, FILL, 2 + first).texts or ()
        for first in range(0, n, AT_ONCE)
    )
    if path.suffix == ".jsonl":
        with path.open("w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for part in parts for text in part)
        return
    with parquet.ParquetWriter(path, pa.schema([("text", pa.string())])) as writer:
        for part in parts:
            writer.write_table(pa.table({"text": list(part)}))


def run(chosen: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Train or predict once."""
    workers = int(chosen.runs.rstrip("k"))
    train(synthetic(300, 5, 200, 12, 1), TrainingOptions(preset="fast"))  # compiled code
    work = training(chosen) if chosen.what == "train" else prediction(chosen, folder)
    result: dict[str, object] = {"run": chosen.runs, "before_mb": round(peak_mb())}
    if workers == 0:
        started = time.perf_counter()
        result["result"] = work(None)
        result["seconds"] = round(time.perf_counter() - started, 1)
        return result | {"peak_mb": round(peak_mb())}
    every = chosen.kill_every if chosen.runs.endswith("k") else None
    with LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        with Watched(cluster, every) as watched:
            started = time.perf_counter()
            result["result"] = work(cluster.scheduler_address)
            result["seconds"] = round(time.perf_counter() - started, 1)
        result |= {"worker_peak_mb": round(watched.peak_mb), "killed": watched.killed}
    return result | {"peak_mb": round(peak_mb())}


def training(chosen: argparse.Namespace) -> Callable[[str | None], str]:
    """Return a function that trains, here or on a cluster, and returns the model's digests."""
    clusters = chosen.labels_by == "clusters"
    data = synthetic(chosen.documents, chosen.labels, VOCABULARY, FILL, 0, topics=clusters)
    options = TrainingOptions(
        preset="fast", labels_by=chosen.labels_by, n_folds=chosen.folds, n_jobs=chosen.jobs
    )

    def fit(address: str | None) -> str:
        begun: dict[str, float] = {}

        def stage(_: float, name: str) -> None:
            begun.setdefault(name.split(" without", maxsplit=1)[0], time.perf_counter())

        with trained_on(None if address is None else cluster_of("dask", address, None)):
            found = train(data, options, stage)
        ends = list(begun.values())[1:]
        for (name, at), end in zip(begun.items(), ends, strict=False):
            print(f"  {name}: {end - at:.1f} s")
        return f"{found.version} {found.calibrator_version}"

    return fit


def prediction(chosen: argparse.Namespace, folder: Path) -> Callable[[str | None], str]:
    """Return a function that predicts, here or on a cluster, and returns the lines' digest."""
    artifact, file = folder / "model", str(folder / f"documents.{chosen.file}")

    def predict(address: str | None) -> str:
        cluster = None if address is None else cluster_of("dask", address, None)
        processes = None if cluster is None else dask_workers(cluster)
        digest = hashlib.sha256()
        for block in predicted_lines(load(artifact), file, document_lines(file), 1, processes):
            digest.update(block)
        return digest.hexdigest()[:12]

    return predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "predict"])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=1_000)
    parser.add_argument("--labels-by", choices=list(LABELS_BY), default="each")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="threads of the command, in training")
    parser.add_argument("--file", choices=["jsonl", "parquet"], default="parquet")
    parser.add_argument("--runs", default="0,1,2,2k")
    parser.add_argument("--kill-every", type=float, default=10.0, help="seconds")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.folder:
        print(json.dumps(run(chosen, chosen.folder)), flush=True)
        return
    with TemporaryDirectory() as folder:
        if chosen.what == "predict":
            data = synthetic(3000, chosen.labels, VOCABULARY, FILL, 0)
            save(train(data, TrainingOptions(preset="fast")), Path(folder) / "model")
            path = Path(folder) / f"documents.{chosen.file}"
            write_documents(path, chosen.documents, chosen.labels)
            print(f"{path.stat().st_size >> 20} MB of documents", flush=True)
        for name in chosen.runs.split(","):
            command = [sys.executable, "-m", "benchmarks.bench_cluster", *sys.argv[1:]]
            subprocess.run([*command, "--runs", name, "--folder", folder], check=True)


if __name__ == "__main__":
    main()
