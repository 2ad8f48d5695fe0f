"""Predicting over HTTP, and reading what was predicted."""

import asyncio
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic_core import to_json
from starlette.types import Message

from setwise.service.domain.documents import ShownPrediction
from setwise.service.domain.predictions import Document
from tests.fakes import FakePredictors
from tests.kit.edge import Service, assert_problem, described
from tests.samples import prediction

UNKNOWN_ID = "019b7a0b-0000-7000-8000-00000000ffff"


def test_a_prediction_is_created_with_its_address(service: Service) -> None:
    service.fix_threshold(0.9)
    response = service.predict("0.93")
    assert response.status_code == 201
    body = response.json()
    assert response.headers["location"] == f"/v1/predictions/{body['id']}"
    assert response.headers["cache-control"] == "no-store"
    policy = service.get("/v1/admin/policy", by="admin").json()
    assert body == {
        "id": body["id"],
        "document_id": "note 0.93",
        "labels": ["a", "b"],
        "confidence": 0.93,
        "decision": "auto",
        "reason": "above_threshold",
        "threshold": 0.9,
        "rule": None,
        "earlier_versions": 0,
        "segment": None,
        "candidates": [
            {"labels": ["a", "b"], "confidence": 0.93, "score": 0.465},
            {"labels": ["a"], "confidence": 0.11625, "score": 0.1},
            {"labels": [], "confidence": 0.0, "score": 1e-12},
        ],
        "marginals": [
            {"label": "a", "probability": 0.98},
            {"label": "b", "probability": 0.7},
            {"label": "old-code", "probability": 0.125},
        ],
        "model_version": "sha256:model",
        "calibrator_version": "sha256:calibrator",
        "policy_version": policy["version"],
        "created_at": "2026-01-02T03:04:05.678901Z",
    }
    assert service.get(response.headers["location"], by="client").json() == body


def test_without_a_model_a_document_is_taken_for_a_person_to_read(service: Service) -> None:
    service.predictors.predictor = None
    response = service.predict("Fever and cough.")
    assert response.status_code == 201
    body = response.json()
    nothing = ("labels", "confidence", "threshold", "model_version", "calibrator_version")
    assert [body[member] for member in nothing] == [None] * len(nothing)
    assert (body["decision"], body["reason"]) == ("review", "no_model")
    assert (body["candidates"], body["marginals"]) == ([], [])
    assert service.get(response.headers["location"], by="client").json() == body
    batch = service.post(
        "/v1/predictions/batch", by="client", json={"documents": [{"text": "Cough."}, {"text": ""}]}
    ).json()
    assert [item.get("reason") for item in batch["items"]] == ["no_model", None]
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    assert (task["reason"], task["candidates"], task["marginals"]) == ("no_model", [], [])


def _document(**members: Any) -> dict[str, Any]:
    return {"document": members}


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/document"]),
        ([], [""]),
        ("text", [""]),
        (None, [""]),
        ({"document": None}, ["/document"]),
        ({"document": "text"}, ["/document"]),
        ({"document": {"text": "x"}, "colour": 1}, ["/colour"]),
        (_document(text="x", colour=1), ["/document/colour"]),
        (_document(text=5), ["/document/text"]),
        (_document(text=["x"]), ["/document/text"]),
        (_document(text=True), ["/document/text"]),
        (_document(text="x", id=17), ["/document/id"]),
        (_document(), ["/document"]),
        (_document(features=[1]), ["/document/features"]),
        (_document(features={"f": "1"}), ["/document/features/f"]),
        (_document(features={"f": 1e39}), ["/document/features/f"]),
        (_document(features={"f": 10**400}), ["/document/features/f"]),
        (_document(features={"a/b~c": "1"}), ["/document/features/a~1b~0c"]),
        (_document(text="x", scores={"a": "high"}), ["/document/scores/a"]),
        (_document(text="x", scores=["a"]), ["/document/scores"]),
        (_document(candidates=[{"labels": []}], labels=["a"]), ["/document/candidates"]),
        (_document(candidates=[{"score": 1}]), ["/document/candidates/0/labels"]),
        (
            _document(candidates=[{"labels": ["a"], "score": 10**400}]),
            ["/document/candidates/0/score"],
        ),
        (_document(candidates=[{"labels": ["a"], "why": "x"}]), ["/document/candidates/0/why"]),
        (_document(labels="a"), ["/document/labels"]),
        (_document(text="x", labels=["a"]), ["/document/labels"]),  # the model reads text
        ({"document": {"text": "x"}, "metadata": None}, ["/metadata"]),
        ({"document": {"text": "x"}, "metadata": [1]}, ["/metadata"]),
        ({"document": {"text": "x"}, "metadata": {"a": "\x00"}}, ["/metadata/a"]),
        ({"document": {"text": "x"}, "priority": 3}, ["/priority"]),
        ({"document": {"text": "x"}, "priority": -1}, ["/priority"]),
        ({"document": {"text": "x"}, "priority": "urgent"}, ["/priority"]),
        ({"document": {"text": "x"}, "priority": True}, ["/priority"]),
        ({"document": {"text": "x"}, "priority": None}, ["/priority"]),
        ({"document": {"text": "x", "priority": 1}}, ["/document/priority"]),
    ],
)
def test_a_bad_body_is_refused_with_a_pointer_to_each_fault(
    service: Service, body: Any, pointers: list[str]
) -> None:
    response = service.post("/v1/predictions", by="client", json=body)
    assert_problem(response, 422, "invalid-request", *pointers)
    assert service.database.contents.predictions == {}


def test_an_infinite_number_in_metadata_is_refused(service: Service) -> None:
    response = service.post(
        "/v1/predictions",
        by="client",
        content='{"document": {"text": "x"}, "metadata": {"m": 1e999}}',
        headers={"Content-Type": "application/json"},
    )
    assert_problem(response, 422, "invalid-request", "/metadata/m")


def test_control_characters_other_than_nul_are_kept(service: Service) -> None:
    document = {"id": "note", "text": "a\x01\x1b[31m\u2028b"}
    response = service.post("/v1/predictions", by="client", json={"document": document})
    assert response.status_code == 201
    prediction = service.database.contents.predictions[response.json()["id"]]
    assert prediction.document.text == "a\x01\x1b[31m\u2028b"


def test_a_problem_lists_a_bounded_number_of_faults(service: Service) -> None:
    body = _document(features={f"f{i}": None for i in range(1_000)})
    response = service.post("/v1/predictions", by="client", json=body)
    assert len(response.json()["errors"]) == 50


def test_the_same_idempotency_key_and_body_give_the_same_prediction(service: Service) -> None:
    headers = {"Idempotency-Key": "order-1"}
    first = service.post(
        "/v1/predictions",
        by="client",
        headers=headers,
        json={"document": {"id": "d", "text": "x"}, "metadata": {"a": 1, "b": 2}},
    )
    # The same request, written in another order.
    again = service.post(
        "/v1/predictions",
        by="client",
        headers=headers | {"Content-Type": "application/json"},
        content='{"metadata":{"b":2,"a":1},"document":{"text":"x","id":"d"}}',
    )
    assert again.status_code == 201
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert len(service.database.contents.predictions) == 1
    assert len(service.database.contents.reviews) == 1


def test_what_a_body_means_has_one_digest_whatever_the_release(service: Service) -> None:
    """A request that is repeated while servers are upgraded is known to the new ones."""
    headers = {"Idempotency-Key": "order-1"}
    for body in ({"document": {"text": "x", "features": None}}, {"document": {"text": "x"}}):
        answer = service.post("/v1/predictions", by="client", headers=headers, json=body)
        assert answer.status_code == 201
    assert len(service.database.contents.predictions) == 1
    content = b'{"document":{"text":"x"}}'  # without optional members, which a release may add
    ((_, digest),) = service.database.contents.idempotency.values()
    assert digest == service.services.idempotency.digest(content).hexdigest()


def test_a_list_is_filtered(service: Service) -> None:
    service.fix_threshold(0.5)
    for text in ("0.4", "0.6", "0.7"):
        service.predict(text)
        service.clock.advance(minutes=1)

    def found(**query: str) -> list[str]:
        response = service.send("GET", "/v1/predictions", by="client", params=query)
        return [item["document_id"] for item in response.json()["items"]]

    assert found(decision="auto") == ["note 0.7", "note 0.6"]
    assert found(document_id="note 0.4") == ["note 0.4"]
    assert found(created_from="2026-01-02T03:05:05.678901Z") == ["note 0.7", "note 0.6"]
    assert found(created_before="2026-01-02T04:05:05.678901+01:00") == ["note 0.4"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=201", "/query/limit"),
        ("limit=ten", "/query/limit"),
        ("decision=maybe", "/query/decision"),
        ("created_from=yesterday", "/query/created_from"),
        ("created_from=2026-01-02T03:04:05", "/query/created_from"),
        ("colour=red", "/query/colour"),
    ],
)
def test_a_bad_query_is_refused(service: Service, query: str, pointer: str) -> None:
    response = service.get(f"/v1/predictions?{query}", by="client")
    assert_problem(response, 422, "invalid-request", pointer)


@pytest.mark.parametrize("cursor", ["x", "AAAA", "%00", "ä", "A" * 400, UNKNOWN_ID])
def test_a_forged_cursor_is_refused(service: Service, cursor: str) -> None:
    response = service.get(f"/v1/predictions?cursor={cursor}", by="client")
    assert_problem(response, 422, "invalid-request", "/query/cursor")


def test_a_cursor_belongs_to_its_list_and_filters(service: Service) -> None:
    for text in ("0.1", "0.2", "0.3"):
        service.predict(text)
    cursor = service.get("/v1/predictions?limit=1", by="client").json()["next_cursor"]
    other_filter = service.get(f"/v1/predictions?decision=auto&cursor={cursor}", by="client")
    assert_problem(other_filter, 422, "invalid-request", "/query/cursor")
    other_list = service.get(f"/v1/reviews?cursor={cursor}", by="reviewer")
    assert_problem(other_list, 422, "invalid-request", "/query/cursor")
    assert service.get(f"/v1/predictions?limit=2&cursor={cursor}", by="client").status_code == 200


def test_a_model_that_fails_is_a_bare_500(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def active(self) -> Any:
            raise RuntimeError("secret: note 0.5")

    object.__setattr__(service.services.predictions, "predictors", Broken())
    response = service.predict(headers={"X-Request-ID": "trace-7"})
    problem = assert_problem(response, 500, "internal-error")
    assert "trace-7" in problem["detail"]
    assert "secret" not in json.dumps(problem)
    assert response.headers["x-request-id"] == "trace-7"
    object.__setattr__(service.services.predictions, "predictors", FakePredictors())
    assert service.predict().status_code == 201


def test_the_answer_is_what_its_schema_describes() -> None:
    every = "".join(map(chr, range(0x2100))) + "\U0001f600"  # marks, controls, quotes and slashes
    for new_prediction in (
        prediction(confidence=0.25),
        prediction(document=Document(text="no name")),
        prediction(document=Document(id=every, text="odd name")),
    ):
        content = to_json(ShownPrediction.of(new_prediction))
        parts = described()["components"]
        schema = {"$ref": "#/components/schemas/Prediction", "components": parts}
        Draft202012Validator(schema).validate(json.loads(content))


@pytest.mark.parametrize("address", ["/v1/predictions", "/v1/predictions/batch"])
def test_a_body_that_breaks_off_is_never_predicted(service: Service, address: str) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"document": {"te', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_: Message) -> None:
        pass

    key = service.secrets["client"].encode()
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": address,
        "raw_path": address.encode(),
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + key), (b"content-type", b"application/json")],
    }
    asyncio.run(service.app(scope, receive, send))
    assert not service.database.contents.predictions
