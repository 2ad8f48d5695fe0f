"""What proven sending costs people who begin with nothing but texts, a list of labels and readers.

    python -m benchmarks.bench_effort [--data NAME…] [--seeds N…] [--targets T…] [--record]

Reads ``SETWISE_TEST_DATA``. For each seed, 8,000 documents of both parts of a data set come in
random order, 100 a day. Two reviewers contradict .05 of the right sets, err in .05 of the documents
without a suggestion, and overlook .02 of the wrong sets. A lead decides where they contradict, and
reads the audits again that they agreed with. All of it passes through the service's own
services on SQLite (`tests/simulation`), its background jobs too, until the first certificate.

- from nothing: all documents are read. .75 are audited once there is a model. A model is trained at
  60 answers and whenever there are 1.4 times as many.
- from nothing, half audited: the same, but .5 are audited, so that more answers teach.
- 1,000 labelled first: people read the first 1,000 documents, a model is trained on their answers
  with the preset ``best``, and the others are read in the order of the clock and audited as in the
  first way.
- 1,000 labelled, no proof: the same model; the lowest threshold at which, of 300 other documents
  that people read, as many answers agree as the target asks for.
- 1,000 labelled, oracle: the same model, and the lowest threshold at which the documents to come
  reach the target.

Readings are of all kinds: first ones, audits, second readings and decisions of the lead. Without a
certificate after 3,000 a way is given up. From a certificate on, its model and threshold send what
they do, .1 is audited, and no model is trained: later models would send more.
"""

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from benchmarks.rows import record
from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.automation import automation_at
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from tests.simulation.from_nothing import ERRS, Result, Texts, served, texts_of
from tests.simulation.office import mistake
from tests.simulation.streams import Item, Labels

ROOT = Path(__file__).resolve().parents[1]
NAMES, TARGETS, SEEDS = ("reuters21578", "ohsumed"), (0.95, 0.9), (0, 1, 2)
DOCUMENTS = 8_000
MARKS = (2_000, 4_000, 8_000)
LABELLED, HELD_OUT = 1_000, 300


def figures_of(result: Result) -> dict[str, float | str]:
    """Return the columns of a row."""
    sent, right = np.array(result.sent, dtype=bool), np.array(result.right, dtype=bool)
    return {
        "readings": "none" if result.readings is None else float(result.readings),
        "documents": "none" if result.certified_after is None else float(result.certified_after),
        **{f"sent at {n}": float(sent[:n].sum() / n) for n in MARKS},
        "right": float(right[sent].mean()) if sent.any() else "none",
        "seconds": result.seconds,
    }


class Taught(NamedTuple):
    """A model of the first answers."""

    artifact: Path
    model: SetPredictor
    answers: Sequence[Labels]
    """To the first documents, and to those held out."""


Teach = Callable[[], Taught]


def learnt(texts: Texts, folder: Path, seed: int) -> Taught:
    """Return a model of the first answers."""
    answers = []
    for item in texts.items[: LABELLED + HELD_OUT]:
        draw = Random(f"{seed}/answer/{item.document.id}")
        errs = draw.random() < ERRS
        answers.append(mistake(None, item.truth, texts.labels, draw) if errs else item.truth)
    with (folder / "first.jsonl").open("w") as file:
        for item, labels in list(zip(texts.items, answers, strict=False))[:LABELLED]:
            row = {"id": item.document.id, "text": item.document.text, "labels": labels}
            file.write(json.dumps(row) + "\n")
    model = train(read_dataset(folder / "first.jsonl"), TrainingOptions(preset="best", seed=seed))
    save(model, folder / "model")
    return Taught(folder / "model", model, answers)


def judged(
    model: SetPredictor, items: Sequence[Item], truths: Sequence[Labels]
) -> tuple[list[float], list[bool]]:
    """Return each likeliest set's confidence, and whether it is right."""
    predicted = model.predict_texts([item.document.text or "" for item in items])
    best = [predicted.ranked(place)[0] for place in range(len(items))]
    right = [set(each.labels) == set(truth) for each, truth in zip(best, truths, strict=True)]
    return [each.confidence for each in best], right


def without_proof(texts: Texts, taught: Taught, target: float) -> Result:
    """Return what the lowest threshold sends at which enough answers agree."""
    _, model, answers = taught
    first = LABELLED + HELD_OUT
    agreed = judged(model, texts.items[LABELLED:first], answers[LABELLED:])
    threshold = automation_at(target, *agreed).threshold
    return sending(texts, model, first, lambda *_: threshold)


def oracle(texts: Texts, taught: Taught, target: float) -> Result:
    """Return what the lowest threshold sends at which enough documents to come are right."""
    return sending(
        texts, taught.model, LABELLED, lambda *known: automation_at(target, *known).threshold
    )


def sending(
    texts: Texts,
    model: SetPredictor,
    first: int,
    choose: Callable[[list[float], list[bool]], float | None],
) -> Result:
    """Return what a model sends after the first documents, at a threshold chosen for them."""
    items = texts.items[first:]
    confidences, right = judged(model, items, [item.truth for item in items])
    threshold = choose(confidences, right)
    sent = [threshold is not None and sure >= threshold for sure in confidences]
    return Result(first, first, [False] * first + sent, [False] * first + right)


def labelled_first(texts: Texts, teach: Teach, target: float, seed: int) -> Result:
    """Return what the service makes of a stream if the model of 1,000 answers serves first."""
    artifact, _, _ = teach()
    return served(replace(texts, artifact=artifact), target, seed, first=LABELLED)


WAYS: dict[str, Callable[[Texts, Teach, float, int], Result]] = {
    "from nothing": lambda texts, _, target, seed: served(texts, target, seed),
    "from nothing, half audited": lambda texts, _, target, seed: served(
        texts, target, seed, audited=0.5
    ),
    "1,000 labelled first": labelled_first,
    "1,000 labelled, no proof": lambda texts, teach, target, _: without_proof(
        texts, teach(), target
    ),
    "1,000 labelled, oracle": lambda texts, teach, target, _: oracle(texts, teach(), target),
}


def show(subject: str, result: Result, seed: int, *, keep: bool) -> None:
    """Print a row, and record it if asked to."""
    figures = figures_of(result)
    cells = ", ".join(
        f"{name} {value if isinstance(value, str) else round(value, 3)}"
        for name, value in figures.items()
    )
    print(f"{subject}, seed {seed}: {cells}", flush=True)
    if keep:
        record("history/effort", subject, figures, seed=seed)


def play(source: Path, seed: int, asked: argparse.Namespace) -> None:
    """Let a stream pass in each way that is asked for."""
    texts = texts_of(source, seed, DOCUMENTS)
    with tempfile.TemporaryDirectory() as folder:
        teach = cache(partial(learnt, texts, Path(folder), seed))
        for target in asked.targets:
            for way in asked.ways or WAYS:
                result = WAYS[way](texts, teach, target, seed)
                show(f"{source.name} at {target}, {way}", result, seed, keep=asked.record)


def main() -> None:
    """Play all streams."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--targets", nargs="+", type=float, default=TARGETS)
    parser.add_argument("--ways", nargs="+")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    for name in asked.data:
        for seed in asked.seeds:
            play(data / name, seed, asked)


if __name__ == "__main__":
    main()
