"""The services of one installation on either database, and a clock. A pytest plugin.

Its model answers with the confidence that a text names; see `FakePredictor`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest
from sqlalchemy import Engine

from setwise.service.domain.accounts.callers import SYSTEM, Caller
from setwise.service.domain.audit_trail import PREDICTION_CREATED
from setwise.service.domain.certification import Certification
from setwise.service.domain.jobs import Job
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewTask
from setwise.service.domain.webhooks import MessageType
from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People
from setwise.service.services.accounts.sessions import Sessions
from setwise.service.services.analysis.proofs import Schedule
from setwise.service.services.annotators import Annotators
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.texts import Texts
from setwise.service.services.files import Files
from setwise.service.services.jobs import Jobs
from setwise.service.services.labels import Labels
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.reviews.answers import Answers
from setwise.service.services.reviews.decisions import Reviews
from setwise.service.services.reviews.queue import Queue
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fake_files import FakeFiles
from tests.fakes import (
    LOTTERY,
    FakeCalibrators,
    FakeClock,
    FakeIds,
    FakeLoader,
    FakePasswords,
    FakePredictors,
)
from tests.kit.databases import Contents, Database
from tests.samples import ADMIN, ANN, CLIENT, LEAD, add_predictions, change, prediction, task


@dataclass
class Clinic:
    """Services, and in short what programs, reviewers, leads and owners do.

    ``reviewing``, ``predicting``, ``working``: Options of the services of reviews, predictions and
    jobs, such as ``most_leases``.
    """

    begin: Transactions = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=lambda: FakeIds(0x7100_0000_0000))
    predictors: FakePredictors = field(default_factory=FakePredictors)
    loader: FakeLoader = field(default_factory=FakeLoader)
    calibrators: FakeCalibrators = field(default_factory=FakeCalibrators)
    disk: Any = field(default_factory=FakeFiles)
    passwords: FakePasswords = field(default_factory=FakePasswords)
    reviewing: Mapping[str, Any] = field(default_factory=dict)
    predicting: Mapping[str, Any] = field(default_factory=dict)
    working: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Transactions, FakeClock, FakeIds]:
        """What every service is made of."""
        return self.begin, self.now, self.new_id

    @property
    def engine(self) -> Engine:
        """The engine under the transactions."""
        return self.begin._writes

    @cached_property
    def contents(self) -> Contents:
        """What is stored now."""
        return Contents(self.begin)

    @cached_property
    def policies(self) -> Policies:
        return Policies(*self.parts)

    @cached_property
    def predictions(self) -> Predictions:
        return Predictions(self.predictors, *self.parts, LOTTERY, **self.predicting)

    @cached_property
    def reviews(self) -> Reviews:
        return building.reviews(*self.parts, predictors=self.predictors, **self.reviewing)

    @property
    def queue(self) -> Queue:
        return self.reviews.queue

    @property
    def answers(self) -> Answers:
        return Answers(*self.parts, self.reviews)

    @cached_property
    def outcomes(self) -> Outcomes:
        return Outcomes(*self.parts, self.predictors)

    @cached_property
    def labels(self) -> Labels:
        return Labels(*self.parts, self.now, self.predictors, lambda _: None)

    @cached_property
    def comments(self) -> Comments:
        return Comments(*self.parts)

    @cached_property
    def certifications(self) -> Certifications:
        return building.certifications(*self.parts, loader=self.loader)

    @property
    def outlooks(self) -> Outlooks:
        return Outlooks(self.begin, self.certifications.questions)

    @cached_property
    def models(self) -> Models:
        return building.models(*self.parts, loader=self.loader)

    @cached_property
    def recalibration(self) -> Recalibration:
        return building.recalibration(
            *self.parts,
            loader=self.loader,
            calibrators=self.calibrators,
            certifications=self.certifications,
        )

    @cached_property
    def annotators(self) -> Annotators:
        return Annotators(*self.parts)

    @cached_property
    def reports(self) -> Reports:
        return building.reports(self.begin, self.now, outlooks=self.outlooks)

    @cached_property
    def keys(self) -> Keys:
        return building.keys(*self.parts)

    @cached_property
    def people(self) -> People:
        return building.people(*self.parts, passwords=self.passwords)

    @cached_property
    def sessions(self) -> Sessions:
        return building.sessions(*self.parts, passwords=self.passwords)

    @cached_property
    def jobs(self) -> Jobs:
        return building.jobs(*self.parts, files=self.disk, **self.working)

    @cached_property
    def files(self) -> Files:
        return building.files(
            *self.parts,
            store=self.disk,
            predict=self.predictions.predict,
            predictors=self.predictors,
        )

    @cached_property
    def texts(self) -> Texts:
        return Texts(*self.parts, self.disk, lambda _: None)

    @cached_property
    def webhooks(self) -> Webhooks:
        return building.webhooks(*self.parts)

    def fix_threshold(self, threshold: float = 0.8, **fields: object) -> Policy:
        """Send every document with at least this confidence."""
        return self.policies.change(ADMIN, change(threshold=threshold, **fields), None)

    def predict(
        self, text: str = "0.9", by: Caller = CLIENT, name: str | None = "note", **rest: Any
    ) -> Prediction:
        """Predict one document; the model takes a number as its confidence."""
        return building.predict_one(self.predictions, by, Document(id=name, text=text), **rest)

    def store(self, *kinds: str, **fields: Any) -> list[ReviewTask]:
        """Store a prediction with a waiting task of each kind, an ordinary one by default."""
        tasks = [
            replace(task(prediction(**fields)), kind=ReviewKind(kind), created_at=self.now())
            for kind in kinds or ("review",)
        ]
        with self.begin() as transaction:
            for each in tasks:
                add_predictions(transaction, each.prediction)
                transaction.reviews.add(each)
        return tasks

    def claim(self, who: Caller = ANN) -> ReviewTask | None:
        """Return the next task of somebody, if there is one."""
        return self.queue.claim(who)

    def claimed(self, who: Caller = ANN) -> ReviewTask:
        """Return the next task of somebody, which there must be."""
        task = self.claim(who)
        assert task is not None
        return task

    def answer(
        self, who: Caller, labels: Sequence[str], *, seconds: float = 1, **rest: Any
    ) -> tuple[ReviewTask, Annotation]:
        """Let somebody claim the next task, and answer it some time later."""
        task = self.claimed(who)
        self.now.advance(seconds=seconds)
        return task, self.reviews.complete(who, task.id, labels, None, task.version, **rest)

    def adjudicate(self, labels: Sequence[str]) -> Annotation:
        """Let a lead decide between answers that differ."""
        task, verdict = self.answer(LEAD, labels)
        assert task.kind is ReviewKind.ADJUDICATION
        return verdict

    def reopen(
        self, of: Prediction, why: str, labels: Sequence[str] | None = None, by: Caller = LEAD
    ) -> ReviewTask:
        """Let a lead have a document decided again, a moment later."""
        self.now.advance(seconds=1)
        return self.answers.reopen(by, of.id, why, labels)

    def report(self, of: Prediction, labels: Sequence[str], source: str = "billing") -> Outcome:
        """Report what turned out to be right, a moment later."""
        self.now.advance(seconds=1)
        return self.outcomes.report(CLIENT, of.id, labels, source)

    def certify(self, by: str = SYSTEM.id, segment: str | None = None) -> Certification:
        """Try to prove a threshold; return the last of the attempts.

        The first look comes at any number of audits.
        """
        return self.certifications.by(Schedule(room=0.0)).certify(by, segment)[-1]

    @property
    def job(self) -> Job:
        """The only job that is stored."""
        (job,) = self.contents.jobs.values()
        return job

    @property
    def policy(self) -> Policy:
        with self.begin(read_only=True) as transaction:
            return transaction.policies.current()

    def actions(self) -> list[str]:
        """Return what the audit trail says, but not of predictions."""
        return [action for _, action in self.deeds()]

    def deeds(self) -> list[tuple[str, str]]:
        """Return who did what by the audit trail, but not of predictions."""
        events = self.contents.events.values()
        pairs = [(event.actor.name, event.action) for event in events]
        return [pair for pair in pairs if pair[1] != PREDICTION_CREATED]

    def kinds(self) -> list[ReviewKind]:
        """Return the kind of each task."""
        return [task.kind for task in self.contents.reviews.values()]

    def annotations(self) -> list[Annotation]:
        """Return every answer of a person."""
        return [*self.contents.annotations.values()]

    def messages(self) -> list[tuple[str, list[str]]]:
        """Return the kind and the labels of each message to programs."""
        return [(one.type.value, [*one.data["labels"]]) for one in self.contents.messages.values()]

    def corrections(self) -> list[tuple[list[str], list[str], str]]:
        """Return what each correction replaced, by what, and who says so."""
        return [
            ([*one.data["previous_labels"]], [*one.data["labels"]], str(one.data["source"]))
            for one in self.contents.messages.values()
            if one.type is MessageType.DOCUMENT_CORRECTED
        ]


@pytest.fixture
def clinic(begin: Transactions) -> Clinic:
    """Return a clinic on a database of the test's own."""
    return Clinic(begin)
