"""Models and their candidates on every database."""

from dataclasses import dataclass, replace

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
from setwise.service.services.policy import Policies
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.database import ON_BOTH
from tests.fakes import FakeClock, FakeLoader, FakePredictor, scored_set
from tests.samples import ADMIN, add_predictions, change, model, prediction
from tests.services.test_files import Died, Worker


@dataclass
class Office:
    """The services on one database."""

    begin: Transactions

    def __post_init__(self) -> None:
        self.clock, self.loader = FakeClock(), FakeLoader()
        self.models = building.models(self.begin, self.clock, loader=self.loader)
        self.change_policy = Policies(self.begin, self.clock, new_id).change

    def add(self, *versions: str) -> list[ModelVersion]:
        models = [model(version) for version in versions]
        with self.begin() as transaction:
            for one in models:
                transaction.models.add(one)
        return models

    def active(self) -> str | None:
        with self.begin(read_only=True) as transaction:
            found = transaction.models.active()
        return found.version if found else None

    def actions(self) -> list[str]:
        with self.begin(read_only=True) as transaction:
            found = transaction.audit_trail.page(after=None, limit=100).items
        return [event.action for event in reversed(found)]

    def predict(self, *texts: str, decision: Decision = Decision.REVIEW) -> list[Prediction]:
        """Store predictions with confidence 0.4, decided by the policy in force."""
        reason = Reason.ABOVE_THRESHOLD if decision is Decision.AUTO else Reason.BELOW_THRESHOLD
        with self.begin() as transaction:
            policy = transaction.policies.current()
            made = [
                prediction(
                    document=Document(id=text, text=text), decision=decision, reason=reason
                )._replace(
                    policy_version=policy.version,
                )
                for text in texts
            ]
            add_predictions(transaction, *made)
        return made


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def test_one_model_at_a_time_is_active(office: Office) -> None:
    first, second = (office.models.add(ADMIN, source) for source in ("one", "two"))
    assert [model.active for model in office.models.page(ADMIN)] == [False, False]
    assert office.models.activate(ADMIN, first.id).active
    assert office.models.activate(ADMIN, second.id).active
    assert office.models.page(ADMIN) == [replace(second, active=True), first]
    assert office.models.activate(ADMIN, first.id).active  # and back again
    assert [model.active for model in office.models.page(ADMIN)] == [False, True]


def test_activating_the_active_model_is_no_event(office: Office) -> None:
    model = office.models.add(ADMIN, "one")
    office.models.activate(ADMIN, model.id)
    office.models.activate(ADMIN, model.id)
    assert office.actions() == ["model.added", "model.activated"]


def test_the_same_artifact_is_registered_once(office: Office) -> None:
    office.models.add(ADMIN, "one")
    with pytest.raises(errors.DuplicateModel):
        office.models.add(ADMIN, "one")
    assert len(office.models.page(ADMIN)) == 1


def test_a_model_that_does_not_load_never_becomes_active(office: Office) -> None:
    good, bad = office.add("sha256:good", "sha256:bad")
    office.loader.damaged.add("sha256:bad")
    office.models.activate(ADMIN, good.id)
    with pytest.raises(errors.ModelDamaged):
        office.models.activate(ADMIN, bad.id)
    assert office.active() == "sha256:good"
    assert office.loader.followed == 1
    assert office.models.verify(ADMIN, good.id).version == "sha256:good"
    with pytest.raises(errors.ModelDamaged):
        office.models.verify(ADMIN, bad.id)


def test_a_roll_back_leaves_the_model_that_it_names(office: Office) -> None:
    first, second, _ = office.add("sha256:1", "sha256:2", "sha256:3")
    with pytest.raises(errors.NothingToRollBack):
        office.models.roll_back(ADMIN, "sha256:1")
    office.models.activate(ADMIN, first.id)
    with pytest.raises(errors.NothingToRollBack):
        office.models.roll_back(ADMIN, "sha256:1")
    office.models.activate(ADMIN, second.id)
    with pytest.raises(errors.VersionRequired):
        office.models.roll_back(ADMIN, None)
    assert office.models.roll_back(ADMIN, "sha256:2").version == "sha256:1"
    assert office.active() == "sha256:1"
    assert office.models.roll_back(ADMIN, "sha256:1").version == "sha256:2"


def test_a_repeated_roll_back_of_a_model_does_not_bring_it_back(office: Office) -> None:
    for one in office.add("sha256:good", "sha256:faulty"):
        office.models.activate(ADMIN, one.id)
    office.models.roll_back(ADMIN, "sha256:faulty")
    with pytest.raises(errors.StaleVersion, match="nothing was rolled back"):
        office.models.roll_back(ADMIN, "sha256:faulty")
    assert office.active() == "sha256:good"


@ON_BOTH
def test_of_two_concurrent_roll_backs_of_a_model_one_counts(office: Office) -> None:
    class Slow(FakeLoader):
        def load(self, model: ModelVersion) -> FakePredictor:
            office.models.roll_back(ADMIN, "sha256:faulty")  # by someone else, meanwhile
            return super().load(model)

    for one in office.add("sha256:good", "sha256:faulty"):
        office.models.activate(ADMIN, one.id)
    with pytest.raises(errors.StaleVersion):
        replace(office.models, loader=Slow()).roll_back(ADMIN, "sha256:faulty")
    assert office.active() == "sha256:good"


def test_one_model_at_a_time_shadows_the_serving_one(office: Office) -> None:
    serving, candidate, other = office.add("sha256:1", "sha256:2", "sha256:3")
    office.models.activate(ADMIN, serving.id)
    shadow = office.models.begin_shadow(ADMIN.calling_from(None, "r-1"), candidate.id)
    assert office.models.begin_shadow(ADMIN, candidate.id) == shadow
    assert office.models.comparison(ADMIN, candidate.id).shadow == shadow
    assert office.models.comparison(ADMIN, serving.id).shadow is None
    for wrong in (other, serving):
        with pytest.raises(errors.ShadowTaken):
            office.models.begin_shadow(ADMIN, wrong.id)
    with pytest.raises(errors.ShadowNotFound):
        office.models.end_shadow(ADMIN, other.id)
    office.models.end_shadow(ADMIN, candidate.id)
    with pytest.raises(errors.ShadowNotFound):
        office.models.end_shadow(ADMIN, candidate.id)
    office.models.begin_shadow(ADMIN, other.id)


def scores(*confidences: float, labels: tuple[str, ...] = ("a", "b")) -> list[ScoredSet]:
    return [scored_set(confidence, labels=labels) for confidence in confidences]


def test_differences_are_counted_and_listed_newest_first(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    office.change_policy(ADMIN, change(threshold=0.8), None)
    sent = office.predict("one", "two", decision=Decision.AUTO)
    held = office.predict("three", "four")
    office.models.record(candidate.id, sent, scores(0.9, 0.3))
    office.models.record(candidate.id, held, [*scores(0.9), *scores(0.1, labels=("c",))])
    office.models.record(candidate.id, held, scores(0.1, 0.1))  # what was compared stays as it was
    report = office.models.comparison(ADMIN, candidate.id, limit=2)
    assert report.tally == Tally(
        compared=4, same_labels=3, auto_both=1, auto_serving=1, auto_candidate=1, review_both=1
    )
    listed = [(made.labels, of.document.id) for made, of in report.differing.items]
    assert listed == [(("c",), "four"), (("a", "b"), "three")]
    rest = office.models.comparison(ADMIN, candidate.id, after=report.differing.next_after)
    assert [of.document.id for _, of in rest.differing.items] == ["two"]
    routes = office.models.comparison(ADMIN, candidate.id, routes_only=True)
    assert [of.document.id for _, of in routes.differing.items] == ["three", "two"]
    assert {made.reason for made, _ in routes.differing.items} == set(Reason) & {
        Reason.ABOVE_THRESHOLD,
        Reason.BELOW_THRESHOLD,
    }


def test_a_candidate_is_routed_by_the_policy_that_routed_the_prediction(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    office.change_policy(ADMIN, change(threshold=0.3), None)
    made = office.predict("one", decision=Decision.AUTO)
    office.change_policy(ADMIN, change(threshold=0.99), None)
    office.models.record(candidate.id, made, scores(0.4))
    assert office.models.comparison(ADMIN, candidate.id).tally.auto_both == 1


def started(office: Office, model_id: str, documents: int = 1_000) -> Job:
    job = office.models.submit_compare(ADMIN, model_id, documents)
    with office.begin(read_only=True) as transaction:
        stored = transaction.jobs.get(job.id)
    assert stored is not None
    return stored


def test_a_job_compares_recent_documents_and_goes_on_where_it_was(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.services.models.BLOCK", 2)
    (candidate,) = office.add("sha256:2")
    office.change_policy(ADMIN, change(threshold=0.8), None)
    office.predict("0.1", "0.2", "0.9", "0.95", "0.3")
    job = started(office, candidate.id, documents=4)
    assert office.models.submit_compare(ADMIN, candidate.id, 4).id == job.id
    dying = Worker(die_at=2)
    with pytest.raises(Died):
        office.models.compare_recent(job, dying)
    result = office.models.compare_recent(replace(job, checkpoint=dying.kept), Worker())
    assert (result["documents"], result["scored"], result["compared"]) == (4, 4, 4)
    assert (result["auto_candidate"], result["review_both"]) == (2, 2)


def test_documents_that_a_candidate_cannot_read_are_left_out(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    office.predict("0.1", "bad", "0.2")

    class Picky(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the one above it
            return [
                Refused(errors.InvalidRequest("unreadable")) if document.text == "bad" else scored
                for document, scored in zip(documents, super().score(documents), strict=True)
            ]

    office.loader.predictor = Picky()
    result = office.models.compare_recent(started(office, candidate.id), Worker())
    assert (result["documents"], result["scored"]) == (3, 2)
