"""A project on its way from nothing to its first certificate, by the service's own services.

Documents of a data set come in random order, 100 a day. Two reviewers and a lead read them; the
jobs of the background run between readings. From the certificate on, its model and threshold send
what they do, .1 is audited, and no model is trained: later models would send more.
"""

import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from setwise.models.data.datasets import Dataset
from setwise.models.options import TrainingOptions
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
from tests.simulation.office import START, Office, Scenario, open_office
from tests.simulation.streams import Item, Labels

A_DAY = 100
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


def texts_of(source: Path, seed: int, n: int) -> Texts:
    """Return n documents of both parts of a data set."""
    lines = []
    for part in ("train", "test"):
        with gzip.open(source / f"{part}.jsonl.gz", "rt") as file:
            lines += [json.loads(line) for line in file]
    lines = [line for line in lines if line["text"].strip() and line["labels"]]
    Random(f"effort/{seed}").shuffle(lines)
    items = [
        Item(Document(id=f"{place}", text=line["text"]), tuple(sorted(line["labels"])))
        for place, line in enumerate(lines[:n])
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


@dataclass
class Run:
    """A stream on its way through the service."""

    office: Office
    texts: Texts
    most_readings: int
    """Without a certificate after so many, the way is given up."""
    result: Result = field(default_factory=Result)
    first: int = 0
    """Documents that came before."""
    readings: int = 0

    def days(self) -> Result:
        """Let the documents come, and people read them."""
        self.readings = self.first
        self.result.sent, self.result.right = [False] * self.first, [False] * self.first
        self.office.services.models.loader.follow()
        for day, start in enumerate(range(self.first, len(self.texts.items), A_DAY)):
            morning = START + timedelta(weeks=day // 5, days=day % 5)
            self.office.clock.instant = max(self.office.clock.instant, morning)
            self._post(self.texts.items[start : start + A_DAY])
            self._read()
            if self._certified():
                self._send(self.texts.items[start + A_DAY :])
                break
            if self.readings > self.most_readings:
                break
        return self.result

    def _post(self, items: Sequence[Item]) -> None:
        outcomes = self.office.services.predictions.predict(
            [Submission(self.office.client, item.document) for item in items]
        )
        for item, prediction in zip(items, all_predicted(outcomes), strict=True):
            self.result.sent.append(prediction.decision is Decision.AUTO)
            self.result.right.append(set(prediction.scored.labels or ()) == set(item.truth))

    def _read(self) -> None:
        """Let reviewers read as much as they can, and the lead all that waits for a decision."""
        reviews, readers, left = self.office.services.reviews, self.office.reviewers, A_DAY
        while left and (
            tasks := [(who, task) for who in readers if (task := reviews.queue.claim(who.caller))]
        ):
            self.office.clock.advance(minutes=1)
            for who, task in tasks:
                labels = who.answer(task, self._truth(task), self.texts.labels)
                reviews.complete(who.caller, task.id, labels, None, task.version)
            self.readings, left = self.readings + len(tasks), max(left - len(tasks), 0)
            if left % CHECK_EVERY == 0:
                self._train()
        lead = self.office.lead
        while (task := reviews.queue.claim(lead)) is not None:
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
        for item, refusal in zip(
            items, model.score([item.document for item in items]), strict=True
        ):
            assert isinstance(refusal, ScoredSet)
            sure = refusal.best.confidence >= (proof.threshold or 1.0) and not refusal.out_of_domain
            self.result.sent.append(sure and drawn.random() >= HELD)
            self.result.right.append(set(refusal.labels or ()) == set(item.truth))


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
    most_readings: int = MOST_READINGS,
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
        result = Run(office, texts, most_readings, first=first).days()
    result.seconds = time.process_time() - started
    return result
