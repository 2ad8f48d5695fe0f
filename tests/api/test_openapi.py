"""The OpenAPI document: complete, and true."""

import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from setwise.service import api
from setwise.service.api import http as openapi
from setwise.service.api.http.problem_kinds import ALL_KINDS
from setwise.service.domain.webhooks import SUBSCRIBABLE
from setwise.shown import Shown
from tests.api.example_recorder import FILE, written
from tests.api.examples_journey import journey
from tests.kit.edge import described

DOCUMENT = described()
METHODS = {"get", "put", "post", "delete", "patch"}


def _operations() -> Iterator[Any]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            assert method in METHODS
            yield pytest.param(path, operation, id=f"{method} {path}")


def _validator(schema: dict[str, Any]) -> Draft202012Validator:
    whole = {**schema, "components": DOCUMENT["components"]}
    return Draft202012Validator(whole)


def test_the_document_is_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    assert DOCUMENT["info"]["version"]


def test_every_reference_leads_somewhere() -> None:
    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    names = {tuple(reference.split("/")[2:]) for reference in references(DOCUMENT)}
    assert {kind for kind, _ in names} == {"schemas", "headers"}
    for kind, name in names:
        assert name in DOCUMENT["components"][kind]


def test_every_schema_is_one() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "name", sorted(n for n, s in DOCUMENT["components"]["schemas"].items() if "examples" in s)
)
def test_every_example_of_a_schema_is_valid(name: str) -> None:
    schema = DOCUMENT["components"]["schemas"][name]
    for example in schema["examples"]:
        _validator(schema).validate(example)


MESSAGES = [(kind, path["post"]) for kind, path in DOCUMENT["webhooks"].items()]


@pytest.mark.parametrize(("path", "operation"), [*_operations(), *MESSAGES])
def test_every_body_has_an_example(path: str, operation: dict[str, Any]) -> None:
    bodies = [operation.get("requestBody"), *operation["responses"].values()]
    for body in filter(None, bodies):
        for media_type, content in body.get("content", {}).items():
            if media_type != "application/json":
                continue
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert "examples" in DOCUMENT["components"]["schemas"][name], name


def test_the_examples_are_what_the_service_answers_now() -> None:
    clinic = journey()
    stale = written(clinic.examples) != FILE.read_text("utf-8")
    assert not stale, "record them again: python -m tests.api.examples_journey"
    assert clinic.called == {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }


@pytest.mark.parametrize(("path", "operation"), list(_operations()))
def test_every_problem_shown_is_valid_and_known(path: str, operation: dict[str, Any]) -> None:
    by_slug = {kind.slug: kind for kind in ALL_KINDS}
    for status, response in operation["responses"].items():
        if status < "400":
            continue
        (content,) = response["content"].items()
        media_type, body = content
        assert media_type == "application/problem+json"
        assert body["examples"]
        for slug, example in body["examples"].items():
            assert str(int(by_slug[slug].status)) == status
            _validator(body["schema"]).validate(example["value"])


def test_every_call_with_a_key_says_what_may_become_of_the_key() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if not operation["security"]:
                continue
            slugs = {
                slug
                for response in operation["responses"].values()
                for content in response.get("content", {}).values()
                for slug in content.get("examples", {})
            }
            assert {"unauthenticated", "key-expired", "too-many-requests"} <= slugs, path
            assert ("forged-request" in slugs) == (method != "get"), path


@pytest.mark.parametrize(("path", "operation"), list(_operations()))
def test_every_call_says_what_can_go_wrong(path: str, operation: dict[str, Any]) -> None:
    statuses = set(operation["responses"])
    assert "500" in statuses
    assert operation["description"]
    assert operation["tags"]
    if path.startswith("/v1"):
        assert operation["security"] == [{"key": []}]
        assert {"401", "403", "503"} <= statuses
    if "requestBody" in operation:
        assert {"413", "415", "422"} <= statuses
    if any(one["name"] != "if-none-match" for one in operation.get("parameters", [])):
        assert "422" in statuses


def test_what_gives_a_version_takes_it_back() -> None:
    for path, operations in DOCUMENT["paths"].items():
        read = operations.get("get", {"responses": {}})
        tagged = "ETag" in read["responses"].get("200", {}).get("headers", {})
        assert tagged is ("304" in read["responses"]), path
        assert tagged is any(one["name"] == "if-none-match" for one in read.get("parameters", []))


def test_every_answer_that_a_key_repeats_says_so() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for status, response in operations.get("post", {"responses": {}})["responses"].items():
            marked = "Idempotent-Replayed" in response.get("headers", {})
            assert marked is (status < "300"), (path, status)


def test_files_are_described_with_their_names_and_kinds() -> None:
    for path in ("/v1/exports/{what}", "/v1/jobs/{job_id}/result"):
        answer = DOCUMENT["paths"][path]["get"]["responses"]["200"]
        assert set(answer["content"]) == {"application/x-ndjson", "text/csv"}
        assert "Content-Disposition" in answer["headers"]


def test_no_two_schemas_share_a_name() -> None:
    assert [name for name in DOCUMENT["components"]["schemas"] if "__" in name] == []


def test_no_schema_stops_the_compiler_of_a_generated_client() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    # Generators keep their own code below these names.
    assert {"Api", "Client", "Model", "Models"}.isdisjoint(schemas)
    # An enumeration whose members are booleans is no enumeration in C# and Java.
    constants = [part["const"] for part in _parts(schemas) if "const" in part]
    assert not [value for value in constants if isinstance(value, bool)]


def test_operation_ids_are_unique() -> None:
    ids = [
        operation["operationId"] for ops in DOCUMENT["paths"].values() for operation in ops.values()
    ]
    assert len(set(ids)) == len(ids)


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    """Walk through a part of the document and all schemas that it refers to."""
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        match waiting.pop():
            case dict() as part:
                yield part
                waiting += [value for key, value in part.items() if key != "examples"]
                name = str(part.get("$ref", "")).removeprefix("#/components/schemas/")
                if name in DOCUMENT["components"]["schemas"] and name not in seen:
                    seen.add(name)
                    waiting.append(DOCUMENT["components"]["schemas"][name])
            case list() as parts:
                waiting += parts


@pytest.mark.parametrize(("path", "operation"), list(_operations()))
def test_answers_are_open_and_requests_are_closed(path: str, operation: dict[str, Any]) -> None:
    for part in _parts(operation["responses"]):
        assert part.get("additionalProperties") is not False, path
        assert "enum" not in part, path
    for part in _parts(operation.get("requestBody")):
        if part.get("type") == "object" and "properties" in part:
            assert part["additionalProperties"] is False, part["title"]


def test_messages_are_open() -> None:
    for path in DOCUMENT["webhooks"].values():
        for part in _parts(path["post"]["requestBody"]):
            assert part.get("additionalProperties") is not False
            assert "enum" not in part


def test_every_list_names_its_next_page_in_one_way() -> None:
    pages = [one for one in DOCUMENT["components"]["schemas"].values() if _is_page(one)]
    assert len(pages) > 10
    for page in pages:
        types = page["properties"]["next_cursor"]["anyOf"]
        assert types == [{"type": "string"}, {"type": "null"}], page["title"]


def _is_page(schema: dict[str, Any]) -> bool:
    return "next_cursor" in schema.get("properties", {})


@pytest.mark.parametrize(("path", "operation"), list(_operations()))
def test_a_version_is_required_where_its_absence_is_a_problem(
    path: str, operation: dict[str, Any]
) -> None:
    names = {one["name"] for one in operation.get("parameters", []) if one["required"]}
    assert ("if-match" in names) == ("428" in operation["responses"]), path


@pytest.mark.parametrize(("path", "operation"), list(_operations()))
def test_every_limited_answer_documents_the_limit(path: str, operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        limited = bool(operation["security"]) and status != "401"
        assert ("RateLimit" in response.get("headers", {})) == limited, path


def _values(shape: Any, seen: set[Any]) -> Iterator[type]:
    """Yield the dataclasses in what a route answers."""
    for part in get_args(shape):
        yield from _values(part, seen)
    if not isinstance(shape, type) or shape in seen:
        return
    seen.add(shape)
    if is_dataclass(shape):
        yield shape
    if is_dataclass(shape) or issubclass(shape, BaseModel):
        for member in get_type_hints(shape).values():
            yield from _values(member, seen)


def test_only_values_that_may_leave_are_in_answers() -> None:
    modules = [
        import_module(part.name) for part in iter_modules(api.__path__, "setwise.service.api.")
    ]
    routers = [module.router for module in modules if hasattr(module, "router")]
    seen: set[Any] = set()
    values = [
        value
        for router in routers
        for route in router.routes
        for value in _values(route.response_model, seen)
    ]
    assert values
    assert [value for value in values if not issubclass(value, Shown)] == []


def test_every_member_is_described() -> None:
    bare = [
        f"{name}.{member}"
        for name, part in DOCUMENT["components"]["schemas"].items()
        for member, schema in part.get("properties", {}).items()
        if not schema.get("description")
    ]
    assert not bare


def parameters() -> list[dict[str, Any]]:
    operations = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    return [each for operation in operations for each in operation.get("parameters", ())]


def test_every_parameter_is_described() -> None:
    assert not {each["name"] for each in parameters() if not each.get("description")}


def test_every_description_of_a_member_describes_one() -> None:
    meanings = tomllib.loads(files(openapi).joinpath("members.toml").read_text("utf-8"))
    schemas = DOCUMENT["components"]["schemas"]
    members = {member for part in schemas.values() for member in part.get("properties", ())}
    full = {
        f"{name}.{member}"
        for name, part in schemas.items()
        for member in part.get("properties", ())
    }
    asked = {f"{each['in']}.{each['name']}" for each in parameters()}
    assert not meanings.keys() - members - full - asked


def test_an_optional_member_of_a_request_has_no_default() -> None:
    """Generators for TypeScript would demand it."""
    schemas = DOCUMENT["components"]["schemas"]
    for path, operation in _plain_operations():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        waiting, seen = [body.get("schema", {})], set()
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                name = str(node.get("$ref", "")).rpartition("/")[2]
                if name in schemas and name not in seen:
                    seen.add(name)
                    waiting.append(schemas[name])
                assert not any("default" in each for each in node.get("properties", {}).values()), (
                    path,
                    name,
                )
                waiting += [
                    value for key, value in node.items() if key not in {"examples", "default"}
                ]


def _plain_operations() -> Iterator[tuple[str, Any]]:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            yield path, operation


def test_the_document_says_who_serves_it_under_which_licence_and_what_is_open() -> None:
    assert DOCUMENT["servers"] == [{"url": "/"}]
    assert "contact" not in DOCUMENT["info"], "whom to ask depends on who operates it"
    assert DOCUMENT["info"]["license"]["identifier"] == "Apache-2.0"
    open_to_all = {path for path, operation in _plain_operations() if operation["security"] == []}
    assert open_to_all == {"/healthz", "/readyz", "/readyz/predictions", "/metrics"}


def test_messages_are_told_apart_by_their_type() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    payload = schemas["DeliveryWithLog"]["properties"]["payload"]
    bodies = [_sent_body(operation)["$ref"] for _, operation in MESSAGES]
    assert sorted(choice["$ref"] for choice in payload["oneOf"]) == sorted(bodies)
    items = schemas["MessagePage"]["properties"]["items"]["items"]
    for union in (payload, items):
        assert union["discriminator"]["propertyName"] == "type"
        assert union["discriminator"]["mapping"].keys() == DOCUMENT["webhooks"].keys()
        assert len(union["oneOf"]) == len(DOCUMENT["webhooks"])
    assert DOCUMENT["webhooks"].keys() == {*(kind.value for kind in SUBSCRIBABLE), "webhook.test"}


def test_every_operation_states_its_security() -> None:
    """Linters take one without it for forgotten."""
    for name, operation in [*_plain_operations(), *MESSAGES]:
        assert "security" in operation, name


def _sent_body(operation: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema
