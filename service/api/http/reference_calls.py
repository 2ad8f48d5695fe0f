"""The calls of the OpenAPI document as a person reads them: members, limits, a command to copy."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setwise.service.api.http.openapi_answers import Json
from setwise.service.api.http.problems import MEDIA_TYPE

DEEPEST = 3
"""Levels of objects inside each other whose members are listed."""

_LIMITS: Mapping[str, str] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
}


@dataclass(frozen=True)
class Member:
    """A member of a body, or a parameter."""

    name: str
    """With the objects around it: ``document.text``, ``candidates[].labels``."""
    type: str
    required: bool
    meaning: str
    limits: Sequence[str]


@dataclass(frozen=True)
class ReferenceCall:
    """An operation of the API."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: Sequence[str]
    """Paragraphs after the summary."""
    parameters: Sequence[Member]
    body: str
    """What the body is, where it is not JSON; "" otherwise."""
    members: Sequence[Member]
    """Of the body."""
    curl: str
    examples: Sequence[str]
    """Other bodies than the one in the command."""
    status: str
    answer: str
    answer_members: Sequence[Member]
    answer_example: str | None
    problems: Sequence[tuple[str, str]]
    """Status and name of each kind."""

    @property
    def searched(self) -> str:
        """What a search looks in: its words, without those of its examples."""
        members = (*self.parameters, *self.members, *self.answer_members)
        words = (self.method, self.path, self.id, self.summary, *self.description, self.answer)
        names = (word for member in members for word in (member.name, member.meaning))
        return "\n".join((*words, *names)).casefold()


def calls_of(document: Json) -> Iterator[ReferenceCall]:
    """Yield the operations, in the order of the document's tags."""
    schemas = document["components"]["schemas"]
    order = {tag["name"]: place for place, tag in enumerate(document["tags"])}
    operations = [
        (path, method, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    for path, method, operation in sorted(operations, key=lambda row: order[row[2]["tags"][0]]):
        yield _call(path, method, operation, schemas)


def _call(path: str, method: str, operation: Json, schemas: Mapping[str, Json]) -> ReferenceCall:
    status, success = next(
        (status, response)
        for status, response in operation["responses"].items()
        if status.startswith("2")
    )
    summary, *description = operation["description"].split("\n\n")
    parameters = operation.get("parameters", [])
    content: Json = operation.get("requestBody", {}).get("content", {})
    kind = next(iter(content), "")
    schema, answer = content.get(kind, {}).get("schema", {}), _json_schema(success)
    examples = _examples(schema, schemas)
    return ReferenceCall(
        id=operation["operationId"],
        tag=operation["tags"][0],
        method=method.upper(),
        path=path,
        summary=summary,
        description=[" ".join(paragraph.split()) for paragraph in description],
        parameters=[_member(p["name"], p["schema"] | p, p["required"]) for p in parameters],
        body=operation.get("requestBody", {}).get("description", ""),
        members=list(_members(schema, schemas)),
        curl=_curl(path, method, operation, kind, examples[0] if examples else None),
        examples=[_pretty(example) for example in examples[1:]],
        status=status,
        answer=success.get("description", ""),
        answer_members=list(_members(answer, schemas)),
        answer_example=next(map(_pretty, _examples(answer, schemas)), None),
        problems=sorted(set(_problems(operation))),
    )


def _json_schema(response: Json) -> Json:
    schema: Json = response.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _examples(schema: Json, schemas: Mapping[str, Json]) -> list[Any]:  # Any: JSON values
    name = schema.get("$ref", "").rpartition("/")[2]
    return list(schemas.get(name, {}).get("examples", []))


def _pretty(example: object) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)


def _problems(operation: Json) -> Iterator[tuple[str, str]]:
    for status, response in operation["responses"].items():
        for slug in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {}):
            yield status, slug


def _curl(path: str, method: str, operation: Json, kind: str, example: object | None) -> str:
    """Return a command that works once ``API``, ``KEY`` and the names in the path are set."""
    words = [f'curl "$API{path.replace("{", "${")}"']
    if method not in {"get", "post"} or (method == "post" and not kind):
        words.append(f"-X {method.upper()}")
    if operation.get("security"):
        words.append('-H "Authorization: Bearer $KEY"')
    names = {parameter["name"].lower() for parameter in operation.get("parameters", ())}
    if "if-match" in names:
        words.append("""-H 'If-Match: "1"'""")
    if kind:
        words.append(f"-H 'Content-Type: {kind}'")
    if example is not None:
        words.append(f"-d {shlex.quote(json.dumps(example, ensure_ascii=False))}")
    elif kind:
        words.append("--data-binary @FILE")
    return " \\\n  ".join(words)


# Members


def _members(
    schema: Json, schemas: Mapping[str, Json], around: str = "", seen: tuple[str, ...] = ()
) -> Iterator[Member]:
    """Yield the members of an object, or of the objects in an array, and those inside them."""
    name, schema, suffix = _inside(schema, schemas)
    if name in seen or len(seen) >= DEEPEST:
        return
    for member, part in schema.get("properties", {}).items():
        place = f"{around}{suffix}{'.' if around else ''}{member}"
        yield _member(place, part, member in schema.get("required", ()), schemas)
        yield from _members(part, schemas, place, (*seen, name))


def _inside(schema: Json, schemas: Mapping[str, Json]) -> tuple[str, Json, str]:
    """Return the name and schema of the object in a schema, and ``[]`` if it is in an array."""
    for choice in schema.get("anyOf", [schema]):
        if "items" in choice:
            name, inside, suffix = _inside(choice["items"], schemas)
            return name, inside, f"[]{suffix}"
        name = choice.get("$ref", "").rpartition("/")[2]
        found = schemas.get(name, choice)
        if "properties" in found:
            return name, found, ""
        if name and "items" in found:
            return _inside(found, schemas)
    return "", {}, ""


def _member(
    name: str, part: Json, required: bool, schemas: Mapping[str, Json] | None = None
) -> Member:
    whole = _flat(part, schemas or {})
    limits = [words.format(whole[key]) for key, words in _LIMITS.items() if key in whole]
    if whole.get("uniqueItems"):
        limits.append("each once")
    if values := whole.get("enum"):
        limits.append("one of " + ", ".join(f"`{value}`" for value in values))
    if whole.get("default") is not None:
        limits.append(f"`{json.dumps(whole['default'])}` unless given")
    return Member(name, _type(part, schemas or {}), required, whole.get("description", ""), limits)


def _flat(part: Json, schemas: Mapping[str, Json]) -> Json:
    """Return a part with the limits of what it refers to, or of its only choice besides null."""
    for choice in part.get("anyOf", [part]):
        if choice.get("type") != "null":
            name = choice.get("$ref", "").rpartition("/")[2]
            return {**schemas.get(name, {}), **choice, **part}
    return part


def _type(part: Json, schemas: Mapping[str, Json]) -> str:
    """Return the type of a value in words.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}, {})
    'array of strings or null'
    """
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(choice, schemas) for choice in part["anyOf"]))
    if name := part.get("$ref", "").rpartition("/")[2]:
        return _type(schemas.get(name, {"type": "object"}), schemas)
    kind: str = part.get("type", "any value")
    if kind == "array":
        inner = _type(part.get("items", {}), schemas)
        return f"array of ({inner})" if " " in inner else f"array of {inner}s"
    if kind == "object" and isinstance(part.get("additionalProperties"), dict):
        return f"object of {_type(part['additionalProperties'], schemas)}s by name"
    words: Mapping[str, str] = {
        "integer": "whole number",
        "boolean": "true or false",
        "date-time": "time (RFC 3339)",
    }
    return words.get(part.get("format", ""), words.get(kind, kind))
