"""What a page of the board is made of: tables, facts, forms, buttons and questions.

Each class names the macro of ``board_parts.html`` that draws it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from itertools import groupby
from typing import ClassVar, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from markupsafe import Markup

from setwise.service.pages.figures.table import Figure
from setwise.service.pages.forms import BoundInput, Filled
from setwise.service.requests import Input

Row = TypeVar("Row")
Tone = Literal["", "good", "bad", "warn", "leased"]


class Part:
    """A part of a page; ``macro`` draws it."""

    macro: ClassVar[str]


Piece = Part | Markup
"""What pages and cards hold."""

# Pieces of cells. Values are escaped as they are filled in.


def badge(text: str, tone: Tone = "") -> Markup:
    """Return a state in a coloured pill."""
    return Markup('<span class="badge {}">{}</span>').format(tone, text)


def code(text: str) -> Markup:
    """Return text in a fixed-width font."""
    return Markup("<code>{}</code>").format(text)


def link(address: str, text: object, kind: str = "") -> Markup:
    """Return a link."""
    classes = Markup(' class="{}"').format(kind) if kind else ""
    return Markup('<a href="{}"{}>{}</a>').format(address, classes, text)


def quiet(text: object) -> Markup:
    """Return text in a muted colour."""
    return Markup('<span class="quiet">{}</span>').format(text)


def sub(text: object) -> Markup:
    """Return a smaller line below; nothing where there is no text."""
    return Markup('<span class="sub">{}</span>').format(text) if text else Markup("")


def joined(*parts: object) -> Markup:
    """Return parts one after another."""
    return Markup("").join(Markup("{}").format(part) for part in parts)


def instant(at: datetime | None, never: str = "never", *, zone: bool = False) -> Markup:
    """Return an instant to the minute; ``zone`` adds that it is in UTC."""
    if at is None:
        return quiet(never)
    shown = Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at:%-d %b %Y, %H:%M}"
    )
    return joined(shown, " UTC") if zone else shown


def row_link(address: str, label: str, of: str) -> Markup:
    """Return a small button of a row; screen readers also hear whose it is."""
    return Markup(
        '<a class="button second compact" href="{}">{}<span class="unseen"> {}</span> …</a>'
    ).format(address, label, of)


def text(content: object, kind: str = "") -> Markup:
    """Return a paragraph; ``kind`` is its class in the style sheet."""
    return Markup('<p class="{}">{}</p>').format(kind, content)


def note(content: object) -> Markup:
    """Return a note that screen readers announce."""
    return Markup('<p class="note" role="status">{}</p>').format(content)


def status(content: object) -> Markup:
    """Return a paragraph that screen readers announce when it changes."""
    return Markup('<p role="status">{}</p>').format(content)


def heading(content: str) -> Markup:
    """Return a heading between parts."""
    return Markup("<h2>{}</h2>").format(content)


def pre(content: str) -> Markup:
    """Return text as a machine wrote it."""
    return Markup('<pre tabindex="0">{}</pre>').format(content)


def progress(done: float) -> Markup:
    """Return a bar of how much is done, from 0 to 1."""
    return Markup(
        '<p><progress max="1" value="{:.3f}" aria-label="Progress"></progress></p>'
    ).format(done)


def bar(share: float, low: float | None = None, high: float | None = None) -> Markup:
    """Return a bar of a share, with its bounds as a band; the words beside it say both."""
    if low is None or high is None:
        marks = Markup('<rect width="{:.4f}" height="1"/>').format(share)
    else:
        marks = Markup(
            '<rect class="band" x="{:.4f}" width="{:.4f}" height="1"/>'
            '<rect x="{:.4f}" width=".02" height="1"/>'
        ).format(low, high - low, min(share, 0.98))
    return Markup(
        '<svg class="bar short" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg>"
    ).format(marks)


def written(value: object) -> object:
    """Return the value of a cell as people read it."""
    match value:
        case None:
            return "–"  # noqa: RUF001 -- the dash that tables use for nothing
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return instant(value)
        case _:
            return value


# Parts that only show.


@dataclass(frozen=True)
class Facts(Part):
    """Names and values; a row whose value is None is left out."""

    macro = "facts"
    rows: Iterable[tuple[str, object]]

    def shown(self) -> list[tuple[str, object]]:
        """Return the rows that have a value."""
        return [(name, written(value)) for name, value in self.rows if value is not None]


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table."""

    title: str
    cell: Callable[[Row], object]
    """The value of a row."""
    kind: Literal["", "head", "count", "acts", "wrap", "small"] = ""
    """``head`` names the row, ``count`` holds numbers, ``acts`` holds what administrators may do,
    ``wrap`` breaks long words.
    """


@dataclass(frozen=True)
class Table(Part, Generic[Row]):
    """Rows of one kind."""

    macro = "table"
    name: str
    """What screen readers call it."""
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    empty: object = ""
    """What stands there when it has no rows."""
    gone: Callable[[Row], bool] = lambda _: False
    """Whether a row is about something past."""
    kind: str = ""
    """Its class in the style sheet."""

    def cell(self, column: Column[Row], row: Row) -> object:
        """Return a cell as people read it."""
        return written(column.cell(row))


@dataclass(frozen=True)
class Pager(Part):
    """The way to older rows of a list, which keeps its filters."""

    macro = "pager"
    address: str
    next_after: str | None
    query: Mapping[str, str | Sequence[str]]
    started: bool
    next_name: str = "Older"

    def at(self, **more: str) -> str:
        """Return the address with its filters."""
        query = {**self.query, **more}
        return f"{self.address}?{urlencode(query, doseq=True)}" if query else self.address


@dataclass(frozen=True)
class Filters(Part):
    """A form whose answers are in the address: it narrows a list, or asks for a figure."""

    macro = "filters"
    address: str
    inputs: Mapping[str, Input]
    filled: Filled
    label: str = "Filter"
    more: Mapping[str, Input] = field(default_factory=dict)
    """Inputs that unfold."""

    def opened(self) -> bool:
        """Whether one of the inputs that unfold is used."""
        return any(self.filled.text(name) or name in self.filled.faults for name in self.more)


@dataclass(frozen=True)
class Card(Part):
    """Parts on a card below a heading."""

    macro = "card"
    heading: str
    parts: Iterable[Piece]

    @property
    def id(self) -> str:
        """The id of its heading."""
        return quote(self.heading.lower().replace(" ", "-"))


@dataclass(frozen=True)
class More(Part):
    """Parts that unfold below a summary."""

    macro = "more"
    summary: str
    parts: Iterable[Piece]
    open: bool = False


@dataclass(frozen=True)
class Diagram(Part):
    """A figure, with its numbers to read and, where there is an address, to download."""

    macro = "diagram"
    figure: Figure
    address: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Live(Part):
    """Parts that a script asks for again, at another address."""

    macro = "live"
    id: str
    every_s: int
    source: str
    parts: Iterable[Piece]


# Parts that change something; they are drawn for administrators alone.


@dataclass(frozen=True)
class Go:
    """A button that leads to a question before anything happens."""

    label: str
    address: str
    tone: Literal["", "second", "danger"] = "second"


@dataclass(frozen=True)
class Press:
    """A button that acts at once."""

    label: str
    address: str
    tone: Literal["", "second", "danger"] = "second"
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Buttons(Part):
    """Buttons side by side."""

    macro = "buttons"
    items: Sequence[Go | Press]


@dataclass(frozen=True)
class Form(Part):
    """A form as it was filled in, on its own card."""

    macro = "form"
    heading: str
    label: str
    hint: str
    address: str
    inputs: Sequence[BoundInput]
    filled: Filled

    @property
    def id(self) -> str:
        """The id of its heading."""
        return f"form-{quote(self.heading.lower().replace(' ', '-'))}"

    def uploads(self) -> bool:
        """Whether it sends a file."""
        return any(each.input.widget == "file" for each in self.inputs)

    def folds(self) -> list[tuple[str, list[list[BoundInput]]]]:
        """Return its inputs by the fold that hides them; short ones stand side by side."""
        return [(fold, _rows(list(each))) for fold, each in groupby(self.inputs, _fold)]

    def used(self, rows: Sequence[Sequence[BoundInput]]) -> bool:
        """Whether inputs are filled in or refused; of radio buttons one always is filled in."""
        return bool(self.filled.faults) or any(
            any(self.filled.all(each.name))
            for row in rows
            for each in row
            if each.input.widget != "radio"
        )


def _fold(each: BoundInput) -> str:
    return each.input.fold


def _rows(inputs: Sequence[BoundInput]) -> list[list[BoundInput]]:
    rows: list[list[BoundInput]] = []
    for each in inputs:
        if rows and each.short and rows[-1][-1].short:
            rows[-1].append(each)
        else:
            rows.append([each])
    return rows


@dataclass(frozen=True)
class Menu(Part):
    """What is rarely done to a row, behind a button; screen readers hear whose it is."""

    macro = "menu"
    of: str
    items: Sequence[Piece]
    """A form of it is drawn in a few lines, without its heading."""
    before: Markup | str = ""
    """What stands beside the button."""
    open: bool = False


@dataclass(frozen=True)
class Question(Part):
    """What is asked before something happens that is hard to undo."""

    macro = "question"
    heading: str
    will: Iterable[str]
    """What will happen, a sentence each."""
    label: str | None
    """What the answer "yes" says; None where there is nothing to do."""
    back: str
    """Where the answer "no" leads."""
    danger: bool = True
    fields: Mapping[str, str] = field(default_factory=dict)
    """What the answer "yes" repeats."""


@dataclass(frozen=True)
class Secret(Part):
    """A secret that is shown once."""

    macro = "secret"
    heading: str
    note: str
    secret: str
    hint: object
    back: str


@dataclass(frozen=True)
class View:
    """A page: its heading and its parts."""

    heading: str
    """Empty where a part has the page's heading."""
    parts: Iterable[Piece] = ()
    title: str = ""
    """In the browser's tab; the heading unless given."""
    badge: Markup | None = None
    buttons: Sequence[Go | Press] = ()
    """For administrators, beside the heading."""
    beside: Filters | None = None
    """What narrows the page, in the line of the heading and a short ``lead``."""
    lead: object = ""
    terms: Sequence[str] = ()
    live: str = ""
    """Id of the page's content if a script asks for it again until it is ``settled``."""
    settled: bool = True
    status: HTTPStatus = HTTPStatus.OK
    template: str = "board_page.html"
    values: Mapping[str, object] = field(default_factory=dict)
    """Its own template, and the values for it."""
