"""Figures: a chart, what it means in a sentence, and its numbers to read and to take away."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from markupsafe import Markup

Value = str | int | float | None


class Kind(Enum):
    """How the numbers of a column are written."""

    TEXT = "text"
    COUNT = "count"
    SHARE = "share"
    NUMBER = "number"

    def write(self, value: Value) -> str:
        """Return a value as people read it.

        >>> Kind.SHARE.write(0.9534), Kind.COUNT.write(12345), Kind.NUMBER.write(2.0)
        ('95.3 %', '12,345', '2')
        """
        if value is None:
            return "–"  # noqa: RUF001 -- the dash that tables use for nothing
        if isinstance(value, str):
            return value
        if self is Kind.SHARE:
            return percent(value)
        return f"{value:,}" if self is Kind.COUNT else f"{value:,.3g}"


@dataclass(frozen=True)
class Column:
    """A column of a figure's table; ``name`` is also its name in downloads."""

    name: str
    kind: Kind = Kind.COUNT


@dataclass(frozen=True)
class Figure:
    """One figure of a page.

    Attributes
    ----------
    name : str
        Distinct on its page, and in the addresses of its downloads.
    says : str
        What the chart means.
    svg : Markup or None
        None where there is nothing to draw yet; ``empty`` says why, and what to do.
    terms : sequence of str
        Words of the glossary to explain beside the title.
    legend : sequence of (str, str)
        Classes and words.
    whole : bool
        It takes the whole width.
    newest_last : bool
        The chart goes with time; where it has too little room, its end is shown first.
    """

    name: str
    title: str
    says: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    svg: Markup | None = None
    empty: str = ""
    terms: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = field(default=())
    whole: bool = False
    newest_last: bool = False

    def written(self) -> list[list[str]]:
        """Return the rows of the table as people read them."""
        return [
            [column.kind.write(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def as_csv(self) -> str:
        """Return the table as CSV (RFC 4180), numbers in full.

        What a spreadsheet would take for a formula gets an apostrophe before it.
        """
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([column.name for column in self.columns])
        for row in self.rows:
            writer.writerow(["" if value is None else _harmless(value) for value in row])
        return out.getvalue()

    def as_json(self) -> str:
        """Return the table as a JSON array of objects."""
        names = [column.name for column in self.columns]
        found = [dict(zip(names, row, strict=True)) for row in self.rows]
        return json.dumps(found, ensure_ascii=False, indent=1)


def _harmless(value: Value) -> Value:
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if risky else value


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share; it reads 0 % and 100 % only where it is.

    >>> [percent(share) for share in (0, 0.9534, 0.99999, 1, None)]
    ['0 %', '95.3 %', '> 99.9 %', '100 %', 'unknown']
    """
    if share is None:
        return "unknown"
    if share in {0.0, 1.0}:
        return f"{100 * share:.0f} %"
    unit = 10**-digits
    if 100 * share < unit:
        return f"< {unit:g} %"
    if 100 * share > 100 - unit:
        return f"> {100 - unit:g} %"
    return f"{100 * share:.{digits}f} %"


def plural(n: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun.

    >>> plural(1, "audit"), plural(1200, "audit"), plural(2, "is", "are")
    ('1 audit', '1,200 audits', '2 are')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """Write a time in its largest sensible unit.

    >>> [span(s) for s in (20, 90 * 60, 49 * 3600)]
    ['20 seconds', '1.5 hours', '2 days']
    """
    for name, unit in (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0)):
        if seconds >= 1.5 * unit or (name == "minute" and seconds >= unit):
            number = f"{seconds / unit:.1f}".removesuffix(".0")
            return f"{number} {name}{'' if number == '1' else 's'}"
    return plural(round(seconds), "second")
