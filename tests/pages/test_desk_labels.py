"""Labels that the model lacks, on the desk with its script and without one."""

import re

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.labels import UNNAMED, LabelChange, LabelState
from setwise.service.domain.reviews import ReviewKind
from tests.kit.edge import Service
from tests.pages.test_desk import Desk, answers_in, fill, fill_adjudication, stored
from tests.samples import ADMIN, change


@pytest.fixture
def desk(service: Service) -> Desk:
    return Desk(service, "ann", Role.REVIEWER)


def catalogued(service: Service, label: str, state: LabelState, into: str | None = None) -> None:
    """Put a label into the catalogue."""
    labels = service.services.labels
    lead = Caller(ADMIN.id, "ada", Role.ADMIN)
    new_label = labels.propose(lead, label, insist=True).label
    if state is not LabelState.PROPOSED:
        labels.change(lead, label, LabelChange(state, merged_into=into), new_label.version)


def test_the_models_labels_are_found_first_and_retired_ones_never(
    service: Service, desk: Desk
) -> None:
    service.predictors.predictor.labels = ["zoo fever", "fever"]
    for label, state in (
        ("a fever", LabelState.ACCEPTED),
        ("fever tree", LabelState.PROPOSED),
        ("old fever", LabelState.RETIRED),
    ):
        catalogued(service, label, state)
    body = desk.look("/labels?query=fever").json()
    assert [(match["label"], match["in_model"], match["state"]) for match in body["items"]] == [
        ("fever", True, "accepted"),
        ("zoo fever", True, "accepted"),
        ("fever tree", False, "proposed"),
        ("a fever", False, "accepted"),
    ]


def test_labels_much_like_a_new_one_are_named_before_it_is_added(
    service: Service, desk: Desk
) -> None:
    service.predictors.predictor.labels = ["long-covid"]
    catalogued(service, "Fi\u00e8vre", LabelState.PROPOSED)
    catalogued(service, "pyrexia", LabelState.MERGED, "Fi\u00e8vre")
    catalogued(service, "dropsy", LabelState.RETIRED)
    for typed, name, similar, retired in (
        ("Long%20COVID", "Long COVID", ["long-covid"], False),
        ("%20fie%CC%80vre%20", "fi\u00e8vre", ["Fi\u00e8vre"], False),
        ("pyrexia", "pyrexia", ["Fi\u00e8vre"], False),
        ("dropsy", "dropsy", [], True),
        ("something%20else", "something else", [], False),
    ):
        body = desk.look(f"/labels/new?label={typed}").json()
        assert (body["label"], body["retired"]) == (name, retired)
        assert [match["label"] for match in body["similar"]] == similar
        assert body["listed"] is None
    for typed, in_model in (("long-covid", True), ("Fi%C3%A8vre", False)):
        assert desk.look(f"/labels/new?label={typed}").json()["listed"]["in_model"] is in_model


@pytest.mark.parametrize("kind", [ReviewKind.REVIEW, ReviewKind.AUDIT])
def test_new_labels_and_one_without_a_name_are_answers_in_every_review(
    service: Service, desk: Desk, kind: ReviewKind
) -> None:
    task = fill(service, kind)
    item = desk.next()
    response = desk.decide(item, "a", "flood")
    assert response.status_code == 422
    said = desk.decide(item, "a", "flood", new_labels=["flood"], label_missing=True)
    assert said.status_code == 200, said.text
    decision = stored(service, task.id).decision
    assert decision is not None
    assert decision.labels == ("a", "flood", UNNAMED)
    assert service.services.labels.get(SYSTEM, "flood").state is LabelState.PROPOSED


def test_a_lead_sees_which_labels_of_the_answers_the_model_lacks(service: Service) -> None:
    catalogued(service, "flood", LabelState.PROPOSED)
    fill_adjudication(service, "a", "flood", UNNAMED)
    item = Desk(service, "lea", Role.LEAD).next()
    assert item["answers"] == [["", "a", "flood"], ["a", "b"]]
    assert item["beyond"] == {"flood": "proposed"}


def test_without_a_script_unlisted_labels_are_shown_once_before_they_are_added(
    service: Service, desk: Desk
) -> None:
    task = fill(service)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    page = desk.get("/desk").text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    form |= {"chosen": "-1", "labels": "a\r\nB\r\nflood"}
    response = desk.submit("/desk/submit", form)
    assert response.status_code == 422
    assert "“B” is in no list. Is “b” meant?" in response.text
    assert "“flood” is in no list." in response.text
    assert desk.submit("/desk/submit", {**form, "new": "flood"}).status_code == 422
    form |= {"labels": "a\r\nflood", "new": "flood", "missing": "yes"}
    assert desk.submit("/desk/submit", form).status_code == 303
    decision = stored(service, task.id).decision
    assert decision is not None
    assert decision.labels == ("a", "flood", UNNAMED)


def test_without_a_script_none_fits_leaves_out_every_suggestion(
    service: Service, desk: Desk
) -> None:
    task = fill(service)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    form = dict(
        re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', desk.get("/desk").text)
    )
    assert desk.submit("/desk/submit", form | {"chosen": "-3"}).status_code == 303
    decision = stored(service, task.id).decision
    assert decision is not None
    assert decision.labels == (UNNAMED,)


def test_without_a_script_a_retired_label_is_refused_on_the_page(
    service: Service, desk: Desk
) -> None:
    catalogued(service, "dropsy", LabelState.RETIRED)
    fill(service)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    page = desk.get("/desk").text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    form |= {"chosen": "-1", "labels": "dropsy", "new": "dropsy", "comment": "half a thought"}
    response = desk.submit("/desk/submit", form)
    assert response.status_code == 422
    assert "is retired; choose another label" in response.text
    assert ">half a thought</textarea>" in response.text


def test_without_a_script_what_all_answers_have_stands_once(service: Service) -> None:
    catalogued(service, "flood", LabelState.PROPOSED)
    task = fill_adjudication(service, "a", "flood", UNNAMED)
    lead = Desk(service, "lea", Role.LEAD)
    lead.submit("/desk/claim", {"csrf": lead.csrf})
    form = lead.get("/desk").text.partition("<noscript>")[2].partition("</noscript>")[0]
    assert re.search(r'Both answers have\s+<span class="label" dir="auto">a</span>', form)
    assert answers_in(form) == [
        ["a label that is in no list", "flood"],
        ["b"],
        ["a label that is in no list", "flood", "b"],
    ]
    assert 'flood</span> <small class="mark-of">proposed</small>' in form
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', form))
    assert lead.submit("/desk/submit", {**fields, "chosen": "2"}).status_code == 303
    decision = stored(service, task.id).decision
    assert decision is not None
    assert set(decision.labels) == {"a", "b", "flood", UNNAMED}


def test_without_a_script_required_parents_are_added_and_shown_before_they_are_stored(
    service: Service, desk: Desk
) -> None:
    above = "label,parent\nb,a\na,c\nc,\n"
    service.services.labels.describe(SYSTEM, above)
    service.services.policy.change(SYSTEM, change(rules=[{"kind": "parents"}]), None)
    task, second = fill(service), fill(service)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    for place, (kept, stored_labels) in enumerate([("b\na\nc", "a b c"), ("b", "b")]):
        page = desk.get("/desk").text
        form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
        form |= {"chosen": "-1", "labels": "b"}
        response = desk.submit("/desk/submit", form)
        assert response.status_code == 422
        assert "The policy requires “a” and “c” with your labels" in response.text
        assert ">b\na\nc</textarea>" in response.text
        brought = {"labels": kept, "brought": ["a", "c"]}
        assert desk.submit("/desk/submit", form | brought).status_code == 303
        decision = stored(service, (task, second)[place].id).decision
        assert decision is not None
        assert sorted(decision.labels) == stored_labels.split()
