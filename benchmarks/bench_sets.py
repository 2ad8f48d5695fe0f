"""CPU time from marginals to confidence, compared with plain ways.

    python -m benchmarks.bench_sets

Needs no data. The search for the K best sets is compared with Algorithm 4.2 of the thesis in plain
Python, the compiled trees with XGBoost's own calls.
"""

import heapq
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.data.rows import SparseRows
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.features import SetFeatures, SetFeatureTable
from setwise.models.sets.search import k_best_sets

ROUNDS = 7
DOCUMENTS = 2000


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'K best sets':32}{'ours':>10}{'Algorithm 4.2 in Python':>27}")
    for n_labels, k in ((159, 10), (159, 50), (1000, 50)):
        P = marginals(rng, n_labels)
        k_best_sets(P[:1], k, allow_empty=False)
        ours = us_per_document(partial(k_best_sets, P, k, allow_empty=False), len(P))
        plain = us_per_document(partial(algorithm_4_2, P[0], k), 1)
        print(f"L={n_labels:<5} K={k:<22}{ours:10.2f}{plain:19.0f}{plain / ours:7.0f}x")

    P = marginals(rng, 159)
    Y = csr_array((rng.random(P.shape) < P).astype(np.uint8))
    logits = np.log(P / (1 - P))
    labels = LabelCalibrator().fit(logits, Y)
    print(f"\n{'one stage each, K=10 of L=159':32}{'batch':>10}{'one document':>15}")
    evidence = DocumentEvidence(
        SparseRows.of(csr_array(np.ones((len(P), 1), dtype=np.float32))),
        logits,
        labels.transform(logits),
    )
    candidates = k_best_sets(evidence.marginals, 10, allow_empty=False)
    features = SetFeatures().fit(evidence.X, Y)
    table = features.transform(evidence, candidates)
    one = candidates.take_documents(np.array([0]))
    of_one = features.transform(evidence, one)
    calibrator = BoostedSets("logistic").fit(table, candidates.correct(Y))
    stages: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "label calibration": (
            lambda: labels.transform(logits),
            lambda: labels.transform(logits[:1]),
        ),
        "candidates": (
            lambda: k_best_sets(evidence.marginals, 10, allow_empty=False),
            lambda: k_best_sets(evidence.marginals[:1], 10, allow_empty=False),
        ),
        "features": (
            lambda: features.transform(evidence, candidates),
            lambda: features.transform(evidence, one),
        ),
        "trees": (lambda: calibrator.predict(table), lambda: calibrator.predict(of_one)),
        "trees by xgboost": (
            xgboost_path(calibrator, table),
            xgboost_path(calibrator, of_one),
        ),
    }
    for name, (batch, single) in stages.items():
        many = us_per_document(batch, len(P))
        alone = us_per_document(single, 1, repeats=200)
        print(f"{name:32}{many:10.2f}{alone:15.1f}")


def marginals(rng: np.random.Generator, n_labels: int) -> NDArray[np.float64]:
    """Return marginals of documents with a few likely labels each."""
    return np.asarray(1 / (1 + np.exp(-rng.normal(-5.0, 2.0, (DOCUMENTS, n_labels)))))


def us_per_document(run: Callable[[], object], n: int, *, repeats: int = 1) -> float:
    """Return the median over some rounds of CPU time, which other processes disturb least."""
    run()
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(repeats):
            run()
        seconds.append((time.process_time() - start) / repeats)
    return statistics.median(seconds) / n * 1e6


def algorithm_4_2(p: NDArray[np.float64], k: int) -> list[tuple[float, frozenset[int]]]:
    """List the k best sets as the thesis does: flip every label of every set taken."""
    cost = np.abs(np.log(p) - np.log1p(-p))
    mode = frozenset(np.flatnonzero(p > 0.5).tolist())
    queue = [(0.0, 0, mode)]
    queued = {mode}
    taken: list[tuple[float, frozenset[int]]] = []
    number = 0
    while len(taken) < k:
        total, _, labels = heapq.heappop(queue)
        taken.append((total, labels))
        for label in range(len(p)):
            flipped = labels ^ {label}
            if flipped not in queued:
                number += 1
                change = cost[label] if (label in labels) == (label in mode) else -cost[label]
                heapq.heappush(queue, (total + change, number, flipped))
                queued.add(flipped)
    return taken


def xgboost_path(calibrator: BoostedSets, table: SetFeatureTable) -> Callable[[], object]:
    """Return XGBoost's fastest call for these rows, on one thread."""
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(calibrator.model_), "utf-8"))
    return lambda: booster.inplace_predict(csr_matrix(table.to_csr()))


if __name__ == "__main__":
    main()
