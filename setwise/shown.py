"""What makes a value one that leaves the service as it is."""

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar


class Shown:
    """Base of frozen dataclasses that leave the service with all their fields.

    The API describes and writes them as they are: their docstrings are the descriptions. A value
    with fields that must stay inside is no such class; the API has a class for what it shows of it.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, bool]] = {
        # Answers always have every member.
        "json_schema_serialization_defaults_required": True,
    }
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


@cache
def names(shown: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(shown))


def members(value: Shown) -> dict[str, object]:
    """Return the fields of a value by name; what they hold stays as it is."""
    kind: type = type(value)
    return {name: getattr(value, name) for name in names(kind)}


@dataclass(frozen=True)
class Between:
    """States the bounds of a number in descriptions of the API; it checks nothing."""

    low: float
    high: float

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, object]:
        """Return the JSON schema of the number with its bounds."""
        described: dict[str, object] = handler(schema)  # type: ignore[operator]  # Pydantic's own
        return {**described, "minimum": self.low, "maximum": self.high}


Probability = Annotated[float, Between(0, 1)]
