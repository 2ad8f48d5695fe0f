"""Candidates on the fake and on both databases."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from setwise.service.domain.comparison import Tally
from setwise.service.domain.errors import (
    Forbidden,
    InvalidRequest,
    ModelDamaged,
    ModelNotFound,
    NothingToRollBack,
    ShadowNotFound,
    ShadowTaken,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason, ScoredSet
from setwise.service.services.administer import ActivateModel, ChangePolicy
from setwise.service.services.models import (
    BeginShadow,
    CompareRecent,
    EndShadow,
    GetComparison,
    RecordComparisons,
    RollBackModel,
    SubmitCompare,
    VerifyModel,
)
from setwise.service.stores.identity import new_id
from setwise.service.stores.transaction import Transactions
from tests.fakes import FakeClock, FakeLoader, FakePredictor, scored_set
from tests.samples import ADMIN, CLIENT, LEAD, add_predictions, change, model, prediction
from tests.services.test_score import Died, Worker

MISSING = "019b7a0b-0000-7000-8000-ffffffffffff"


@dataclass
class Office:
    """The verbs on one database."""

    begin: Transactions

    def __post_init__(self) -> None:
        self.clock, self.loader = FakeClock(), FakeLoader()
        given: dict[str, Any] = {"begin": self.begin, "now": self.clock, "new_id": new_id}
        self.activate = ActivateModel(loader=self.loader, **given)
        self.roll_back = RollBackModel(activate=self.activate, **given)
        self.begin_shadow = BeginShadow(loader=self.loader, **given)
        self.end_shadow = EndShadow(loader=self.loader, **given)
        self.verify = VerifyModel(self.begin, self.loader)
        self.record = RecordComparisons(**given)
        self.comparison = GetComparison(self.begin)
        self.submit = SubmitCompare(**given)
        self.compare = CompareRecent(self.begin, self.loader, self.record)
        self.change_policy = ChangePolicy(**given)

    def add(self, *versions: str) -> list[ModelVersion]:
        models = [model(version) for version in versions]
        with self.begin() as transaction:
            for one in models:
                transaction.models.add(one)
            transaction.commit()
        return models

    def active(self) -> str | None:
        with self.begin(read_only=True) as transaction:
            found = transaction.models.active()
        return found.version if found else None

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
            transaction.commit()
        return made


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def test_a_model_that_does_not_load_never_becomes_active(office: Office) -> None:
    good, bad = office.add("sha256:good", "sha256:bad")
    office.loader.damaged.add("sha256:bad")
    office.activate(ADMIN, good.id)
    with pytest.raises(ModelDamaged):
        office.activate(ADMIN, bad.id)
    assert office.active() == "sha256:good"
    assert office.loader.followed == 1
    assert office.verify(ADMIN, good.id).version == "sha256:good"
    with pytest.raises(ModelDamaged):
        office.verify(ADMIN, bad.id)


def test_a_roll_back_returns_to_the_model_before_and_back_again(office: Office) -> None:
    first, second, _ = office.add("sha256:1", "sha256:2", "sha256:3")
    with pytest.raises(NothingToRollBack):
        office.roll_back(ADMIN)
    office.activate(ADMIN, first.id)
    with pytest.raises(NothingToRollBack):
        office.roll_back(ADMIN)
    office.activate(ADMIN, second.id)
    assert office.roll_back(ADMIN).version == "sha256:1"
    assert office.active() == "sha256:1"
    assert office.roll_back(ADMIN).version == "sha256:2"


def test_one_model_at_a_time_shadows_the_serving_one(office: Office) -> None:
    serving, candidate, other = office.add("sha256:1", "sha256:2", "sha256:3")
    office.activate(ADMIN, serving.id)
    shadow = office.begin_shadow(ADMIN, candidate.id, request_id="r-1")
    assert office.begin_shadow(ADMIN, candidate.id) == shadow
    assert office.comparison(ADMIN, candidate.id).shadow == shadow
    assert office.comparison(ADMIN, serving.id).shadow is None
    for wrong in (other, serving):
        with pytest.raises(ShadowTaken):
            office.begin_shadow(ADMIN, wrong.id)
    with pytest.raises(ShadowNotFound):
        office.end_shadow(ADMIN, other.id)
    office.end_shadow(ADMIN, candidate.id)
    with pytest.raises(ShadowNotFound):
        office.end_shadow(ADMIN, candidate.id)
    office.begin_shadow(ADMIN, other.id)


def scores(*confidences: float, labels: tuple[str, ...] = ("a", "b")) -> list[ScoredSet]:
    return [scored_set(confidence, labels=labels) for confidence in confidences]


def test_differences_are_counted_and_listed_newest_first(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    office.change_policy(ADMIN, change(threshold=0.8), None)
    sent = office.predict("one", "two", decision=Decision.AUTO)
    held = office.predict("three", "four")
    office.record(candidate.id, sent, scores(0.9, 0.3))
    office.record(candidate.id, held, [*scores(0.9), *scores(0.1, labels=("c",))])
    office.record(candidate.id, held, scores(0.1, 0.1))  # what was compared stays as it was
    report = office.comparison(ADMIN, candidate.id, limit=2)
    assert report.tally == Tally(
        compared=4, same_labels=3, auto_both=1, auto_serving=1, auto_candidate=1, review_both=1
    )
    listed = [(made.labels, of.document.id) for made, of in report.differing.items]
    assert listed == [(("c",), "four"), (("a", "b"), "three")]
    rest = office.comparison(ADMIN, candidate.id, after=report.differing.next_after)
    assert [of.document.id for _, of in rest.differing.items] == ["two"]
    routes = office.comparison(ADMIN, candidate.id, routes_only=True)
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
    office.record(candidate.id, made, scores(0.4))
    assert office.comparison(ADMIN, candidate.id).tally.auto_both == 1


def started(office: Office, model_id: str, documents: int = 1_000) -> Job:
    job = office.submit(ADMIN, model_id, documents)
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
    assert office.submit(ADMIN, candidate.id, 4).id == job.id
    dying = Worker(die_at=2)
    with pytest.raises(Died):
        office.compare(job, dying)
    result = office.compare(replace(job, checkpoint=dying.kept), Worker())
    assert (result["documents"], result["scored"], result["compared"]) == (4, 4, 4)
    assert (result["auto_candidate"], result["review_both"]) == (2, 2)


def test_documents_that_a_candidate_cannot_read_are_left_out(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    office.predict("0.1", "bad", "0.2")

    class Picky(FakePredictor):
        def score(self, documents):  # type: ignore[no-untyped-def]  # as the one above it
            if any(document.text == "bad" for document in documents):
                raise InvalidRequest("unreadable")
            return super().score(documents)

    office.loader.predictor = Picky()
    result = office.compare(started(office, candidate.id), Worker())
    assert (result["documents"], result["scored"]) == (3, 2)


def test_what_cannot_be_done_is_refused(office: Office) -> None:
    (candidate,) = office.add("sha256:2")
    for verb in (office.activate, office.verify, office.begin_shadow, office.comparison):
        with pytest.raises(ModelNotFound):
            verb(ADMIN, MISSING)
        with pytest.raises(Forbidden):
            verb(CLIENT, candidate.id)
    with pytest.raises(Forbidden):
        office.roll_back(LEAD)
    with pytest.raises(Forbidden):
        office.submit(LEAD, candidate.id, 1)
    for wrong in (0, 100_001):
        with pytest.raises(InvalidRequest):
            office.submit(ADMIN, candidate.id, wrong)
