"""Forms: read what was typed into the class of a request, and report each fault at its field.

A form draws the fields of a Pydantic model that carry an `Input`, also those of the models inside
it, whose names it joins with a dot.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Self, TypeVar, Union, get_args, get_origin

from fastapi import Request
from pydantic import AwareDatetime, BaseModel, ValidationError

from setwise.service.api.http.validation import worded
from setwise.service.domain.errors import Conflict, FieldFault, InvalidRequest
from setwise.service.domain.text import sentence
from setwise.service.requests import Choices, Input

Model = TypeVar("Model", bound=BaseModel)


def select(label: str, choices: Choices) -> Input:
    """Return an input with a list to choose from."""
    return Input(label, widget="select", choices=choices)


@dataclass(frozen=True)
class BoundInput:
    """An `Input` with the name and the types of its field, and whether it may stay empty."""

    name: str
    input: Input
    optional: bool
    types: Collection[object] = ()

    @property
    def short(self) -> bool:
        """Whether it takes one line."""
        return self.input.widget in {"text", "url", "date", "password", "select"}

    @property
    def pointer(self) -> str:
        """The JSON pointer to its field."""
        return f"/{self.name.replace('.', '/')}"

    def text_of(self, body: BaseModel) -> str | None:
        """Return what a person would type for the value in a body; None for no tick."""
        value = reduce(getattr, self.name.split("."), body)
        match value:
            case None:
                return ""
            case bool():
                return "yes" if value else None
            case int() | float():
                return f"{100 * value if self.input.percent else value:.10g}"
            case list():
                return ", ".join(map(str, value))
        return str(value)


def inputs(model: type[BaseModel], only: Sequence[str] = ()) -> list[BoundInput]:
    """Return the inputs of a form in the order of its fields, or of ``only`` these."""
    fields = {each.name: each for each in _inputs(model)}
    return [fields[name] for name in only or fields]


def _inputs(
    model: type[BaseModel], before: str = "", *, optional: bool = False
) -> Iterator[BoundInput]:
    for name, info in model.model_fields.items():
        drawn = next((part for part in info.metadata if isinstance(part, Input)), None)
        types, may_lack = list(_types(info.annotation)), optional or not info.is_required()
        if drawn is not None:
            typed = drawn.widget not in {"boxes", "tick", "hidden"} and not drawn.required
            hint = info.description if drawn.hint is None else drawn.hint
            drawn = replace(drawn, hint=hint or "")
            yield BoundInput(before + name, drawn, optional=typed and may_lack, types=types)
        for part in types:
            if isinstance(part, type) and issubclass(part, BaseModel):
                together = optional or info.default is None
                yield from _inputs(part, f"{before}{name}.", optional=together)


def _types(annotation: object) -> Iterator[object]:
    """Yield the types that a field may have."""
    if get_origin(annotation) is Annotated:
        yield from _types(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, UnionType}:
        for part in get_args(annotation):
            yield from _types(part)
    else:
        yield annotation


@dataclass
class Filled:
    """A form as it was filled in, with the faults found in it."""

    values: Mapping[str, Sequence[str]]
    """What was typed, by field."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """What is wrong, by field; the field ``""`` stands for the form as a whole."""

    @classmethod
    def of(cls, **values: str | Sequence[str]) -> Self:
        """Return a form that shows these values.

        >>> Filled.of(name="billing", scope=["predict"]).all("scope")
        ['predict']
        """
        return cls({k: [v] if isinstance(v, str) else v for k, v in values.items()})

    @classmethod
    def showing(cls, body: BaseModel, **more: str | Sequence[str]) -> Self:
        """Return a form that shows the values of a body, as `read` reads them.

        ``more``: Values of fields that the body lacks.
        """
        texts = {each.name: each.text_of(body) for each in inputs(type(body))}
        return cls.of(**{name: text for name, text in texts.items() if text is not None}, **more)

    def all(self, name: str) -> list[str]:
        """Return every value of a field that may occur several times."""
        return list(self.values.get(name, ()))

    def text(self, name: str) -> str:
        """Return what was typed, without the spaces around it."""
        values = self.values.get(name, ())
        return values[0].strip() if values else ""

    def ticked(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return name in self.values

    def show_again(self, name: str, values: Sequence[str]) -> None:
        """Have a field hold these values when the form is shown again."""
        self.values = {**self.values, name: values}

    def blame(self, name: str, detail: str) -> None:
        """Note what is wrong with a field."""
        self.faults.setdefault(name, []).append(detail)

    def said(self) -> str:
        """Return all that is wrong, for a page that does not show the fields."""
        return " ".join(each for faults in self.faults.values() for each in faults)

    def read(self, model: type[Model], only: Sequence[str] = (), **more: object) -> Model | None:
        """Return the form as a model, or None after noting what is wrong with it.

        ``only``: The fields that it has, if not all.
        ``more``: Values of fields that it does not draw.
        """
        values: dict[str, Any] = {**more}  # Any: what was typed, by field and by field inside it
        drawn = {each.name: each for each in inputs(model, only)}
        for each in drawn.values():
            when = each.input.when
            if when and self.text(when[0]) != when[1]:
                continue
            try:
                value = self._value(each)
            except ValueError as error:
                self.blame(each.name, str(error))
                continue
            if value is not None:
                _put(values, each.name, value)
            elif each.input.required or when:
                self.blame(each.name, _WORDS["missing"])
        try:
            read = model.model_validate(values, strict=False)
        except ValidationError as error:
            where, unread = places(drawn.values()), set(self.faults)
            for fault in error.errors():
                pointer = "".join(f"/{part}" for part in fault["loc"])
                name = _place(pointer, where)
                if not name:
                    self.take([FieldFault(pointer, worded(fault))], where)
                elif name not in unread:
                    self.blame(name, _in_words(fault, drawn[name]))
            return None
        return None if self.faults else read

    def _value(self, each: BoundInput) -> object:
        """Return what was typed as a value of its field; raises `ValueError`."""
        match each.input.widget:
            case "boxes":
                return self.all(each.name) or None
            case "tick":
                return self.ticked(each.name)
            case "password":  # spaces belong to it
                return (self.all(each.name) or [""])[0] or None
        text = self.text(each.name)
        if text and each.input.percent:
            return share(text, inner=each.input.percent == "inner")
        reader = next((_READERS[kind] for kind in each.types if kind in _READERS), str)
        return reader(text) if text else None

    def carry_out(self, model: type[Model], act: Callable[[Model], object]) -> bool:
        """Do what the form asks for; return whether it was done, after noting why not."""
        values = self.read(model)
        if values is None:
            return False
        try:
            act(values)
        except InvalidRequest as error:
            self.refused(error, inputs(model))
            return False
        except Conflict as error:
            self.blame("", error.detail)
            return False
        return True

    def refused(self, error: InvalidRequest, drawn: Collection[BoundInput]) -> None:
        """Note what a service refused, at the fields that its pointers name."""
        if not error.faults:
            self.blame("", error.detail)
        self.take(error.faults, places(drawn))

    def take(self, faults: Sequence[FieldFault], places: Mapping[str, str]) -> None:
        """Note faults at their fields; what has no field stands for the form as a whole."""
        for fault in faults:
            name = _place(fault.pointer, places)
            where = "It" if name else fault.pointer.strip("/")
            self.blame(name, sentence(f"{where} {fault.detail}"))


def places(drawn: Iterable[BoundInput]) -> dict[str, str]:
    """Return the fields of a form by the JSON pointers under which services name them.

    Faults of a model inside another one belong to its first field.
    """
    fields: dict[str, str] = {}
    for each in drawn:
        fields |= dict.fromkeys((each.pointer, *each.input.pointers), each.name)
        fields.setdefault(each.pointer.rpartition("/")[0] or each.pointer, each.name)
    return fields


def _place(pointer: str, places: Mapping[str, str]) -> str:
    """Return the field that a pointer, or the beginning of it, names; "" if none does."""
    parts = pointer.split("/")
    named = ("/".join(parts[:n]) for n in range(len(parts), 1, -1))
    return next((places[pointer] for pointer in named if pointer in places), "")


def _put(values: dict[str, Any], name: str, value: object) -> None:
    *around, last = name.split(".")
    for part in around:
        values = values.setdefault(part, {})
    values[last] = value


async def filled(request: Request) -> Filled:
    """Return the form that a request carries, without NUL; a dependency of routes.

    A file is its text; what is not UTF-8 in it is replaced.
    """
    form = await request.form()
    values = {
        name: [
            value if isinstance(value, str) else (await value.read()).decode(errors="replace")
            for value in form.getlist(name)
        ]
        for name in form
    }
    return Filled({k: [value.replace("\x00", "") for value in some] for k, some in values.items()})


_UNKNOWN = "One of them is unknown; reload the page."
_TOGETHER = "It is missing; enter both or neither."
_WORDS = {
    "missing": "Enter a value.",
    "enum": "Choose one of {expected}.",
    "literal_error": "Choose one of {expected}.",
    "value_error": "{error}",
}


def _in_words(fault: Mapping[str, Any], each: BoundInput) -> str:
    if each.input.widget == "boxes":  # the page draws what a box may hold
        return _UNKNOWN
    if each.optional and fault["type"] == "missing":
        return _TOGETHER
    words = _WORDS.get(fault["type"])
    return words.format_map(fault.get("ctx", {})) if words else f"It {worded(fault)}."


def lines(typed: str) -> list[str]:
    r"""Return the lines that say something, without the spaces around them.

    >>> lines(" a \n\nb ")
    ['a', 'b']
    """
    return [line.strip() for line in typed.splitlines() if line.strip()]


# What people type: decimals with a comma or a percent sign, days, instants in UTC.


def decimal(typed: str, low: int, high: int) -> Decimal:
    """Return a number from ``low`` to ``high``; a comma and a percent sign are understood."""
    text = re.sub(r"\s*%$", "", typed).replace(",", ".")
    try:
        number = Decimal(text)
        fits = low <= number <= high
    except InvalidOperation:  # also where it is NaN
        raise ValueError(f"“{text[:40]}” is not a number.") from None
    if not fits:
        raise ValueError(f"Enter a number from {low:,} to {high:,}.")
    return number


def whole_number(typed: str, low: int = -(10**9), high: int = 10**9) -> int:
    """Return a whole number from ``low`` to ``high``."""
    number = decimal(typed, low, high)
    if number != int(number):
        raise ValueError("Enter a whole number.")
    return int(number)


def share(typed: str, *, inner: bool = False) -> float:
    """Return as a share what was typed in percent; an ``inner`` one is neither 0 nor 1.

    >>> share("99.5 %")
    0.995
    """
    number = float(decimal(typed, 0, 100) / 100)
    if inner and not 0 < number < 1:
        raise ValueError("Enter a number between 0 and 100 %, both excluded.")
    return number


def end_of_day(typed: str) -> datetime:
    """Return the end of a day in UTC.

    >>> end_of_day("2027-03-31").isoformat()
    '2027-04-01T00:00:00+00:00'
    """
    try:
        # The last day of all has no next one.
        begins = datetime.combine(date.fromisoformat(typed), datetime.min.time(), UTC)
        return begins + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ValueError("Enter a day such as 2027-03-31.") from None


def utc(typed: str) -> datetime:
    """Return an instant; one without an offset is in UTC."""
    try:
        instant = datetime.fromisoformat(typed)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("Enter a time such as 2026-11-21T09:00 (UTC).") from None


_READERS: Mapping[object, Callable[[str], object]] = {
    AwareDatetime: end_of_day,
    int: whole_number,
    float: lambda typed: float(decimal(typed, 0, 1)),
    list[int]: lambda typed: [whole_number(each) for each in typed.replace(",", " ").split()],
}
"""How what was typed is read, by the type of the field; anything else is text."""
