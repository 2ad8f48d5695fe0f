"""The review queue over HTTP."""

from typing import Any

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.routing.audits import AuditPlan
from tests.kit.edge import Service, assert_problem


@pytest.fixture
def task(service: Service) -> dict[str, Any]:
    """Return a task that the caller ``reviewer`` holds."""
    service.predict("0.41")
    response = service.post("/v1/reviews/claim", by="reviewer")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def _complete(
    service: Service, task: dict[str, Any], labels: list[str], *, by: str = "reviewer", **body: Any
) -> Any:
    return service.post(
        f"/v1/reviews/{task['id']}/complete",
        by=by,
        headers={"If-Match": f'"{task["version"]}"'},
        json={"labels": labels, **body},
    )


def test_a_claimed_task_shows_all_that_a_reviewer_needs(service: Service) -> None:
    service.post(
        "/v1/predictions",
        by="client",
        json={
            "document": {"id": "note-17", "text": "0.41"},
            "metadata": {"site": "north"},
            "priority": 1,
            "due_at": "2026-01-03T09:00:00Z",
        },
    )
    response = service.post("/v1/reviews/claim", by="reviewer")
    body = response.json()
    assert response.headers["etag"] == f'"{body["version"]}"'
    assert body == {
        "id": body["id"],
        "prediction_id": next(iter(service.database.contents.predictions)),
        "document": {
            "id": "note-17",
            "text": "0.41",
            "features": None,
            "metadata": {"site": "north"},
        },
        "kind": "review",
        "reason": "no_threshold",
        "state": "leased",
        "priority": 1,
        "due_at": "2026-01-03T09:00:00Z",
        "candidates": [
            {"labels": ["a", "b"], "confidence": 0.41, "score": 0.205},
            {"labels": ["a"], "confidence": 0.05125, "score": 0.1},
            {"labels": [], "confidence": 0.0, "score": 1e-12},
        ],
        "marginals": [
            {"label": "a", "probability": 0.98},
            {"label": "b", "probability": 0.7},
            {"label": "old-code", "probability": 0.125},
        ],
        "lease": {
            "holder": body["lease"]["holder"],
            "expires_at": "2026-01-02T03:19:05.678901Z",
            "claimed_at": "2026-01-02T03:04:05.678901Z",
        },
        "version": 2,
        "created_at": "2026-01-02T03:04:05.678901Z",
    }


def test_an_empty_queue_has_no_content(service: Service) -> None:
    response = service.post("/v1/reviews/claim", by="reviewer")
    assert response.status_code == 204
    assert response.content == b""


@pytest.mark.parametrize(("labels", "agreed"), [(["b", "a"], True), ([], False)])
def test_completing_records_the_labels(
    service: Service, task: dict[str, Any], labels: list[str], agreed: bool
) -> None:
    response = _complete(service, task, labels, comment="seen")
    assert response.status_code == 200
    annotation = service.database.contents.annotations[task["id"]]
    assert response.json() == {
        "id": task["id"],
        "state": "completed",
        "labels": sorted(labels),
        "label_missing": False,
        "agreed": agreed,
        "annotation_id": annotation.id,
    }
    assert annotation.comment == "seen"
    read = service.get(f"/v1/reviews/{task['id']}", by="reviewer")
    assert read.json()["state"] == "completed"
    assert read.headers["etag"] == response.headers["etag"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/labels"]),
        ({"labels": "a"}, ["/labels"]),
        ({"labels": [1]}, ["/labels/0"]),
        ({"labels": ["a", None]}, ["/labels/1"]),
        ({"labels": ["a", "zebra"]}, ["/labels/1"]),
        ({"labels": ["a"], "comment": 1}, ["/comment"]),
        ({"labels": ["a"], "notes": ""}, ["/notes"]),
    ],
)
def test_a_bad_completion_is_refused(
    service: Service, task: dict[str, Any], body: Any, pointers: list[str]
) -> None:
    response = service.post(
        f"/v1/reviews/{task['id']}/complete",
        by="reviewer",
        headers={"If-Match": f'"{task["version"]}"'},
        json=body,
    )
    assert_problem(response, 422, "invalid-request", *pointers)


def test_a_heartbeat_keeps_the_task_at_its_version(service: Service, task: dict[str, Any]) -> None:
    service.clock.advance(minutes=10)
    response = service.post(f"/v1/reviews/{task['id']}/heartbeat", by="reviewer")
    assert response.status_code == 200
    assert response.headers["etag"] == f'"{task["version"]}"'
    assert response.json()["lease"]["expires_at"] == "2026-01-02T03:29:05.678901Z"
    service.clock.advance(minutes=10)
    assert _complete(service, task, ["a"]).status_code == 200


def test_a_released_task_waits_again(service: Service, task: dict[str, Any]) -> None:
    response = service.post(f"/v1/reviews/{task['id']}/release", by="reviewer")
    assert (response.json()["state"], response.json()["lease"]) == ("waiting", None)
    assert response.headers["etag"] == f'"{task["version"] + 1}"'
    assert service.post("/v1/reviews/claim", by="reviewer").json()["id"] == task["id"]


def test_a_queue_may_be_chosen_and_a_task_put_to_its_end(
    service: Service, task: dict[str, Any]
) -> None:
    address = f"/v1/reviews/{task['id']}/release?later=true"
    assert service.post(address, by="reviewer").json()["state"] == "waiting"
    claim = "/v1/reviews/claim"
    for other in ("segment=nowhere", "label=nothing", "prioritized=true"):
        assert service.post(f"{claim}?{other}", by="reviewer").status_code == 204
    label = task["candidates"][0]["labels"][0]
    response = service.post(f"{claim}?label={label}", by="reviewer")
    assert response.json()["id"] == task["id"]


def test_a_skipped_task_waits_for_somebody_else(service: Service, task: dict[str, Any]) -> None:
    address = f"/v1/reviews/{task['id']}/skip"
    response = service.post(address, by="reviewer", json={"reason": "unreadable"})
    assert (response.status_code, response.json()["state"]) == (200, "waiting")
    assert service.post("/v1/reviews/claim", by="reviewer").status_code == 204


@pytest.mark.parametrize("audited", [False, True])
def test_leads_read_who_skipped_a_task_and_why_and_reviewers_do_not(
    service: Service, audited: bool
) -> None:
    if audited:
        service.fix_threshold(0.1, audits=AuditPlan(certification_rate=1.0))
    service.predict("0.41")
    skips, ids = [], [service.key("second", Role.REVIEWER), service.key("lea", Role.LEAD)]
    for name, reason in (("reviewer", "page two is missing"), ("second", "hard")):
        task = service.post("/v1/reviews/claim", by=name).json()
        address = f"/v1/reviews/{task['id']}"
        assert "skips" not in task
        assert (
            "skips" not in service.post(f"{address}/skip", by=name, json={"reason": reason}).json()
        )
        skips.append({"reason": reason, "skipped_at": "2026-01-02T03:04:05.678901Z"})
    (listed,) = service.get("/v1/reviews", by="lea").json()["items"]
    items = [{name: skip[name] for name in ("reason", "skipped_at")} for skip in listed["skips"]]
    assert items == skips
    assert listed["skips"][1]["reviewer"] == ids[0]
    body = service.post("/v1/reviews/claim", by="lea").json()
    assert body["skips"] == listed["skips"]
    assert (body["kind"], "candidates" in body) == ("review", not audited)
    assert "skips" not in service.get("/v1/reviews", by="reviewer").json()["items"][0]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/reason"),
        ({"reason": 5}, "/reason"),
        ({"reason": "x", "to": "me"}, "/to"),
    ],
)
def test_a_skip_needs_a_reason(
    service: Service, task: dict[str, Any], body: Any, pointer: str
) -> None:
    response = service.post(f"/v1/reviews/{task['id']}/skip", by="reviewer", json=body)
    assert_problem(response, 422, "invalid-request", pointer)


def test_the_queue_is_listed_and_filtered(service: Service) -> None:
    service.fix_threshold(0.9)
    for text in ("0.1", "unknown", "0.3"):
        service.predict(text)
    service.post("/v1/reviews/claim", by="reviewer")

    def found(**query: str) -> list[str]:
        response = service.send("GET", "/v1/reviews", by="reviewer", params=query)
        return [item["document"]["text"] for item in response.json()["items"]]

    assert found() == ["0.1", "unknown", "0.3"]
    assert found(state="waiting") == ["unknown", "0.3"]
    assert found(state="leased") == ["0.1"]
    assert found(reason="out_of_domain") == ["unknown"]
    page = service.get("/v1/reviews?limit=2", by="reviewer").json()
    rest = service.get(f"/v1/reviews?limit=2&cursor={page['next_cursor']}", by="reviewer").json()
    assert [item["document"]["text"] for item in rest["items"]] == ["0.3"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "pointer"), [("state=lost", "/query/state"), ("reason=x", "/query/reason")]
)
def test_a_bad_filter_is_refused(service: Service, query: str, pointer: str) -> None:
    response = service.get(f"/v1/reviews?{query}", by="reviewer")
    assert_problem(response, 422, "invalid-request", pointer)


def test_labels_are_searched_the_closest_first(service: Service) -> None:
    assert service.predictors.predictor is not None
    service.predictors.predictor.labels = ("XJ1", "J10", "J1", "K2", "j11")

    def found(query: str) -> list[str]:
        items = service.get(f"/v1/labels?query={query}", by="reviewer").json()["items"]
        return [item["label"] for item in items]

    assert found("j1") == ["J1", "J10", "j11", "XJ1"]
    assert found("%20J1%20") == ["J1", "J10", "j11", "XJ1"]
    assert found("") == ["XJ1", "J10", "J1", "K2", "j11"]
    assert found("zebra") == []


def test_matching_labels_are_paged(service: Service) -> None:
    assert service.predictors.predictor is not None
    service.predictors.predictor.labels = tuple(f"L{n}" for n in range(5))
    first = service.get("/v1/labels?query=l&limit=3", by="reviewer").json()
    assert [item["label"] for item in first["items"]] == ["L0", "L1", "L2"]
    address = f"/v1/labels?query=l&limit=3&cursor={first['next_cursor']}"
    rest = service.get(address, by="reviewer").json()
    assert [item["label"] for item in rest["items"]] == ["L3", "L4"]
    assert rest["next_cursor"] is None
    foreign = service.get(f"/v1/labels?query=k&cursor={first['next_cursor']}", by="reviewer")
    assert_problem(foreign, 422, "invalid-request", "/query/cursor")


def test_without_a_model_the_catalogue_has_the_labels(service: Service) -> None:
    service.predictors.predictor = None
    service.services.labels.add(SYSTEM, "wheat\ngrain")
    body = service.get("/v1/labels", by="reviewer").json()
    assert [item["label"] for item in body["items"]] == ["grain", "wheat"]


def test_while_the_model_loads_there_are_no_labels(service: Service) -> None:
    service.predictors.unload()
    assert_problem(service.get("/v1/labels", by="reviewer"), 503, "model-loading")


def test_own_answers_come_with_what_was_decided(service: Service, task: dict[str, Any]) -> None:
    _complete(service, task, ["c"])
    address = f"/v1/documents/{task['prediction_id']}/reopen"
    (own,) = service.get("/v1/reviews/recent", by="reviewer").json()["items"]
    assert (own["resolution"]["by"], own["resolution"]["labels"]) == ("you", ["c"])
    service.clock.advance(minutes=1)
    assert service.post(address, by="lead", json={"reason": "late"}).status_code == 201
    (own,) = service.get("/v1/reviews/recent", by="reviewer").json()["items"]
    assert own["resolution"] is None
    again = service.post("/v1/reviews/claim", by="lead").json()
    _complete(service, again, ["a", "c"], by="lead")
    (own,) = service.get("/v1/reviews/recent", by="reviewer").json()["items"]
    assert own["resolution"] == {
        "labels": ["a", "c"],
        "label_missing": False,
        "by": "reviewer",
        "decided_at": own["resolution"]["decided_at"],
        "missed": ["a"],
        "surplus": [],
    }
