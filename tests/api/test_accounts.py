"""People, keys and the audit trail over HTTP."""

from datetime import timedelta
from urllib.parse import quote

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.kit.edge import PASSWORD, Service, assert_problem

ANN = {"login": "Ann", "name": "Ann Lee", "role": "reviewer", "password": PASSWORD}

ERASED = {"predictions": 1, "labels": []}


def create(service: Service, **changes: object) -> dict[str, object]:
    response = service.post("/v1/admin/people", by="admin", json=ANN | changes)
    assert response.status_code == 201, response.text
    person: dict[str, object] = response.json()
    return person


def test_an_account_is_made_listed_and_changed(service: Service) -> None:
    person = create(service)
    assert (person["login"], person["role"], person["disabled_at"]) == ("ann", "reviewer", None)
    assert PASSWORD not in str(person)
    assert "password" not in person
    body = service.get("/v1/admin/people", by="auditor").json()
    assert body == {"items": [person], "next_cursor": None, "limit": 1}
    address = f"/v1/admin/people/{person['id']}"
    change = {"role": "lead", "disabled": True, "password": "another long password"}
    changed_body = service.send("PATCH", address, by="admin", json=change).json()
    assert (changed_body["role"], changed_body["name"]) == ("lead", "Ann Lee")
    assert changed_body["disabled_at"]


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"password": "short"}, ["/password"]),
        ({"shoe_size": 40}, ["/shoe_size"]),
        ({"login": 5, "role": "king"}, ["/login", "/role"]),
    ],
)
def test_an_account_that_cannot_be_is_refused(
    service: Service, changes: dict[str, object], pointers: list[str]
) -> None:
    response = service.post("/v1/admin/people", by="admin", json=ANN | changes)
    assert_problem(response, 422, "invalid-request", *pointers)
    assert PASSWORD not in response.text
    assert "short" not in response.json()["detail"].replace("too short", "")


def test_a_key_is_made_shown_once_and_revoked(service: Service) -> None:
    ends = service.clock() + timedelta(days=1)
    body = {
        "name": "billing",
        "role": "client",
        "scopes": ["predict"],
        "expires_at": ends.isoformat(),
        "per_minute": 9,
    }
    made = service.post("/v1/admin/keys", by="admin", json=body).json()
    service.secrets["billing"] = made["key"]
    assert service.get("/v1/predictions", by="billing").status_code == 200
    response = service.get("/v1/admin/keys", by="auditor")
    assert made["key"] not in response.text
    used_body = {"last_used_at": made["details"]["created_at"]}  # the clock stands still
    assert response.json()["items"][0] == made["details"] | used_body
    assert made["details"]["scopes"] == ["predict"]
    revoked_body = service.post(f"/v1/admin/keys/{made['details']['id']}/revoke", by="admin").json()
    assert revoked_body["revoked_at"]
    assert_problem(service.get("/v1/predictions", by="billing"), 401, "unauthenticated")


def test_a_key_that_cannot_be_is_refused(service: Service) -> None:
    for body, pointer in (
        ({"name": "x", "role": "client", "scopes": ["administer"]}, "/scopes"),
        ({"name": "x", "role": "client", "expires_at": "2020-01-01T00:00:00"}, "/expires_at"),
    ):
        response = service.post("/v1/admin/keys", by="admin", json=body)
        assert_problem(response, 422, "invalid-request", pointer)


def events(service: Service, query: str = "") -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    cursor = ""
    while True:
        page = service.get(f"/v1/admin/audit?limit=3{query}{cursor}", by="auditor").json()
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = f"&cursor={page['next_cursor']}"


def test_the_trail_tells_who_did_what_from_where_to_which_version(service: Service) -> None:
    service.predict("0.3")
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    response = service.post(
        f"/v1/reviews/{task['id']}/complete",
        by="reviewer",
        json={"labels": ["a"]},
        headers={"If-Match": str(task["version"]), "X-Request-ID": "mine"},
    )
    assert response.status_code == 200
    event = events(service)[0]
    assert event["action"] == "review.completed"
    assert event["subject"] == task["id"]
    assert event["actor"]["name"] == "reviewer"
    assert event["address"] == "127.0.0.1"
    assert event["request_id"] == "mine"


def test_the_trail_is_filtered_and_paged(service: Service) -> None:
    begun = quote(service.clock().isoformat())
    service.clock.advance(minutes=1)
    person = create(service)
    for name in ("A", "B", "C", "D"):
        service.send("PATCH", f"/v1/admin/people/{person['id']}", by="admin", json={"name": name})
    everything = events(service)
    assert [e["id"] for e in everything] == sorted((e["id"] for e in everything), reverse=True)
    assert len(everything) == len(Role) + 5
    assert len(events(service, "&action=person.")) == 5
    assert len(events(service, "&action=person.created")) == 1
    assert not events(service, "&action=person")
    assert len(events(service, f"&subject={person['id']}")) == 5
    admin = everything[0]["actor"]["id"]
    assert len(events(service, f"&actor_id={admin}")) == 5
    moment = quote(str(everything[0]["at"]))
    assert len(events(service, f"&since={moment}")) == 5
    assert len(events(service, f"&since={begun}&before={moment}")) == len(Role)


def test_a_document_is_erased_on_request(service: Service) -> None:
    service.predict("0.3")
    item = service.get("/v1/predictions", by="client").json()["items"][0]
    body = {"document_id": item["document_id"]}
    assert service.post("/v1/admin/erasures", by="admin", json=body).json() == ERASED
    kept_body = service.get(f"/v1/predictions/{item['id']}", by="client").json()
    assert kept_body == item | {"document_id": None}
    response = service.post("/v1/admin/erasures", by="admin", json={"document_id": ""})
    assert_problem(response, 422, "invalid-request", "/document_id")
    for both_or_none in ({}, {"document_id": "a", "prediction_id": item["id"]}):
        response = service.post("/v1/admin/erasures", by="admin", json=both_or_none)
        assert_problem(response, 422, "invalid-request", "")
    by_id = {"prediction_id": item["id"]}
    assert service.post("/v1/admin/erasures", by="admin", json=by_id).json() == ERASED
