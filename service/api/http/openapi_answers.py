"""What the OpenAPI document says of answers: open schemas, and their headers.

Requests are closed: an unknown member is a fault. Answers are open: a later release may add members
and values, and clients generated from this release ignore them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
"""A part of the document (Any: JSON values of every shape)."""

_REF = "#/components/schemas/"

HEADERS: Json = {
    "Content-Disposition": {
        "description": "A name for the file.",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "The version of what was answered, for `If-Match` and `If-None-Match`.",
        "schema": {"type": "string"},
    },
    "Idempotent-Replayed": {
        "description": "`true` if this is the response to an earlier request with the same "
        "`Idempotency-Key`; absent otherwise.",
        "schema": {"type": "string"},
    },
    "Link": {
        "description": 'The next page, relative to this one, as `rel="next"` (RFC 8288); absent '
        "on the last one.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "The address of what was created.",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "What is left of the key's limit (`r`), and the seconds until it is whole "
        'again (`t`): `"key";r=99;t=1`. Absent for keys and people without a limit.',
        "schema": {"type": "string"},
    },
    "RateLimit-Policy": {
        "description": 'The key\'s limit (`q`) in a window of seconds (`w`): `"key";q=100;w=60`.',
        "schema": {"type": "string"},
    },
}


def answering(*names: str, status: int = 200) -> dict[int | str, Json]:
    """Return the ``responses`` of a route whose success has these headers."""
    return {status: {"headers": headers(*names)}}


def headers(*names: str) -> Json:
    """Return the ``headers`` of a response."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def add_rate_limit(responses: Json) -> None:
    """Add the headers of the limit to all responses after the key is known."""
    for status, response in responses.items():
        if str(status) != "401":
            with_headers = headers("RateLimit", "RateLimit-Policy")
            response["headers"] = {**response.get("headers", {}), **with_headers}


def add_replays(responses: Json) -> None:
    """Add the mark of a repeated response to those that a key repeats."""
    for status, response in responses.items():
        if str(status).startswith("2"):
            response["headers"] = {**response.get("headers", {}), **headers("Idempotent-Replayed")}


def add_condition(operation: Json) -> None:
    """Add ``If-None-Match``, and what it gets, to an operation that gives an ETag."""
    if "ETag" in operation["responses"]["200"].get("headers", {}):
        operation.setdefault("parameters", []).append(
            {
                "name": "if-none-match",
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "An `ETag`, a list of them, or `*`: what you have already.",
            }
        )
        operation["responses"]["304"] = {
            "description": "You have the current version.",
            "headers": headers("ETag"),
        }


def add_link(operation: Json) -> None:
    """Add the link to the next page to an operation that takes a cursor."""
    if any(parameter["name"] == "cursor" for parameter in operation.get("parameters", ())):
        response = operation["responses"]["200"]
        response["headers"] = {**response.get("headers", {}), **headers("Link")}


def open_answers(document: Json) -> None:
    """Allow members and values of later releases in every answer and message.

    A schema that requests use too is split: ``Threshold`` is closed, ``ThresholdAnswer`` open.
    Lists of values stand where they are used: names of values collide in Go.
    """
    parts: dict[str, Json] = document["components"]["schemas"]
    enums = {name: parts.pop(name) for name, part in list(parts.items()) if "enum" in part}
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    messages = [
        message for path in document.get("webhooks", {}).values() for message in path.values()
    ]
    questions = [
        [operation.get("requestBody"), operation.get("parameters")] for operation in operations
    ]
    asked = _reachable(parts, questions)
    answered = _reachable(parts, [operation["responses"] for operation in operations] + messages)
    renamed = {
        name: f"{name}Answer"
        for name in answered & asked
        if parts[name].get("additionalProperties") is False
    }
    for name in asked:
        _state_defaults(parts[name])
    for name in answered - asked:
        for member in parts[name].get("properties", {}).values():
            _state_plainly(member)
    opened, closed = _Writer(enums, renamed, closed=False), _Writer(enums, {}, closed=True)
    for name, part in list(parts.items()):
        if name in renamed:
            parts[renamed[name]] = {**opened.write(part), "title": renamed[name]}
        parts[name] = (closed if name in asked else opened).write(part)
    for operation in operations:
        for member, value in operation.items():
            operation[member] = (opened if member == "responses" else closed).write(value)
    for message in messages:
        message["requestBody"] = opened.write(message["requestBody"])


def _state_defaults(part: Json) -> None:
    """Change the optional members of a request: their defaults become sentences.

    Generators for TypeScript take a member with a default as always there, and demand it.
    """
    for member in part.get("properties", {}).values():
        value = member.pop("default", None)
        if value not in (None, [], {}):
            default = f"`{json.dumps(value)}` by default."
            member["description"] = f"{member.get('description', '')} {default}".strip()


def _state_plainly(member: Json) -> None:
    """Change a member of an answer, described by a docstring of our code, for readers of the API.

    An answer has every member, so its default says nothing.
    """
    member.pop("default", None)
    if "description" in member:
        member["description"] = " ".join(member["description"].replace("``", "`").split())


def _reachable(parts: Mapping[str, Json], roots: Iterable[object]) -> set[str]:
    reached: set[str] = set()
    waiting = [name for root in roots for name in _references(root)]
    while waiting:
        name = waiting.pop()
        if name in parts and name not in reached:
            reached.add(name)
            waiting += _references(parts[name])
    return reached


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_REF):
            yield reference.removeprefix(_REF)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


@dataclass(frozen=True)
class _Writer:
    """Writes parts of the document, closed as they are or open."""

    enums: Mapping[str, Json]
    """Lists of values by the name of their schema."""
    renamed: Mapping[str, str]
    """The open schema in place of a closed one."""
    closed: bool

    def write(self, node: Any) -> Any:  # noqa: ANN401 -- JSON values of every shape
        """Return a part as it stands in the document."""
        if isinstance(node, list):
            return [self.write(item) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix(_REF)
        if name in self.enums:
            values = {key: value for key, value in self.enums[name].items() if key != "title"}
            node = {**values, **{key: value for key, value in node.items() if key != "$ref"}}
        elif name in self.renamed:
            node = {**node, "$ref": _REF + self.renamed[name]}
        written = {
            key: value if key in {"example", "examples"} else self.write(value)
            for key, value in node.items()
        }
        return written if self.closed else _opened(written)


def _opened(part: Json) -> Json:
    """Return a part that allows more members or values."""
    if part.get("additionalProperties") is False:
        part = {key: value for key, value in part.items() if key != "additionalProperties"}
    values = part.get("enum")
    if part.get("type") != "string" or not isinstance(values, list):
        return part
    words = ", ".join(f"`{value}`" for value in values)
    meaning = [part.get("description"), f"One of {words}; later releases may add some."]
    rest = {key: value for key, value in part.items() if key != "enum"}
    return {**rest, "x-extensible-enum": values, "description": " ".join(filter(None, meaning))}
