"""Answers: bodies of responses, and views of values that do not leave as they are."""

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Self, get_type_hints

from pydantic import ConfigDict

from setwise.service.requests import Body


class AnswerBody(Body):
    """Base of response bodies."""

    model_config = ConfigDict(frozen=True)


class View(AnswerBody):
    """Base of answers that show some of the attributes of a value, and hide the others.

    What leaves is named, so that a new attribute stays inside. A view spells out only what differs;
    the rest has the types and the docstrings of the value's class::

        class Key(View, of=ApiKey, shows="id name role prefix"): ...
    """

    value_class: ClassVar[type]
    shown: ClassVar[tuple[str, ...]]
    """Names of the value's attributes that leave."""
    alike: ClassVar[frozenset[str]]
    """Those with the types and the docstrings that the value's class gives them."""

    def __init_subclass__(cls, *, of: type, shows: str, **options: Any) -> None:  # noqa: ANN401 -- of Pydantic
        super().__init_subclass__(**options)
        cls.value_class, cls.shown = of, tuple(shows.split())
        types, own = _types(of), cls.__annotations__
        cls.alike = frozenset(cls.shown) - own.keys()
        cls.__annotations__ = {**{name: types[name] for name in cls.shown}, **own}

    @classmethod
    def show(cls, value: object, **others: object) -> Self:
        """Return the view of a value.

        ``others``: What the view has besides the shown attributes, or in place of one.
        """
        attributes = {name: getattr(value, name) for name in cls.shown if name not in others}
        return cls.model_validate(attributes | others)


def _types(kind: type) -> dict[str, Any]:
    """Return the types of a class's attributes; properties are attributes too."""
    properties = inspect.getmembers(kind, lambda member: isinstance(member, property))
    return {
        **{
            name: get_type_hints(each.fget, include_extras=True).get("return")
            for name, each in properties
        },
        **get_type_hints(kind, include_extras=True),
    }


def meanings(kind: type) -> dict[str, str]:
    """Return what docstrings say of the attributes of a class itself, in the words of JSON.

    For descriptions of the API. A server's start need not wait for it: to parse the modules of all
    classes takes a third as long.
    """
    found: dict[str, str] = {}
    for statement, after in pairwise(_classes(kind.__module__).get(kind.__name__, ())):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as meaning)),
            ):
                found[name] = meaning
    for name, member in inspect.getmembers(kind, lambda member: isinstance(member, property)):
        found[name] = member.__doc__ or ""
    return {name: _NONE.sub("null", inspect.cleandoc(each)) for name, each in found.items()}


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """Return the bodies of a module's classes by name; none of a module that is not ours."""
    if not module.startswith("setwise."):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


_NONE = re.compile(r"\bNone\b")
