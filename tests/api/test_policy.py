"""The policy and the models over HTTP."""

from typing import Any

import pytest

from setwise.service.domain.accounts.callers import SYSTEM
from tests.kit.edge import Service, assert_problem
from tests.samples import ADMIN

POLICY: dict[str, Any] = {
    "target_accuracy": 0.9,
    "risk": 0.05,
    "auto_send": True,
    "threshold": {"mode": "fixed", "value": 0.8, "certificate_id": None},
    "audit": {
        "certification_rate": 0.0,
        "rest_rate": None,
        "ramp_up_rate": None,
        "training_rate": 0.0,
        "mode": "hold",
    },
    "overlap_rate": 0.0,
    "gold_reread_rate": 0.0,
    "confidence_floor": None,
    "rules": [],
    "retrain": "automatic",
    "segment_by": None,
    "segment_bounds": [],
    "most_segments": 10,
    "segments": [],
}


def _put(service: Service, body: Any, **headers: str) -> Any:
    headers = headers or {"If_Match": "*"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.send("PUT", "/v1/admin/policy", by="admin", json=body, headers=named)


def test_a_new_service_sends_nothing(service: Service) -> None:
    response = service.get("/v1/admin/policy", by="admin")
    body = response.json()
    assert response.headers["etag"] == f'"{body["version"]}"'
    first = {"version": body["version"], "tripped": False, "target_accuracy": 0.95, "risk": 0.1}
    unproved = {"mode": "certified", "value": None, "certificate_id": None}
    assert body == POLICY | first | {"threshold": unproved}


def test_a_changed_policy_is_in_force_at_once(service: Service) -> None:
    response = _put(service, POLICY)
    assert response.status_code == 200
    version = response.json()["version"]
    assert response.json() == {"version": version, "tripped": False, **POLICY}
    assert response.headers["etag"] == f'"{version}"'
    prediction = service.predict("0.8").json()
    assert prediction["decision"] == "auto"
    assert prediction["policy_version"] == version


def test_what_was_read_can_be_sent_back(service: Service) -> None:
    read = service.get("/v1/admin/policy", by="admin")
    response = _put(service, read.json(), If_Match=read.headers["etag"])
    assert response.status_code == 200
    assert response.json() | {"version": ""} == read.json() | {"version": ""}


def test_defaults_may_be_left_out(service: Service) -> None:
    response = _put(service, {"threshold": {"mode": "fixed", "value": 0.8}})
    assert response.status_code == 200
    policy = response.json()
    assert policy["threshold"]["value"] == 0.8
    assert (policy["target_accuracy"], policy["risk"], policy["auto_send"]) == (0.95, 0.1, True)


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"target_accuracy": "0.9"}, ["/target_accuracy"]),
        ({"auto_send": 1}, ["/auto_send"]),
        ({"threshold": {"mode": "fixed"}}, ["/threshold/value"]),
        ({"threshold": {"mode": "guessed", "value": 0.9}}, ["/threshold/mode"]),
        ({"threshold": {"mode": "fixed", "value": 0.9, "x": 1}}, ["/threshold/x"]),
        ({"audit": {"certification_rate": 1.04}}, ["/audit/certification_rate"]),
        ({"audit": {"mode": "lose"}}, ["/audit/mode"]),
        ({"overlap_rate": -0.1, "rules": [{}]}, ["/rules/0/kind"]),
        ({"colour": "red"}, ["/colour"]),
    ],
)
def test_a_policy_that_cannot_take_effect_is_refused(
    service: Service, change: dict[str, Any], pointers: list[str]
) -> None:
    assert_problem(_put(service, POLICY | change), 422, "invalid-request", *pointers)
    assert len(service.database.contents.policies) == 1


def test_models_are_listed_and_activated(service: Service) -> None:
    old = service.services.models.add(SYSTEM, "old")
    new = service.services.models.add(SYSTEM, "new")
    response = service.post(f"/v1/admin/models/{new.id}/activate", by="admin")
    assert response.status_code == 200
    assert response.json()["active"] is True
    body = service.get("/v1/admin/models", by="admin").json()
    assert [(item["id"], item["active"]) for item in body["items"]] == [
        (new.id, True),
        (old.id, False),
    ]
    assert body["next_cursor"] is None
    assert body["items"][0] == {
        "id": new.id,
        "version": "sha256:new",
        "active": True,
        "summary": {"method": "br-rerank", "n_labels": 4},
        "created_at": "2026-01-02T03:04:05.678901Z",
    }


def test_a_rule_on_parents_follows_the_catalogue(service: Service) -> None:
    """Its model answers a and b."""
    labels = service.services.labels
    labels.describe(ADMIN, "label,parent\na,\nb,c\nc,")
    response = _put(service, {**POLICY, "rules": [{"kind": "parents"}]})
    assert response.status_code == 200, response.text
    (rule,) = response.json()["rules"]
    assert {k: v for k, v in rule.items() if v is not None} == {
        "kind": "parents",
        "name": "parents",
    }
    assert _put(service, response.json()).json()["rules"] == [rule]
    body = service.predict("0.95").json()
    assert (body["decision"], body["reason"]) == ("review", "rule")
    before = service.get("/v1/admin/policy", by="admin").json()
    labels.describe(ADMIN, "label,parent\na,\nb,a")
    after = service.get("/v1/admin/policy", by="admin").json()
    assert after == {**before, "version": after["version"]} != before
    assert service.predict("0.951").json()["decision"] == "auto"


def test_rules_hold_back_what_is_confident_and_are_named(service: Service) -> None:
    rules = [
        {"kind": "metadata", "name": "north", "field": "site", "values": ["north", 7]},
        {"kind": "exactly_one", "labels": ["a", "c"]},
    ]
    response = _put(service, {**POLICY, "rules": rules})
    assert response.status_code == 200, response.text
    shown = service.get("/v1/admin/policy", by="admin").json()
    assert _put(service, shown).status_code == 200
    told = [{k: v for k, v in rule.items() if v is not None} for rule in shown["rules"]]
    assert told == [rules[0], {**rules[1], "name": "exactly one"}]

    def predict(**body: Any) -> tuple[str, str]:
        made = service.post(
            "/v1/predictions", by="client", json={"document": {"text": "0.95"}, **body}
        ).json()
        return made["decision"], made["reason"]

    assert predict() == ("auto", "above_threshold")
    assert predict(metadata={"site": "north"}) == ("review", "rule")
    assert predict(metadata={"site": 7.0}) == ("review", "rule")
    assert predict(metadata={"site": "south"}) == ("auto", "above_threshold")
    events = service.database.contents.events.values()
    named = [e.detail.get("rule") for e in events if e.action == "prediction.created"]
    assert named == [None, "north", "north", None]
    assert service.get("/v1/reviews?reason=rule", by="reviewer").json()["items"]


def test_segments_are_listed_with_what_is_in_force_for_each(service: Service) -> None:
    own = {
        "certification_rate": 0.5,
        "rest_rate": 0.05,
        "ramp_up_rate": None,
        "training_rate": 0.0,
        "mode": "hold",
    }
    north = {"value": "north", "threshold": {"mode": "fixed", "value": 0.6}, "audit": own}
    divided_body = {"segment_by": "site", "most_segments": 3}
    response = _put(service, POLICY | divided_body | {"segments": [north, {"value": "south"}]})
    body = response.json()
    assert response.status_code == 200, body
    fixed_body = {"mode": "fixed", "value": 0.8, "certificate_id": None}
    assert body["segments"] == [
        {
            "value": "north",
            "threshold": fixed_body | {"value": 0.6},
            "audit": own,
            "tripped": False,
        },
        {"value": "south", "threshold": None, "audit": None, "tripped": False},
        {"value": "other", "threshold": None, "audit": None, "tripped": False},
    ]
    again = _put(service, body, If_Match=response.headers["etag"])
    assert again.json() | {"version": ""} == body | {"version": ""}


def test_a_certification_or_breaker_of_an_unknown_segment_is_refused(service: Service) -> None:
    fault = 422, "invalid-request", "/segment"
    response = service.send(
        "POST", "/v1/admin/certifications", by="admin", json={"segment": "north"}
    )
    assert_problem(response, *fault)
    _put(service, POLICY | {"segment_by": "site", "segments": [{"value": "south"}]})
    assert_problem(service.get("/v1/admin/breaker?segment=north", by="admin"), *fault)
    assert service.get("/v1/admin/breaker?segment=south", by="admin").json()["segment"] == "south"
