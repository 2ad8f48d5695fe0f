"""Documents follow the catalogue: what was answered with a label reads as the one it became."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.certification import Scorer
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.errors import (
    Forbidden,
    InvalidRequest,
    LabelNotFound,
    ModelUnavailable,
    SimilarLabels,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.labels import (
    FOLLOW_LABEL,
    FORGET_LABEL,
    NO_ADDITIONS,
    UNNAMED,
    Additions,
    CatalogueLabel,
    LabelChange,
    LabelState,
    MissingLabels,
)
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.truth import Check, check
from setwise.service.domain.webhooks import Message, MessageType
from setwise.service.services import labels as labels_service
from setwise.service.stores import tables
from setwise.service.stores.transaction import Transaction
from tests.fakes import FakePredictor
from tests.kit.clinic import Clinic
from tests.kit.databases import places_of, statements_of
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, change

NEW = "J12.82"


def predict(clinic: Clinic, words: str = "0.4") -> Prediction:
    return clinic.predict(words, name=None)


def answer(clinic: Clinic, labels: Sequence[str], *new: str, by: Caller = ANN) -> None:
    clinic.answer(by, labels, additions=Additions(new))


def decide(clinic: Clinic, name: str, state: LabelState, **rest: object) -> CatalogueLabel:
    label = clinic.labels.get(LEAD, name)
    return clinic.labels.change(LEAD, name, LabelChange(state, **rest), label.version)


def final(clinic: Clinic, prediction: Prediction) -> set[str]:
    column = tables.final_labels.c
    with clinic.engine.connect() as connection:
        query = select(column.label).where(column.prediction_id == prediction.id)
        return set(connection.execute(query).scalars())


def told(clinic: Clinic) -> Message:
    """Return the last message to programs."""
    return [*clinic.contents.messages.values()][-1]


def corrected(clinic: Clinic) -> list[Mapping[str, object]]:
    """Return the content of each correction."""
    messages = clinic.contents.messages.values()
    return [each.data for each in messages if each.type is MessageType.DOCUMENT_CORRECTED]


def following(clinic: Clinic, kind: str = FOLLOW_LABEL) -> list[Job]:
    return [job for job in clinic.contents.jobs.values() if job.kind == kind]


def test_a_new_label_is_a_fact_and_waits_for_a_lead(clinic: Clinic) -> None:
    prediction = predict(clinic)
    answer(clinic, [*prediction.scored.labels, NEW], NEW)
    with clinic.begin(read_only=True) as transaction:
        (annotation,) = transaction.reviews.annotations_of(prediction.id)
    assert not annotation.agreed
    assert annotation.labels[-1] == NEW
    assert final(clinic, prediction) == {*annotation.labels}
    (label,) = clinic.labels.catalogue(LEAD)
    assert (label.label, label.state) == (NEW, LabelState.PROPOSED)
    assert (label.proposed_by, label.proposed_in) == (ANN.id, prediction.id)
    assert [each.proposed_by for each in clinic.labels.catalogue(ANN)] == [None]
    assert told(clinic).type is MessageType.REVIEW_COMPLETED
    assert told(clinic).data["labels"] == [*annotation.labels]
    assert told(clinic).data["label_missing"] is False


def test_the_documents_of_each_label_are_counted(clinic: Clinic) -> None:
    for labels in (["a"], ["a", "b"]):
        predict(clinic)
        answer(clinic, labels)
    assert clinic.labels.used(LEAD, ["a", "b", "c"]) == {"a": 2, "b": 1}
    assert clinic.labels.used(LEAD, []) == {}
    with pytest.raises(Forbidden):
        clinic.labels.used(CLIENT, ["a"])


def test_documents_follow_a_rename_and_history_keeps_what_was_written(clinic: Clinic) -> None:
    prediction = predict(clinic)
    answer(clinic, ["a", "j12.82"], "j12.82")
    label = decide(clinic, "j12.82", LabelState.ACCEPTED, label=NEW)
    assert (label.label, label.state) == (NEW, LabelState.ACCEPTED)
    with clinic.begin(read_only=True) as transaction:
        life = transaction.documents.life(prediction)
    (annotation,) = life.annotations
    assert (annotation.labels, annotation.written) == (("a", NEW), ("a", "j12.82"))
    labelses = [event.labels for event in life.events() if event.kind == "answered"]
    assert labelses == [("a", "j12.82")]
    assert final(clinic, prediction) == {"a", NEW}
    assert clinic.corrections() == [(["a", "j12.82"], ["a", NEW], "catalogue")]
    # Whoever still knows the old name means the new one.
    predict(clinic, "0.41")
    answer(clinic, ["j12.82"], by=BEN)
    assert clinic.labels.missing(LEAD) == MissingLabels(2, 2, {NEW: 2})


TREE = "label,parent\na,\nb,a\nc,b"


def beside(clinic: Clinic) -> Mapping[str, str]:
    return clinic.queue.parents(ANN)


def test_the_policys_rule_on_parents_follows_the_catalogue(clinic: Clinic) -> None:
    clinic.labels.describe(ADMIN, TREE)
    assert beside(clinic) == {}
    clinic.policies.change(ADMIN, change(rules=[{"kind": "parents"}]), None)
    assert beside(clinic) == {"b": "a", "c": "b"}
    assert clinic.policies.get(ADMIN).fixed_threshold == 0.8
    decide(clinic, "b", LabelState.RETIRED)
    assert beside(clinic) == {"b": "a", "c": "a"}, "a retired label is not asked for"
    clinic.predictors.unload()
    with pytest.raises(ModelUnavailable):
        clinic.labels.describe(ADMIN, "label,parent\na,c\nc,")
    assert beside(clinic) == {"b": "a", "c": "a"}
    clinic.predictors.predictor = FakePredictor()
    clinic.labels.describe(ADMIN, "")
    assert beside(clinic) == {}
    assert [action for action in clinic.actions() if action.startswith("policy.")] == [
        "policy.changed"
    ] * 3


def test_a_heading_is_asked_for_until_a_model_serves_that_lacks_it(clinic: Clinic) -> None:
    clinic.predictors.predictor = None
    clinic.labels.describe(ADMIN, "label,parent\nX,\na,X\nb,a")
    assert clinic.labels.search(ANN).labels == ("b",)
    clinic.policies.change(ADMIN, change(rules=[{"kind": "parents"}]), None)
    assert clinic.labels.search(ANN).labels == ("X", "a", "b")
    assert beside(clinic) == {"a": "X", "b": "a"}
    clinic.models.activate(ADMIN, clinic.models.add(ADMIN, "one").id)
    assert beside(clinic) == {"b": "a"}


class Killed(Exception):
    """The worker died."""


class Dying:
    """Reports progress until the worker dies, after some checkpoints."""

    def __init__(self, checkpoints: int = 1_000) -> None:
        self.left = checkpoints
        self.state: Mapping[str, object] | None = None

    def __call__(self, progress: float, message: str = "") -> None:
        if not self.left:
            raise Killed

    def checkpoint(self, state: Mapping[str, object]) -> None:
        self.left -= 1
        self.state = state


def renamed_in_blocks(clinic: Clinic, documents: int) -> list[Prediction]:
    """Answer documents with a label, and rename it; the first block has followed."""
    predictions = [predict(clinic) for _ in range(documents)]
    for _ in predictions:
        answer(clinic, ["a", "j12.82"], "j12.82")
    decide(clinic, "j12.82", LabelState.ACCEPTED, label=NEW)
    return predictions


@pytest.mark.parametrize(
    "documents", [3, 4, *(pytest.param(n, marks=pytest.mark.verify) for n in (2, 10))]
)
@pytest.mark.parametrize("again", [False, True], ids=["once", "and renamed again"])
def test_documents_follow_in_blocks_and_a_killed_worker_goes_on(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, documents: int, again: bool
) -> None:
    monkeypatch.setattr(labels_service, "DOCUMENTS_AT_ONCE", 3)
    predictions = renamed_in_blocks(clinic, documents)
    finished_predictions = [one for one in predictions if NEW in final(clinic, one)]
    assert len(finished_predictions) == min(documents, 3)
    last = NEW
    if again:
        decide(clinic, NEW, LabelState.ACCEPTED, label=(last := "J12.9"))
    jobs = following(clinic)
    assert bool(jobs) is (documents >= 3)
    for job in jobs:
        clinic.jobs.authorise(replace(job, owner_id="a lead who has left"))
        dying = Dying(1)
        with suppress(Killed):
            clinic.labels.follow(job, dying)
        clinic.labels.follow(replace(job, checkpoint=dying.state), Dying())
    assert [final(clinic, one) for one in predictions] == documents * [{"a", last}]
    counts = Counter(data["prediction_id"] for data in corrected(clinic))
    assert {*counts} == {one.id for one in predictions}
    assert again or {*counts.values()} == {1}
    with clinic.begin(read_only=True) as transaction:
        facts = transaction.truth.facts_of([one.id for one in predictions])
    assert all(each.annotations[0].written == ("a", "j12.82") for each in facts)


def test_a_block_takes_as_many_statements_for_many_documents_as_for_few(clinic: Clinic) -> None:
    counts = []
    for documents in (2, 20):
        predictions = [predict(clinic) for _ in range(documents)]
        name = f"new {documents}"
        for _ in predictions:
            answer(clinic, [name], name)
        with statements_of(clinic.engine) as statements:
            decide(clinic, name, LabelState.ACCEPTED, label=name.upper(), insist=True)
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_a_merge_into_a_predicted_label_makes_the_prediction_right(clinic: Clinic) -> None:
    clinic.fix_threshold(0.8, audits=AuditPlan(certification_rate=1.0))
    prediction = predict(clinic)
    *rest, last = prediction.scored.labels
    answer(clinic, [*rest, "other name"], "other name")
    clinic.outcomes.report(CLIENT, prediction.id, [*rest, "other name"], "billing")
    decide(clinic, "other name", LabelState.MERGED, merged_into=last)
    with clinic.begin(read_only=True) as transaction:
        (annotation,) = transaction.reviews.annotations_of(prediction.id)
        (outcome,) = transaction.outcomes.of(prediction.id)
    assert annotation.agreed
    assert outcome.agreed
    assert set(annotation.labels) == set(outcome.labels) == set(prediction.scored.labels)
    assert clinic.labels.missing(LEAD) == MissingLabels()
    assert not clinic.outcomes.report(CLIENT, prediction.id, [*rest, "other name"], "billing").new


def test_a_decision_that_can_be_undone_follows_too(clinic: Clinic) -> None:
    prediction = predict(clinic)
    task = clinic.claimed(ANN)
    clinic.reviews.decide(
        ANN, task.id, ["misspelt"], None, task.version, additions=Additions(["misspelt"])
    )
    decide(clinic, "misspelt", LabelState.ACCEPTED, label=NEW)
    clinic.reviews.submit_decisions_of(ANN.id)
    assert final(clinic, prediction) == {NEW}


def test_what_was_written_cannot_be_changed_in_the_database(clinic: Clinic) -> None:
    predict(clinic)
    answer(clinic, ["a", NEW], NEW)
    for change_ in (
        "labels = '[]'",
        "agreed = TRUE",
        "written = '[]'",
        "labels = '[]', written = '[]'",
    ):
        with pytest.raises((IntegrityError, DBAPIError)), clinic.engine.begin() as connection:
            connection.execute(text(f"UPDATE annotations SET {change_}"))


PATIENT = "Quuxword, Jane"


def given_everywhere(clinic: Clinic) -> list[Prediction]:
    """Have answers, an outcome, a draft decision and messages name a patient."""
    clinic.fix_threshold(0.8, audits=AuditPlan())
    predictions = [predict(clinic, f"0.4{n}") for n in range(3)]
    answer(clinic, ["a", PATIENT], PATIENT)
    clinic.outcomes.report(CLIENT, predictions[0].id, [PATIENT], "billing")
    answer(clinic, [PATIENT])
    task = clinic.claimed(BEN)
    clinic.reviews.decide(BEN, task.id, [PATIENT], None, task.version)
    return predictions


LATER: Mapping[str, Callable[[Clinic], object]] = {
    "proposed": lambda clinic: None,
    "accepted": lambda clinic: decide(clinic, PATIENT, LabelState.ACCEPTED),
    "retired": lambda clinic: decide(clinic, PATIENT, LabelState.RETIRED),
    "described": lambda clinic: clinic.labels.describe(ADMIN, f'label\n"{PATIENT}"\nX,\n'),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("at_once", [1, pytest.param(200, marks=pytest.mark.verify)])
def test_a_removed_label_is_found_nowhere_and_its_answers_stay_wrong(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, later: str, at_once: int
) -> None:
    monkeypatch.setattr(labels_service, "DOCUMENTS_AT_ONCE", at_once)
    predictions = given_everywhere(clinic)
    LATER[later](clinic)
    assert places_of(clinic.engine, PATIENT)
    label = clinic.labels.get(LEAD, PATIENT)
    clinic.labels.remove(LEAD, PATIENT, label.version)
    jobs = following(clinic, FORGET_LABEL)
    assert bool(jobs) is (at_once == 1)
    for job in jobs:
        assert clinic.labels.get(LEAD, PATIENT).state is LabelState.RETIRED
        clinic.jobs.authorise(replace(job, owner_id="a lead who has left"))
        # Each worker dies after one block: it got further, which sets the count of attempts back.
        left = job
        for _ in range(2):
            dying = Dying(1)
            with suppress(Killed):
                clinic.labels.forget(left, dying)
            assert dying.state != left.checkpoint
            left = left.advanced(dying.state or {})
        clinic.labels.forget(left, Dying())
    assert places_of(clinic.engine, "Quuxword") == []
    with pytest.raises(LabelNotFound):
        clinic.labels.get(LEAD, PATIENT)
    clinic.reviews.submit_decisions_of(BEN.id)
    assert [final(clinic, each) for each in predictions] == [{UNNAMED}, {UNNAMED}, {UNNAMED}]
    assert clinic.labels.missing(LEAD) == MissingLabels(3, 3, {UNNAMED: 3})
    assert all(data["label_missing"] for data in corrected(clinic))
    assert {data["prediction_id"] for data in corrected(clinic)} == {
        predictions[0].id,
        predictions[1].id,
    }


def test_the_name_before_a_rename_can_be_removed_alone(clinic: Clinic) -> None:
    (first, *_) = given_everywhere(clinic)
    decide(clinic, PATIENT, LabelState.ACCEPTED, label=NEW)
    label = clinic.labels.get(LEAD, PATIENT)
    clinic.labels.remove(LEAD, PATIENT, label.version)
    assert places_of(clinic.engine, "Quuxword") == []
    assert final(clinic, first) == {NEW}
    with clinic.begin(read_only=True) as transaction:
        facts = transaction.truth.facts(first.id)
    assert [each.written for each in facts.annotations] == [("a", UNNAMED)]


def test_names_that_were_merged_into_a_label_go_with_it(clinic: Clinic) -> None:
    given_everywhere(clinic)
    decide(clinic, PATIENT, LabelState.ACCEPTED, label="Quuxword, J.")
    clinic.labels.remove(LEAD, "Quuxword, J.", 1)
    assert places_of(clinic.engine, "Quuxword") == []


def test_only_a_lead_removes_a_label_that_they_read_and_no_model_knows(clinic: Clinic) -> None:
    predict(clinic)
    answer(clinic, ["a", NEW], NEW)
    with pytest.raises(Forbidden):
        clinic.labels.remove(ANN, NEW, 1)
    with pytest.raises(VersionRequired):
        clinic.labels.remove(LEAD, NEW, None)
    with pytest.raises(StaleVersion):
        clinic.labels.remove(LEAD, NEW, 7)
    with pytest.raises(InvalidRequest):
        clinic.labels.remove(LEAD, "a", 0)
    with pytest.raises(LabelNotFound):
        clinic.labels.remove(LEAD, "zebra", 1)


@pytest.mark.parametrize("odd", ["a\x00", "\ud800", "x" * 501])
def test_a_name_that_cannot_be_stored_is_refused_or_not_there(clinic: Clinic, odd: str) -> None:
    predict(clinic)
    task = clinic.claimed(ANN)
    for additions in (Additions(), Additions([odd])):
        with pytest.raises(InvalidRequest):
            clinic.reviews.complete(ANN, task.id, [odd], None, task.version, additions=additions)
    with pytest.raises(InvalidRequest):
        clinic.labels.propose(ANN, odd)
    with pytest.raises(LabelNotFound):
        clinic.labels.get(LEAD, odd)
    with pytest.raises(LabelNotFound):
        clinic.labels.change(LEAD, odd, LabelChange(LabelState.RETIRED), 1)
    clinic.labels.propose(ANN, NEW)
    for rest in ({"state": "accepted", "label": odd}, {"state": "merged", "merged_into": odd}):
        wish = LabelChange(**{**rest, "state": LabelState(rest["state"])})
        with pytest.raises(InvalidRequest):
            clinic.labels.change(LEAD, NEW, wish, 1)


def test_two_people_may_propose_one_label_at_once(clinic: Clinic) -> None:
    with ThreadPoolExecutor(2) as pool:
        proposals = [pool.submit(clinic.labels.propose, who, NEW) for who in (ANN, BEN)]
        assert [each.result().label.label for each in proposals] == [NEW, NEW]
    with pytest.raises(SimilarLabels):
        clinic.labels.propose(ANN, "j12.82")
    assert len(clinic.labels.catalogue(LEAD)) == 1


def test_a_lead_who_read_an_older_version_changes_nothing(clinic: Clinic) -> None:
    clinic.labels.propose(ANN, NEW)
    decide(clinic, NEW, LabelState.ACCEPTED)
    with pytest.raises(StaleVersion):
        clinic.labels.change(LEAD, NEW, LabelChange(LabelState.RETIRED), 1)
    with pytest.raises(StaleVersion):
        clinic.labels.change(LEAD, "a", LabelChange(LabelState.RETIRED), 1)


def test_a_retired_label_is_no_longer_offered(clinic: Clinic) -> None:
    clinic.labels.propose(ANN, NEW)
    decide(clinic, NEW, LabelState.RETIRED)
    decide(clinic, "a", LabelState.RETIRED)
    assert not {NEW, "a"} & {*clinic.labels.search(ANN).labels}
    matches = clinic.labels.search(ANN, state=LabelState.RETIRED)
    assert matches.labels == ("a", NEW)
    decide(clinic, "a", LabelState.ACCEPTED)
    assert "a" in clinic.labels.search(ANN).labels


def test_documents_beyond_the_model_are_counted_and_found(clinic: Clinic) -> None:
    for n in range(3):
        predict(clinic, f"0.4{n}")
    known, named, unnamed = (
        clinic.answer(ANN, labels, additions=Additions(**rest))[0].prediction.id
        for labels, rest in (
            (["a"], {}),
            (["a", NEW], {"new_labels": [NEW]}),
            (["a"], {"label_missing": True}),
        )
    )
    assert clinic.labels.missing(LEAD) == MissingLabels(2, 3, {NEW: 1, UNNAMED: 1})
    with clinic.begin(read_only=True) as transaction:
        found = {
            value: {*transaction.documents.ids(DocumentFilter(beyond_model=value), most=10)}
            for value in (True, False)
        }
    assert found == {True: {named, unnamed}, False: {known}}
    with clinic.begin() as transaction:
        transaction.labels.follow_model({"a", NEW})
    assert clinic.labels.missing(LEAD) == MissingLabels(1, 3, {UNNAMED: 1})
    with clinic.begin() as transaction:  # of a model that has lost a label
        transaction.labels.follow_model({"b"})
    assert clinic.labels.missing(LEAD).labels == {"a": 3, NEW: 1, UNNAMED: 1}


def test_a_label_file_neither_loses_nor_overwrites_what_people_gave(clinic: Clinic) -> None:
    clinic.labels.describe(ADMIN, "label,name\nfiled,From a file\nkept,From a file\n")
    predict(clinic)
    answer(clinic, ["kept", NEW], NEW)
    clinic.labels.describe(ADMIN, f"label,name\n{NEW},Its name\n")
    assert {each.label: each.name for each in clinic.labels.catalogue(LEAD)} == {
        NEW: "Its name",
        "kept": None,
    }


def _known(transaction: Transaction, prediction: Prediction) -> Check | None:
    facts = transaction.truth.facts(prediction.id)
    return check(prediction.id, facts.annotations, facts.outcomes)


BEYOND = pytest.mark.parametrize(
    "additions", [Additions([NEW]), Additions(label_missing=True)], ids=["new", "without a name"]
)


def _audited(clinic: Clinic, **rates: float) -> Prediction:
    audits = AuditPlan(certification_rate=1.0, **rates)
    clinic.fix_threshold(0.8, audits=audits)
    return predict(clinic, "0.9")


def _complete(clinic: Clinic, by: Caller, additions: Additions, *labels: str) -> ReviewTask:
    return clinic.answer(by, [*labels, *additions.new_labels], additions=additions)[0]


@BEYOND
def test_a_set_beyond_the_model_is_wrong_for_whoever_asks(
    clinic: Clinic, additions: Additions
) -> None:
    prediction = _audited(clinic)
    score = prediction.scored
    scorer = Scorer(score.model_version, score.calibrator_version)
    for person, kind in ((ANN, ReviewKind.AUDIT), (LEAD, ReviewKind.ADJUDICATION)):
        assert _complete(clinic, person, additions, *score.labels).kind is kind
        with clinic.begin(read_only=True) as transaction:
            check = _known(transaction, prediction)
            (audit,) = transaction.evidence.audited(scorer)
        assert check is not None
        assert (check.right, check.contradicted) == (False, True)
        assert audit.found_wrong
    assert clinic.labels.missing(LEAD).documents == 1


@BEYOND
def test_an_auditor_who_gave_the_known_part_alone_has_missed_an_error(
    clinic: Clinic, additions: Additions
) -> None:
    prediction = _audited(clinic, gold_reread_rate=1.0)
    _complete(clinic, ANN, NO_ADDITIONS, *prediction.scored.labels)
    _complete(clinic, LEAD, additions, *prediction.scored.labels)
    with clinic.begin(read_only=True) as transaction:
        check = _known(transaction, prediction)
    assert check is not None
    assert (check.audit_agreed, check.reread, check.lead_agreed) == (True, True, False)
    assert check.right is False


@pytest.mark.parametrize("rate", [0.0, 1.0], ids=["review", "audit"])
@BEYOND
def test_a_blind_audit_takes_the_same_answers_as_a_review(
    clinic: Clinic, additions: Additions, rate: float
) -> None:
    audits = AuditPlan(certification_rate=rate)
    clinic.fix_threshold(0.8, audits=audits)
    predict(clinic, "0.9" if rate else "0.4")
    task = clinic.claimed(ANN)
    assert task.blind is bool(rate)
    with pytest.raises(InvalidRequest) as error:
        clinic.reviews.complete(ANN, task.id, ["zebra"], None, task.version)
    assert [fault.pointer for fault in error.value.faults] == ["/labels/0"]
    given = ["a", "b", *additions.new_labels]
    annotation = clinic.reviews.complete(
        ANN, task.id, given, None, task.version, additions=additions
    )
    assert not annotation.agreed
