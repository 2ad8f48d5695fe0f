"""The first model and the next ones come by themselves, and suggest where there was none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from setwise.service.domain.certification import Certification, Scorer
from setwise.service.domain.jobs import Job
from setwise.service.domain.policy import RetrainMode, ThresholdMode
from setwise.service.domain.predictions import Document, Reason, ScoredSet
from setwise.service.domain.retraining import Measured, Retrain
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan, Lottery
from setwise.service.services.analysis import retraining as analysis
from setwise.service.services.retraining import Retraining
from setwise.shown import members
from tests import building
from tests.building import predict_one
from tests.fakes import FakePredictor, FakeStore
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change, model
from tests.services.test_files import Worker

GOOD = Measured(60, 30, 20, 0.47, 0.83, 0.7, 0.4)
NO_BETTER = replace(GOOD, rank=0.4)


class Project:
    """An installation without a model, whose fits are told beforehand."""

    def __init__(self, clinic: Clinic) -> None:
        self.clinic, self.measured = clinic, GOOD
        clinic.predictors.predictor = None
        clinic.labels.add(ADMIN, "grain\nwheat\ntrade\n")
        self.retraining = Retraining(
            *clinic.parts,
            models=clinic.models,
            certifications=building.certifications(*clinic.parts),
            lease_clock=clinic.now,
        )
        self.rows: list[Mapping[str, object]] = []

    def fit(self, rows: Any, *_: object, **__: object) -> Mapping[str, object]:
        self.rows = [row for row, _ in rows]
        return {"documents": len(self.rows), "measured": members(self.measured)}

    def answer(self, documents: int, *labels: str) -> None:
        for _ in range(documents):
            self.wait()
            self.clinic.answer(ANN, labels or ("grain",))

    def wait(self) -> str:
        return predict_one(self.clinic.predictions, CLIENT, Document(text="0.7")).id

    def train(self) -> Mapping[str, object]:
        job = self.retraining.request_if_due()
        assert job is not None
        return self.finish(job)

    def finish(self, job: Job) -> Mapping[str, object]:
        jobs = self.clinic.jobs
        claimed_job = jobs.claim(["retraining"])
        assert claimed_job is not None
        assert claimed_job.id == job.id
        result = self.retraining.run(claimed_job, Worker())
        jobs.succeed(claimed_job, result)
        return result

    def rescore(self) -> Mapping[str, object]:
        job = self.clinic.jobs.claim(["rescore"])
        assert job is not None
        result = self.clinic.models.rescore(job, Worker())
        self.clinic.jobs.succeed(job, result)
        return result

    @property
    def version(self) -> str:
        return next(m.version for m in self.clinic.models.page(ADMIN) if m.active)

    @property
    def active(self) -> str | None:
        return next((m.id for m in self.clinic.models.page(ADMIN) if m.active), None)


@pytest.fixture
def project(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(clinic)
    monkeypatch.setattr(analysis, "fit_again", project.fit)
    add = FakeStore.add
    # The folder of an artifact differs each time, its content with the answers.
    monkeypatch.setattr(
        FakeStore,
        "add",
        lambda it, source: add(it, f"from-{len(project.rows)}" if "/" in source else source),
    )
    return project


def test_the_first_model_comes_with_sixty_answers_the_next_with_four_tenths_more(
    project: Project,
) -> None:
    project.answer(59)
    assert project.retraining.request_if_due() is None
    assert project.retraining.learning(LEAD).next_at == 60
    project.answer(1)
    result = project.train()
    assert result["model_id"] == project.active
    assert "20 of 30 marked documents are right" in str(result["reason"])
    assert project.retraining.learning(LEAD).next_at == 84
    project.answer(23)
    assert project.retraining.request_if_due() is None
    project.answer(1)
    first, result = project.active, project.train()
    assert result["model_id"] == project.active != first
    assert [point.marked for point in project.retraining.learning(LEAD).curve] == [30, 30]


def test_one_that_ranks_no_better_than_the_most_frequent_sets_does_not_suggest(
    project: Project,
) -> None:
    project.measured = NO_BETTER
    project.answer(60)
    assert "no better than the most frequent sets" in str(project.train()["reason"])
    assert project.active is None
    assert project.retraining.request_if_due() is None, "the next one comes with 84 answers"


@pytest.mark.parametrize("mode", RetrainMode)
def test_the_policy_says_what_happens_by_itself(project: Project, mode: RetrainMode) -> None:
    unproved_change = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, retrain=mode)
    project.clinic.policies.change(ADMIN, unproved_change, None)
    project.answer(60)
    if mode is RetrainMode.NEVER:
        assert project.retraining.request_if_due() is None
        assert project.retraining.learning(LEAD).next_at is None
        return
    project.train()
    assert (project.active is not None) == (mode is RetrainMode.AUTOMATIC)


def test_once_there_is_a_threshold_a_new_model_is_only_proposed(project: Project) -> None:
    project.answer(60)
    project.clinic.fix_threshold(0.8)
    result = project.train()
    assert project.active is None
    assert "activate it by hand" in str(result["reason"])


def test_a_model_that_somebody_brought_is_not_replaced(project: Project) -> None:
    model = project.clinic.models.add(ADMIN, "brought")
    project.clinic.models.activate(ADMIN, model.id)
    project.answer(60)
    assert project.retraining.request_if_due() is None
    assert project.retraining.learning(LEAD).next_at is None


def test_a_model_trained_on_request_counts_as_one_of_the_answers(project: Project) -> None:
    project.answer(70)
    project.finish(project.retraining.request(ADMIN, Retrain()))
    assert project.active is None, "a person activates it"
    (model,) = project.clinic.models.page(ADMIN)
    project.clinic.models.activate(ADMIN, model.id)
    assert project.retraining.learning(LEAD).next_at == 98


def test_a_worker_that_takes_over_activates_the_model_without_another_fit(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.answer(60)
    job, first = project.retraining.request_if_due(), Worker()
    assert job is not None
    monkeypatch.setattr(type(project.clinic.models), "activate", killed)
    with pytest.raises(Killed):
        project.retraining.run(job, first)
    monkeypatch.undo()
    assert project.active is None
    result = project.retraining.run(replace(job, checkpoint=first.kept), Worker())
    assert result["model_id"] == project.active


class Killed(Exception):
    """The worker dies."""


def killed(*_: object) -> None:
    raise Killed


def test_what_waits_is_suggested_to_where_there_was_no_model(project: Project) -> None:
    waiting = project.wait()
    project.clinic.labels.add(ADMIN, "a\nb\n")
    model = project.clinic.models.add(ADMIN, "new")
    project.clinic.models.activate(ADMIN, model.id)
    assert project.rescore()["documents"] == 1
    task = project.clinic.claimed(ANN)
    assert task.prediction.id == waiting
    assert (task.suggests, task.candidates[0].confidence) == (True, 0.7)
    prediction = project.clinic.predictions.get(ADMIN, waiting)
    assert (prediction.reason, prediction.scored.candidates) == (Reason.NO_MODEL, ())
    best = task.candidates[0].labels
    project.clinic.reviews.complete(ANN, task.id, list(best), None, task.version)
    project.clinic.now.advance(hours=1)
    project.clinic.reviews.submit_decisions()
    (annotation,) = project.clinic.contents.annotations.values()
    assert (annotation.suggestion_shown, annotation.chosen_rank) == (True, 0)
    assert annotation.agreed is None, "it says nothing of a prediction"


def test_what_is_on_a_desk_does_not_change_there(project: Project) -> None:
    project.wait()
    on_desk = project.clinic.claimed(BEN)
    model = project.clinic.models.add(ADMIN, "new")
    project.clinic.models.activate(ADMIN, model.id)
    assert project.rescore()["documents"] == 0
    assert project.clinic.queue.get(BEN, on_desk.id).candidates == ()


def test_another_model_meanwhile_begins_again(project: Project) -> None:
    project.wait()
    project.wait()
    for name in ("one", "two"):
        project.clinic.models.activate(ADMIN, project.clinic.models.add(ADMIN, name).id)
    job = project.clinic.jobs.claim(["rescore"])
    assert job is not None
    half = {"model_id": model("sha256:one").id, "after": "z", "documents": 1}
    assert project.clinic.models.rescore(replace(job, checkpoint=half), Worker()) == {
        "documents": 2,
        "model_id": project.active,
    }


def test_audits_of_one_model_count_for_the_next(project: Project) -> None:
    """Otherwise the proof would begin again with every model that comes by itself."""
    clinic, plan = project.clinic, AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    project.answer(60)
    project.train()
    clinic.predictors.predictor = FakePredictor(version=project.version)
    project.answer(10)
    unproved_change = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=plan)
    clinic.policies.change(ADMIN, unproved_change, None)
    project.answer(14)
    assert project.train()["model_id"] == project.active
    scorer = Scorer(project.version, FakePredictor().calibrator_version)
    with clinic.begin() as transaction:
        assert len(transaction.evidence.audited(scorer)) == 14
        assert transaction.certifications.unaudited(scorer, limit=100) == [], "the others taught it"


def test_a_look_waits_until_the_new_model_has_answered_something(project: Project) -> None:
    """Its thresholds are chosen from its confidences, and a look is not repeated."""
    clinic, certifications = project.clinic, project.clinic.certifications
    project.answer(60)
    project.train()
    clinic.predictors.predictor = Named(version=project.version)
    audited(clinic, 1.0)
    for place in range(55):
        predict_one(clinic.predictions, CLIENT, Document(text=f"0.{700 + place}"))
        clinic.answer(ANN, ("a", "b"))
        clinic.answer(LEAD, ("a", "b"))
    project.train()
    clinic.predictors.predictor = Named(version=project.version)
    audited(clinic, 0.0)
    looks: list[Certification] = []
    for place in range(20):
        predict_one(clinic.predictions, CLIENT, Document(text=f"0.{800 + place}"))
        looks += certifications.certify_if_due()
    assert looks[0].evidence.n_predictions == 20


@dataclass
class Named(FakePredictor):
    """Says which model answers."""

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        return [each._replace(model_version=self.version) for each in super().score(documents)]


def audited(clinic: Clinic, rate: float) -> None:
    """Have a target that few audits prove, and audit so many documents."""
    plan = AuditPlan(certification_rate=rate, gold_reread_rate=1.0)
    unproved_change = change(
        target_accuracy=0.3, threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=plan
    )
    clinic.policies.change(ADMIN, unproved_change, None)


def test_labels_with_few_examples_are_named_the_rarest_first(project: Project) -> None:
    project.answer(10, "grain")
    project.answer(2, "grain", "trade")
    learning = project.retraining.learning(LEAD)
    assert learning.answers == 12
    assert [(each.label, each.documents) for each in learning.rare] == [("wheat", 0), ("trade", 2)]


def test_marked_documents_are_named_to_the_fit(project: Project) -> None:
    for place in range(60):
        document = Document(text=f"0.7 {'ab' * (place % 7)} {chr(97 + place % 26)}" * (place + 1))
        predict_one(project.clinic.predictions, CLIENT, document)
        project.clinic.answer(ANN, ("grain",))
    project.train()
    marks = [bool(row["marked"]) for row in project.rows]
    assert 10 < sum(marks) < 50


def test_the_figures_of_a_model_are_those_of_the_marked_documents(project: Project) -> None:
    project.answer(60)
    project.train()
    (model,) = project.clinic.models.page(ADMIN)
    assert model.summary["metrics"] == members(GOOD)


@pytest.mark.parametrize("toss", [0.2, 0.8])
def test_half_of_the_readings_go_to_marked_documents(
    project: Project, toss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic = project.clinic
    monkeypatch.setattr(Lottery, "toss", lambda *_: toss)
    for place in range(12):
        word = "abcdefghijkl"[place] * 3
        predict_one(clinic.predictions, CLIENT, Document(text=f"0.{place + 10} {word}"))
    clinic.models.activate(ADMIN, clinic.models.add(ADMIN, "new").id)
    project.rescore()
    tasks = clinic.queue.page(ADMIN, limit=12).items
    marks = {task.id: task.marked for task in tasks}
    assert 0 < sum(marks.values()) < 12
    claimed_task = clinic.claimed(ANN)
    assert marks[claimed_task.id] is (toss < 0.5)


def test_once_there_is_a_threshold_documents_are_read_as_they_came(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lottery, "toss", lambda *_: 0.9)
    clinic = project.clinic
    words = ("aa", "bb", "cc", "dd", "ee", "ff")
    came = [
        predict_one(clinic.predictions, CLIENT, Document(text=f"0.7 {word}")).id for word in words
    ]
    clinic.fix_threshold(0.8)
    read = [clinic.queue.claim(ANN) for _ in came]
    assert [task and task.prediction.id for task in read] == came


def test_second_readings_go_to_documents_that_are_not_marked(project: Project) -> None:
    clinic = project.clinic
    overlap = AuditPlan(overlap_rate=0.5)
    clinic.policies.change(
        ADMIN,
        change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=overlap),
        None,
    )
    for place in range(26):
        predict_one(clinic.predictions, CLIENT, Document(text=f"0.7 {chr(97 + place) * 4}"))
    tasks = clinic.queue.page(ADMIN, limit=100).items
    second = {task.prediction.id for task in tasks if task.kind is ReviewKind.OVERLAP}
    ids = {task.prediction.id for task in tasks if task.marked}
    assert second == {task.prediction.id for task in tasks} - ids
