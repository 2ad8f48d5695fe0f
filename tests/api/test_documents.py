"""Documents over HTTP: filters, pages and lives."""

import pytest

from setwise.service.domain.callers import Role
from tests.edge import Service, assert_problem


def test_pages_go_on_where_the_last_one_ended(service: Service) -> None:
    service.key("lead", Role.LEAD)
    made = [service.predict(f"0.{n}").json()["id"] for n in range(5)]
    listed, cursor = [], ""
    while cursor is not None:
        page = service.get(f"/v1/documents?order=most-confident&limit=2{cursor}", by="lead").json()
        listed += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert listed == made[::-1]


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
    made = service.predict("0.5").json()
    found = service.get(f"/v1/documents/{made['id']}", by="lead").json()
    assert found["prediction"] == made
    assert found["text"] == "0.5"
    assert [one["kind"] for one in found["events"]] == ["predicted", "queued"]
    assert found["events"][0]["name"] == "client"


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
    refused = service.post(f"{path}/reopen", by="reviewer", json={"reason": "page two"})
    assert_problem(refused, 404, "prediction-not-found")
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
    listed = service.get("/v1/documents?state=contradicted", by="lead").json()["items"]
    assert [one["final_labels"] for one in listed] == [["a"]]
