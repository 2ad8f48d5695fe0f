"""A model that does not serve is certified on the audits of the one that does."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from setwise.service.domain.certification import Certification, Scorer
from setwise.service.domain.errors import InvalidRequest, ModelNotFound
from setwise.service.domain.models import CertificationCandidate
from setwise.service.domain.predictions import Decision, Document, Prediction, ScoredSet
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests.fakes import FakeLoader, FakePredictor, scored_set
from tests.kit.databases import Database
from tests.kit.loop import WRONG, Loop
from tests.samples import ADMIN, model
from tests.services.test_files import Worker

OLD = replace(model("sha256:model"), summary={"calibrator_version": "sha256:calibrator"})
MADE_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NEW = replace(
    model("sha256:new"),
    summary={"calibrator_version": "sha256:calibrator", "created_at": MADE_AT.isoformat()},
)


class Limited(FakePredictor):
    """Knows nothing of ``unknown`` texts, and gives ``held`` ones a set of their own."""

    @staticmethod
    def _score(text: str) -> ScoredSet:
        if text.startswith("held"):
            return scored_set(0.9, labels=("d",))
        unknown = text.startswith("unknown")
        return scored_set(0.9 if unknown else float(text), out_of_domain=unknown)


@dataclass
class Better(FakePredictor):
    """Answers WRONG, what people answer here."""

    answer: Sequence[str] = tuple(WRONG)
    limited: bool = False

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        return [
            scored_set(
                0.95,
                labels=self.answer,
                out_of_domain=self.limited and (one.text or "").startswith("unknown"),
            )._replace(model_version="sha256:new")
            for one in documents
        ]


class Office(Loop):
    """The loop with a registered model that serves, wrong in every set, and a better one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loader = FakeLoader(Better())
        with self.begin() as transaction:
            transaction.models.add(OLD)
            transaction.models.activate(OLD.id, self.now(), self.new_id())
            transaction.models.add(NEW)
            transaction.commit()

    def audited(self, *texts: str) -> list[Prediction]:
        """Have these documents predicted, and the audits find every set wrong."""
        made = self.predict(*texts)
        self.read(wrong_below=1.0)
        return made

    def try_new(self, *, trained_on_audits: bool = False) -> Certification:
        (made,) = self.certifications.certify_model(
            CertificationCandidate(NEW.id, trained_on_audits), Worker(), ADMIN.id
        )
        return made


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def drawn(made: Sequence[Prediction]) -> int:
    return sum(one.selection.role is AuditRole.CERTIFICATION for one in made)


def excluded(made: Certification) -> dict[str, int]:
    return {why: n for why, n in made.evidence.excluded.items() if n}


def test_a_better_model_is_certified_and_sends_as_soon_as_it_is_activated(office: Office) -> None:
    office.plan()
    made = office.audited(*["0.9"] * 40)
    assert office.certify(ADMIN.id).threshold is None
    proof = office.try_new()
    assert (proof.threshold, proof.attempt) == (0.95, 1)
    assert proof.scorer == Scorer("sha256:new", "sha256:calibrator")
    found = proof.evidence
    assert found.n_audits == found.other_models == drawn(made)
    assert found.n_predictions == len(made) - drawn(made)
    assert found.trained_on_audits is False
    assert office.gate.threshold is None, "another model serves"
    office.models.activate(ADMIN, NEW.id)
    assert (office.gate.threshold, office.gate.certificate_id) == (0.95, proof.id)
    office.predictors.predictor = Better()
    assert Decision.AUTO in {one.decision for one in office.predict(*["0.9"] * 8)}


def test_a_worse_model_proves_nothing_and_sends_nothing_when_it_is_activated(
    office: Office,
) -> None:
    office.loader.predictor = Better(answer=("d",))
    office.plan()
    office.audited(*["0.9"] * 40)
    assert office.try_new().reason == "below-target"
    office.models.activate(ADMIN, NEW.id)
    office.predictors.predictor = Better()
    assert {one.decision for one in office.predict(*["0.9"] * 8)} == {Decision.REVIEW}


def test_the_first_model_sends_again_by_its_certificate_after_a_rollback() -> None:
    office = Office(Database())
    office.plan()
    office.predict(*["0.9"] * 40)
    office.read()
    proof = office.certify(ADMIN.id)
    assert proof.threshold == 0.9
    office.models.activate(ADMIN, NEW.id)
    assert office.gate.certificate_id == proof.id
    office.models.roll_back(ADMIN, NEW.version)
    assert (office.gate.threshold, office.gate.certificate_id) == (0.9, proof.id)


def test_documents_whose_texts_are_erased_do_not_count(office: Office) -> None:
    office.plan()
    gone = office.audited(*["0.9"] * 20)
    kept = office.audited(*["0.9"] * 40)
    with office.begin() as transaction:
        transaction.texts.purge([one.id for one in gone], office.now())
        transaction.commit()
    assert office.try_new().evidence.n_audits == drawn(kept)


def test_after_its_activation_the_schedule_counts_what_was_held_back_then() -> None:
    office = Office(Database())
    office.predictors.predictor = Limited()
    office.plan()
    office.audited(*["0.9"] * 40)
    office.predict(*["unknown"] * 40)
    before = office.try_new().evidence
    office.models.activate(ADMIN, NEW.id)
    after = office.certify(ADMIN.id).evidence
    assert after.held_back == before.held_back != 0
    assert after.n_audits == before.n_audits


def test_unless_stated_only_documents_from_after_the_artifact_count(office: Office) -> None:
    office.plan()
    office.now.advance(seconds=-10)
    office.audited(*["0.9"] * 40)
    office.now.advance(days=1)
    office.documents -= 20
    late = office.audited(*["0.9"] * 60)
    proof = office.try_new(trained_on_audits=True)
    assert proof.evidence.n_audits == drawn(late[20:]), "copies of earlier ones do not count"
    assert proof.evidence.documents_since == MADE_AT
    assert proof.evidence.trained_on_audits is None
    stated = office.try_new()
    assert stated.evidence.n_audits > proof.evidence.n_audits
    again = office.try_new(trained_on_audits=True)
    assert again.evidence.trained_on_audits is False, "what it let count still does"


def test_without_the_time_of_the_artifact_the_statement_is_required() -> None:
    office = Office(Database())
    for said in ({}, {"created_at": "lately"}, {"created_at": "2026-01-01"}):
        unknown = replace(model(f"sha256:{said}"), summary=said)
        with office.begin() as transaction:
            transaction.models.add(unknown)
            transaction.commit()
        with pytest.raises(InvalidRequest, match="does not say when") as refused:
            office.certifications.request(ADMIN, CertificationCandidate(unknown.id))
        assert [one.pointer for one in refused.value.faults] == ["/trained_on_audits"]
        office.certifications.request(
            ADMIN, CertificationCandidate(unknown.id, trained_on_audits=False)
        )
    with pytest.raises(ModelNotFound):
        office.certifications.request(ADMIN, CertificationCandidate(new_id()))


def test_what_a_label_rule_held_back_because_of_the_old_set_counts_as_wrong(
    office: Office,
) -> None:
    office.predictors.predictor = Limited()
    office.plan(rules=[{"kind": "label", "label": "d"}])
    known = office.audited(*["0.9"] * 40)
    held = office.predict(*["held"] * 40)
    assert drawn(held) == 0
    found = office.try_new()
    by_chance = sum(one.selection.draw < 0.5 for one in held if one.selection.draw is not None)
    assert found.evidence.held_back == by_chance > 0
    assert found.evidence.n_audits == drawn(known) + by_chance
    assert found.threshold is None


@pytest.mark.parametrize("limited", [False, True])
def test_what_was_out_of_domain_counts_as_wrong_if_the_new_model_would_send_it(
    office: Office, limited: bool
) -> None:
    office.loader.predictor = Better(limited=limited)
    office.predictors.predictor = Limited()
    office.plan()
    known = office.audited(*["0.9"] * 40)
    unknown = office.predict(*["unknown"] * 40)
    found = office.try_new()
    by_chance = sum(one.selection.draw < 0.5 for one in unknown if one.selection.draw is not None)
    assert found.evidence.held_back == (0 if limited else by_chance)
    assert found.evidence.n_audits == drawn(known) + (0 if limited else by_chance)
    assert found.threshold == (0.95 if limited else None)


def test_its_sets_that_a_rule_holds_back_do_not_count() -> None:
    office = Office(Database())
    office.plan(rules=[{"kind": "label", "label": "c"}])
    made = office.audited(*["0.9"] * 40)
    refused = office.try_new()
    assert refused.reason == "no-audits"
    assert excluded(refused)["held back by a rule"] >= drawn(made)
