"""The OpenAPI document, with the problems that each route can return.

A route names the problems that are specific to it (`documented`). `describe` adds those that follow
from its form: whether it takes a key, a body or parameters.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from setwise.service.api.http.idempotency import HEADER
from setwise.service.api.http.openapi_answers import (
    HEADERS,
    Json,
    add_condition,
    add_link,
    add_rate_limit,
    add_replays,
    open_answers,
)
from setwise.service.api.http.problem_kinds import (
    BODY_TOO_LARGE,
    BODY_TOO_SLOW,
    INTERNAL_ERROR,
    MALFORMED_JSON,
    PROBLEMS,
    UNSUPPORTED_MEDIA_TYPE,
    ProblemKind,
)
from setwise.service.api.http.problems import MEDIA_TYPE, Problem
from setwise.service.api.views import View, meanings
from setwise.service.domain import errors
from setwise.service.services.predictions import LONGEST_IDEMPOTENCY_KEY
from setwise.shown import Shown

Fault = type[errors.ServiceError] | ProblemKind
Kind = TypeVar("Kind")

_WITH_KEY = (
    errors.Unauthenticated,
    errors.KeyExpired,
    errors.Forbidden,
    errors.TooManyRequests,
    errors.StorageUnavailable,
    errors.StorageDamaged,
)
_WITH_BODY = (
    BODY_TOO_LARGE,
    BODY_TOO_SLOW,
    UNSUPPORTED_MEDIA_TYPE,
    MALFORMED_JSON,
    errors.InvalidRequest,
)
_AFFIXES = re.compile(r"\bShown(?=[A-Z])|\b([A-Z]\w*?)Body(?![a-z])")
"""What shows a value of the domain begins with Shown or ends in Body, so that a name is one class;
the document leaves both out.
"""

_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")

_KEY: Json = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": LONGEST_IDEMPOTENCY_KEY},
    "description": "Your name for this request. Sent again within a day, it gets the first "
    "response, with `Idempotent-Replayed: true`, and has no second effect.",
}


TAGS = [
    {"name": name, "description": meaning}
    for name, meaning in (
        ("predictions", "Send documents, read what was predicted, report what was right."),
        ("jobs", "Send a file of documents, follow a job, fetch its result."),
        ("webhooks", "Receive what was sent automatically and what people decided."),
        ("exports", "Read predictions, annotations and outcomes as a file."),
        ("documents", "Find documents, read their history, comment on them, decide them again."),
        ("reviews", "Work on the review queue; search labels."),
        ("reports", "The figures of the cockpit."),
        ("administration", "Policy, models, calibrators, certificates, the breaker and groups."),
        ("access", "People, keys, the audit trail and erasure."),
        ("operation", "Whether the service is alive and ready, and its metrics."),
    )
]
"""Groups of calls, in the order in which an integrator needs them."""


def documented(*faults: Fault) -> dict[int | str, Json]:
    """Return the ``responses`` of a route that can return these problems."""
    responses: dict[int | str, Json] = {}
    for fault in faults:
        _add(responses, fault)
        if fault is errors.ModelUnavailable:
            for reason in errors.ModelUnavailable.__subclasses__():
                _add(responses, reason)
    return responses


def describe(app: FastAPI) -> Json:
    """Return the OpenAPI document of an application, built once."""
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title,
            version=app.version,
            summary="Label sets with a calibrated confidence: send the sure ones, review the rest.",
            description=(
                "Every error is `application/problem+json` (RFC 9457); its `type` is an address "
                "here that explains it. Unknown members are refused. Times are UTC (RFC 3339), ids "
                "are UUIDv7 strings, lists are paged by opaque cursors."
            ),
            routes=app.routes,
            servers=app.servers or [{"url": "/"}],
            license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            tags=TAGS,
            webhooks=app.webhooks.routes,
        )
        document: Json = json.loads(_AFFIXES.sub(r"\1", json.dumps(described)))
        for operations in document["paths"].values():
            for method, operation in operations.items():
                _complete(operation, method)
        parts = document["components"]["schemas"]
        for name in _FRAMEWORKS_OWN:
            parts.pop(name, None)
        parts |= _problem_schemas()
        _describe_values(parts)
        _describe_members(document)
        document["components"]["headers"] = HEADERS
        open_answers(document)
        for name, examples in _recorded_examples().items():
            if name in parts:  # a class has a new name until they are recorded again
                parts[name]["examples"] = examples
        app.openapi_schema = document
    return app.openapi_schema


def _describe_values(parts: Json) -> None:
    """Describe members by the docstrings of the values that answers show."""
    described: list[tuple[type, dict[str, str]]]
    described = [(kind, meanings(kind)) for kind in _kinds_of(Shown)]
    for view in _kinds_of(View):
        said = meanings(view.value_class)
        described.append((view, {name: said[name] for name in view.alike & said.keys()}))
    for kind, said in described:
        name = _AFFIXES.sub(r"\1", kind.__name__)
        for part in (name, f"{name}-Input", f"{name}-Output"):
            for member, schema in parts.get(part, {}).get("properties", {}).items():
                if said.get(member):
                    schema.setdefault("description", said[member])


def _kinds_of(base: type[Kind]) -> Iterator[type[Kind]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


def _describe_members(document: Json) -> None:
    """Describe members and parameters of which nothing is said yet, by their name."""
    meanings = tomllib.loads(files(__package__).joinpath("members.toml").read_text("utf-8"))
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                meaning = meanings.get(f"{parameter['in']}.{name}") or meanings.get(name)
                if meaning is not None:
                    parameter.setdefault("description", meaning)
    for name, part in document["components"]["schemas"].items():
        for member, schema in part.get("properties", {}).items():
            meaning = meanings.get(f"{name}.{member}") or meanings.get(member)
            if meaning is not None:
                schema.setdefault("description", meaning)


def _recorded_examples() -> dict[str, list[Json]]:
    """Return what a journey through the API sent and received, by the name of its schema."""
    examples: dict[str, list[Json]] = json.loads(
        files(__package__).joinpath("examples.json").read_text("utf-8")
    )
    return examples


def _complete(operation: Json, method: str) -> None:
    """Add the problems that follow from an operation's form, and its idempotency key."""
    own_key = any(parameter["name"] == HEADER for parameter in operation.get("parameters", []))
    if method == "post" and not own_key:
        operation.setdefault("parameters", []).append(_KEY)
    responses: Json = {
        status: response
        for status, response in operation["responses"].items()
        if not _is_frameworks_own(response)
    }
    if "428" in responses:  # without the header the answer is 428, not 422
        for parameter in operation["parameters"]:
            if parameter["name"] == "if-match":
                parameter |= {"required": True, "schema": {"type": "string"}}
    for fault in _of_form(operation, changes=method != "get"):
        _add(responses, fault)
    if method == "post":
        _add(responses, errors.IdempotencyMismatch)
        add_replays(responses)
        if not own_key:
            _add(responses, errors.RequestUnfinished)
    operation["responses"] = {str(status): response for status, response in responses.items()}
    if method == "get":
        add_condition(operation)
        add_link(operation)
    responses = operation["responses"]
    if "security" in operation:
        add_rate_limit(responses)
    operation.setdefault("security", [])  # open to anybody
    operation["responses"] = {status: responses[status] for status in sorted(responses)}


def _of_form(operation: Json, *, changes: bool) -> Iterator[Fault]:
    if "security" in operation:
        yield from _WITH_KEY
        if changes:
            yield errors.ForgedRequest
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        yield from _WITH_BODY
    elif "parameters" in operation:
        yield errors.InvalidRequest
    yield INTERNAL_ERROR


def _is_frameworks_own(response: Mapping[str, Any]) -> bool:
    """Return whether FastAPI added this response; our problem replaces it."""
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).endswith("/HTTPValidationError")


def _add(responses: dict[Any, Json], fault: Fault) -> None:
    """Add a problem to the responses of its status.

    Keys are numbers in routes and strings in a document.
    """
    kind = fault if isinstance(fault, ProblemKind) else PROBLEMS[fault]
    status = int(kind.status) if int(kind.status) in responses else str(int(kind.status))
    response = responses.setdefault(
        status,
        {
            "description": "",
            "content": {
                MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
            },
        },
    )
    examples = response["content"][MEDIA_TYPE]["examples"]
    if kind.slug in examples:
        return
    response["description"] = "; ".join(filter(None, [response["description"], kind.title]))
    examples[kind.slug] = {
        "summary": kind.title,
        "value": {
            "type": kind.type,
            "title": kind.title,
            "status": int(kind.status),
            "detail": kind.meaning,
            "instance": "/v1/…",
            "request_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
        },
    }
    if kind.headers:
        response.setdefault("headers", {}).update(
            {name: {"schema": {"type": "string"}} for name in kind.headers}
        )


def _problem_schemas() -> Json:
    schema = Problem.model_json_schema(
        ref_template="#/components/schemas/{model}", mode="serialization"
    )
    parts: Json = schema.pop("$defs")
    return {**parts, "Problem": schema}
