"""Documents follow the catalogue: what was answered with a label reads as the one it became."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.certification import Scorer
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.errors import InvalidRequest, LabelNotFound, SimilarLabels, StaleVersion
from setwise.service.domain.labels import (
    NO_ADDITIONS,
    UNNAMED,
    Additions,
    CatalogueLabel,
    LabelChange,
    LabelState,
    MissingLabels,
)
from setwise.service.domain.predictions import Document, Prediction
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.truth import Check, check
from setwise.service.services.labels import Labels
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.reviews import Reviews
from setwise.service.stores import tables
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transaction, Transactions
from tests.building import predict_one
from tests.fakes import LOTTERY, FakePredictors
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change

NEW = "J12.82"


class Office:
    """The services that give, rename and count labels."""

    def __init__(self, engine: Engine) -> None:
        self.begin = Transactions(engine)
        parts = self.begin, utc_now, new_id
        predictors = FakePredictors()
        self.predictions = Predictions(predictors, *parts, LOTTERY)
        self.reviews = Reviews(*parts, predictors, LOTTERY)
        self.outcomes = Outcomes(*parts, predictors)
        self.labels = Labels(*parts, predictors)
        self.policies = Policies(*parts)

    def predict(self, words: str = "0.4", **policy: object) -> Prediction:
        if policy:
            self.policies.change(ADMIN, change(**policy), None)
        return predict_one(self.predictions, CLIENT, Document(text=words))

    def answer(self, labels: Sequence[str], *new: str, by=ANN, **rest: bool) -> None:
        task = self.reviews.claim(by)
        assert task is not None
        additions = Additions(new, **rest)
        self.reviews.complete(by, task.id, labels, None, task.version, additions=additions)

    def decide(self, name: str, state: LabelState, **rest: str) -> CatalogueLabel:
        stored = self.labels.get(LEAD, name)
        return self.labels.change(LEAD, name, LabelChange(state, **rest), stored.version)

    def final(self, prediction: Prediction) -> set[str]:
        column = tables.final_labels.c
        with self.begin._reads.connect() as connection:
            query = select(column.label).where(column.prediction_id == prediction.id)
            return set(connection.execute(query).scalars())

    def messages(self) -> list[tuple[str, object]]:
        with self.begin._reads.connect() as connection:
            column = tables.outbox_messages.c
            rows = connection.execute(select(column.type, column.data).order_by(column.ordinal))
            return [(row.type.value, row.data) for row in rows]


@pytest.fixture
def office(engine: Engine) -> Office:
    return Office(engine)


def test_a_new_label_is_a_fact_and_waits_for_a_lead(office: Office) -> None:
    prediction = office.predict()
    office.answer([*prediction.scored.labels, NEW], NEW)
    with office.begin(read_only=True) as transaction:
        (annotation,) = transaction.reviews.annotations_of(prediction.id)
    assert not annotation.agreed
    assert annotation.labels[-1] == NEW
    assert office.final(prediction) == {*annotation.labels}
    (stored,) = office.labels.catalogue(LEAD)
    assert (stored.label, stored.state) == (NEW, LabelState.PROPOSED)
    assert (stored.proposed_by, stored.proposed_in) == (ANN.id, prediction.id)
    assert [each.proposed_by for each in office.labels.catalogue(ANN)] == [None]
    kind, data = office.messages()[-1]
    assert (kind, data["labels"], data["label_missing"]) == (
        "review.completed",
        [*annotation.labels],
        False,
    )


def test_documents_follow_a_rename_and_history_keeps_what_was_written(office: Office) -> None:
    prediction = office.predict()
    office.answer(["a", "j12.82"], "j12.82")
    renamed = office.decide("j12.82", LabelState.ACCEPTED, label=NEW)
    assert (renamed.label, renamed.state) == (NEW, LabelState.ACCEPTED)
    with office.begin(read_only=True) as transaction:
        life = transaction.documents.life(prediction)
    (annotation,) = life.annotations
    assert (annotation.labels, annotation.written) == (("a", NEW), ("a", "j12.82"))
    answered = [event.labels for event in life.events() if event.kind == "answered"]
    assert answered == [("a", "j12.82")]
    assert office.final(prediction) == {"a", NEW}
    kind, data = office.messages()[-1]
    assert (kind, data["source"]) == ("document.corrected", "catalogue")
    assert (data["previous_labels"], data["labels"]) == (["a", "j12.82"], ["a", NEW])
    # Whoever still knows the old name means the new one.
    office.predict("0.41")
    office.answer(["j12.82"], by=BEN)
    assert office.labels.missing(LEAD) == MissingLabels(2, 2, {NEW: 2})


def test_a_merge_into_a_predicted_label_makes_the_prediction_right(office: Office) -> None:
    prediction = office.predict(audits=AuditPlan(certification_rate=1.0))
    *rest, last = prediction.scored.labels
    office.answer([*rest, "other name"], "other name")
    office.outcomes.report(CLIENT, prediction.id, [*rest, "other name"], "billing")
    office.decide("other name", LabelState.MERGED, merged_into=last)
    with office.begin(read_only=True) as transaction:
        (annotation,) = transaction.reviews.annotations_of(prediction.id)
        (outcome,) = transaction.outcomes.of(prediction.id)
    assert annotation.agreed
    assert outcome.agreed
    assert set(annotation.labels) == set(outcome.labels) == set(prediction.scored.labels)
    assert office.labels.missing(LEAD) == MissingLabels()
    assert not office.outcomes.report(CLIENT, prediction.id, [*rest, "other name"], "billing").new


def test_a_decision_that_can_be_undone_follows_too(office: Office) -> None:
    prediction = office.predict()
    task = office.reviews.claim(ANN)
    assert task is not None
    office.reviews.decide(
        ANN, task.id, ["misspelt"], None, task.version, additions=Additions(["misspelt"])
    )
    office.decide("misspelt", LabelState.ACCEPTED, label=NEW)
    office.reviews.submit_decisions_of(ANN.id)
    assert office.final(prediction) == {NEW}


def test_what_was_written_cannot_be_changed_in_the_database(office: Office, engine: Engine) -> None:
    office.predict()
    office.answer(["a", NEW], NEW)
    for change_ in (
        "labels = '[]'",
        "agreed = TRUE",
        "written = '[]'",
        "labels = '[]', written = '[]'",
    ):
        with pytest.raises((IntegrityError, DBAPIError)), engine.begin() as connection:
            connection.execute(text(f"UPDATE annotations SET {change_}"))


@pytest.mark.parametrize("odd", ["a\x00", "\ud800", "x" * 501])
def test_a_name_that_cannot_be_stored_is_refused_or_not_there(office: Office, odd: str) -> None:
    office.predict()
    task = office.reviews.claim(ANN)
    assert task is not None
    for given in (Additions(), Additions([odd])):
        with pytest.raises(InvalidRequest):
            office.reviews.complete(ANN, task.id, [odd], None, task.version, additions=given)
    with pytest.raises(InvalidRequest):
        office.labels.propose(ANN, odd)
    with pytest.raises(LabelNotFound):
        office.labels.get(LEAD, odd)
    with pytest.raises(LabelNotFound):
        office.labels.change(LEAD, odd, LabelChange(LabelState.RETIRED), 1)
    office.labels.propose(ANN, NEW)
    for rest in ({"state": "accepted", "label": odd}, {"state": "merged", "merged_into": odd}):
        wish = LabelChange(**{**rest, "state": LabelState(rest["state"])})
        with pytest.raises(InvalidRequest):
            office.labels.change(LEAD, NEW, wish, 1)


def test_two_people_may_propose_one_label_at_once(office: Office) -> None:
    with ThreadPoolExecutor(2) as pool:
        proposals = [pool.submit(office.labels.propose, who, NEW) for who in (ANN, BEN)]
        assert [each.result().label.label for each in proposals] == [NEW, NEW]
    with pytest.raises(SimilarLabels):
        office.labels.propose(ANN, "j12.82")
    assert len(office.labels.catalogue(LEAD)) == 1


def test_a_lead_who_read_an_older_version_changes_nothing(office: Office) -> None:
    office.labels.propose(ANN, NEW)
    office.decide(NEW, LabelState.ACCEPTED)
    with pytest.raises(StaleVersion):
        office.labels.change(LEAD, NEW, LabelChange(LabelState.RETIRED), 1)
    with pytest.raises(StaleVersion):
        office.labels.change(LEAD, "a", LabelChange(LabelState.RETIRED), 1)


def test_a_retired_label_is_no_longer_offered(office: Office) -> None:
    office.labels.propose(ANN, NEW)
    office.decide(NEW, LabelState.RETIRED)
    office.decide("a", LabelState.RETIRED)
    assert not {NEW, "a"} & {*office.labels.search(ANN).labels}
    retired = office.labels.search(ANN, state=LabelState.RETIRED)
    assert retired.labels == ("a", NEW)
    office.decide("a", LabelState.ACCEPTED)
    assert "a" in office.labels.search(ANN).labels


def test_documents_beyond_the_model_are_counted_and_found(office: Office) -> None:
    known, named, unnamed = (office.predict(f"0.4{n}") for n in range(3))
    for labels, rest in (
        (["a"], {}),
        (["a", NEW], {"new_labels": [NEW]}),
        (["a"], {"label_missing": True}),
    ):
        task = office.reviews.claim(ANN)
        assert task is not None
        given = Additions(**rest)
        office.reviews.complete(ANN, task.id, labels, None, task.version, additions=given)
    assert office.labels.missing(LEAD) == MissingLabels(2, 3, {NEW: 1, UNNAMED: 1})
    with office.begin(read_only=True) as transaction:
        found = {
            value: {*transaction.documents.ids(DocumentFilter(beyond_model=value), most=10)}
            for value in (True, False)
        }
    assert found == {True: {named.id, unnamed.id}, False: {known.id}}
    with office.begin() as transaction:
        transaction.labels.follow_model({"a", NEW})
    assert office.labels.missing(LEAD) == MissingLabels(1, 3, {UNNAMED: 1})
    with office.begin() as transaction:  # of a model that has lost a label
        transaction.labels.follow_model({"b"})
    assert office.labels.missing(LEAD).labels == {"a": 3, NEW: 1, UNNAMED: 1}


def test_a_label_file_neither_loses_nor_overwrites_what_people_gave(office: Office) -> None:
    office.labels.describe(ADMIN, "label,name\nfiled,From a file\nkept,From a file\n")
    office.predict()
    office.answer(["kept", NEW], NEW)
    office.labels.describe(ADMIN, f"label,name\n{NEW},Its name\n")
    assert {each.label: each.name for each in office.labels.catalogue(LEAD)} == {
        NEW: "Its name",
        "kept": None,
    }


def _known(transaction: Transaction, prediction: Prediction) -> Check | None:
    facts = transaction.truth.facts(prediction.id)
    return check(prediction.id, facts.annotations, facts.outcomes)


BEYOND = pytest.mark.parametrize(
    "additions", [Additions([NEW]), Additions(label_missing=True)], ids=["new", "without a name"]
)


def _audited(office: Office, **rates: float) -> Prediction:
    audits = AuditPlan(certification_rate=1.0, **rates)
    return office.predict("0.9", threshold=0.8, audits=audits)


def _complete(office: Office, by: Caller, additions: Additions, *labels: str) -> ReviewTask:
    task = office.reviews.claim(by)
    assert task is not None
    given = [*labels, *additions.new_labels]
    office.reviews.complete(by, task.id, given, None, task.version, additions=additions)
    return task


@BEYOND
def test_a_set_beyond_the_model_is_wrong_for_whoever_asks(
    office: Office, additions: Additions
) -> None:
    prediction = _audited(office)
    scored = prediction.scored
    scorer = Scorer(scored.model_version, scored.calibrator_version)
    for person, kind in ((ANN, ReviewKind.AUDIT), (LEAD, ReviewKind.ADJUDICATION)):
        assert _complete(office, person, additions, *scored.labels).kind is kind
        with office.begin(read_only=True) as transaction:
            known = _known(transaction, prediction)
            (audit,) = transaction.certifications.audited(scorer)
        assert known is not None
        assert (known.right, known.contradicted) == (False, True)
        assert audit.wrong
    assert office.labels.missing(LEAD).documents == 1


@BEYOND
def test_an_auditor_who_gave_the_known_part_alone_has_missed_an_error(
    office: Office, additions: Additions
) -> None:
    prediction = _audited(office, gold_reread_rate=1.0)
    _complete(office, ANN, NO_ADDITIONS, *prediction.scored.labels)
    _complete(office, LEAD, additions, *prediction.scored.labels)
    with office.begin(read_only=True) as transaction:
        known = _known(transaction, prediction)
    assert known is not None
    assert (known.audit_agreed, known.reread, known.lead_agreed) == (True, True, False)
    assert known.right is False


@pytest.mark.parametrize("rate", [0.0, 1.0], ids=["review", "audit"])
@BEYOND
def test_a_blind_audit_takes_the_same_answers_as_a_review(
    office: Office, additions: Additions, rate: float
) -> None:
    audits = AuditPlan(certification_rate=rate)
    office.predict("0.9" if rate else "0.4", threshold=0.8, audits=audits)
    task = office.reviews.claim(ANN)
    assert task is not None
    assert task.blind is bool(rate)
    with pytest.raises(InvalidRequest) as refused:
        office.reviews.complete(ANN, task.id, ["zebra"], None, task.version)
    assert [fault.pointer for fault in refused.value.faults] == ["/labels/0"]
    given = ["a", "b", *additions.new_labels]
    done = office.reviews.complete(ANN, task.id, given, None, task.version, additions=additions)
    assert not done.agreed
