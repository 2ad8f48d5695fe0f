"""Answers: bodies of responses, and views of values that do not leave as they are."""

import ast
import inspect
import re
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import ConfigDict, Field

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
    """Names of the value's attributes that leave; the view may give some other types."""

    def __init_subclass__(cls, *, of: type, shows: str, **options: Any) -> None:  # noqa: ANN401 -- of Pydantic
        super().__init_subclass__(**options)
        cls.value_class, cls.shown = of, tuple(shows.split())
        types, meanings = _types(of), _meanings(of)
        cls.__annotations__ = {
            **{
                name: Annotated[types[name], Field(description=meanings.get(name))]
                for name in cls.shown
            },
            **cls.__annotations__,
        }

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


def _meanings(kind: type) -> dict[str, str]:
    """Return what docstrings say of a class's attributes, in the words of JSON."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    meanings = {}
    for statement, after in pairwise(getattr(body, "body", ())):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as meaning)),
            ):
                meanings[name] = meaning
    for name, member in inspect.getmembers(kind, lambda member: isinstance(member, property)):
        meanings[name] = member.__doc__ or ""
    return {name: _NONE.sub("null", inspect.cleandoc(each)) for name, each in meanings.items()}


_NONE = re.compile(r"\bNone\b")
