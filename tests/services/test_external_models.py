"""Models of other models' answers beside models of documents: swapped, compared, explained."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from setwise.models.storage.artifacts import save
from setwise.models.training_external import start_external
from setwise.service import build
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Document, Prediction, Submission
from setwise.service.settings import Settings
from setwise.service.stores.upkeep import migrate
from tests.building import predict_one, results
from tests.trained import LABELS, Artifacts

ANSWER = {
    "candidates": [{"labels": ["court"]}, {"labels": ["court", "music"]}, {"labels": ["court"]}]
}
BOTH = Document(id="both", text="judge verdict appeal", answer=ANSWER)
ALONE = Document(id="alone", answer=ANSWER)
TEXT = Document(id="text", text="judge verdict appeal")


class Office:
    """A service on SQLite with an external model that serves, and a model of texts."""

    def __init__(self, folder: Path, artifacts: Artifacts) -> None:
        self.application = build.build(Settings(data_dir=folder))
        migrate.upgrade(self.application.engine)
        self.services = self.application.services
        save(start_external(sorted(LABELS)), folder / "started")
        self.external, self.text = (
            self.services.models.add(SYSTEM, str(path))
            for path in (folder / "started", artifacts.text)
        )
        self.services.models.activate(SYSTEM, self.external.id)
        self.client = self.key("billing", Role.CLIENT)

    def key(self, name: str, role: Role) -> Caller:
        return self.services.keys.create(SYSTEM, name, role)[0].calling()

    def predict(self, *documents: Document) -> list[Prediction | Exception]:
        submissions = [Submission(self.client, document) for document in documents]
        return results(self.services.predictions.predict(submissions))

    def compare(self, candidate: ModelVersion) -> Mapping[str, object]:
        job = self.services.models.submit_compare(SYSTEM, candidate.id, 10)
        return self.services.models.compare_recent(job, Progress())


class Progress:
    """Reports to nobody."""

    def __call__(self, progress: float, message: str = "") -> None: ...

    def checkpoint(self, state: Mapping[str, object]) -> None: ...


@pytest.fixture
def office(tmp_path: Path, artifacts: Artifacts) -> Iterator[Office]:
    office = Office(tmp_path, artifacts)
    yield office
    office.application.close()


def test_each_kind_gets_its_documents_while_models_are_swapped_and_rolled_back(
    office: Office,
) -> None:
    def kinds() -> list[type]:
        return [type(outcome) for outcome in office.predict(BOTH, ALONE, TEXT)]

    models = office.services.models
    assert kinds() == [Prediction, Prediction, InvalidRequest]
    models.activate(SYSTEM, office.text.id)
    assert kinds() == [InvalidRequest, InvalidRequest, Prediction]
    models.roll_back(SYSTEM, office.text.version)
    assert kinds() == [Prediction, Prediction, InvalidRequest]


def test_candidates_of_either_kind_score_what_they_can_read(office: Office) -> None:
    office.predict(BOTH, ALONE)
    found = office.compare(office.text)
    assert (found["documents"], found["scored"]) == (2, 1)
    office.services.models.activate(SYSTEM, office.text.id)
    office.predict(TEXT)
    found = office.compare(office.external)
    assert (found["documents"], found["scored"]) == (3, 2)


def test_what_was_stored_can_be_scored_and_derived_again(office: Office) -> None:
    made = predict_one(office.services.predictions, office.client, BOTH)
    assert (made.scored.labels, made.scored.uncalibrated) == (("court",), True)
    (again,) = office.services.models.loader.load(office.external).score([made.document])
    assert again == made.scored
    derivation = office.services.predictions.derive(office.key("lead", Role.LEAD), made.id)
    assert (derivation.equal, derivation.draw_again) == (True, made.selection.draw)


def test_reviewers_are_told_what_the_other_model_answered(office: Office) -> None:
    office.predict(ALONE)
    reviewer, reviews = office.key("ann", Role.REVIEWER), office.services.reviews
    task = reviews.claim(reviewer)
    assert task is not None
    assert task.shown.answer == ANSWER
    court, music, storm = reviews.explain(reviewer, task, ["court", "music", "storm"])
    assert [term.term for term in court] == ["the other model: in 3 of 3 answers"]
    assert [term.term for term in music] == ["the other model: in 1 of 3 answers"]
    assert storm[0].weight < music[0].weight < court[0].weight
    reviews.complete(reviewer, task.id, ["court"], None, task.version)
