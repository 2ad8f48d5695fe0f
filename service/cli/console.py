"""Terminal output of commands: results on stdout, progress and messages on stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:
    from rich.table import Table

_FILE_WIDTH = 300  # columns of a table outside a terminal
_PLAIN_STEP = 0.1  # share of the work between two plain lines of a stage


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class CommandError(Exception):
    """An error that the user can fix; exits with status 2."""


class Report(Protocol):
    """Reports the progress of a long task."""

    def __call__(self, fraction: float, message: str = "") -> None:
        """Report the finished fraction, in [0, 1], and the current step."""


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Show progress on stderr: a bar on a terminal, occasional lines elsewhere."""
    if sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _PlainLines(title)


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def report(fraction: float, message: str = "") -> None:
            bar.update(task, completed=fraction, description=message or title)

        yield report


class _PlainLines:
    """Prints a line for each new stage and each tenth of work."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._message = ""
        self._next = 0.0

    def __call__(self, fraction: float, message: str = "") -> None:
        if fraction < self._next and message == self._message:
            return
        self._message = message
        self._next = (fraction // _PLAIN_STEP + 1) * _PLAIN_STEP
        note(f"{self._title}: {fraction:.0%}" + (f", {message}" if message else ""))


def check_share(option: str, value: float | None, *, below_all: bool = False) -> None:
    """Raise `CommandError` unless a share lies in (0, 1].

    ``below_all``: Refuse 1, too.
    """
    if value is None or 0.0 < value < 1.0 or (value == 1.0 and not below_all):
        return
    limits = "between 0 and 1" if below_all else "from 0 to 1"
    cure = f"; {value:g} % is {value / 100:g}" if 1.0 < value <= 100.0 else ""
    raise CommandError(f"{option} is {value:g}; give a share {limits}{cure}")


def note(message: str) -> None:
    """Print a message on stderr, apart from results."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - the terminal is the point


def say(text: str) -> None:
    """Print a result for people on stdout."""
    print(text)  # noqa: T201 - the terminal is the point


def print_json(document: Mapping[str, object]) -> None:
    """Print the JSON document of a command with ``--json``."""
    say(json.dumps(document, indent=2, allow_nan=False))


def four_digits(value: float | None) -> str:
    """Return a metric as text; "none" if it is not known."""
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def described(value: object, names: Iterable[str]) -> dict[str, object]:
    """Return attributes of a value, as JSON."""
    values = {name: getattr(value, name) for name in names}
    return {name: _plain(member) for name, member in values.items()}


def _plain(member: object) -> object:
    match member:
        case datetime():
            return member.isoformat()
        case frozenset():
            return sorted(member)
        case Mapping():
            return dict(member)
        case _:
            return member


Columns = Mapping[str, str | Callable[[Any], str]]
"""Titles of a table's columns, each with the name of an attribute or a function of the item."""


def print_items(
    items: Sequence[Any], names: Iterable[str], columns: Columns, *, as_json: bool
) -> None:
    """Print a list: as JSON with the attributes ``names``, or as a table."""
    if as_json:
        print_json({"items": [described(item, names) for item in items]})
        return
    from rich.table import Column, Table  # noqa: PLC0415 - rich is slow to import

    first, *others = columns
    table = Table(Column(first, min_width=36 if first == "id" else 12), *others)
    for item in items:
        table.add_row(
            *(
                _cell(getattr(item, cell)) if isinstance(cell, str) else cell(item)
                for cell in columns.values()
            )
        )
    print_table(table)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)


def print_table(table: "Table") -> None:
    """Print a table on stdout, as wide as the terminal; elsewhere, as wide as it needs.

    Cells are printed verbatim, because names may contain brackets and colons.
    """
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import

    width = None if sys.stdout.isatty() else _FILE_WIDTH
    Console(width=width, markup=False, emoji=False).print(table)


def one_line(message: object) -> str:
    """Return a message without line breaks or control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(message)).split())
