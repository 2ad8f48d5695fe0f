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
import gzip
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import record
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.automation import automation_at
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.service.domain.predictions import Decision, Document, ScoredSet, Submission
from setwise.service.domain.recalibration import Noise, Progress
from setwise.service.domain.retraining import Measured
from setwise.service.domain.reviews import ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.analysis import retraining as analysis
from setwise.service.services.analysis.marked import measure_marked
from setwise.service.services.models import RESCORE
from setwise.service.services.predictions import all_predicted
from setwise.service.services.retraining import RETRAINING
from tests.simulation.office import START, Office, Scenario, mistake, open_office
from tests.simulation.streams import Item, Labels

ROOT = Path(__file__).resolve().parents[1]
NAMES, TARGETS, SEEDS = ("reuters21578", "ohsumed"), (0.95, 0.9), (0, 1, 2)
DOCUMENTS, A_DAY = 8_000, 100
MARKS = (2_000, 4_000, 8_000)
LABELLED, HELD_OUT = 1_000, 300
MOST_READINGS = 3_000
HELD = 0.1  # share of what would be sent that waits for an audit
CHECK_EVERY = 10  # readings between two checks whether a model is due
ERRS = 0.05
AUDITS = AuditPlan(certification_rate=0.1, gold_reread_rate=1.0)


@dataclass(frozen=True)
class Texts:
    """The documents of a data set in random order, and the model that serves first."""

    labels: Sequence[str]
    items: Sequence[Item]
    artifact: Path | None = None
    predictor: None = None

    def item(self, number: int) -> Item:
        """Return the document with this number."""
        return self.items[number]


def texts_of(source: Path, seed: int) -> Texts:
    """Return 8,000 documents of both parts of a data set."""
    lines = []
    for part in ("train", "test"):
        with gzip.open(source / f"{part}.jsonl.gz", "rt") as file:
            lines += [json.loads(line) for line in file]
    lines = [line for line in lines if line["text"].strip() and line["labels"]]
    Random(f"effort/{seed}").shuffle(lines)
    items = [
        Item(Document(id=f"{place}", text=line["text"]), tuple(sorted(line["labels"])))
        for place, line in enumerate(lines[:DOCUMENTS])
    ]
    return Texts(sorted({label for item in items for label in item.truth}), items)


@dataclass
class Result:
    """What a way cost, and what it sent."""

    certified_after: int | None = None
    """Documents that had come at the first certificate."""
    readings: int | None = None
    """Readings until then."""
    sent: list[bool] = field(default_factory=list)
    """Of each document, in the order of arrival."""
    right: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    def figures(self) -> dict[str, float | str]:
        """Return the columns of a row."""
        sent, right = np.array(self.sent, dtype=bool), np.array(self.right, dtype=bool)
        return {
            "readings": "none" if self.readings is None else float(self.readings),
            "documents": "none" if self.certified_after is None else float(self.certified_after),
            **{f"sent at {n}": float(sent[:n].sum() / n) for n in MARKS},
            "right": float(right[sent].mean()) if sent.any() else "none",
            "seconds": self.seconds,
        }


@dataclass
class Run:
    """A stream on its way through the service."""

    office: Office
    texts: Texts
    result: Result = field(default_factory=Result)
    first: int = 0
    """Documents that came before."""
    readings: int = 0

    def days(self) -> Result:
        """Let the documents come, and people read them."""
        self.readings = self.first
        self.result.sent, self.result.right = [False] * self.first, [False] * self.first
        self.office.services.models.loader.follow()
        for day, start in enumerate(range(self.first, DOCUMENTS, A_DAY)):
            morning = START + timedelta(weeks=day // 5, days=day % 5)
            self.office.clock.instant = max(self.office.clock.instant, morning)
            self._post(self.texts.items[start : start + A_DAY])
            self._read()
            if self._certified():
                self._send(self.texts.items[start + A_DAY :])
                break
            if self.readings > MOST_READINGS:
                break
        return self.result

    def _post(self, items: Sequence[Item]) -> None:
        outcomes = self.office.services.predictions.predict(
            [Submission(self.office.client, item.document) for item in items]
        )
        for item, made in zip(items, all_predicted(outcomes), strict=True):
            self.result.sent.append(made.decision is Decision.AUTO)
            self.result.right.append(set(made.scored.labels or ()) == set(item.truth))

    def _read(self) -> None:
        """Let reviewers read as much as they can, and the lead all that waits for a decision."""
        reviews, readers, left = self.office.services.reviews, self.office.reviewers, A_DAY
        while left and (
            tasks := [(who, task) for who in readers if (task := reviews.claim(who.caller))]
        ):
            self.office.clock.advance(minutes=1)
            for who, task in tasks:
                labels = who.answer(task, self._truth(task), self.texts.labels)
                reviews.complete(who.caller, task.id, labels, None, task.version)
            self.readings, left = self.readings + len(tasks), max(left - len(tasks), 0)
            if left % CHECK_EVERY == 0:
                self._train()
        lead = self.office.lead
        while (task := reviews.claim(lead)) is not None:
            reviews.complete(lead, task.id, self._truth(task), None, task.version)
            self.readings += 1

    def _truth(self, task: ReviewTask) -> Labels:
        return self.texts.items[int(task.prediction.document.id or "")].truth

    def _train(self) -> None:
        """Run what the worker runs: the next model, and what it says of documents that wait."""
        if self.office.services.retraining.request_if_due():
            while self.office.worker.run_one([RETRAINING, RESCORE]):
                pass

    def _certified(self) -> bool:
        """Do what the worker does every hour; return whether a certificate is in force."""
        services = self.office.services
        services.breaker.watch()
        services.certification.certify_if_due()
        if not services.certification.in_force(self.office.owner):
            return False
        self.result.readings, self.result.certified_after = self.readings, len(self.result.sent)
        return True

    def _send(self, items: Sequence[Item]) -> None:
        """Send of the other documents what the certificate lets through."""
        services, owner = self.office.services, self.office.owner
        (proof,) = services.certification.in_force(owner)
        (active,) = (model for model in services.models.page(owner) if model.active)
        model = services.models.loader.load(active)
        drawn = Random(f"held/{self.first}")
        for item, scored in zip(items, model.score([item.document for item in items]), strict=True):
            assert isinstance(scored, ScoredSet)
            sure = scored.best.confidence >= (proof.threshold or 1.0) and not scored.out_of_domain
            self.result.sent.append(sure and drawn.random() >= HELD)
            self.result.right.append(set(scored.labels or ()) == set(item.truth))


def judge_once() -> Callable[..., Measured | None]:
    """Return what judges the first model on its marked documents; the next ones enter as it did.

    Five more fits for each model would take most of the time.
    """
    judged: list[Measured] = []

    def judge(
        dataset: Dataset, marked: NDArray[np.bool_], options: TrainingOptions, report: Progress
    ) -> Measured | None:
        if not judged:
            measured = measure_marked(dataset, marked, options, report)
            judged.extend([] if measured is None else [measured])
        return judged[0] if judged else None

    return judge


def served(
    texts: Texts,
    target: float,
    seed: int,
    *,
    audited: float = 0.75,
    first: int = 0,
) -> Result:
    """Return what the service makes of a stream.

    ``audited``: Share of the documents, while nothing is sent.
    """
    audits = replace(AUDITS, ramp_up_rate=audited)
    scenario = Scenario(
        target=target, annotators=(ERRS, ERRS), audits=audits, noise=Noise.NONE, seed=seed
    )
    started = time.process_time()
    with (
        open_office(scenario, texts) as office,
        patch.object(analysis, "measure_marked", judge_once()),
    ):
        office.services.labels.add(office.owner, "\n".join(texts.labels))
        result = Run(office, texts, first=first).days()
    result.seconds = time.process_time() - started
    return result


def learnt(texts: Texts, folder: Path, seed: int) -> tuple[SetPredictor, list[Labels]]:
    """Return a model of the first answers, and the answers to them and to those held out."""
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
    return model, answers


def judged(model: SetPredictor, items: Sequence[Item]) -> Iterator[tuple[Labels, float]]:
    """Yield each document's likeliest set and its confidence."""
    predicted = model.predict_texts([item.document.text or "" for item in items])
    for place in range(len(items)):
        best = predicted.ranked(place)[0]
        yield best.labels, best.confidence


def without_proof(
    texts: Texts, model: SetPredictor, answers: Sequence[Labels], target: float
) -> tuple[Result, Result]:
    """Return what a threshold without a proof sends, and one that knows the truth."""
    held_out = list(judged(model, texts.items[LABELLED : LABELLED + HELD_OUT]))
    agreed = [
        set(labels) == set(said)
        for (labels, _), said in zip(held_out, answers[LABELLED:], strict=True)
    ]
    chosen = automation_at(target, [sure for _, sure in held_out], agreed).threshold
    results = []
    for first, knows in ((LABELLED + HELD_OUT, False), (LABELLED, True)):
        items = texts.items[first:]
        sets = list(judged(model, items))
        right = [
            set(labels) == set(item.truth) for (labels, _), item in zip(sets, items, strict=True)
        ]
        least = (
            automation_at(target, [sure for _, sure in sets], right).threshold if knows else chosen
        )
        sent = [least is not None and sure >= least for _, sure in sets]
        results.append(Result(first, first, [False] * first + sent, [False] * first + right))
    return results[0], results[1]


def show(subject: str, result: Result, seed: int, *, keep: bool) -> None:
    """Print a row, and record it if asked to."""
    figures = result.figures()
    cells = ", ".join(
        f"{name} {value if isinstance(value, str) else round(value, 3)}"
        for name, value in figures.items()
    )
    print(f"{subject}, seed {seed}: {cells}", flush=True)
    if keep:
        record("history/effort", subject, figures, seed=seed)


def play(source: Path, seed: int, asked: argparse.Namespace) -> None:
    """Let a stream pass in each way that is asked for."""
    texts = texts_of(source, seed)
    with tempfile.TemporaryDirectory() as folder:
        model, answers = learnt(texts, Path(folder), seed)
        save(model, Path(folder) / "model")
        labelled = replace(texts, artifact=Path(folder) / "model")
        for target in asked.targets:
            some = partial(served, target=target, seed=seed)
            unproved, oracle = without_proof(texts, model, answers, target)
            ways: dict[str, Callable[[], Result]] = {
                "from nothing": partial(some, texts),
                "from nothing, half audited": partial(some, texts, audited=0.5),
                "1,000 labelled first": partial(some, labelled, first=LABELLED),
                "1,000 labelled, no proof": partial(replace, unproved),
                "1,000 labelled, oracle": partial(replace, oracle),
            }
            for way in asked.ways or ways:
                subject = f"{source.name} at {target}, {way}"
                show(subject, ways[way](), seed, keep=asked.record)


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
