"""What callers ask for: one class for each act, which the API and the forms of pages share.

The API validates JSON strictly. A form draws the fields that carry an `Input`, and reads what was
typed into the same class::

    class KeyRequest(RequestBody):
        name: Annotated[str, Input("Name", "Who it is for.")]
        role: Annotated[Role, Input("Role", widget="select", choices=ROLES)]
        expires_at: Annotated[Instant | None, Input("Expires", widget="date")] = None
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from setwise.service.domain.errors import MOST_FAULTS
from setwise.service.domain.text import instant_in

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


class Body(BaseModel):
    """Base of the bodies of requests and responses: no unknown members."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def few_unknown(value: object, known: Collection[str]) -> object:
    """Return an object of a request with at most ``MOST_FAULTS`` unknown members."""
    if not isinstance(value, dict) or len(value) <= len(known) + MOST_FAULTS:
        return value
    unknown = islice((name for name in value if name not in known), MOST_FAULTS)
    return {name: value[name] for name in [*filter(value.__contains__, known), *unknown]}


def _in_blocks(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """Return a checked list; the error describes its first faults, and no block after those."""
    if not isinstance(value, list) or len(value) <= MOST_FAULTS:
        return check(value)
    number = 0
    items: list[object] = []
    for start in range(0, len(value), MOST_FAULTS):
        end = start + MOST_FAULTS
        try:
            items += check(value[start:end])
        except ValidationError as error:
            number += error.error_count()
            if number >= MOST_FAULTS:
                return check(value[:end])
    return check(value) if number else items


FewFaults = WrapValidator(_in_blocks)
"""Of a list of any length: a body may have a fault in each of a hundred thousand items."""


class RequestBody(Body):
    """Base of request bodies: no silent conversion."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, value: object) -> object:
        return few_unknown(value, cls.model_fields.keys())


def _rfc_3339(value: object) -> datetime:
    """Return the time in a text; Pydantic alone takes numbers for seconds since 1970."""
    if isinstance(value, datetime):
        return value
    return instant_in(value if isinstance(value, str) else "")


Number = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number."""

Instant = Annotated[AwareDatetime, BeforeValidator(_rfc_3339)]
"""A time with an offset, in UTC."""


@dataclass(frozen=True)
class Input:
    """How a form draws a field and reads what is typed in it, as metadata of the field."""

    label: str = ""
    hint: str | None = None
    """None for the description of the field."""
    widget: Widget = "text"
    choices: Choices = ()
    """Value and label, and a hint for radio buttons and boxes."""
    percent: Literal["", "any", "inner"] = ""
    """Whether a share is typed in percent; with ``inner``, it is neither 0 nor 100 %."""
    required: bool = False
    """Whether a form must fill it in although JSON may leave it out."""
    when: tuple[str, str] | None = None
    """Name and value of another field: only then it is read, and must be filled in."""
    pointers: tuple[str, ...] = ()
    """JSON pointers under which services report its faults, where not its own."""
    fold: str = ""
    """Summary of the fold that hides it, and neighbours with the same one, until they are used."""
    labels: Literal["", "known", "new"] = ""
    """Whether names of labels are typed in it, which a script completes, and new ones are taken."""
