"""A form as somebody filled it in: what was typed is kept, what is wrong stands at its field."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Self, TypeVar

from fastapi import Request

from setwise.service.domain.errors import FieldFault, InvalidRequest

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass
class Filled:
    """Reads the fields of a form one by one and notes at each what is wrong.

    Attributes
    ----------
    values : mapping from str to sequence of str
        What was typed, by field.
    faults : dict from str to list of str
        What is wrong, by field; the field ``""`` stands for the form as a whole.
    """

    values: Mapping[str, Sequence[str]]
    faults: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, **values: str | Sequence[str]) -> Self:
        """Return a form that shows these values.

        >>> Filled.of(name="billing", scope=["predict"]).all("scope")
        ['predict']
        """
        return cls({k: [v] if isinstance(v, str) else v for k, v in values.items()})

    def blame(self, name: str, detail: str) -> None:
        """Note what is wrong with a field."""
        self.faults.setdefault(name, []).append(detail)

    def refused(self, error: InvalidRequest, places: Mapping[str, str]) -> None:
        """Take over what a verb refused.

        Parameters
        ----------
        places : mapping from str to str
            Field of the form, by the JSON pointer that the verb names; what has no field is told
            of the form as a whole.
        """
        if not error.faults:
            self.blame("", error.detail)
        self.take(error.faults, places)

    def take(self, faults: Sequence[FieldFault], places: Mapping[str, str]) -> None:
        """Take over faults, as `refused` does."""
        for fault in faults:
            name = places.get(fault.pointer)
            if name is None:
                self.blame("", f"{fault.pointer.lstrip('/')} {fault.detail}.")
            else:
                self.blame(name, f"It {fault.detail}.")

    def all(self, name: str) -> list[str]:
        """Return every value of a field that may be there several times."""
        return list(self.values.get(name, ()))

    def text(self, name: str) -> str:
        """Return what was typed, without the spaces around it."""
        given = self.values.get(name, ())
        return given[0].strip() if given else ""

    def lines(self, name: str) -> list[str]:
        r"""Return the lines of a field that are not empty.

        >>> Filled.of(labels=" a \n\nb ").lines("labels")
        ['a', 'b']
        """
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def ticked(self, name: str) -> bool:
        """Tell whether a box is ticked."""
        return name in self.values

    def choice(self, name: str, kind: type[Choice]) -> Choice | None:
        """Return one of some values."""
        try:
            return kind(self.text(name))
        except ValueError:
            self.blame(name, f"Choose one of {', '.join(kind)}.")
            return None

    def number(self, name: str, low: float, high: float, *, needed: bool = True) -> float | None:
        """Return a number from ``low`` to ``high``."""
        found = self._decimal(name, low, high, needed=needed)
        return None if found is None else float(found)

    def percent(self, name: str, *, inside: bool = False) -> float | None:
        """Return as a share what was typed in percent; ``inside`` excludes 0 and 100.

        >>> Filled.of(target="99.5 %").percent("target")
        0.995
        """
        found = self._decimal(name, 0, 100)
        if found is not None and inside and not 0 < found < 100:
            self.blame(name, "It must lie between 0 and 100 %, both excluded.")
            return None
        return None if found is None else float(found / 100)

    def whole(self, name: str, low: int, high: int, *, needed: bool = True) -> int | None:
        """Return a whole number from ``low`` to ``high``."""
        found = self._decimal(name, low, high, needed=needed)
        if found is not None and found != int(found):
            self.blame(name, "Write a whole number.")
            return None
        return None if found is None else int(found)

    def day(self, name: str) -> datetime | None:
        """Return the end of a day in UTC; None where the field is empty."""
        typed = self.text(name)
        if not typed:
            return None
        try:
            # The last day of all has no next one.
            return datetime.combine(date.fromisoformat(typed), datetime.min.time(), UTC) + DAY
        except (ValueError, OverflowError):
            self.blame(name, "Write a day such as 2027-03-31.")
            return None

    def instant(self, name: str) -> datetime | None:
        """Return a time in UTC; None where the field is empty."""
        typed = self.text(name)
        if not typed:
            return None
        try:
            found = datetime.fromisoformat(typed)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.blame(name, "Write a time such as 2026-11-21T09:00 (UTC).")
            return None

    def _decimal(
        self, name: str, low: float, high: float, *, needed: bool = True
    ) -> Decimal | None:
        typed = re.sub(r"\s*%$", "", self.text(name)).replace(",", ".")
        if not typed:
            if needed:
                self.blame(name, "Write a number.")
            return None
        try:
            found = Decimal(typed)
        except InvalidOperation:
            self.blame(name, f"“{typed[:40]}” is not a number.")
            return None
        if not (found.is_finite() and low <= found <= high):
            self.blame(name, f"It must lie between {low:g} and {high:g}.")
            return None
        return found


DAY = timedelta(days=1)


async def filled(request: Request) -> Filled:
    """Return the form that a request brings; a dependency of routes."""
    form = await request.form()
    return Filled(
        {name: [one for one in form.getlist(name) if isinstance(one, str)] for name in form}
    )
