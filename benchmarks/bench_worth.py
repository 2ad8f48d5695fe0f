"""What each part of the preset ``best`` is worth.

    python -m benchmarks.bench_worth [FOLDER…]

Each part is left out of ``best``, and added to ``paper``. Only the ``train`` part of a folder is
read; ``FOLDER:N`` draws N of its documents with seed 0. The default is Reuters in
``SETWISE_TEST_DATA``. Binary relevance and the voters are cross-fitted once. Each row then refines
labels, proposes sets and ranks them with some of the parts, cross-validated in the same five folds
with one boosted calibrator. Differences are paired by document, in points of set accuracy with
their standard error.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.calibration.choice import cross_validate
from setwise.models.calibration.crossfit import cross_fit, out_of_fold_logits
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.splits import fold_ids
from setwise.models.data.text import TextVectorizer
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.kept_scores import Scores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.options import PRESETS
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.reranker import rank_by
from setwise.models.sets.sources import MarginalCandidates, VotedCandidates
from setwise.models.voters.block_ridge import Rows
from setwise.models.voters.label_stack import LabelStack
from setwise.models.voters.voters import SetVoters
from setwise.models.voters.votes import SetVotes

ROOT = Path(__file__).resolve().parents[1]
VOTERS = PRESETS["best"].voters
PAPER = ("score", "prior")
N_FOLDS = 5


@dataclass(frozen=True)
class Recipe:
    """Which parts a row of the table has."""

    name: str
    voters: tuple[str, ...] = VOTERS
    groups: tuple[str, ...] = (*PAPER, "margins")
    refined: bool = True
    voted_candidates: bool = True


def recipes() -> Iterator[Recipe]:
    """Yield the whole preset, then all but one part, then the paper's and one more."""
    yield Recipe("best")
    for voter in VOTERS:
        yield Recipe(f"  without {voter}", voters=tuple(v for v in VOTERS if v != voter))
    yield Recipe("  without margins", groups=PAPER)
    yield Recipe("  without prior", groups=("score", "margins"))
    yield Recipe("  without refined labels", refined=False)
    yield Recipe("  without voted candidates", voted_candidates=False)
    yield Recipe("paper", (), PAPER, refined=False)
    yield Recipe("  with margins", (), (*PAPER, "margins"), refined=False)
    for voter in VOTERS:
        yield Recipe(f"  with {voter}", (voter,), PAPER, refined=False)


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


def cast_votes(
    X: csr_array, Y: csr_array, folds: NDArray[np.int64], logits: NDArray[np.float32]
) -> SetVotes:
    """Return every voter's cross-fitted votes on all documents."""
    marginals = np.empty(Y.shape)
    for fold in range(N_FOLDS):
        inside, outside = folds == fold, folds != fold
        calibrator = LabelCalibrator().fit(logits[outside], Y[np.flatnonzero(outside)])
        marginals[inside] = calibrator.transform(logits[inside])
    vote = SetVoters(VOTERS).fit_folds(X, marginals, Y, folds)
    parts = [np.flatnonzero(folds == fold) for fold in range(N_FOLDS)]
    by_fold = [vote(part) for part in parts]
    weights = np.empty((len(VOTERS), len(folds), by_fold[0].sets.n_sets), dtype=np.float32)
    for part, votes in zip(parts, by_fold, strict=True):
        weights[:, part] = votes.weights
    return SetVotes(by_fold[0].sets, VOTERS, weights)


def measure(folder: Path, n: int | None) -> None:
    """Print the table of one data set, or of a draw of its documents."""
    train = read_dataset(folder, "train")
    if n is not None:
        drawn = np.random.default_rng(0).permutation(train.n)[:n]
        train = train.take(np.sort(drawn))
    X, Y = train.X, train.Y
    if X is None:
        beginnings = PRESETS["best"].beginnings
        vectorizer = TextVectorizer(beginnings=beginnings, first_line_twice=True)
        X = vectorizer.fit_transform(train.texts)
    folds = fold_ids(Y, N_FOLDS, 0)
    base = BinaryRelevance(l1_ratio=0.5, random_state=0).fit(X, Y)
    penalised = clone(base).set_params(alpha=base.alpha_)
    logits = out_of_fold_logits(penalised, X, Y, folds)[:]
    votes = cast_votes(X, Y, folds, logits)
    everyone = np.arange(train.n)
    print(f"\n{folder.name}: {train.n} documents, {Y.shape[1]} labels, cross-validated")
    print(f"{'':28}{'set acc':>9}{'against':>9}{'SE':>7}{'Brier':>9}{'oracle':>9}")
    reference = np.zeros(train.n)
    for recipe in recipes():
        source = VotedCandidates() if recipe.voters and recipe.voted_candidates else None
        rows = cross_fit(
            X,
            Y,
            folds,
            logits,
            label_calibrator=LabelCalibrator(),
            source=source or MarginalCandidates(),
            features=SetFeatures((*recipe.groups, *recipe.voters)),
            voters=KnownVotes(choose(votes, recipe.voters, everyone)) if recipe.voters else None,
            stack=LabelStack() if recipe.refined else None,
        )
        confidence = cross_validate({"boosted": BoostedSets("logistic")}, rows)["boosted"]
        order = rank_by(confidence, rows.candidates)
        first = order[rows.candidates.doc_indptr[:-1]]
        right = rows.correct[first].astype(float)
        if not recipe.name.startswith(" "):
            reference = right
        gain = 100 * (right - reference)
        brier = np.mean((confidence[first] - right) ** 2)
        oracle = np.add.reduceat(rows.correct, rows.candidates.doc_indptr[:-1]).mean()
        print(
            f"{recipe.name:28}{100 * right.mean():9.2f}{gain.mean():+9.2f}"
            f"{gain.std() / train.n**0.5:7.2f}{brier:9.4f}{100 * oracle:9.2f}",
            flush=True,
        )


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    for name in sys.argv[1:] or [str(data / "reuters21578")]:
        path, _, n = name.partition(":")
        if not Path(path).is_dir():
            sys.exit(f"no data at {path}: give a folder or set SETWISE_TEST_DATA")
        measure(Path(path), int(n) if n else None)


if __name__ == "__main__":
    main()
