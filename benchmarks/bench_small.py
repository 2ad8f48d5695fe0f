"""Compares the presets with scikit-learn's classifiers on 50 to 1,000 documents.

    python -m benchmarks.bench_small [--sizes 50,200,1000] [--draws 4] [--record] [NAME…]

Each draw takes documents of the ``train`` part of a data set in ``SETWISE_TEST_DATA``, and every
contender learns from them and is judged on the same 2,000 documents of the ``test`` part. The peers
are those of `bench_peers`, with their constants chosen by cross-validation, and *neighbours*: the
label set of most of the nearest documents by cosine, as many as cross-validation chooses.

The figures of a peer are what it gets right more often than ``fast``, paired by draw and document;
± is the standard error over draws and documents.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.bench_peers import PEERS, ROOT, OverSets, Parts, Peer, choose, exact, read
from benchmarks.rows import RERANKING, Figure, record
from setwise.models.options import TrainingOptions
from setwise.models.training import train

SETS = ("reuters21578", "ohsumed", "tmc2007_500", "scene", "yeast")
SIZES = (50, 200, 1000)
PRESETS = ("fast", "best")
N_JUDGED = 2000


class Neighbours(OverSets):
    """The label set of most of the nearest documents, closer ones counting more."""

    def __init__(self, k: int) -> None:
        super().__init__(KNeighborsClassifier(k, weights="distance", metric="cosine"))

    def fit(self, X: csr_matrix, Y: csr_array) -> None:
        """Keep the documents; ask all of them if they are fewer than ``k``."""
        self.classifier.n_neighbors = min(self.classifier.n_neighbors, X.shape[0])
        super().fit(X, Y)


CONTENDERS = {
    "power set": PEERS["power set"],
    "neighbours": Peer(lambda k, _: Neighbours(max(1, round(k))), (1.0, 3.0, 10.0)),
    "logistic": PEERS["logistic"],
    "extra trees": PEERS["extra trees over sets"],
}


def peer_is_right(peer: Peer, parts: Parts, seed: int) -> NDArray[np.bool_]:
    """Return whether a peer's set is right, for each document of the test part."""
    constant, _ = choose(peer, parts.X, parts.train.Y, seed)
    fitted = peer.make(constant, seed)
    fitted.fit(parts.X, parts.train.Y)
    return exact(fitted.score(parts.X_test)[0], parts.test.Y)


def preset_is_right(preset: str, parts: Parts, seed: int) -> NDArray[np.bool_]:
    """Return whether a preset's set is right, for each document of the test part."""
    options = TrainingOptions(preset=preset, seed=seed, n_jobs=1)  # type: ignore[arg-type]
    model, (_, test, *_) = train(parts.train, options), parts
    if test.X is None:
        assert test.texts is not None  # a data set has vectors or texts
        predictions = model.predict_texts(list(test.texts))
    else:
        predictions = model.predict(test.X)
    return exact(csr_array(predictions.chosen()), test.Y)


def right(folder: Path, size: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return which test documents each contender gets right after one draw, as 0 and 1."""
    parts = read(folder, size, seed)
    judged = np.sort(np.random.default_rng(0).permutation(parts.test.n)[:N_JUDGED])
    parts = parts._replace(test=parts.test.take(judged), X_test=parts.X_test[judged])
    answers = {preset: preset_is_right(preset, parts, seed) for preset in PRESETS}
    for name, peer in CONTENDERS.items():
        if parts.dense or not peer.dense_only:
            answers[name] = peer_is_right(peer, parts, seed)
    return {name: answer.astype(float) for name, answer in answers.items()}


def gain(own: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """Return the mean difference of answers, shape (draws, documents), and its error.

    Examples
    --------
    >>> gain(np.array([[1.0, 1.0], [0.0, 1.0]]), np.zeros((2, 2)))
    '+0.750±0.354'
    """
    difference = own - other
    over_draws, over_documents = difference.mean(axis=1), difference.mean(axis=0)
    error = sum(means.var(ddof=1) / len(means) for means in (over_draws, over_documents)) ** 0.5
    return f"{difference.mean():+.3f}±{error:.3f}"


def main() -> None:
    """Print one table for all data sets."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description="The presets and their peers on few documents.")
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--record", action="store_true", help="write rows to results/small.jsonl")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ("best", *CONTENDERS)
    print(f"| | fast | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 2)}")
    for name in given.sets or SETS:
        for size in map(int, given.sizes.split(",")):
            draws = [right(data / name, size, seed) for seed in range(given.draws)]
            answers = {each: np.array([draw[each] for draw in draws]) for each in draws[0]}
            fast = answers["fast"]
            figures: dict[str, Figure] = {"fast": round(float(fast.mean()), 4)}
            figures |= {
                column: gain(answers[column], fast) for column in columns if column in answers
            }
            shown = [str(figures.get(column, "")) for column in ("fast", *columns)]
            print(f"| {name}, {size} | {' | '.join(shown)} |", flush=True)
            if given.record:
                record("small", f"{name}, {size}", figures, code=RERANKING)


if __name__ == "__main__":
    main()
