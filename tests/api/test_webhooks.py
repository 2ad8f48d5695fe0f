"""Webhooks, deliveries and the outbox over HTTP."""

import json
from dataclasses import replace
from typing import Any

import pytest

from setwise.service.api.webhooks.messages import AutoSentMessage, CompletedMessage
from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.webhooks import DeliveryState, ReceiverResponse, payload
from tests.kit.edge import Service, assert_problem

URL = "https://billing.example/hooks"
HOOKS = "/v1/admin/webhooks"


def _add(service: Service, **fields: Any) -> dict[str, Any]:
    response = service.post(HOOKS, by="admin", json={"url": URL, **fields})
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    assert response.headers["location"] == f"{HOOKS}/{body['id']}"
    return body


def _attempt(service: Service, **answer: Any) -> int:
    """Make every due delivery end in the same answer; returns how many there were."""
    webhooks, clock = replace(service.services.webhooks, draw=lambda: 0.0), service.clock
    webhooks.route()
    parcels = webhooks.claim({}, otherwise=100)
    webhooks.record(
        [(parcel.delivery, ReceiverResponse(clock(), 0.25, **answer)) for parcel in parcels]
    )
    return len(parcels)


def _complete(service: Service, labels: list[str]) -> dict[str, Any]:
    response = service.post("/v1/reviews/claim", by="reviewer")
    done = service.post(
        f"/v1/reviews/{response.json()['id']}/complete",
        by="reviewer",
        json={"labels": labels},
        headers={"If-Match": response.headers["etag"]},
    )
    assert done.status_code == 200, done.text
    answer: dict[str, Any] = done.json()
    return answer


def test_a_webhook_shows_its_secret_once(service: Service) -> None:
    body = _add(service, description="billing", events=["review.completed"])
    assert body["secret"].startswith("whsec_")
    response = service.get(f"{HOOKS}/{body['id']}", by="admin")
    assert response.headers["etag"] == '"1"'
    assert response.json() == {**body, "secret": None}
    assert service.get(HOOKS, by="admin").json()["items"] == [response.json()]
    rotated_body = service.post(f"{HOOKS}/{body['id']}/rotate-secret", by="admin").json()
    assert rotated_body["secret"] != body["secret"]
    assert rotated_body["previous_secret_expires_at"] == "2026-01-03T03:04:05.678901Z"
    assert rotated_body["version"] == 2
    trail = json.dumps([dict(e.detail) for e in service.database.contents.events.values()])
    assert body["secret"] not in trail
    assert rotated_body["secret"] not in trail


def test_a_webhook_is_replaced_at_the_version_that_was_read(service: Service) -> None:
    added_body = _add(service)
    address = f"{HOOKS}/{added_body['id']}"
    body = {"url": "https://other.example/", "enabled": False}
    response = service.send("PUT", address, by="admin", json=body, headers={"If-Match": '"1"'})
    assert response.json() == {
        **added_body,
        "url": "https://other.example/",
        "enabled": False,
        "disabled_because": "by an administrator",
        "secret": None,
        "version": 2,
    }
    gone_response = service.send("DELETE", address, by="admin", headers={"If-Match": '"2"'})
    assert (gone_response.status_code, gone_response.content) == (204, b"")
    assert_problem(service.get(address, by="admin"), 404, "webhook-not-found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"url": "http://billing.example/"}, "/url"),
        ({"url": "https://127.0.0.1/"}, "/url"),
        ({"url": URL, "description": "x\x00"}, "/description"),
        ({"url": URL, "events": ["webhook.test"]}, "/events/0"),
        ({"url": URL, "secret": "whsec_mine"}, "/secret"),
    ],
)
def test_an_address_that_cannot_be_told_is_refused(
    service: Service, body: dict[str, Any], pointer: str
) -> None:
    assert_problem(service.post(HOOKS, by="admin", json=body), 422, "invalid-request", pointer)
    assert service.get(HOOKS, by="admin").json()["items"] == []


def test_a_delivery_is_shown_with_its_log_and_sent_again_on_request(service: Service) -> None:
    hook = _add(service)
    service.fix_threshold(0.5)
    prediction = service.predict("0.8").json()
    assert _attempt(service, status=503, excerpt="try later") == 1
    (listed,) = service.get("/v1/admin/deliveries?state=pending", by="admin").json()["items"]
    assert (listed["attempts"], listed["webhook_id"]) == (1, hook["id"])
    assert listed["next_attempt_at"] == "2026-01-02T03:04:10.678901Z"
    one = f"/v1/admin/deliveries/{listed['id']}"
    body = service.get(one, by="admin").json()
    assert body["delivery"] == listed
    assert body["payload"]["data"]["prediction_id"] == prediction["id"]
    assert body["log"] == [
        {
            "number": 1,
            "started_at": "2026-01-02T03:04:05.678901Z",
            "seconds": 0.25,
            "status": 503,
            "response": "try later",
            "error": None,
        }
    ]
    assert _attempt(service, status=200) == 0  # not due yet
    response = service.post(f"{one}/replay", by="admin")
    assert (response.status_code, response.json()["attempts"]) == (202, 0)
    assert _attempt(service, status=200) == 1
    listed = service.get("/v1/admin/deliveries", by="admin").json()["items"][0]
    assert (listed["state"], listed["next_attempt_at"]) == ("delivered", None)
    # Also what arrived may be asked for again.
    service.post(f"{one}/replay", by="admin")
    assert _attempt(service, status=200) == 1
    assert len(service.get(one, by="admin").json()["log"]) == 3


def test_dead_deliveries_of_a_webhook_are_replayed_together(service: Service) -> None:
    hook, other = _add(service), _add(service)
    service.fix_threshold(0.5)
    for text in ("0.8", "0.9", "0.7"):
        service.predict(text)
    for _ in range(10):
        assert _attempt(service, status=500) == 6
        service.clock.advance(days=2)
    assert _attempt(service, status=200) == 0
    dead = service.get("/v1/admin/deliveries?state=dead", by="admin").json()["items"]
    assert len(dead) == 6
    assert service.post(f"{HOOKS}/{hook['id']}/replay", by="admin").json() == {"replayed": 3}
    assert _attempt(service, status=200) == 3
    query = f"/v1/admin/deliveries?webhook_id={other['id']}&limit=2"
    first = service.get(query, by="admin").json()
    assert {item["state"] for item in first["items"]} == {"dead"}
    rest = service.get(f"{query}&cursor={first['next_cursor']}", by="admin").json()
    assert len(first["items"] + rest["items"]) == 3


def test_nothing_is_sent_again_to_a_webhook_that_was_deleted(service: Service) -> None:
    hook = _add(service)
    service.post(f"{HOOKS}/{hook['id']}/test", by="admin")
    service.send("DELETE", f"{HOOKS}/{hook['id']}", by="admin")
    (listed,) = service.get("/v1/admin/deliveries", by="admin").json()["items"]
    assert listed["state"] == "cancelled"
    response = service.post(f"/v1/admin/deliveries/{listed['id']}/replay", by="admin")
    assert_problem(response, 409, "delivery-cancelled")


def test_a_test_goes_to_one_webhook_whatever_it_wants_and_to_no_outbox(service: Service) -> None:
    hook = _add(service, events=["policy.tripped"])
    _add(service)
    response = service.post(f"{HOOKS}/{hook['id']}/test", by="admin")
    assert response.status_code == 202
    assert service.get(response.headers["location"], by="admin").json()["payload"] == {
        "type": "webhook.test",
        "timestamp": "2026-01-02T03:04:05.678901Z",
        "data": {"webhook_id": hook["id"]},
    }
    assert _attempt(service, status=200) == 1
    assert service.get("/v1/outbox", by="admin").json()["items"] == []


def test_what_is_told_is_what_the_document_says_and_holds_no_text(service: Service) -> None:
    """The models of OpenAPI's ``webhooks`` forbid and demand every field."""
    service.fix_threshold(0.5)
    body = {"document": {"id": "note-1", "text": "0.8"}, "metadata": {"ward": "geheim"}}
    sent_body = service.post("/v1/predictions", by="client", json=body).json()
    body["document"] = {"text": "0.3"}
    waiting = service.post("/v1/predictions", by="client", json=body).json()
    done = _complete(service, ["a"])
    first, second = service.database.contents.messages.values()
    told = AutoSentMessage.model_validate_json(json.dumps(payload(first)))
    assert told.data.prediction_id == sent_body["id"]
    data = told.model_dump(mode="json")["data"]
    assert {name: value for name, value in data.items() if name in sent_body} == {
        name: value for name, value in sent_body.items() if name in data
    }
    reviewed_message = CompletedMessage.model_validate_json(json.dumps(payload(second)))
    assert reviewed_message.data.prediction_id == waiting["id"]
    assert (reviewed_message.data.labels, reviewed_message.data.agreed) == (("a",), False)
    assert (reviewed_message.data.review_id, reviewed_message.data.annotation_id) == (
        done["id"],
        done["annotation_id"],
    )
    assert reviewed_message.data.decision == "review"
    for message in (first, second):
        assert "geheim" not in json.dumps(payload(message))
        assert '"0.' not in json.dumps(payload(message))  # the documents' texts


def test_a_client_pulls_what_happened_and_acknowledges_it(service: Service) -> None:
    service.fix_threshold(0.5)
    service.key("other", Role.CLIENT)
    sent_ids = [service.predict(text).json()["id"] for text in ("0.8", "0.9", "0.7")]
    service.predict("0.2")
    _complete(service, ["a", "b"])
    assert service.get("/v1/outbox", by="other").json()["items"] == []
    first = service.get("/v1/outbox?limit=2", by="client").json()
    rest = service.get(f"/v1/outbox?cursor={first['next_cursor']}", by="client").json()
    assert rest["next_cursor"] is None
    messages = first["items"] + rest["items"]
    assert [m["data"]["prediction_id"] for m in messages[:3]] == sent_ids
    assert [m["type"] for m in messages] == ["prediction.auto_sent"] * 3 + ["review.completed"]
    stolen = service.get(f"/v1/outbox?cursor={first['next_cursor']}", by="other")
    assert_problem(stolen, 422, "invalid-request", "/query/cursor")
    ids = {"ids": [m["id"] for m in first["items"]]}
    path = "/v1/outbox/acknowledge"
    assert service.post(path, by="other", json=ids).json() == {"acknowledged": 0}
    assert service.post(path, by="client", json=ids).json() == {"acknowledged": 2}
    assert service.post(path, by="client", json=ids).json() == {"acknowledged": 0}
    assert service.get("/v1/outbox", by="client").json()["items"] == rest["items"]
    # Webhooks do not notice: they have an account of their own.
    _add(service)
    assert _attempt(service, status=200) == 4


def test_acknowledging_nonsense_is_refused(service: Service) -> None:
    path = "/v1/outbox/acknowledge"
    bad = service.post(path, by="client", json={"ids": ["x"]})
    assert_problem(bad, 422, "invalid-request", "/ids/0")
    many = service.post(path, by="client", json={"ids": ["x"] * 1_001})
    assert_problem(many, 422, "invalid-request", "/ids")


def test_metrics_count_what_is_under_way_and_what_was_given_up(service: Service) -> None:
    _add(service)
    service.fix_threshold(0.5)
    service.predict("0.8")
    _attempt(service, status=500)
    metrics = service.get("/metrics").text
    assert f'setwise_deliveries{{state="{DeliveryState.PENDING}"}} 1.0' in metrics
    assert f'setwise_deliveries{{state="{DeliveryState.DEAD}"}} 0.0' in metrics
