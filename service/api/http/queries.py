"""Query parameters as they are written: each once, unless it is a list; numbers as in JSON."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.text import legible_pointer, sentence
from setwise.spelling import escaped

_OTHER_NUMBER = re.compile(r"(?!-?\d+\Z)[\s\d.eE_+-]*", re.ASCII)
"""What Pydantic would take for a whole number, such as ``1.0``, ``1_0`` or one after a space."""

_OTHERWISE = {
    int: (_OTHER_NUMBER, "must be a whole number"),
    float: (
        re.compile(r"(?!-?\d+(\.\d+)?([eE][+-]?\d+)?\Z).*", re.ASCII | re.DOTALL),
        "must be a number",
    ),
    bool: (re.compile(r"(?!(true|false)\Z).*", re.IGNORECASE | re.DOTALL), "must be true or false"),
}
"""What is refused for a parameter of each type."""


class QueryForm:
    """The form of the query parameters of a route."""

    def __init__(self, dependant: Dependant) -> None:
        kinds = {
            name: field.annotation
            for parameter in dependant.query_params
            for name, field in _fields(parameter.name, parameter.field_info)
        }
        self._lists = {name for name, kind in kinds.items() if get_origin(kind) is list}
        self._plain = {
            name: _OTHERWISE[plain]
            for name, kind in kinds.items()
            for plain in _OTHERWISE
            if plain in _types(kind)
        }

    def check(self, request: Request) -> None:
        """Raise `InvalidRequest` for a parameter that FastAPI would read in its own way."""
        parameters = request.query_params.multi_items()
        counts = Counter(name for name, _ in parameters)
        twice = {name for name, n in counts.items() if n > 1} - self._lists
        faults = dict.fromkeys((name for name in counts if name in twice), "is given twice")
        for name, value in parameters:
            otherwise, fault = self._plain.get(name, (None, ""))
            if otherwise is not None and otherwise.fullmatch(value):
                faults[name] = fault
        if faults:
            listed = [
                FieldFault(legible_pointer(f"/query/{escaped(name)}"), fault)
                for name, fault in faults.items()
            ]
            raise InvalidRequest(sentence(f"{listed[0].pointer}: {listed[0].detail}"), listed)


def _types(kind: object) -> Iterator[object]:
    """Yield a type, and those of a union or below an annotation."""
    yield kind
    for each in get_args(kind):
        yield from _types(each)


def _fields(name: str, field: FieldInfo) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the parameters of a class of them, or the one parameter."""
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from kind.model_fields.items()
    else:
        yield name, field
