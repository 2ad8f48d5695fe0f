"""Names at every door of the HTTP API: what deceives or cannot be reached is refused."""

from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.api.test_idempotency import EVERY
from tests.api.test_one_transaction import OTHERS
from tests.kit.edge import Service, described

BAD_NAMES = (
    "..", "a\u202eb", "a\x07", "a\x7f", "a\uffff", "fe\u200dver", "\u3164", "e" + "\u0301" * 40,
)  # fmt: skip


def _outcome(service: Service, body: dict[str, Any]) -> Any:
    id_ = service.predict("0.5").json()["id"]
    return service.post(f"/v1/predictions/{id_}/outcome", by="client", json=body)


def _document(service: Service, document: dict[str, Any], **members: Any) -> Any:
    body = {"document": {"text": "0.5", **document}, **members}
    return service.post("/v1/predictions", by="client", json=body)


DOORS: dict[str, Any] = {
    "document id": lambda service, name: _document(service, {"id": name}),
    "metadata": lambda service, name: _document(service, {}, metadata={name: 1}),
    "inner metadata": lambda service, name: _document(service, {}, metadata={"a": [{name: 1}]}),
    "value of a rule": lambda service, name: service.post(
        "/v1/admin/policy/preview",
        by="lead",
        json={"rules": [{"kind": "metadata", "field": "site", "values": [name]}]},
    ),
    "outcome": lambda service, name: _outcome(service, {"labels": [name], "source": "billing"}),
    "source": lambda service, name: _outcome(service, {"labels": ["fever"], "source": name}),
    "label": lambda service, name: service.post("/v1/labels", by="lead", json={"label": name}),
    "what a label means": lambda service, name: service.post(
        "/v1/labels", by="lead", json={"label": "gout", "name": name}
    ),
    "key": lambda service, name: service.post(
        "/v1/admin/keys", by="admin", json={"name": name, "role": "client"}
    ),
    "person": lambda service, name: service.post(
        "/v1/admin/people", by="admin", json={"login": "ada", "name": name, "role": "reviewer"}
    ),
    "webhook": lambda service, name: service.post(
        "/v1/admin/webhooks",
        by="admin",
        json={"url": "https://billing.example/hooks", "description": name},
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_deceives_is_refused_at_every_door(service: Service, door: str) -> None:
    service.key("lead", Role.LEAD)
    for name in BAD_NAMES:
        response = DOORS[door](service, name)
        assert response.status_code == 422, (name, response.text)
        detail = response.json()["errors"][0]["detail"]
        assert "U+" in detail or "'..'" in detail, (name, detail)


@pytest.mark.parametrize("door", DOORS)
def test_a_name_of_another_script_is_taken_at_every_door(service: Service, door: str) -> None:
    service.key("lead", Role.LEAD)
    response = DOORS[door](service, "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645")
    faults = response.json().get("errors", [])
    assert response.status_code in {200, 201} or "U+" not in str(faults), response.text


Place = tuple[str | int, ...]
REQUESTS = {**EVERY, **OTHERS}
TEXTS = {
    "act_on_documents/reason", "add_comment/text", "change_policy/reason",
    "complete_review/comment", "predict/document/text", "predict_batch/documents/*/text",
    "predict/metadata/site", "predict_batch/documents/*/metadata/site", "reopen_document/reason",
    "skip_review/reason",
}  # fmt: skip
"""Members that people read as text, and values of metadata, which select only as segments."""

LOOKED_UP = {"act_on_documents/assignee", "erase_document/document_id"}
"""Names of what is there: an odd one finds nothing."""


def bodies() -> dict[str, list[dict[str, Any]]]:
    """Return the operations with bodies of JSON, and the documented examples of these."""
    document, found = described(), {}
    for methods in document["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            if reference := content.get("application/json", {}).get("schema", {}).get("$ref"):
                schema = document["components"]["schemas"][reference.rpartition("/")[2]]
                found[operation["operationId"]] = schema["examples"]
    return found


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Yield where the strings of a JSON value are."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in pairs:
            yield from places(inner, (*at, step))


def objects(value: object, at: Place = ()) -> Iterator[Place]:
    """Yield where the objects of a JSON value are."""
    if isinstance(value, dict | list):
        if isinstance(value, dict):
            yield at
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in pairs:
            yield from objects(inner, (*at, step))


def replaced(value: Any, at: Place, new: object) -> Any:
    value = inner = deepcopy(value)
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = new
    return value


def inside(value: Any, at: Place) -> Any:
    for step in at:
        value = value[step]
    return value


@pytest.mark.parametrize("operation", bodies())
def test_no_member_of_any_request_takes_a_name_that_deceives(
    service: Service, operation: str
) -> None:
    """Put one in the place of each string, in a request that would succeed otherwise."""
    examples, request = bodies()[operation], REQUESTS[operation](service)
    sound = request.pop("json", None) or {}
    taken = []
    for member, value in (pair for each in [sound, *examples] for pair in each.items()):
        for at in places(value, (member,)):
            place = "/".join("*" if isinstance(step, int) else step for step in at)
            if f"{operation}/{place}" in TEXTS | LOOKED_UP:
                continue
            body = replaced({**sound, member: value}, at, "a\u202eb")
            response = service.send(**{"method": "POST", **request, "json": body})
            refused = response.status_code in {404, 422} or "U+202E" in response.text
            if not refused or response.status_code >= 500:
                taken.append((place, response.status_code, response.text[:200]))
    assert not taken


FREE = {"features"}
"""Objects whose keys people do not read: words of texts, and columns of measurements."""


@pytest.mark.parametrize("operation", bodies())
def test_no_object_of_any_request_takes_a_key_that_deceives(
    service: Service, operation: str
) -> None:
    """Name a value like those beside it so, in a request that would succeed otherwise."""
    examples, request = bodies()[operation], REQUESTS[operation](service)
    sound = request.pop("json", None) or {}
    taken = []
    for member, value in (pair for each in [sound, *examples] for pair in each.items()):
        for at in objects(value, (member,)):
            if at[-1] in FREE:
                continue
            body = {**sound, member: value}
            beside = next(iter(inside(body, at).values()), 0.5)
            body = replaced(body, at, {**inside(body, at), "a\u202eb": beside})
            response = service.send(**{"method": "POST", **request, "json": body})
            if response.status_code != 422 and "U+202E" not in response.text:
                taken.append((at, response.status_code, response.text[:200]))
    assert not taken


NEGATED = {"without_label", "without_final_label"}
"""Filters by which a document is found for what it has not."""


def queries() -> dict[str, list[str]]:
    """Return the query parameters of the OpenAPI document, by path."""
    found: dict[str, list[str]] = {}
    for path, methods in described()["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] not in NEGATED:
                found.setdefault(path, []).append(parameter["name"])
    return found


@pytest.mark.parametrize("path", queries())
def test_no_query_finds_anything_by_a_name_that_deceives(service: Service, path: str) -> None:
    service.predict("0.4")
    address = path.format_map(defaultdict(lambda: "x"))
    for parameter in queries()[path]:
        for name in BAD_NAMES:
            response = service.get(address, by="admin", params={parameter: name})
            assert response.status_code in {200, 403, 404, 422}, (parameter, name, response.text)
            assert "note 0.4" not in response.text, (parameter, name)
