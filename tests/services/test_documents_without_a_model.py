"""Documents that come before there is a model: people read them, and no figure counts them."""

import re

import pytest

from setwise.service.domain import errors
from setwise.service.domain.documents import DocumentFilter, DocumentRow, ShownPrediction
from setwise.service.domain.labels import LabelChange, LabelState
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan, AuditRole
from setwise.service.services.documents import Documents
from setwise.service.services.reports import Period
from tests import building
from tests.building import predict_one
from tests.fakes import FakePredictor
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD


@pytest.fixture
def project(clinic: Clinic) -> Clinic:
    """Return an installation with two labels and no model."""
    clinic.predictors.predictor = None
    clinic.labels.add(ADMIN, "grain\nwheat\n")
    return clinic


def stored(project: Clinic, text: str = "wheat rose", **rest: object) -> Prediction:
    return predict_one(project.predictions, CLIENT, Document(text=text, **rest))


def answered(project: Clinic, *labels: str) -> Prediction:
    document = stored(project)
    project.answer(ANN, labels)
    return document


def test_a_document_waits_for_a_person_without_an_invented_number(project: Clinic) -> None:
    prediction = stored(project)
    shown = ShownPrediction.of(prediction)
    assert (shown.decision, shown.reason) == (Decision.REVIEW, Reason.NO_MODEL)
    assert (shown.labels, shown.confidence, shown.threshold) == (None, None, None)
    assert (shown.model_version, shown.calibrator_version) == (None, None)
    assert (shown.candidates, shown.marginals) == ((), ())
    assert project.contents.predictions == {prediction.id: prediction}
    assert project.claimed(ANN).kind is ReviewKind.REVIEW


def test_no_policy_draws_it_for_an_audit(project: Clinic) -> None:
    project.fix_threshold(audits=AuditPlan(certification_rate=0.9, training_rate=0.1))
    assert stored(project).selection.role is AuditRole.NONE


def test_its_decision_is_derived_again(project: Clinic) -> None:
    prediction = stored(project)
    assert project.predictions.derive(LEAD, prediction.id).equal


def test_an_answer_neither_agrees_nor_contradicts(project: Clinic) -> None:
    prediction = answered(project, "grain")
    (annotation,) = project.contents.annotations.values()
    assert annotation.agreed is None
    assert annotation.chosen_rank is None
    assert not annotation.suggestion_shown, "nothing was suggested"
    documents = Documents(project.begin, project.now, project.predictors)
    (document,) = documents.find(LEAD, DocumentFilter()).page.items
    assert not document.contradicted
    assert DocumentRow.of(document).final_labels == ("grain",)
    (message,) = project.contents.messages.values()
    assert message.data["prediction_id"] == prediction.id
    assert message.data["agreed"] is None
    assert message.data["confidence"] is None


def test_an_outcome_neither_agrees_nor_contradicts(project: Clinic) -> None:
    prediction = answered(project, "grain")
    assert project.report(prediction, ["wheat"]).outcome.agreed is None


def test_two_readers_who_differ_go_to_a_lead(project: Clinic) -> None:
    project.fix_threshold(audits=AuditPlan(overlap_rate=1.0))
    stored(project)
    for reader, label in ((ANN, "grain"), (BEN, "wheat")):
        project.answer(reader, [label])
    lead = project.claimed(LEAD)
    assert lead.kind is ReviewKind.ADJUDICATION
    assert lead.answers == (("grain",), ("wheat",)), "nobody predicted a third one"


def test_unknown_labels_are_refused_and_those_of_the_project_taken(project: Clinic) -> None:
    stored(project)
    with pytest.raises(errors.InvalidRequest, match="cannot be stored"):
        project.answer(ANN, ["barley"])
    assert project.labels.search(ANN, "").labels == ("grain", "wheat")


def test_a_label_is_renamed_in_the_answers(project: Clinic) -> None:
    prediction = answered(project, "grain")
    version = project.labels.get(LEAD, "grain").version
    project.labels.change(LEAD, "grain", LabelChange(LabelState.ACCEPTED, label="corn"), version)
    (annotation,) = project.contents.annotations.values()
    assert (annotation.prediction_id, annotation.labels) == (prediction.id, ("corn",))
    assert annotation.agreed is None


def test_no_figure_of_a_model_counts_it(project: Clinic) -> None:
    answered(project, "grain")
    reports = building.reports(project.begin, project.now)
    summary = reports.summary(LEAD)
    assert (summary.predictions, summary.reasons[Reason.NO_MODEL]) == (1, 1)
    assert reports.reliability(LEAD, 100).checked == 0
    cockpit = reports.cockpit(LEAD, Period())
    assert (cockpit.documents, cockpit.checked, cockpit.accuracy.checked) == (1, 0, 0)
    assert project.labels.missing(LEAD).sentence() == "", "no model lacks them"


def test_it_stays_as_it_is_once_a_model_serves(project: Clinic) -> None:
    before = stored(project)
    project.predictors.predictor = FakePredictor()
    after = stored(project, "0.4")
    assert project.predictions.get(LEAD, before.id) == before
    assert (before.reason, after.reason) == (Reason.NO_MODEL, Reason.NO_THRESHOLD)


def test_while_a_model_loads_documents_are_refused(project: Clinic) -> None:
    class Loading:
        def active(self) -> FakePredictor:
            raise errors.ModelLoading("Loading.")

    project.predictors = Loading()
    with pytest.raises(errors.ModelLoading):
        stored(project)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("grain\n\ngrain", "on line 3 'grain', as on line 1"),
        ("Grain", "spelt almost like 'grain' that is there already"),
        ("long covid\nLong-COVID", "spelt almost like 'long covid' on line 1"),
        ("x" * 501, "at most 500"),
    ],
)
def test_a_list_with_faults_adds_nothing(project: Clinic, text: str, why: str) -> None:
    with pytest.raises(errors.InvalidRequest) as error:
        project.labels.add(ADMIN, text)
    assert any(re.search(why, fault.detail) for fault in error.value.faults)
    assert project.labels.search(ANN, "").labels == ("grain", "wheat")


def test_near_duplicates_are_added_if_both_are_meant(project: Clinic) -> None:
    labels = project.labels.add(ADMIN, "Grain\ngrain\n", insist=True)
    assert (labels.added, labels.present) == (["Grain"], ["grain"])


def test_a_list_brings_a_retired_label_back(project: Clinic) -> None:
    retire = LabelChange(LabelState.RETIRED)
    project.labels.change(LEAD, "grain", retire, project.labels.get(LEAD, "grain").version)
    assert project.labels.search(ANN, "").labels == ("wheat",)
    project.labels.add(ADMIN, "grain")
    assert project.labels.search(ANN, "").labels == ("grain", "wheat")


def test_a_project_whose_labels_are_all_retired_takes_the_empty_set_alone(project: Clinic) -> None:
    stored(project)
    stored(project, "rye fell")
    for label in ("grain", "wheat"):
        version = project.labels.get(LEAD, label).version
        project.labels.change(LEAD, label, LabelChange(LabelState.RETIRED), version)
    assert project.labels.search(ANN, "").labels == ()
    with pytest.raises(errors.InvalidRequest, match="cannot be stored"):
        project.answer(ANN, ["grain"])
    project.answer(BEN, [])
    assert [each.labels for each in project.contents.annotations.values()] == [()]


def test_descriptions_leave_the_labels_of_a_list(project: Clinic) -> None:
    project.labels.describe(ADMIN, "label,name\nrye,Rye\n")
    project.labels.describe(ADMIN, "")
    assert project.labels.search(ANN, "").labels == ("grain", "wheat")


def test_only_leads_and_administrators_add_labels(project: Clinic) -> None:
    with pytest.raises(errors.Forbidden):
        project.labels.add(ANN, "rye")
