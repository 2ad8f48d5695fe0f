"""Measures what more candidates are worth where documents have many labels.

    python -m benchmarks.bench_large_sets --out large.jsonl [--seeds 0,1,2] [--ways …] [NAME…]
    python -m benchmarks.bench_large_sets --table large.jsonl

Only ``train`` parts of the data sets in ``SETWISE_TEST_DATA`` are read. Binary relevance and voters
are cross-fitted in five folds, drawn by the seed; each way then proposes sets for the same held-out
documents, and one calibrator a preset (boosted for ``best``, softmax for ``fast``), cross-fitted
too, ranks them. Pair weights and counts of label sets come from the other folds. Besides YEAST and
3,000 documents of TMC-500 there are

- *tmc-4*, *ohsumed-3*: the documents with at least so many labels;
- *pairs*: 1,500 documents of 30 Gaussian features, with 14 labels drawn from a known distribution
  with a weight on a third of the pairs of labels.

Differences in the table are paired by document, first averaged over seeds; their standard error is
one over documents. CPU seconds are those of candidates, features and calibrators, plus those of
training mixtures where a way has them.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit
from sklearn.base import clone

from benchmarks.bench_forest import Judged, gain, of_vectors, packed, unpacked, yeast
from benchmarks.bench_worth import CALIBRATORS
from setwise.models.calibration.choice import cross_validate
from setwise.models.calibration.crossfit import CrossFitted, in_document_order
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.proposals import propose_mixture
from setwise.models.options import PRESETS, Preset, TrainingOptions
from setwise.models.sets.candidates import SOURCE_VOTES, CandidateSets, RaggedSets, gather, merge
from setwise.models.sets.coherence import coherent_confidence
from setwise.models.sets.counts import LabelSetCounts
from setwise.models.sets.decider import announced_order
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import MAX_CANDIDATES, independent_scores, k_best_sets
from setwise.models.sets.sources import VotedCandidates
from setwise.models.training import FittedBase, fit_base

ROOT = Path(__file__).resolve().parents[1]
LEAST = 10  # sets of independent labels, as in the product
MORE = 10  # sets that the other ways add
MORE_VOTED = 12  # instead of 4 a voter
PENALTY = 2.0  # of the pair weights, for all documents together
SIZES = ((0.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 6.0), (6.0, np.inf))  # expected labels
FEWEST = 50  # documents of a size that is shown

Floats = NDArray[np.float64]


class PairWeights(NamedTuple):
    """Log-odds of labels given all others: ``scale * logit + bias + pairs @ others``."""

    scale: Floats  # (n_labels,)
    bias: Floats  # (n_labels,)
    pairs: Floats  # (n_labels, n_labels), symmetric, with an empty diagonal

    @classmethod
    def fit(cls, logits: Floats, Y: Floats) -> "PairWeights":
        """Return the weights of largest penalised pseudo-likelihood."""
        n, n_labels = Y.shape
        above = np.triu_indices(n_labels, 1)
        start = np.concatenate([np.ones(n_labels), np.zeros(n_labels + len(above[0]))])
        penalty = PENALTY / n

        def unpack(flat: Floats) -> PairWeights:
            pairs = np.zeros((n_labels, n_labels))
            pairs[above] = flat[2 * n_labels :]
            return cls(flat[:n_labels], flat[n_labels : 2 * n_labels], pairs + pairs.T)

        def objective(flat: Floats) -> tuple[float, Floats]:
            weights = unpack(flat)
            margin = logits * weights.scale + weights.bias + Y @ weights.pairs
            away = flat - start
            away[n_labels : 2 * n_labels] = 0.0
            loss = np.sum(np.logaddexp(0.0, margin) - Y * margin) / n
            residual = (expit(margin) - Y) / n
            of_pairs = Y.T @ residual
            slope = [(residual * logits).sum(axis=0), residual.sum(axis=0)]
            slope.append((of_pairs + of_pairs.T)[above])
            back = np.concatenate(slope) + penalty * away
            return float(loss + penalty / 2 * (away @ away)), back

        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
        return unpack(found.x)

    def field(self, logits: Floats) -> Floats:
        """Return the log-odds of labels (n_documents, n_labels) if all others are absent."""
        return logits * self.scale + self.bias


@njit(cache=True, nogil=True)
def exchanges(
    mode: NDArray[np.bool_], field: Floats, pairs: Floats, k: int
) -> NDArray[np.int64]:  # pragma: no cover - compiled
    """Return the two labels (k, 2) whose flips lose least of a set's energy, best first.

    The energy of a set is the sum of its labels' fields and of the weights of its pairs. Fewer rows
    are valid if there are fewer pairs; the others hold -1.
    """
    n_labels = len(field)
    sign = np.where(mode, -1.0, 1.0)
    change = np.empty(n_labels)
    for label in range(n_labels):
        change[label] = sign[label] * (field[label] + pairs[label][mode].sum())
    best = np.full((k, 2), -1)
    won = np.full(k, -np.inf)
    for a in range(n_labels):
        for b in range(a + 1, n_labels):
            total = change[a] + change[b] + sign[a] * sign[b] * pairs[a, b]
            if total <= won[k - 1]:
                continue
            slot = k - 1
            while slot > 0 and won[slot - 1] < total:
                won[slot] = won[slot - 1]
                best[slot] = best[slot - 1]
                slot -= 1
            won[slot] = total
            best[slot] = (a, b)
    return best


class Known(NamedTuple):
    """What a way may learn from: all folds but that of the documents."""

    Y: csr_array
    weights: PairWeights
    mixture: MixtureCandidates | None = None  # for the way of that name alone


Way = Callable[[DocumentEvidence, VotedCandidates, Known], CandidateSets]


def entropy(P: Floats) -> Floats:
    """Return the entropy of independent labels in each document, in nats."""
    return np.asarray(-(P * np.log(P) + (1.0 - P) * np.log1p(-P)).sum(axis=1))


def as_now(evidence: DocumentEvidence, source: VotedCandidates, _: Known) -> CandidateSets:
    """Return the candidates of the product."""
    return source.propose(evidence)


def by_entropy(evidence: DocumentEvidence, source: VotedCandidates, _: Known) -> CandidateSets:
    """Add sets of independent labels, as many as the labels' entropy counts; at most 64."""
    P = evidence.marginals
    likely = k_best_sets(P, MAX_CANDIDATES, allow_empty=source.allow_empty_)
    counts = np.clip(np.rint(np.exp(np.minimum(entropy(P), 50.0))), LEAST, MAX_CANDIDATES)
    place = np.arange(len(likely)) - likely.doc_indptr[likely.document]
    kept = place < counts[likely.document]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(likely.document[kept]))])
    return merge(source.propose(evidence), likely.take(np.flatnonzero(kept), bounds))


def by_votes(evidence: DocumentEvidence, source: VotedCandidates, _: Known) -> CandidateSets:
    """Add sets of voters."""
    more = VotedCandidates(source.k, MORE_VOTED, source.pool)
    more.allow_empty_ = source.allow_empty_
    return more.propose(evidence)


def by_frequency(
    evidence: DocumentEvidence, source: VotedCandidates, known: Known
) -> CandidateSets:
    """Add sets of other documents, by their probability times their excess over chance."""
    counts = LabelSetCounts.of(known.Y)
    sets = RaggedSets(counts.sets.indptr.astype(np.int64), counts.sets.labels.astype(np.int32))
    shape = (len(counts), known.Y.shape[1])
    holds = csr_array((np.ones(len(sets.labels)), sets.labels, sets.indptr), shape=shape)
    share = np.clip(known.Y.mean(axis=0), 1e-4, 1.0 - 1e-4)
    chance = np.exp(holds @ logit(share) + np.log1p(-share).sum())
    excess = np.log((counts.counts + 1.0) / (known.Y.shape[0] * chance + 1.0))
    score = (holds @ logit(evidence.marginals).T).T + excess
    best = np.argsort(-score, axis=1, kind="stable")[:, :MORE]
    n = len(best)
    bounds = np.arange(0, best.size + 1, best.shape[1])
    flags = np.full(best.size, SOURCE_VOTES, dtype=np.uint8)
    added = CandidateSets(bounds, *gather(sets, best.ravel()), np.zeros(best.size), flags, shape[1])
    assert added.n_documents == n
    return merge(source.propose(evidence), added)


def by_exchange(evidence: DocumentEvidence, source: VotedCandidates, known: Known) -> CandidateSets:
    """Add the likeliest set with two labels flipped that go together or exclude each other."""
    field = known.weights.field(logit(evidence.marginals))
    modes = evidence.marginals > 0.5
    rows: list[NDArray[np.bool_]] = []
    counts = [0]
    for mode, of_document in zip(modes, field, strict=True):
        pairs = exchanges(mode, of_document, known.weights.pairs, MORE)
        flipped = np.repeat(mode[None, :], len(pairs), axis=0)
        flipped[np.arange(len(pairs))[:, None], pairs] ^= True
        flipped = flipped[(pairs[:, 0] >= 0) & (flipped.any(axis=1) | source.allow_empty_)]
        rows.append(flipped)
        counts.append(len(flipped))
    sets = csr_array(np.concatenate(rows).astype(np.uint8))
    added = CandidateSets(
        np.cumsum(counts),
        sets.indptr.astype(np.int64),
        sets.indices.astype(np.int32),
        np.zeros(sets.shape[0]),
        np.full(sets.shape[0], SOURCE_VOTES, dtype=np.uint8),
        sets.shape[1],
    )
    return merge(source.propose(evidence), added)


def by_mixture(evidence: DocumentEvidence, source: VotedCandidates, known: Known) -> CandidateSets:
    """Add the likeliest sets of a conditional Bernoulli mixture."""
    assert known.mixture is not None
    return merge(source.propose(evidence), known.mixture.propose(evidence))


WAYS: dict[str, Way] = {
    "as now": as_now,
    "entropy": by_entropy,
    "votes": by_votes,
    "frequency": by_frequency,
    "exchange": by_exchange,
    "mixture": by_mixture,
}


def at_least(folder: str, k: int) -> Callable[[Path], Dataset]:
    """Return a reader of the training documents with at least ``k`` labels."""

    def read(data: Path) -> Dataset:
        whole = read_dataset(data / folder, "train")
        return whole.take(np.flatnonzero(np.diff(whole.Y.indptr) >= k))

    return read


def tmc(data: Path) -> Dataset:
    """Return 3,000 documents of TMC-500."""
    whole = read_dataset(data / "tmc2007_500", "train")
    return whole.take(np.sort(np.random.default_rng(0).permutation(whole.n)[:3000]))


def pairs(_: Path) -> Dataset:
    """Return documents whose labels are drawn from a known joint distribution."""
    n, n_labels, n_features = 1500, 14, 30
    draw = np.random.default_rng(0)
    X = draw.normal(size=(n, n_features))
    weights = draw.normal(size=(n_features, n_labels)) * 3.0 / n_features**0.5
    bias = draw.normal(size=n_labels) * 1.5 - 0.6
    linked = draw.random((n_labels, n_labels)) < 0.35
    joint = np.triu(draw.normal(size=(n_labels, n_labels)) * linked * 2.2, 1)
    bias -= 0.4 * (joint.sum(axis=0) + joint.sum(axis=1))
    sets = (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1
    together = np.einsum("sl,lm,sm->s", sets, joint, sets, optimize=True)
    Y = np.empty((n, n_labels), dtype=np.uint8)
    for i, x in enumerate(X):
        energy = sets @ (x @ weights + bias) + together
        mass = np.cumsum(np.exp(energy - energy.max()))
        Y[i] = sets[np.searchsorted(mass, draw.random() * mass[-1])]
    return of_vectors(X, csr_array(Y))


SETS: dict[str, Callable[[Path], Dataset]] = {
    "yeast": yeast,
    "tmc-500": tmc,
    "tmc-4": at_least("tmc2007_500", 4),
    "ohsumed-3": at_least("ohsumed", 3),
    "pairs": pairs,
}


def proposed(rows: CrossFitted, Y: csr_array, way: Way, known: dict[int, Known]) -> CrossFitted:
    """Return the same documents with the candidates of a way."""
    candidates, tables = [], []
    for part in rows.held_out:
        evidence, source = part.evidence(), part.source
        assert isinstance(source, VotedCandidates)  # presets with voters
        sets = way(evidence, source, known[int(rows.folds[part.rows[0]])])
        score = independent_scores(evidence.marginals, sets.doc_indptr, sets.sets)
        candidates.append(replace(sets, log_score=score))
        tables.append(part.features.transform(evidence, candidates[-1]))
    ordered, table = in_document_order(rows.held_out, candidates, tables)
    return replace(rows, candidates=ordered, table=table, correct=ordered.correct(Y))


def learn(base: FittedBase, Y: csr_array) -> dict[int, Known]:
    """Return what each fold's ways may learn from, without mixtures."""
    folds, logits = base.rows.folds, logit(np.asarray(base.rows.marginals[:]))
    known = {}
    for fold in np.unique(folds):
        others = np.flatnonzero(folds != fold)
        weights = PairWeights.fit(logits[others], Y[others].toarray().astype(np.float64))
        known[int(fold)] = Known(Y[others], weights)
    return known


def with_mixtures(
    known: dict[int, Known], base: FittedBase, Y: csr_array, preset: Preset, seed: int
) -> dict[int, Known]:
    """Add each fold's mixture, fitted as by ``cbm-rerank``."""
    template = propose_mixture(
        MORE,
        base.X,
        Y,
        n_components=None,
        union=False,
        n_jobs=1,
        seed=seed,
        n_fits=PRESETS[preset].n_fits,
    ).for_folds
    learned = {}
    for fold, of_fold in known.items():
        others = np.flatnonzero(base.rows.folds != fold)
        mixture = clone(template).fit(base.X[others], Y[others])
        learned[fold] = of_fold._replace(mixture=mixture)
    return learned


def measure(
    name: str, preset: Preset, seed: int, data: Path, file: Path, *, ways: list[str]
) -> None:
    """Append a line for each way of proposing."""
    dataset = SETS[name](data)
    base = fit_base(dataset, TrainingOptions(preset=preset, seed=seed, n_jobs=1))
    rows, Y = base.rows, dataset.Y
    marginals = np.asarray(rows.marginals[:])
    known = learn(base, Y)
    for way in ways:
        began = time.process_time()
        training = 0.0
        if way == "mixture":
            known = with_mixtures(known, base, Y, preset, seed)
            training, began = time.process_time() - began, time.process_time()
        found = proposed(rows, Y, WAYS[way], known)
        calibrator = clone(CALIBRATORS[preset]).set_params(random_state=seed)
        confidence = cross_validate({"": calibrator}, found, 1)[""]
        seconds = time.process_time() - began
        order = announced_order(found.candidates, confidence, by_confidence=True)
        ranked = found.candidates.reorder(order)
        first = ranked.doc_indptr[:-1]
        sure = coherent_confidence(ranked, confidence[order])[first]
        line = {
            "set": f"{name}, `{preset}`",
            "seed": seed,
            "recipe": way,
            "seconds": seconds,
            "training": training,
            "ms": 0.0,
            "candidates": len(ranked) / dataset.n,
            "right": packed(np.packbits(found.correct[order][first])),
            "confidence": packed(sure.astype(np.float32)),
            "among": packed(found.candidates.contains(Y).astype(np.uint8)),
            "expected": packed(marginals.sum(axis=1).astype(np.float32)),
        }
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        print(f"{name} {preset} seed {seed} {way}: {seconds:.1f} + {training:.1f} s", flush=True)


def table(file: Path) -> None:
    """Print each way's scores, and how often the right set is a candidate, by expected size."""
    lines: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        lines[row["set"]][row["recipe"]].append(row)
    heads = ["", "candidates", "oracle", "set accuracy", "gain", "Brier", "gain", "CPU s"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, ways in lines.items():
        seeds = {row["seed"] for row in ways["as now"]}
        base = Judged.of(sorted(ways["as now"], key=lambda row: row["seed"]))
        for way, rows in ways.items():
            assert {row["seed"] for row in rows} == seeds  # gains are paired
            own = Judged.of(sorted(rows, key=lambda row: row["seed"]))
            among = np.mean([unpacked(row["among"], np.uint8).mean() for row in rows])
            training = float(np.mean([row["training"] for row in rows]))
            seconds = f"{own.seconds:.1f}" + (f" + {training:.0f}" if training else "")
            gains = ["", ""]
            if way != "as now":
                gains = [gain(own.right, base.right), gain(own.squared, base.squared)]
            print(
                f"| {name}, {way} | {np.mean([row['candidates'] for row in rows]):.1f} | "
                f"{among:.3f} | {own.right.mean():.4f} | {gains[0]} | {own.squared.mean():.4f} | "
                f"{gains[1]} | {seconds} |"
            )
    heads = ["oracle by expected labels", *(f"{low:.0f} to {high:.0f}" for low, high in SIZES)]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, ways in lines.items():
        for way, rows in ways.items():
            print(f"| {name}, {way} | {' | '.join(_by_size(rows))} |")


def _by_size(rows: list[dict[str, Any]]) -> list[str]:
    expected = np.concatenate([unpacked(row["expected"], np.float32) for row in rows])
    among = np.concatenate([unpacked(row["among"], np.uint8) for row in rows])
    cells = []
    for low, high in SIZES:
        inside = (expected >= low) & (expected < high)
        shown = inside.sum() >= FEWEST * len(rows)
        cells.append(f"{among[inside].mean():.3f}" if shown else "")
    return cells


def main() -> None:
    """Measure, or print the table of what was measured."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, help="a file that lines are added to")
    parser.add_argument("--table", type=Path, help="a file whose table is printed")
    parser.add_argument("--presets", default="fast")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default=",".join(WAYS))
    asked = parser.parse_args()
    if asked.table is not None:
        table(asked.table)
        return
    if asked.out is None:
        sys.exit("give --out FILE or --table FILE")
    warnings.simplefilter("ignore")  # too few documents for trees
    for seed in map(int, asked.seeds.split(",")):
        for preset in PRESETS:
            for name in asked.sets or SETS if preset in asked.presets.split(",") else ():
                measure(name, preset, seed, data, asked.out, ways=asked.ways.split(","))


if __name__ == "__main__":
    main()
