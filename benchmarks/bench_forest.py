"""Measures what a forest of label sets is worth on dense measurements.

    python -m benchmarks.bench_forest --out forest.jsonl [--seeds 0,1,2] [--recipes …] [NAME…]
    python -m benchmarks.bench_forest --table forest.jsonl

Every recipe of a preset is trained and judged in five folds of the same documents, and each seed
draws the folds and all random choices. Only ``train`` parts of the data sets in
``SETWISE_TEST_DATA`` are read. Besides SCENE and YEAST there are two sets made from others:

- *digits*: 898 images, the pixelwise maxima of two of scikit-learn's 1,797 digits, each used once;
  the labels are the one or two digits.
- *tmc-50*: 2,000 documents of TMC-500, projected on 50 directions (truncated SVD of their words,
  which knows no labels).

The default recipes are those of ``br-rerank``. Name those of ``cbm-rerank``, whose mixtures take
longer; its preset is ``fast``.

Differences in the table are paired by document, first averaged over seeds; their standard error is
one over documents. CPU seconds are those of a fit on four folds by one thread, milliseconds those
of one document's prediction.
"""

import argparse
import base64
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.data.splits import fold_ids
from setwise.models.evaluation.automation import automation_at
from setwise.models.options import PRESETS, MethodName, Preset, TrainingOptions
from setwise.models.training import train

ROOT = Path(__file__).resolve().parents[1]
N_FOLDS = 5
TARGET = 0.95
ALONE = 100  # documents predicted one by one


class Recipe(NamedTuple):
    """A method, its preset and the voters that it gets."""

    preset: Preset
    forest: bool
    method: MethodName = "br-rerank"


RECIPES = {
    "fast": Recipe("fast", forest=False),
    "fast with forest": Recipe("fast", forest=True),
    "best": Recipe("best", forest=False),
    "best with forest": Recipe("best", forest=True),
    "cbm-rerank": Recipe("fast", forest=False, method="cbm-rerank"),
    "cbm-rerank with forest": Recipe("fast", forest=True, method="cbm-rerank"),
}
DEFAULT = tuple(name for name, recipe in RECIPES.items() if recipe.method == "br-rerank")


def scene(data: Path) -> Dataset:
    """Return the training part of SCENE."""
    return read_dataset(data / "scene", "train")


def yeast(data: Path) -> Dataset:
    """Return the training part of YEAST."""
    return read_dataset(data / "yeast", "train")


def digits(_: Path) -> Dataset:
    """Return images of two digits on top of each other."""
    images, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))[: len(images) // 2 * 2]
    first, second = order[::2], order[1::2]
    Y = np.zeros((len(first), 10), dtype=np.uint8)
    Y[np.arange(len(first)), digit[first]] = 1
    Y[np.arange(len(first)), digit[second]] = 1
    return of_vectors(np.maximum(images[first], images[second]), csr_array(Y))


def tmc_50(data: Path) -> Dataset:
    """Return documents of TMC-500 in 50 dense dimensions."""
    whole = read_dataset(data / "tmc2007_500", "train")
    drawn = whole.take(np.sort(np.random.default_rng(0).permutation(whole.n)[:2000]))
    projected = TruncatedSVD(50, random_state=0).fit_transform(drawn.X)
    return of_vectors(projected, drawn.Y)


SETS: dict[str, Callable[[Path], Dataset]] = {
    "scene": scene,
    "yeast": yeast,
    "digits": digits,
    "tmc-50": tmc_50,
}


def of_vectors(X: NDArray[np.float64], Y: csr_array) -> Dataset:
    """Return documents given by their features."""
    return Dataset(
        kind="vectors",
        ids=tuple(map(str, range(len(X)))),
        label_names=tuple(f"label {label}" for label in range(Y.shape[1])),
        Y=Y,
        texts=None,
        X=csr_array(X),
        feature_names=None,
        fingerprint="0" * 64,
    )


def use(recipe: Recipe) -> None:
    """Give a preset the voters of a recipe."""
    extras = PRESETS[recipe.preset]
    voters = tuple(name for name in extras.voters if name != "forest")
    PRESETS[recipe.preset] = extras._replace(
        voters=(*voters, "forest") if recipe.forest else voters
    )


def measure(name: str, recipe: str, seed: int, data: Path) -> dict[str, Any]:
    """Return what a recipe announces for every document of a set, and what it costs."""
    dataset = SETS[name](data)
    use(RECIPES[recipe])
    preset, _, method = RECIPES[recipe]
    options = TrainingOptions(preset=preset, method=method, seed=seed, n_jobs=1)
    train(dataset.take(range(200)), options)  # compiles
    folds = fold_ids(dataset.n, N_FOLDS, seed)
    right, confidence = np.zeros(dataset.n, dtype=bool), np.zeros(dataset.n)
    seconds, alone = [], []
    for fold in range(N_FOLDS):
        began = time.process_time()
        model = train(dataset.take(np.flatnonzero(folds != fold)), options)
        seconds.append(time.process_time() - began)
        inside = np.flatnonzero(folds == fold)
        assert dataset.X is not None  # all sets are vectors
        X, Y = dataset.X[inside], dataset.Y[inside]
        predictions = model.predict(X)
        right[inside] = abs(predictions.chosen().astype(int) - Y.astype(int)).sum(axis=1) == 0
        confidence[inside] = predictions.top_confidence()
        for row in range(ALONE):
            document = X[[row]]
            began = time.process_time()
            model.predict(document)
            alone.append(time.process_time() - began)
    return {
        "set": name,
        "seed": seed,
        "recipe": recipe,
        "seconds": float(np.mean(seconds)),
        "ms": 1000 * float(np.median(alone)),
        "right": packed(np.packbits(right)),
        "confidence": packed(confidence.astype(np.float32)),
    }


def packed(array: NDArray[Any]) -> str:
    """Return an array's bytes as text."""
    return base64.b64encode(array.tobytes()).decode()


def unpacked(text: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return the array of a text of `packed`."""
    return np.frombuffer(base64.b64decode(text), dtype)


class Judged(NamedTuple):
    """The runs of a recipe on a set, a row a seed."""

    right: NDArray[np.float64]
    confidence: NDArray[np.float64]
    seconds: float
    ms: float

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> "Judged":
        """Return the runs of these lines."""
        confidence = np.array([unpacked(row["confidence"], np.float32) for row in rows]).astype(
            np.float64
        )
        bits = [unpacked(row["right"], np.uint8) for row in rows]
        right = np.array([np.unpackbits(row)[: confidence.shape[1]] for row in bits])
        return cls(
            right.astype(np.float64),
            confidence,
            float(np.mean([row["seconds"] for row in rows])),
            float(np.mean([row["ms"] for row in rows])),
        )

    @property
    def squared(self) -> NDArray[np.float64]:
        """Each document's squared error of the confidence."""
        return (self.confidence - self.right) ** 2

    @property
    def sendable(self) -> float:
        """Share of documents above the threshold that keeps the target, mean of the seeds."""
        pairs = zip(self.confidence, self.right, strict=True)
        return float(np.mean([automation_at(TARGET, *pair).coverage for pair in pairs]))


def gain(own: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """Return the mean difference of documents' scores, and its standard error."""
    by_document = (own - other).mean(axis=0)
    error = by_document.std(ddof=1) / len(by_document) ** 0.5
    return f"{by_document.mean():+.4f} ± {error:.4f}"


def table(file: Path) -> None:
    """Print each recipe's scores and paired differences to its preset."""
    lines: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        lines[row["set"], row["recipe"]].append(row)
    judged = {
        key: Judged.of(sorted(rows, key=lambda row: row["seed"])) for key, rows in lines.items()
    }
    heads = ("", "set accuracy", "gain", "Brier", "gain", "sendable at 95 %", "CPU s", "ms")
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, recipe), own in judged.items():
        base = judged[name, recipe.split()[0]]
        same = own is base
        print(
            f"| {name}, {recipe} | {own.right.mean():.4f} | "
            f"{'' if same else gain(own.right, base.right)} | {own.squared.mean():.4f} | "
            f"{'' if same else gain(own.squared, base.squared)} | {own.sendable:.3f} | "
            f"{own.seconds:.2f} | {own.ms:.2f} |"
        )


def main() -> None:
    """Measure, or print the table of what was measured."""
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description="What a forest of label sets is worth.")
    parser.add_argument("sets", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--recipes", default=",".join(DEFAULT))
    given = parser.parse_args()
    if given.table is not None:
        table(given.table)
        return
    if given.out is None:
        sys.exit("name a file by --out, or --table")
    warnings.simplefilter("ignore")
    for name in given.sets or SETS:
        for seed in map(int, given.seeds.split(",")):
            for recipe in given.recipes.split(","):
                row = measure(name, recipe, seed, data)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name} {seed} {recipe}: {row['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
