"""Figures: a chart, what it means in a sentence, and its numbers to read and to take away."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from markupsafe import Markup

from setwise.models.figures.numerals import confidence, percent, plain, working_time
from setwise.service.domain.files import Format, header, lines

Value = str | int | float | None


class Kind(Enum):
    """How the numbers of a column are written."""

    TEXT = "text"
    COUNT = "count"
    SHARE = "share"
    NUMBER = "number"
    CONFIDENCE = "confidence"
    HOURS = "hours"

    def write(self, value: Value) -> str:
        """Return a value as people read it.

        >>> Kind.SHARE.write(0.9534), Kind.COUNT.write(12345), Kind.NUMBER.write(2.0)
        ('95.3 %', '12,345', '2')
        >>> Kind.CONFIDENCE.write(0.9996), Kind.HOURS.write(0.2)
        ('0.9996', '12 minutes')
        """
        if value is None:
            return "–"  # noqa: RUF001 -- the dash that tables use for nothing
        if isinstance(value, str):
            return value
        return _WRITTEN[self](value) if self in _WRITTEN else f"{value:,}"


_WRITTEN: dict[Kind, Callable[[float], str]] = {
    Kind.SHARE: percent,
    Kind.NUMBER: plain,
    Kind.CONFIDENCE: confidence,
    Kind.HOURS: lambda hours: working_time(3600 * hours),
}


@dataclass(frozen=True)
class FigureColumn:
    """A column of a figure's table."""

    name: str
    """As downloads name it."""
    kind: Kind = Kind.COUNT
    title: str = ""
    """As people read it; made from ``name`` unless given."""

    @property
    def head(self) -> str:
        """What stands above the column.

        >>> FigureColumn("decided_by_leads").head
        'Decided by leads'
        """
        return self.title or self.name.replace("_", " ").capitalize()


@dataclass(frozen=True)
class Figure:
    """One figure of a page."""

    name: str
    """Distinct on its page, and in the addresses of its downloads."""
    title: str
    says: str
    """What the chart means, in a sentence."""
    columns: Sequence[FigureColumn]
    rows: Sequence[Sequence[Value]]
    svg: Markup | None = None
    """None where there is nothing to draw yet; ``empty`` says why, and what to do."""
    empty: str = ""
    terms: Sequence[str] = ()
    """Words of the glossary to explain beside the title."""
    legend: Sequence[tuple[str, str]] = field(default=())
    """Classes and words."""
    method: str = ""
    """How the numbers are computed; shown when the reader opens the disclosure."""
    whole: bool = False
    """It takes the whole width."""
    documents: Callable[[Sequence[Value]], str] | None = None
    """Returns the address of the documents behind a row."""
    end_first: bool = False
    """Where the chart has too little room, its end is shown first: the newest days, or what is
    surest.
    """

    def written(self) -> list[list[str]]:
        """Return the rows of the table as people read them."""
        return [
            [column.kind.write(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def within(self, segment: str) -> "Figure":
        """Return the figure with a column that names a segment."""
        columns = [FigureColumn("segment", Kind.TEXT), *self.columns]
        return replace(self, columns=columns, rows=[[segment, *row] for row in self.rows])

    def as_csv(self) -> str:
        """Return the table as CSV (RFC 4180), numbers in full.

        What a spreadsheet would take for a formula gets an apostrophe before it.
        """
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return (header(Format.CSV, names) + lines(Format.CSV, rows)).decode()

    def as_json(self) -> str:
        """Return the table as a JSON array of objects."""
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return json.dumps(rows, ensure_ascii=False, indent=1)
