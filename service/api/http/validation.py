"""What a request got wrong about its form, in words: the faults that Pydantic finds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from setwise.service.api.http.openapi_answers import Json
from setwise.service.domain.errors import FieldFault
from setwise.service.domain.text import nearest, question
from setwise.spelling import escaped

UNKNOWN_MEMBER = "extra_forbidden"
_WORDING = {
    "missing": "is missing",
    UNKNOWN_MEMBER: "is not a member of this request",
    "none_required": "must be null",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "date_from_datetime_inexact": "must be a date such as 2026-11-23",
    "date_from_datetime_parsing": "must be a date such as 2026-11-23",
    "dict_type": "must be an object",
    "enum": "must be {expected}",
    "finite_number": "must be finite",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "has too many digits",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be an array",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "must name its kind",
    "value_error": "{error}",
}
Entry = Mapping[str, Any]
"""Pydantic's description of a fault."""


def worded(entry: Entry) -> str:
    """Return what a value must be.

    >>> worded({"type": "greater_than_equal", "ctx": {"ge": 1}, "msg": "Input should be …"})
    'must be at least 1'
    """
    text = _WORDING.get(entry["type"], "{msg}")
    return text.format_map({"msg": entry["msg"], **entry.get("ctx", {})})


def faults_of(
    entries: Sequence[Entry], operation: Json, schemas: Mapping[str, Json]
) -> list[FieldFault]:
    """Return the faults of a request, each with a pointer to its place.

    ``operation``, ``schemas``: The request's part of the OpenAPI document, and the schemas that it
    refers to; they know what a misspelt name may have been.
    """
    shape = _Shape(operation, schemas)
    return [FieldFault(_pointer(entry), worded(entry) + shape.hint(entry)) for entry in entries]


def _pointer(entry: Entry) -> str:
    where = [str(part) for part in entry["loc"] if part != "[key]"]
    return "".join("/" + escaped(part) for part in where[where[:1] == ["body"] :])


class _Shape:
    """The names that a request can have, and where."""

    def __init__(self, operation: Json, schemas: Mapping[str, Json]) -> None:
        self._schemas = schemas
        content = operation.get("requestBody", {}).get("content", {})
        self._body: Json = content.get("application/json", {}).get("schema", {})
        self._query: Json = {
            parameter["name"]: parameter["schema"]
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        }

    def hint(self, entry: Entry) -> str:
        """Return what an unknown member may have been meant as, or ""."""
        if entry["type"] != UNKNOWN_MEMBER:
            return ""
        part, *place, name = entry["loc"]
        if part != "body":
            return question(nearest(str(name), self._query))
        around = list(self._around(place))
        members = around[-1][1]
        for inside, others in reversed(around[:-1]):
            if name in others:
                return f"; put it beside `{inside}`"
        for inside, schema in members.items():
            if name in self._members(schema):
                return f"; put it inside `{inside}`"
        return question(nearest(str(name), members))

    def _around(self, place: Sequence[str | int]) -> Iterator[tuple[str, Json]]:
        """Yield the objects around a member, outermost first: the way on, and their members."""
        schema, members = self._body, self._members(self._body)
        for step in place:
            if isinstance(step, int):
                schema = self._resolved(schema).get("items", {})
            elif step in members:
                yield step, members
                schema = members[step]
            members = self._members(schema)
        yield "", members

    def _members(self, schema: Json) -> Json:
        resolved = self._resolved(schema)
        members: Json = resolved.get("properties", {})
        return members

    def _resolved(self, schema: Json) -> Json:
        """Return the schema of an object or an array, without references and null."""
        for choice in schema.get("anyOf", [schema]):
            reference = choice.get("$ref", "").rpartition("/")[2]
            resolved = self._schemas.get(reference, choice)
            if "properties" in resolved or "items" in resolved:
                return {**resolved}
        return {}
