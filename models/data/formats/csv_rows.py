"""Rows of CSV files, as spreadsheets, pandas and other tools write them."""

import csv
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.lines import (
    DataError,
    DataWarning,
    Progress,
    count_of,
    decode,
    read_lines,
)
from setwise.spelling import spelled

_DELIMITERS = ",;\t"
_LONGEST_CELL = 2**31 - 1  # csv's own limit of 128 kB is below the length of some documents
_SEPARATOR_LINE = re.compile(r"\s*sep=(.)\s*", re.IGNORECASE)  # for Excel
_INDEX = re.compile(r"Unnamed: \d+")  # how pandas calls a column without a name
_GUARDED = re.compile("'[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How exports write cells that spreadsheets would run as formulas."""


def csv_rows(
    path: str | Path, layout: FileLayout, progress: Progress | None
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield a CSV file's rows, numbered by their first lines.

    Rows without any content are left out with a warning, as is a first column without a name.
    """
    texts = (decode(path, number, line) for number, line in read_lines(path, progress=progress))
    head = next(texts, None)
    begins_on = 1
    delimiter = None
    if head is not None and (declared := _SEPARATOR_LINE.fullmatch(head)):
        delimiter, head = declared[1], next(texts, None)
        begins_on = 2
    if head is None:
        raise DataError(path, None, "the file is empty", "begin with a line of column names")
    csv.field_size_limit(_LONGEST_CELL)
    delimiter = delimiter or _delimiter(head, layout)
    columns: list[str] = []
    before = begins_on - 1
    n_blank = 0
    try:
        reader = csv.reader(
            chain([head], texts), delimiter=delimiter, strict=True, skipinitialspace=True
        )
        for cells in reader:
            if not columns:
                columns = _header(path, begins_on, cells)
            elif any(map(str.strip, cells)):
                while len(cells) > len(columns) and not cells[-1].strip():
                    cells.pop()
                if len(cells) != len(columns):
                    raise DataError(
                        path,
                        begins_on,
                        f"{len(cells)} cells, but {len(columns)} columns",
                        "quote cells that hold a separator, a quote or a line break",
                    )
                yield begins_on, _row(path, begins_on, columns, cells)
            else:
                n_blank += bool(cells)
            begins_on = before + reader.line_num + 1
    except csv.Error as error:
        fault = str(error).partition(" - ")[0]
        fault = "a quoted cell that never ends" if "end of data" in fault else fault
        raise DataError(
            path, begins_on, fault, 'quote such a cell as "…", and a quote in it as ""'
        ) from error
    if n_blank:
        warnings.warn(
            f"{path}: {count_of(n_blank, 'row')} without any content, left out",
            DataWarning,
            stacklevel=2,
        )


def _delimiter(head: str, layout: FileLayout) -> str:
    """Return the delimiter that gives the text's column, or the most columns."""
    columns = {
        delimiter: next(csv.reader([head], delimiter=delimiter, skipinitialspace=True), [])
        for delimiter in _DELIMITERS
    }
    for delimiter, names in columns.items():
        if layout.text_column in map(spelled, names):
            return delimiter
    return max(columns, key=lambda delimiter: len(columns[delimiter]))


def _header(path: str | Path, number: int, cells: list[str]) -> list[str]:
    """Return the columns' names, empty where a column is not read."""
    columns = ["" if _INDEX.fullmatch(cell) else spelled(cell) for cell in cells]
    if len(columns) > 1 and not columns[0]:
        warnings.warn(
            f"{path}: the first column has no name, as an index that pandas wrote; left out",
            DataWarning,
            stacklevel=2,
        )
        columns[0] = _SKIPPED
    refuse_repeated(path, number, [name for name in columns if name])
    return columns


_SKIPPED = "\0"
"""Name of a column that is left out whatever it holds."""


def _row(path: str | Path, number: int, columns: list[str], cells: list[str]) -> dict[str, str]:
    row = dict(zip(columns, cells, strict=True))
    row.pop(_SKIPPED, None)
    if "" in row:
        for place, (name, cell) in enumerate(zip(columns, cells, strict=True), 1):
            if not name and cell.strip():
                fault = f"column {place} has no name, but holds {cell[:60]!r}"
                raise DataError(path, number, fault, "name each column")
        del row[""]
    return {name: cell[1:] if _GUARDED.match(cell) else cell for name, cell in row.items()}


def refuse_repeated(path: str | Path, number: int | None, columns: Sequence[str]) -> None:
    """Raise `DataError` if a column's name is given twice."""
    names = set()
    for name in columns:
        if name in names:
            raise DataError(
                path, number, f"there are two columns {name!r}", "give each column its own name"
            )
        names.add(name)
