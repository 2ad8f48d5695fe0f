"""What commands share at the terminal: progress, JSON on stdout, everything else on stderr."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.table import Table

_FILE_WIDTH = 300  # columns of a table that no terminal limits
_PLAIN_STEP = 0.1  # share of the work between two plain lines of one stage


class CommandError(Exception):
    """Something the user can put right; ends the command with exit status 2 and its message."""


class Report(Protocol):
    """Tells how far a long task is."""

    def __call__(self, fraction: float, message: str = "") -> None:
        """Report the fraction done, in [0, 1], and what is being done."""


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Show progress on stderr: a bar on a terminal, now and then a plain line elsewhere."""
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
    """A line for each new stage, and within one for each tenth of the work."""

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


def note(message: str) -> None:
    """Print a line for people on stderr, where it mixes with no result."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - the terminal is the point


def say(text: str) -> None:
    """Print a result for people on stdout."""
    print(text)  # noqa: T201 - the terminal is the point


def print_json(document: Mapping[str, object]) -> None:
    """Print the one JSON document of a command that was asked for ``--json``."""
    say(json.dumps(document, indent=2, allow_nan=False))


def print_table(table: "Table") -> None:
    """Print a table on stdout: in the width of the terminal, in its own in a file or a pipe.

    Cells stand as they are, since names that people gave may have brackets and colons in them.
    """
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import

    width = None if sys.stdout.isatty() else _FILE_WIDTH
    Console(width=width, markup=False, emoji=False).print(table)


def one_line(message: object) -> str:
    """Return a message without line breaks or control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(message)).split())


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Open a file that appears under its name only once it is complete."""
    if path.is_dir():
        raise CommandError(f"{path}: this is a folder; name a file")
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(f"{path}: cannot be written ({reason}); name another file") from error
    partial = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            yield file
    except BaseException:
        partial.unlink()
        raise
    partial.chmod(0o666 & ~_umask())
    partial.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
