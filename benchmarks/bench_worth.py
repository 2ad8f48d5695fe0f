"""What each part of the presets is worth, over several seeds.

    python -m benchmarks.bench_worth --out rights.jsonl [--seeds 0,1,2] [--draw 3000] [NAME…]
    python -m benchmarks.bench_worth --table rights.jsonl

Only the ``train`` parts of the data sets in ``SETWISE_TEST_DATA`` are read; each seed draws at most
``--draw`` of a set's documents, five folds and all random choices. Base models, votes and mixtures
are cross-fitted once; each recipe then proposes and ranks sets with some of the parts, with one
calibrator a preset (boosted for ``best``, softmax for ``fast``). A line of the output holds which
of the documents a recipe got right. Differences in the table are paired by document, first averaged
over seeds; their standard error is one over documents.
"""

# ruff: noqa: ANN401, SLF001  # fits are remembered, and parts switched off, from outside

import argparse
import base64
import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from setwise.models.calibration.calibrators import BoostedSets, SetCalibrator
from setwise.models.calibration.choice import cross_validate
from setwise.models.calibration.crossfit import CrossFitted, cross_fit, out_of_fold_logits
from setwise.models.calibration.group_softmax import SoftmaxSets
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.splits import fold_ids
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.kept_scores import Scores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.proposals import Proposal, propose_mixture
from setwise.models.options import PRESETS, MethodName, Preset, TrainingOptions, extras_of
from setwise.models.sets.evidence import CandidateSource
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.reranker import rank_by
from setwise.models.sets.sources import MarginalCandidates, VotedCandidates
from setwise.models.training import fit_features
from setwise.models.voters.block_ridge import Rows
from setwise.models.voters.voters import SetVoters
from setwise.models.voters.votes import SetVotes

ROOT = Path(__file__).resolve().parents[1]
SETS = ("bibtex", "ohsumed", "reuters21578", "scene", "yeast", "medical")
CALIBRATORS: dict[str, SetCalibrator] = {
    "best": BoostedSets("logistic"),
    "fast": SoftmaxSets(),
}
N_FOLDS = 5


@dataclass(frozen=True)
class Recipe:
    """Which voters and feature groups a row of the table has."""

    name: str
    voters: tuple[str, ...]
    groups: tuple[str, ...]
    voted_candidates: bool = True


def recipes(preset: Preset, voters: tuple[str, ...]) -> Iterator[Recipe]:
    """Yield the whole preset with its voters, then all but one part."""
    groups = groups_of(preset)
    yield Recipe(preset, voters, groups)
    for voter in voters:
        yield Recipe(f"{preset} without {voter}", tuple(v for v in voters if v != voter), groups)
    for group in groups[1:]:
        yield Recipe(f"{preset} without {group}", voters, tuple(g for g in groups if g != group))
    yield Recipe(f"{preset} without voted candidates", voters, groups, voted_candidates=False)


def groups_of(preset: Preset) -> tuple[str, ...]:
    """Return the feature groups of a preset that are not about votes."""
    return ("score", "prior", *(("margins",) if PRESETS[preset].margins else ()))


class KnownVotes(SetVoters):
    """Votes that are known already, in the place of voters that would have to be fitted."""

    def __init__(self, votes: SetVotes) -> None:
        super().__init__(votes.voters)
        self.votes = votes

    def fit_folds(
        self,
        X: csr_array,  # noqa: ARG002  # nothing is fitted
        marginals: Scores,  # noqa: ARG002
        Y: csr_array,  # noqa: ARG002
        folds: NDArray[np.int64],  # noqa: ARG002
    ) -> Callable[[Rows], SetVotes]:
        """Return a look-up of documents."""
        return lambda rows: choose(self.votes, self.votes.voters, rows)


def choose(votes: SetVotes, voters: tuple[str, ...], rows: Rows) -> SetVotes:
    """Return what some voters say of some documents."""
    places = np.array([votes.voters.index(voter) for voter in voters], dtype=np.int64)
    return SetVotes(votes.sets, voters, votes.weights[np.ix_(places, rows)])


class Measured(NamedTuple):
    """A draw of a training part, with everything that its recipes share."""

    X: csr_array
    Y: csr_array
    drawn: NDArray[np.int64]  # numbers of the documents in the training part
    folds: NDArray[np.int64]
    logits: Any
    votes: SetVotes

    def cross_fit(
        self,
        voters: tuple[str, ...],
        source: CandidateSource,
        groups: tuple[str, ...],
    ) -> CrossFitted:
        """Return the candidates of some voters and a source, with their features."""
        everyone = np.arange(len(self.folds))
        return cross_fit(
            self.X,
            self.Y,
            self.folds,
            self.logits,
            label_calibrator=LabelCalibrator(),
            source=source,
            features=SetFeatures((*groups, *voters)),
            voters=KnownVotes(choose(self.votes, voters, everyone)) if voters else None,
            n_jobs=1,
        )


def measured(folder: Path, preset: Preset, seed: int, draw: int, *, whole_words: bool) -> Measured:
    """Cross-fit binary relevance and the preset's voters."""
    train = read_dataset(folder, "train")
    drawn = np.sort(np.random.default_rng(seed).permutation(train.n)[:draw])
    train = train.take(drawn)
    method: MethodName = "cbm-rerank" if whole_words else "br-rerank"
    options = TrainingOptions(preset=preset, method=method, seed=seed, n_jobs=1)
    _, scaler, X = fit_features(train, options)
    voters = extras_of(options, dense=scaler is not None and scaler.dense).voters
    Y = train.Y
    folds = fold_ids(Y, N_FOLDS, seed)
    base = BinaryRelevance(l1_ratio=0.5, random_state=seed, n_jobs=1).fit(X, Y)
    logits = out_of_fold_logits(base.for_folds(), X, Y, folds, n_jobs=1)[:]
    votes = cast_votes(X, Y, folds, logits, voters)
    return Measured(X, Y, drawn, folds, logits, votes)


def cast_votes(
    X: csr_array,
    Y: csr_array,
    folds: NDArray[np.int64],
    logits: NDArray[np.float32],
    names: tuple[str, ...],
) -> SetVotes:
    """Return every voter's cross-fitted votes on all documents."""
    marginals = np.empty(Y.shape)
    for fold in range(N_FOLDS):
        inside, outside = folds == fold, folds != fold
        calibrator = LabelCalibrator().fit(logits[outside], Y[np.flatnonzero(outside)])
        marginals[inside] = calibrator.transform(logits[inside])
    vote = SetVoters(names).fit_folds(X, marginals, Y, folds)
    parts = [np.flatnonzero(folds == fold) for fold in range(N_FOLDS)]
    by_fold = [vote(part) for part in parts]
    weights = np.empty((len(names), len(folds), by_fold[0].sets.n_sets), dtype=np.float32)
    for part, votes in zip(parts, by_fold, strict=True):
        weights[:, part] = votes.weights
    return SetVotes(by_fold[0].sets, names, weights)


def right_of(rows: CrossFitted, preset: str) -> NDArray[np.bool_]:
    """Return whether each document's most confident set is right."""
    confidence = cross_validate({"": clone(CALIBRATORS[preset])}, rows, 1)[""]
    order = rank_by(confidence, rows.candidates)
    return rows.correct[order[rows.candidates.doc_indptr[:-1]]].astype(bool)


Rights = Iterator[tuple[str, Measured, NDArray[np.bool_], str]]


def measure_voters(folder: Path, preset: Preset, seed: int, draw: int) -> Rights:
    """Yield what each recipe of a preset of ``br-rerank`` gets right."""
    known = measured(folder, preset, seed, draw, whole_words=False)
    for recipe in recipes(preset, known.votes.voters):
        voted = recipe.voted_candidates and recipe.voters
        source = VotedCandidates() if voted else MarginalCandidates()
        rows = known.cross_fit(recipe.voters, source, recipe.groups)
        yield f"br-rerank {recipe.name}", known, right_of(rows, preset), ""


def measure_mixtures(folder: Path, seed: int, draw: int) -> Rights:
    """Yield what mixtures get right, alone and reranked, whole and without each part."""
    remember(ConditionalBernoulliMixture, "fit")
    known = measured(folder, "best", seed, draw, whole_words=True)
    ways = {
        "fast": propose(known, seed, n_fits=1, kernel=True),
        "fast without kernel": propose(known, seed, n_fits=1, kernel=False),
        "best": propose(known, seed, n_fits=2, kernel=True),
        "best without kernel": propose(known, seed, n_fits=2, kernel=False),
        "best without second fit": propose(known, seed, n_fits=1, kernel=True),
    }
    for name, make in ways.items():
        proposal = make()
        mixture: Any = vars(proposal.for_folds)["mixture"]
        right = np.zeros(len(known.folds), dtype=bool)
        for fold in range(N_FOLDS):
            inside = np.flatnonzero(known.folds == fold)
            outside = np.flatnonzero(known.folds != fold)
            fitted = clone(mixture).fit(known.X[outside], known.Y[outside])
            modes = fitted.most_probable_sets(known.X[inside]).candidates.first()
            right[inside] = abs(modes.astype(int) - known.Y[inside].astype(int)).sum(axis=1) == 0
        used = "kernel" if getattr(mixture, "mixture", mixture).features == "kernel" else ""
        yield f"cbm {name}", known, right, used
        preset: Preset = "fast" if name.startswith("fast") else "best"
        groups = ("independent", *groups_of(preset))
        voters = tuple(name for name in PRESETS[preset].voters if name in known.votes.voters)
        rows = known.cross_fit(voters, proposal.for_folds, groups)
        yield f"cbm-rerank {name}", known, right_of(rows, preset), used


def propose(known: Measured, seed: int, *, n_fits: int, kernel: bool) -> Callable[[], Proposal]:
    """Return a call that fits a mixture on all documents, with these parts."""
    mixture: Any = ConditionalBernoulliMixture
    original = mixture._make_kernel

    def make() -> Proposal:
        mixture._make_kernel = original if kernel else lambda *_: None
        return propose_mixture(
            10,
            known.X,
            known.Y,
            n_components=None,
            union=True,
            n_jobs=1,
            seed=seed,
            n_fits=n_fits,
        )

    return make


def remember(kind: Any, method: str) -> None:
    """Let equal fits on equal rows be made once."""
    fit = getattr(kind, method)
    fits: dict[str, Any] = {}
    if hasattr(fit, "remembered"):
        return

    def remembered(self: Any, *rows: Any, **named: Any) -> Any:
        kernel = getattr(type(self), "_make_kernel", None)
        plain = kernel is not None and kernel.__name__ == "<lambda>"
        params = self.get_params(deep=False)
        if params.get("features") == "linear" or (plain and params.get("features") == "auto"):
            params["features"] = "linear"
        digest = hashlib.sha256()
        for value in (*params.items(), *rows, *named.items()):
            update(digest, value)
        key = digest.hexdigest()
        if key not in fits:
            out = fit(self, *rows, **named)
            state = {k: v for k, v in vars(self).items() if k.endswith("_")}
            fits[key] = state, None if out is self else out
        state, out = fits[key]
        vars(self).update(state)
        return self if out is None else out

    vars(remembered)["remembered"] = True
    setattr(kind, method, remembered)


def update(digest: Any, value: Any) -> None:
    """Add a value to a digest."""
    if isinstance(value, csr_array):
        for array in (value.indptr, value.indices, value.data, np.array(value.shape)):
            digest.update(np.ascontiguousarray(array).tobytes())
    elif isinstance(value, np.ndarray):
        digest.update(value.tobytes())
    elif isinstance(value, tuple):
        for each in value:
            update(digest, each)
    else:
        digest.update(repr(value).encode())


Task = tuple[str, str, int, int, str]


def run(task: Task) -> str:
    """Measure one data set with one seed and append what was right."""
    folder, line, seed, draw, out = task
    began = time.perf_counter()
    warnings.simplefilter("ignore")
    path = Path(folder)
    try:
        if line == "mixtures":
            rights = measure_mixtures(path, seed, draw)
        else:
            rights = measure_voters(path, "fast" if line == "fast" else "best", seed, draw)
        for name, known, right, note in rights:
            row = {
                "set": path.name,
                "seed": seed,
                "recipe": name,
                "used": note,
                "seconds": round(time.perf_counter() - began, 1),
                "drawn": _packed(known.drawn.astype(np.uint16)),
                "right": _packed(np.packbits(right)),
            }
            _append(out, row)
        _append(out, {"done": [path.name, line, seed]})
    except Exception:  # noqa: BLE001  # the other tasks go on
        return f"{path.name} {line} {seed}: {traceback.format_exc()}"
    return f"{path.name} {line} {seed}: {time.perf_counter() - began:.0f} s"


def _append(out: str, row: dict[str, Any]) -> None:
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _packed(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def table(file: Path) -> None:
    """Print each recipe's set accuracy and its paired difference to the whole preset."""
    rights: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    used: dict[tuple[str, str], set[str]] = defaultdict(set)
    seeds: dict[tuple[str, str], int] = defaultdict(int)
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "done" in row:
            continue
        drawn = np.frombuffer(base64.b64decode(row["drawn"]), np.uint16)
        right = np.unpackbits(np.frombuffer(base64.b64decode(row["right"]), np.uint8))[: len(drawn)]
        key = row["set"], row["recipe"]
        used[key].add(row["used"])
        seeds[key] += 1
        for document, is_right in zip(drawn.tolist(), right.tolist(), strict=True):
            rights[key][document].append(is_right)
    for name in SETS:
        print(f"\n{name}")
        for (dataset, recipe), by_document in rights.items():
            if dataset != name:
                continue
            method = recipe.split(" ", maxsplit=1)[0]
            preset = "fast" if "fast" in recipe else "best"
            whole = rights[name, f"{method} {preset}"]
            right = np.array([np.sum(by_document[d]) for d in by_document])
            count = np.array([len(by_document[d]) for d in by_document])
            accuracy = 100 * right.sum() / count.sum()
            gains = [np.sum(by_document[d]) - np.sum(whole[d]) for d in by_document]
            gain = np.array(gains) / count.mean()
            error = 100 * gain.std(ddof=1) / len(gain) ** 0.5
            print(
                f"  {recipe:42}{accuracy:7.2f}{100 * gain.mean():+7.2f} ±{error:5.2f}"
                f"   {seeds[dataset, recipe]} seeds, {len(gain)} documents  {used[dataset, recipe]}"
            )


def main() -> None:
    """Measure, or print the table of what was measured."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description="What lines of parts are worth.")
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--draw", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lines", default="mixtures,best,fast")
    given = parser.parse_args()
    if given.table is not None:
        table(given.table)
        return
    if given.out is None:
        sys.exit("name a file by --out, or --table")
    rows = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    done = [json.loads(row).get("done") for row in rows]
    tasks: list[Task] = [
        (str(data / name), line, int(seed), given.draw, str(given.out))
        for line in given.lines.split(",")
        for name in given.sets or SETS
        for seed in given.seeds.split(",")
        if [name, line, int(seed)] not in done
    ]
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), max_tasks_per_child=None) as pool:
        for report in pool.map(run, tasks, chunksize=1):
            print(report, flush=True)


if __name__ == "__main__":
    main()
