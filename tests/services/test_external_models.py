"""Models of other models' answers beside models of documents: swapped, compared, explained."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from setwise.models.storage.artifacts import save
from setwise.models.training_external import start_external
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Document, Prediction, Submission
from tests.building import predict_one, results
from tests.kit.installation import Installation, installed
from tests.trained import LABELS, Artifacts

ANSWER = {
    "candidates": [{"labels": ["court"]}, {"labels": ["court", "music"]}, {"labels": ["court"]}]
}
BOTH = Document(id="both", text="judge verdict appeal", answer=ANSWER)
ALONE = Document(id="alone", answer=ANSWER)
TEXT = Document(id="text", text="judge verdict appeal")


class Progress:
    """Reports to nobody."""

    def __call__(self, progress: float, message: str = "") -> None: ...

    def checkpoint(self, state: Mapping[str, object]) -> None: ...


@pytest.fixture
def site(sqlite_url: str, tmp_path: Path, artifacts: Artifacts) -> Iterator[Installation]:
    """Return an installation with an external model that serves, and a model of texts."""
    save(start_external(sorted(LABELS)), tmp_path / "started")
    with installed(tmp_path / "data", sqlite_url, tmp_path / "started", artifacts.text) as site:
        yield site


def caller(site: Installation, role: Role) -> Caller:
    return site.services.keys.authenticate(site.secrets[role.value])


def predict(site: Installation, *documents: Document) -> list[Prediction | Exception]:
    client = caller(site, Role.CLIENT)
    submissions = [Submission(client, document) for document in documents]
    return results(site.services.predictions.predict(submissions))


def compare(site: Installation, candidate: ModelVersion) -> Mapping[str, object]:
    job = site.services.models.submit_compare(SYSTEM, candidate.id, 10)
    return site.services.models.compare_recent(job, Progress())


def test_each_kind_gets_its_documents_while_models_are_swapped_and_rolled_back(
    site: Installation,
) -> None:
    def kinds() -> list[type]:
        return [type(outcome) for outcome in predict(site, BOTH, ALONE, TEXT)]

    models = site.services.models
    assert kinds() == [Prediction, Prediction, InvalidRequest]
    models.activate(SYSTEM, site.models[1].id)
    assert kinds() == [InvalidRequest, InvalidRequest, Prediction]
    models.roll_back(SYSTEM, site.models[1].version)
    assert kinds() == [Prediction, Prediction, InvalidRequest]


def test_candidates_of_either_kind_score_what_they_can_read(site: Installation) -> None:
    predict(site, BOTH, ALONE)
    found = compare(site, site.models[1])
    assert (found["documents"], found["scored"]) == (2, 1)
    site.services.models.activate(SYSTEM, site.models[1].id)
    predict(site, TEXT)
    found = compare(site, site.models[0])
    assert (found["documents"], found["scored"]) == (3, 2)


def test_what_was_stored_can_be_scored_and_derived_again(site: Installation) -> None:
    prediction = predict_one(site.services.predictions, caller(site, Role.CLIENT), BOTH)
    assert (prediction.scored.labels, prediction.scored.uncalibrated) == (("court",), True)
    (again,) = site.services.models.loader.load(site.models[0]).score([prediction.document])
    assert again == prediction.scored
    derivation = site.services.predictions.derive(caller(site, Role.LEAD), prediction.id)
    assert (derivation.equal, derivation.draw_again) == (True, prediction.selection.draw)


def test_reviewers_are_told_what_the_other_model_answered(site: Installation) -> None:
    predict(site, ALONE)
    reviewer, reviews = caller(site, Role.REVIEWER), site.services.reviews
    task = reviews.queue.claim(reviewer)
    assert task is not None
    assert task.shown.answer == ANSWER
    court, music, storm = reviews.queue.explain(reviewer, task, ["court", "music", "storm"])
    assert [term.term for term in court] == ["the other model: in 3 of 3 answers"]
    assert [term.term for term in music] == ["the other model: in 1 of 3 answers"]
    assert storm[0].weight < music[0].weight < court[0].weight
    reviews.complete(reviewer, task.id, ["court"], None, task.version)
