"""Forms as Pydantic models: read what was typed, and report each fault at its field.

A form is declared once; the board draws its fields from the same model::

    class NewKey(BaseModel):
        name: Annotated[str, Input("Name", "Shown in the audit trail.")]
        role: Annotated[Role, Input("Role", choices=ROLES)]
        expires: Annotated[Day | None, Input("Expires", widget="date")] = None
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Self, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ValidationError

from setwise.service.domain.errors import Conflict, FieldFault, InvalidRequest

Model = TypeVar("Model", bound=BaseModel)
Widget = Literal[
    "text",
    "textarea",
    "url",
    "date",
    "datetime-local",
    "password",
    "select",
    "radio",
    "boxes",
    "tick",
    "hidden",
    "file",
]
Choices = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Input:
    """How a field of a form is drawn, as metadata of the field."""

    label: str = ""
    hint: str = ""
    widget: Widget = "text"
    choices: Choices = ()
    """Value and label, and a hint for radio buttons and boxes."""
    pointers: tuple[str, ...] = ()
    """JSON pointers under which services report its faults, where not the field's own name."""
    fold: str = ""
    """Summary of the fold that hides the field until it is used."""
    labels: Literal["", "known", "new"] = ""
    """Whether names of labels are typed in it, which a script completes, and new ones are taken."""


def select(label: str, choices: Choices) -> Input:
    """Return an input with a list to choose from."""
    return Input(label, widget="select", choices=choices)


@dataclass(frozen=True)
class BoundInput:
    """An `Input` with the name of its field, and whether it may stay empty."""

    name: str
    input: Input
    optional: bool

    @property
    def short(self) -> bool:
        """Whether it takes one line."""
        return self.input.widget in {"text", "url", "date", "password", "select"}


def inputs(model: type[BaseModel]) -> list[BoundInput]:
    """Return the inputs of a form in the order of its fields."""
    fields = []
    for name, info in model.model_fields.items():
        drawn = next(part for part in info.metadata if isinstance(part, Input))
        typed = drawn.widget not in {"boxes", "tick", "hidden"}
        fields.append(BoundInput(name, drawn, optional=typed and not info.is_required()))
    return fields


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

    def read(self, model: type[Model]) -> Model | None:
        """Return the form as a model, or None after noting what is wrong with it."""
        values = {each.name: self._given(each) for each in inputs(model)}
        try:
            return model.model_validate({k: v for k, v in values.items() if v is not None})
        except ValidationError as error:
            for fault in error.errors():
                name = str(fault["loc"][0]) if fault["loc"] else ""
                # What a box may hold is drawn on the page, so the page is out of date.
                several = name and isinstance(values[name], list)
                self.blame(name, _UNKNOWN if several else _in_words(fault["type"], fault))
            return None

    def _given(self, each: BoundInput) -> str | list[str] | bool | None:
        match each.input.widget:
            case "boxes":
                return self.all(each.name)
            case "tick":
                return self.ticked(each.name)
            case "password":  # spaces belong to it
                return (self.all(each.name) or [""])[0] or None
            case _:
                return self.text(each.name) or None

    def carry_out(self, model: type[Model], act: Callable[[Model], object]) -> bool:
        """Do what the form asks for; return whether it was done, after noting why not."""
        values = self.read(model)
        if values is None:
            return False
        try:
            act(values)
        except InvalidRequest as error:
            self.refused(error, model)
            return False
        except Conflict as error:
            self.blame("", error.detail)
            return False
        return True

    def refused(self, error: InvalidRequest, model: type[BaseModel]) -> None:
        """Note what a service refused, at the fields that its pointers name."""
        if not error.faults:
            self.blame("", error.detail)
        self.take(error.faults, places(model))

    def take(self, faults: Sequence[FieldFault], places: Mapping[str, str]) -> None:
        """Note faults at their fields; what has no field stands for the form as a whole."""
        for fault in faults:
            parts = fault.pointer.split("/")
            named = ("/".join(parts[:n]) for n in range(len(parts), 1, -1))
            name = next((places[pointer] for pointer in named if pointer in places), None)
            if name is None:
                self.blame("", f"{fault.pointer.strip('/')} {fault.detail}.")
            else:
                self.blame(name, f"It {fault.detail}.")


def places(model: type[BaseModel]) -> dict[str, str]:
    """Return the fields of a form by the JSON pointers under which services name them."""
    return {
        pointer: each.name
        for each in inputs(model)
        for pointer in (each.input.pointers or (f"/{each.name}",))
    }


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
_WORDS = {
    "missing": "Enter a value.",
    "enum": "Choose one of {expected}.",
    "literal_error": "Choose one of {expected}.",
}


def _in_words(kind: str, fault: Mapping[str, Any]) -> str:
    words = _WORDS.get(kind, "{error}" if kind == "value_error" else "It cannot be read.")
    return words.format_map({"error": "", "expected": "", **fault.get("ctx", {})})


def lines(typed: str) -> list[str]:
    r"""Return the lines that say something, without the spaces around them.

    >>> lines(" a \n\nb ")
    ['a', 'b']
    """
    return [line.strip() for line in typed.splitlines() if line.strip()]


# What people type: decimals with a comma or a percent sign, days, instants in UTC.


def decimal(typed: object, low: float, high: float) -> Decimal:
    """Return a number from ``low`` to ``high``; a comma and a percent sign are understood."""
    text = re.sub(r"\s*%$", "", str(typed)).replace(",", ".")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"“{text[:40]}” is not a number.") from None
    if not (number.is_finite() and low <= number <= high):
        raise ValueError(f"Enter a number from {low:g} to {high:g}.")
    return number


def number(low: float, high: float) -> BeforeValidator:
    """Return a validator of numbers from ``low`` to ``high``."""
    return BeforeValidator(lambda typed: float(decimal(typed, low, high)))


def whole_number(typed: object, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``."""
    number = decimal(typed, low, high)
    if number != int(number):
        raise ValueError("Enter a whole number.")
    return int(number)


def whole(low: int, high: int) -> BeforeValidator:
    """Return a validator of whole numbers from ``low`` to ``high``."""
    return BeforeValidator(lambda typed: whole_number(typed, low, high))


def share(typed: object) -> float:
    """Return as a share what was typed in percent.

    >>> share("99.5 %")
    0.995
    """
    return float(decimal(typed, 0, 100) / 100)


def proper_share(typed: object) -> float:
    """Return a share other than 0 and 1 from what was typed in percent."""
    number = share(typed)
    if not 0 < number < 1:
        raise ValueError("Enter a number between 0 and 100 %, both excluded.")
    return number


def end_of_day(typed: object) -> datetime:
    """Return the end of a day in UTC.

    >>> end_of_day("2027-03-31").isoformat()
    '2027-04-01T00:00:00+00:00'
    """
    try:
        # The last day of all has no next one.
        begins = datetime.combine(date.fromisoformat(str(typed)), datetime.min.time(), UTC)
        return begins + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ValueError("Enter a day such as 2027-03-31.") from None


def utc(typed: object) -> datetime:
    """Return an instant; one without an offset is in UTC."""
    try:
        instant = datetime.fromisoformat(str(typed))
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("Enter a time such as 2026-11-21T09:00 (UTC).") from None


Share = Annotated[float, BeforeValidator(share)]
ProperShare = Annotated[float, BeforeValidator(proper_share)]
Day = Annotated[datetime, BeforeValidator(end_of_day)]
Version = Annotated[int, whole(0, 10**9)]
