"""Separators of labels in a cell, and the likely one where none is named."""

import warnings
from collections import Counter
from pathlib import Path

from setwise.models.data.lines import DataError, DataWarning

DEFAULT = ";"
_RARE_IN_NAMES = ("|", "\t", "\n", ";")
_COMMON_IN_NAMES = (",", "/", "+", "&", " ")
_MOST_CELLS = 10_000  # distinct cells that are looked at


class Separators:
    """Splits cells into labels, and notices cells that were not split.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    separator : str or None
        What the user named; None: `DEFAULT`, and a likely other one is an error.
    """

    def __init__(self, path: str | Path, separator: str | None) -> None:
        self._path = path
        self._separator = DEFAULT if separator is None else separator
        self._is_named = separator is not None
        self._has_split = False
        self._lines: dict[str, int] = {}  # where a cell stands first

    def split(self, number: int, cell: str) -> list[str]:
        """Return the labels in a cell that is not blank."""
        labels = [label.strip() for label in cell.split(self._separator)]
        if "" in labels:
            raise DataError(
                self._path,
                number,
                f"an empty label in {cell[:60]!r}",
                f"separate labels by one {self._separator!r}",
            )
        self.count(len(labels))
        if not self._has_split and len(self._lines) < _MOST_CELLS:
            self._lines.setdefault(cell.strip(), number)
        return labels

    def count(self, n_labels: int) -> None:
        """Notice that a cell held some labels, however it separates them."""
        self._has_split = self._has_split or n_labels > 1

    def check(self, column: str) -> None:
        """Raise or warn if no cell was split, though some seem to hold several labels."""
        if self._has_split or len(self._lines) < 2:
            return
        for sign in () if self._is_named else (*_RARE_IN_NAMES, *_COMMON_IN_NAMES):
            if (line := self._separated_by(sign)) is not None:
                raise DataError(
                    self._path,
                    line,
                    f"{column!r} seems to separate labels by {sign!r}",
                    f"name the --label-separator: {sign!r}, or {DEFAULT!r} if each cell is one "
                    "label",
                )
        warnings.warn(
            f"{self._path}: no cell of {column!r} holds {self._separator!r}, so each is "
            "read as one label; if that is wrong, give the --label-separator",
            DataWarning,
            stacklevel=2,
        )

    def _separated_by(self, sign: str) -> int | None:
        """Return the first line with labels that a sign separates, None if it separates none.

        A sign that is common in names separates labels only if all parts of most cells with it
        stand in other cells too, and beside a space each alone.
        """
        cells = {cell: {part.strip() for part in cell.split(sign)} for cell in self._lines}
        several = [cell for cell, parts in cells.items() if len(parts) > 1 and "" not in parts]
        if sign in _COMMON_IN_NAMES:
            counts = Counter(part for parts in cells.values() for part in parts)
            met = sum(
                all(part in cells if sign == " " else counts[part] > 1 for part in cells[cell])
                for cell in several
            )
            if 2 * met <= len(several):
                return None
        return min((self._lines[cell] for cell in several), default=None)
