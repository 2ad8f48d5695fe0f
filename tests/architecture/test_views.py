"""A shape is one class: an answer is a value of the domain, or a view that spells what differs."""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import getmembers, getsource, isclass
from pkgutil import walk_packages
from types import ModuleType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from setwise.models import results
from setwise.service import api, domain, services
from setwise.service.api.views import AnswerBody, View

MOST_REPEATED = 50
"""Fields that answers spell although a value of the domain has them by name and type.

Those that are left stand beside others: a document's id in an answer to it, say.
"""


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for part in walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(part.name)


def _classes(*modules: ModuleType) -> Iterator[type]:
    for module in modules:
        for name, kind in getmembers(module, isclass):
            if kind.__module__ == module.__name__ and name.isidentifier():  # no `Listed[Key]`
                yield kind


ANSWERS = [kind for kind in _classes(*_modules(api)) if issubclass(kind, AnswerBody)]
VALUES = [
    kind
    for kind in _classes(results, *_modules(domain), *_modules(services))
    if is_dataclass(kind) or hasattr(kind, "_fields")
]


def _shape(hint: Any) -> object:
    """Return a type without bounds, and without the kind of a list or mapping."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _shape(parts[0])
    if origin in {Union, UnionType}:
        return frozenset(map(_shape, parts))
    if isclass(origin) and issubclass(origin, Mapping):
        return Mapping
    if isclass(origin) and issubclass(origin, Collection):
        return Collection, _shape(parts[0])
    return hint


def _spelled(answer: type[AnswerBody]) -> set[tuple[str, object]]:
    (body,) = ast.parse(getsource(answer)).body
    names = {line.target.id for line in body.body if isinstance(line, ast.AnnAssign)}  # type: ignore[attr-defined]  # of a class
    return {
        (name, _shape(field.annotation))
        for name, field in answer.model_fields.items()
        if name in names
    }


def _fields(value: type) -> set[tuple[str, object]]:
    try:
        hints = get_type_hints(value)
    except NameError:  # a type that is only imported to check types
        return set()
    return {(name, _shape(hints[name])) for name in hints}


def test_answers_spell_what_no_value_has() -> None:
    shapes = {value: _fields(value) for value in VALUES}
    repeated: dict[str, tuple[str, list[str]]] = {}
    for answer in ANSWERS:
        spelled = _spelled(answer)
        twin = max(VALUES, key=lambda value: len(spelled & shapes[value]))
        if names := sorted(name for name, _ in spelled & shapes[twin]):
            repeated[answer.__name__] = (twin.__name__, names)
    assert sum(len(names) for _, names in repeated.values()) <= MOST_REPEATED, repeated


def test_no_view_shows_what_its_value_keeps_out_of_its_own_text() -> None:
    hidden = {
        (view.__name__, field.name)
        for view in ANSWERS
        if issubclass(view, View) and view is not View and is_dataclass(view.value_class)
        for field in fields(view.value_class)
        if not field.repr
    }
    assert {("Key", "digest"), ("PersonBody", "password")} <= hidden
    shown = {(view.__name__, name) for view in ANSWERS for name in view.model_fields}
    assert hidden & shown == set()
