"""Recalibration: which form learns most, and why audits matter.

    python -m benchmarks.bench_recalibration [REPETITIONS]

A model is trained on the training part of Reuters in ``SETWISE_TEST_DATA`` (preset ``fast``, seed
0). Its cross-fitted predictions of that part are the documents; the test part is not used. Each of
the repetitions (20) splits them at random into three thirds: the model's original calibration rows,
documents that pass through the service, and documents that measure the result.

In the failing world, half of the right sets with the label ``earn`` become wrong: a third of all
predictions hold it, and they are among the surest.

In the first table, people review random documents; it shows which form learns most from how many
(Brier score, thousandths). In the second, they review documents with a confidence below .9, with or
without 5 % of the rest as audits; it shows confidence and accuracy of the sets that were sent.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.recalibration import (
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
)
from setwise.models.calibration.robust_calibrators import RobustBoostedSets
from setwise.models.calibration.sampling import inclusion_weights
from setwise.models.data.dataset_files import read_dataset
from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.options import TrainingOptions
from setwise.models.sets.features import SetFeatureTable
from setwise.models.training import train

ROOT = Path(__file__).resolve().parents[1]
POCKET = "earn"
FAILING = 0.5
THRESHOLD = 0.9
AUDITS = 0.05

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Part(NamedTuple):
    """Announced sets, whether they are right, and whether the pocket holds them."""

    sets: AnnouncedSets
    right: Bools
    inside: Bools


class World(NamedTuple):
    """One repetition."""

    original: CalibrationRows
    stream: Part
    judges: Part


def draw_world(rows: CalibrationRows, label: int, seed: int, *, failing: float) -> World:
    """Deal the documents out, and let the pocket fail."""
    draw = np.random.default_rng(seed)
    first, second, third = np.array_split(draw.permutation(len(rows)), 3)
    inside = rows.sets.indicators()[:, [label]].toarray().ravel() == 1
    right = (rows.right == 1) & ~(inside & (draw.random(len(rows)) < failing))

    def part(chosen: NDArray[np.int64]) -> Part:
        return Part(rows.sets.take(chosen), right[chosen], inside[chosen])

    original = CalibrationRows(rows.sets.take(first), rows.right[first])
    return World(original, part(second), part(third))


def shipped(world: World, chosen: NDArray[np.int64], weight: Floats | None = None) -> Floats:
    """Learn as the service does."""
    sets, right = world.stream.sets.take(chosen), world.stream.right[chosen]
    answers = ReviewOutcomes.of(right, weight=weight)
    n_effective = float(answers.weight.sum() ** 2 / (answers.weight @ answers.weight))
    always = world.original.beside(n_effective)
    return ConfidenceCorrection.fit(sets, answers, always=always).predict(world.judges.sets)


def linear(label_penalty: float, penalty: float) -> Callable[[World, NDArray[np.int64]], Floats]:
    """Return a correction with other penalties and no original rows."""

    def learn(world: World, chosen: NDArray[np.int64]) -> Floats:
        fitted = ConfidenceCorrection.fit(
            world.stream.sets.take(chosen),
            ReviewOutcomes.of(world.stream.right[chosen]),
            penalty=penalty,
            label_penalty=label_penalty,
        )
        return fitted.predict(world.judges.sets)

    return learn


def isotonic(world: World, chosen: NDArray[np.int64]) -> Floats:
    """Learn a rising curve of the own confidence."""
    known = world.stream
    curve = IsotonicCurve.fit(known.sets.confidence[chosen], known.right[chosen])
    return curve(world.judges.sets.confidence)


def boosted(world: World, chosen: NDArray[np.int64]) -> Floats:
    """Learn trees over the same columns and labels."""
    fitted = RobustBoostedSets().fit(
        table_of(world.stream.sets.take(chosen)), world.stream.right[chosen].astype(float)
    )
    return fitted.predict(table_of(world.judges.sets))


def table_of(sets: AnnouncedSets) -> SetFeatureTable:
    """Return the columns as trees read them."""
    names = ("confidence", "score", "runner_up", "rest", "size")
    return SetFeatureTable(
        names,
        (1, 1, 0, 0, 0),
        sets.columns().astype(np.float32),
        sets.sets.indptr,
        sets.sets.labels,
        np.arange(len(sets) + 1, dtype=np.int64),
        sets.n_labels,
    )


FORMS: dict[str, Callable[[World, NDArray[np.int64]], Floats]] = {
    "as the model says": lambda world, _: world.judges.sets.confidence,
    "intercept alone": linear(1e9, 1e9),
    "columns, no labels": linear(1e9, 5.0),
    "columns and labels": linear(20.0, 5.0),
    "… and original rows (shipped)": shipped,
    "isotonic in the own confidence": isotonic,
    "boosted, same columns and labels": boosted,
}


def brier(found: Floats, part: Part) -> float:
    """Return the mean squared error."""
    return float(np.mean((found - part.right) ** 2))


def compare_forms(rows: CalibrationRows, label: int, repetitions: int) -> None:
    """Print the first table."""
    for failing in (0.0, FAILING):
        print(f"\n| pocket fails {failing:.0%} | 200 | 500 | 1000 | 2500 |\n|---|---|---|---|---|")
        for name, learn in FORMS.items():
            cells = []
            for n in (200, 500, 1_000, 2_500):
                found = []
                for seed in range(repetitions):
                    world = draw_world(rows, label, seed, failing=failing)
                    found.append(1e3 * brier(learn(world, np.arange(n)), world.judges))
                cells.append(f"{np.mean(found):.1f}")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def compare_sources(rows: CalibrationRows, label: int, repetitions: int) -> None:
    """Print the second table."""
    print(
        "\n| learnt from | said of sent sets | true | said in the pocket | true | Brier, sent |"
        "\n|---|---|---|---|---|---|"
    )
    kinds = ("no update", "reviews", "+ audits", "+ audits, weighted", "everything")
    for kind in kinds:
        found = []
        for seed in range(repetitions):
            world = draw_world(rows, label, seed, failing=FAILING)
            own = world.stream.sets.confidence
            audited = np.random.default_rng(1_000 + seed).random(len(own)) < AUDITS
            unsure = own < THRESHOLD
            read = unsure | audited if "audits" in kind else unsure
            chosen = np.arange(len(own)) if kind == "everything" else np.flatnonzero(read)
            chance = np.where(unsure, 1.0, AUDITS)[chosen]
            weight = inclusion_weights(chance) if "weighted" in kind else None
            now = world.judges.sets.confidence
            confidence = now if kind == "no update" else shipped(world, chosen, weight)
            sent, right = now >= THRESHOLD, world.judges.right
            pocket = sent & world.judges.inside
            found.append(
                (
                    confidence[sent].mean(),
                    right[sent].mean(),
                    confidence[pocket].mean(),
                    right[pocket].mean(),
                    np.mean((confidence - right)[sent] ** 2),
                )
            )
        cells = " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
        print(f"| {kind} | {cells} |", flush=True)


def main() -> None:
    """Train, and print both tables."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    dataset = read_dataset(data / "reuters21578", "train")
    rows = train(dataset, TrainingOptions(preset="fast")).calibration_rows
    assert rows is not None
    label = dataset.label_names.index(POCKET)
    inside = rows.sets.indicators()[:, [label]].toarray().mean()
    print(f"{len(rows)} documents, {inside:.0%} in the pocket; {repetitions} repetitions")
    compare_forms(rows, label, repetitions)
    compare_sources(rows, label, repetitions)


if __name__ == "__main__":
    main()
