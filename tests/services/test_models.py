"""Models and their candidates on every database."""

from dataclasses import replace

import pytest

from setwise.service.domain import errors
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion, Tally
from setwise.service.domain.predictions import (
    Decision,
    Document,
    Prediction,
    Reason,
    Refused,
    ScoredSet,
)
from tests.fakes import FakeLoader, FakePredictor, scored_set
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
from tests.samples import ADMIN, add_predictions, change, model, prediction
from tests.services.test_files import Died, Worker


def add(clinic: Clinic, *versions: str) -> list[ModelVersion]:
    models = [model(version) for version in versions]
    with clinic.begin() as transaction:
        for one in models:
            transaction.models.add(one)
    return models


def active(clinic: Clinic) -> str | None:
    with clinic.begin(read_only=True) as transaction:
        model = transaction.models.active()
    return model.version if model else None


def predict(clinic: Clinic, *texts: str, decision: Decision = Decision.REVIEW) -> list[Prediction]:
    """Store predictions with confidence 0.4, decided by the policy in force."""
    reason = Reason.ABOVE_THRESHOLD if decision is Decision.AUTO else Reason.BELOW_THRESHOLD
    predictions = [
        prediction(
            document=Document(id=text, text=text), decision=decision, reason=reason
        )._replace(policy_version=clinic.policy.version)
        for text in texts
    ]
    with clinic.begin() as transaction:
        add_predictions(transaction, *predictions)
    return predictions


def test_one_model_at_a_time_is_active(clinic: Clinic) -> None:
    first, second = (clinic.models.add(ADMIN, source) for source in ("one", "two"))
    assert [model.active for model in clinic.models.page(ADMIN)] == [False, False]
    assert clinic.models.activate(ADMIN, first.id).active
    assert clinic.models.activate(ADMIN, second.id).active
    assert clinic.models.page(ADMIN) == [replace(second, active=True), first]
    assert clinic.models.activate(ADMIN, first.id).active  # and back again
    assert [model.active for model in clinic.models.page(ADMIN)] == [False, True]


def test_activating_the_active_model_is_no_event(clinic: Clinic) -> None:
    model = clinic.models.add(ADMIN, "one")
    clinic.models.activate(ADMIN, model.id)
    clinic.models.activate(ADMIN, model.id)
    assert clinic.actions() == ["model.added", "model.activated"]


def test_the_same_artifact_is_registered_once(clinic: Clinic) -> None:
    clinic.models.add(ADMIN, "one")
    with pytest.raises(errors.DuplicateModel):
        clinic.models.add(ADMIN, "one")
    assert len(clinic.models.page(ADMIN)) == 1


def test_a_model_that_does_not_load_never_becomes_active(clinic: Clinic) -> None:
    good, bad = add(clinic, "sha256:good", "sha256:bad")
    clinic.loader.damaged.add("sha256:bad")
    clinic.models.activate(ADMIN, good.id)
    with pytest.raises(errors.ModelDamaged):
        clinic.models.activate(ADMIN, bad.id)
    assert active(clinic) == "sha256:good"
    assert clinic.loader.followed == 1
    assert clinic.models.verify(ADMIN, good.id).version == "sha256:good"
    with pytest.raises(errors.ModelDamaged):
        clinic.models.verify(ADMIN, bad.id)


def test_a_roll_back_leaves_the_model_that_it_names(clinic: Clinic) -> None:
    first, second, _ = add(clinic, "sha256:1", "sha256:2", "sha256:3")
    with pytest.raises(errors.NothingToRollBack):
        clinic.models.roll_back(ADMIN, "sha256:1")
    clinic.models.activate(ADMIN, first.id)
    with pytest.raises(errors.NothingToRollBack):
        clinic.models.roll_back(ADMIN, "sha256:1")
    clinic.models.activate(ADMIN, second.id)
    with pytest.raises(errors.VersionRequired):
        clinic.models.roll_back(ADMIN, None)
    assert clinic.models.roll_back(ADMIN, "sha256:2").version == "sha256:1"
    assert active(clinic) == "sha256:1"
    assert clinic.models.roll_back(ADMIN, "sha256:1").version == "sha256:2"


def test_a_repeated_roll_back_of_a_model_does_not_bring_it_back(clinic: Clinic) -> None:
    for one in add(clinic, "sha256:good", "sha256:faulty"):
        clinic.models.activate(ADMIN, one.id)
    clinic.models.roll_back(ADMIN, "sha256:faulty")
    with pytest.raises(errors.StaleVersion, match="nothing was rolled back"):
        clinic.models.roll_back(ADMIN, "sha256:faulty")
    assert active(clinic) == "sha256:good"


@ON_BOTH
def test_of_two_concurrent_roll_backs_of_a_model_one_counts(clinic: Clinic) -> None:
    class Slow(FakeLoader):
        def load(self, model: ModelVersion) -> FakePredictor:
            clinic.models.roll_back(ADMIN, "sha256:faulty")  # by someone else, meanwhile
            return super().load(model)

    for one in add(clinic, "sha256:good", "sha256:faulty"):
        clinic.models.activate(ADMIN, one.id)
    with pytest.raises(errors.StaleVersion):
        replace(clinic.models, loader=Slow()).roll_back(ADMIN, "sha256:faulty")
    assert active(clinic) == "sha256:good"


def test_one_model_at_a_time_shadows_the_serving_one(clinic: Clinic) -> None:
    serving, candidate, other = add(clinic, "sha256:1", "sha256:2", "sha256:3")
    clinic.models.activate(ADMIN, serving.id)
    shadow = clinic.models.begin_shadow(ADMIN.calling_from(None, "r-1"), candidate.id)
    assert clinic.models.begin_shadow(ADMIN, candidate.id) == shadow
    assert clinic.models.comparison(ADMIN, candidate.id).shadow == shadow
    assert clinic.models.comparison(ADMIN, serving.id).shadow is None
    for wrong in (other, serving):
        with pytest.raises(errors.ShadowTaken):
            clinic.models.begin_shadow(ADMIN, wrong.id)
    with pytest.raises(errors.ShadowNotFound):
        clinic.models.end_shadow(ADMIN, other.id)
    clinic.models.end_shadow(ADMIN, candidate.id)
    with pytest.raises(errors.ShadowNotFound):
        clinic.models.end_shadow(ADMIN, candidate.id)
    clinic.models.begin_shadow(ADMIN, other.id)


def scores(*confidences: float, labels: tuple[str, ...] = ("a", "b")) -> list[ScoredSet]:
    return [scored_set(confidence, labels=labels) for confidence in confidences]


def test_differences_are_counted_and_listed_newest_first(clinic: Clinic) -> None:
    (candidate,) = add(clinic, "sha256:2")
    clinic.policies.change(ADMIN, change(threshold=0.8), None)
    predictions = predict(clinic, "one", "two", decision=Decision.AUTO)
    held_predictions = predict(clinic, "three", "four")
    clinic.models.record(candidate.id, predictions, scores(0.9, 0.3))
    clinic.models.record(
        candidate.id, held_predictions, [*scores(0.9), *scores(0.1, labels=("c",))]
    )
    clinic.models.record(
        candidate.id, held_predictions, scores(0.1, 0.1)
    )  # what was compared stays as it was
    report = clinic.models.comparison(ADMIN, candidate.id, limit=2)
    assert report.tally == Tally(
        compared=4, same_labels=3, auto_both=1, auto_serving=1, auto_candidate=1, review_both=1
    )
    listed = [(made.labels, of.document.id) for made, of in report.differing.items]
    assert listed == [(("c",), "four"), (("a", "b"), "three")]
    rest = clinic.models.comparison(ADMIN, candidate.id, after=report.differing.next_after)
    assert [of.document.id for _, of in rest.differing.items] == ["two"]
    routes = clinic.models.comparison(ADMIN, candidate.id, routes_only=True)
    assert [of.document.id for _, of in routes.differing.items] == ["three", "two"]
    assert {made.reason for made, _ in routes.differing.items} == set(Reason) & {
        Reason.ABOVE_THRESHOLD,
        Reason.BELOW_THRESHOLD,
    }


def test_a_candidate_is_routed_by_the_policy_that_routed_the_prediction(clinic: Clinic) -> None:
    (candidate,) = add(clinic, "sha256:2")
    clinic.policies.change(ADMIN, change(threshold=0.3), None)
    predictions = predict(clinic, "one", decision=Decision.AUTO)
    clinic.policies.change(ADMIN, change(threshold=0.99), None)
    clinic.models.record(candidate.id, predictions, scores(0.4))
    assert clinic.models.comparison(ADMIN, candidate.id).tally.auto_both == 1


def started(clinic: Clinic, model_id: str, documents: int = 1_000) -> Job:
    job = clinic.models.submit_compare(ADMIN, model_id, documents)
    with clinic.begin(read_only=True) as transaction:
        stored_job = transaction.jobs.get(job.id)
    assert stored_job is not None
    return stored_job


def test_a_job_compares_recent_documents_and_goes_on_where_it_was(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.services.models.BLOCK", 2)
    (candidate,) = add(clinic, "sha256:2")
    clinic.policies.change(ADMIN, change(threshold=0.8), None)
    predict(clinic, "0.1", "0.2", "0.9", "0.95", "0.3")
    job = started(clinic, candidate.id, documents=4)
    assert clinic.models.submit_compare(ADMIN, candidate.id, 4).id == job.id
    dying = Worker(die_at=2)
    with pytest.raises(Died):
        clinic.models.compare_recent(job, dying)
    result = clinic.models.compare_recent(replace(job, checkpoint=dying.kept), Worker())
    assert (result["documents"], result["scored"], result["compared"]) == (4, 4, 4)
    assert (result["auto_candidate"], result["review_both"]) == (2, 2)


def test_documents_that_a_candidate_cannot_read_are_left_out(clinic: Clinic) -> None:
    (candidate,) = add(clinic, "sha256:2")
    predict(clinic, "0.1", "bad", "0.2")

    class Picky(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the one above it
            return [
                Refused(errors.InvalidRequest("unreadable")) if document.text == "bad" else scored
                for document, scored in zip(documents, super().score(documents), strict=True)
            ]

    clinic.loader.predictor = Picky()
    result = clinic.models.compare_recent(started(clinic, candidate.id), Worker())
    assert (result["documents"], result["scored"]) == (3, 2)
