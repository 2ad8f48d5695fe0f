"""Documents over HTTP: filters, pages and lives."""

import csv
import json

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.routing.segments import GateState, SegmentBy
from setwise.service.services.documents import selections
from tests.kit.edge import Service, assert_problem


def test_pages_go_on_where_the_last_one_ended(service: Service) -> None:
    service.key("lead", Role.LEAD)
    ids = [service.predict(f"0.{n}").json()["id"] for n in range(5)]
    items, cursor = [], ""
    while cursor is not None:
        page = service.get(f"/v1/documents?order=most-confident&limit=2{cursor}", by="lead").json()
        items += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert items == ids[::-1]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("confidence_from=1.5", "/query/confidence_from"),
        ("label=%00", "/query/label"),
        ("text=%22%22", "/text"),
        ("state=lost", "/query/state"),
    ],
)
def test_a_filter_that_cannot_match_is_a_problem(
    service: Service, query: str, pointer: str
) -> None:
    service.key("lead", Role.LEAD)
    response = service.get(f"/v1/documents?{query}", by="lead")
    assert_problem(response, 422, "invalid-request", pointer)


def test_a_document_is_read_with_its_text_and_events(service: Service) -> None:
    service.key("lead", Role.LEAD)
    body = service.predict("0.5").json()
    found_body = service.get(f"/v1/documents/{body['id']}", by="lead").json()
    assert found_body["prediction"] == body
    assert found_body["text"] == "0.5"
    assert [one["kind"] for one in found_body["events"]] == ["predicted", "queued"]
    assert found_body["events"][0]["name"] == "client"


def test_documents_are_listed_with_who_skipped_them_and_why(service: Service) -> None:
    service.key("lead", Role.LEAD)
    service.predict("0.5")
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    service.post(
        f"/v1/reviews/{task['id']}/skip", by="reviewer", json={"reason": "page two is missing"}
    )
    (listed,) = service.get("/v1/documents", by="lead").json()["items"]
    (skip,) = listed["skips"]
    assert skip == {
        "reviewer": task["lease"]["holder"],
        "reason": "page two is missing",
        "skipped_at": "2026-01-02T03:04:05.678901Z",
    }
    life = service.get(f"/v1/documents/{listed['id']}", by="lead").json()["events"]
    assert ("skipped", "page two is missing") in [(each["kind"], each["comment"]) for each in life]
    (row,) = service.get("/v1/documents/export", by="lead").text.splitlines()
    assert json.loads(row)["skips"] == [skip]


def test_documents_and_the_queue_are_found_by_the_value_of_their_segment(service: Service) -> None:
    states = (GateState("north"), GateState("south"))
    service.fix_threshold(1.0, segment_by=SegmentBy("site"), segments=states)
    for site in ("north", "south", "east"):
        body = {"document": {"text": "0.5"}, "metadata": {"site": site}}
        service.post("/v1/predictions", by="client", json=body)
    for asked, named in (("north", ["north"]), ("other", ["east"]), ("site=north", [])):
        items = service.get(f"/v1/documents?segment={asked}", by="lead").json()["items"]
        assert [one["segment"] for one in items] == named
        response = service.post(f"/v1/reviews/claim?segment={asked}", by="lead")
        assert response.status_code == (200 if named else 204)
    assert service.services.queue.segments(SYSTEM) == ["north", "other", "south"]


def test_the_caller_is_found_as_me(service: Service) -> None:
    service.predict("0.5")
    service.post("/v1/reviews/claim", by="lead")
    for name in ("assigned_to", "reviewer"):
        items = service.get(f"/v1/documents?{name}=me", by="lead").json()["items"]
        assert len(items) == (name == "assigned_to")
    assert service.get("/v1/documents?assigned_to=me", by="admin").json()["items"] == []


def test_a_document_is_reopened_once_and_its_correction_is_sent(service: Service) -> None:
    service.key("lead", Role.LEAD)
    service.fix_threshold(0.8)
    path = f"/v1/documents/{service.predict('0.9').json()['id']}"
    response = service.post(f"{path}/reopen", by="reviewer", json={"reason": "page two"})
    assert_problem(response, 404, "prediction-not-found")
    service.clock.advance(minutes=1)
    body = {"reason": "page two"}
    made = service.post(f"{path}/reopen", by="lead", json=body)
    assert (made.status_code, made.json()["reopened_because"]) == (201, "page two")
    assert_problem(service.post(f"{path}/reopen", by="lead", json=body), 409, "review-open")
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    assert (task["kind"], task["reopened_because"]) == ("reopened", "page two")
    version = {"If-Match": str(task["version"])}
    service.clock.advance(minutes=1)
    service.post(
        f"/v1/reviews/{task['id']}/complete", by="reviewer", json={"labels": ["a"]}, headers=version
    )
    (*_, sent) = service.get("/v1/outbox", by="client").json()["items"]
    assert sent["type"] == "document.corrected"
    assert sent["data"]["source"] == "reopened"
    kinds = [one["kind"] for one in service.get(path, by="lead").json()["events"]]
    assert kinds == ["predicted", "sent", "reopened", "queued", "answered", "sent"]
    items = service.get("/v1/documents?state=contradicted", by="lead").json()["items"]
    assert [one["final_labels"] for one in items] == [["a"]]


def test_matching_documents_are_exported_with_what_became_of_them(service: Service) -> None:
    service.key("lead", Role.LEAD)
    ids = [service.predict(f"0.{n}").json()["id"] for n in (3, 4, 5)]
    wanted = f"id={ids[0]}&id={ids[2]}&confidence_from=0.4"
    response = service.get(f"/v1/documents/export?{wanted}&content=true", by="lead")
    (row,) = map(json.loads, response.text.splitlines())
    items = service.get(f"/v1/documents?{wanted}", by="lead").json()["items"]
    assert row == items[0] | {
        "text": "0.5", "features": None, "answer_scores": None, "answer_candidates": None,
        "answer": None,
        "metadata": {},
    }  # fmt: skip
    table = service.get("/v1/documents/export?format=csv&order=oldest", by="lead").text
    assert [one["id"] for one in csv.DictReader(table.splitlines())] == ids
    none = service.get("/v1/documents/export?format=csv&label=none", by="lead").text
    assert none.splitlines() == [table.splitlines()[0]]
    event = service.services.audit_trail.page(SYSTEM).items[0]
    assert (event.subject, event.detail) == ("documents", {"format": "csv", "rows": 0})


def test_more_documents_than_a_file_holds_are_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selections, "MOST_EXPORTED", 1)
    service.predict("0.5")
    assert service.get("/v1/documents/export", by="lead").status_code == 200
    service.predict("0.6")
    response = service.get("/v1/documents/export", by="lead")
    assert_problem(response, 422, "invalid-request")
    assert "More than 1 documents match" in response.json()["detail"]
    assert_problem(service.get("/v1/documents?id=note", by="lead"), 422, "invalid-request", "/id")


def test_comments_are_new_until_they_are_read(service: Service) -> None:
    service.key("lead", Role.LEAD)
    service.key("admin", Role.ADMIN)
    prediction_id = service.predict("0.5").json()["id"]
    for who in ("lead", "admin"):
        address = f"/v1/documents/{prediction_id}/comments"
        assert service.post(address, by=who, json={"text": "why?"}).status_code == 201
    new = {"prediction_id": prediction_id, "document_id": "note 0.5", "new": 1}
    items = [service.get("/v1/documents/new-comments", by="lead").json()["items"]]
    service.clock.advance(seconds=1)
    service.get(f"/v1/documents/{prediction_id}/comments", by="lead")
    items.append(service.get("/v1/documents/new-comments", by="lead").json()["items"])
    assert items == [[new], []]
