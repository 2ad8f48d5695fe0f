"""Tables of documents: CSV, Parquet and other tools' JSON Lines."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from setwise.models.data.documents import json_records
from setwise.models.data.formats.columns import AnswerColumns, LabelColumns, no_column
from setwise.models.data.formats.layout import FileLayout, Format
from setwise.models.data.lines import (
    DataError,
    Progress,
    decode,
    opened_anywhere,
    read_lines,
)

Row = tuple[int, Mapping[str, Any]]

_DELIMITERS = ",;\t"
_LONGEST_CELL = 2**31 - 1  # csv's own limit of 128 kB is below the length of some documents
_ROWS_AT_ONCE = 1024


def table_lines(
    path: str | Path,
    format_: Format,
    layout: FileLayout,
    *,
    labelled: bool,
    numbers: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield each row as a numbered line of Setwise's own JSON Lines.

    Rows without an ``id`` are numbered from "1".

    Parameters
    ----------
    path : str or Path
        The file.
    format_ : {"csv", "parquet", "huggingface"}
        Its format.
    layout : FileLayout
        Which columns hold what.
    labelled : bool
        Whether labels are read, and must be there.
    numbers : sequence of str, optional
        Columns of numbers beside another model's answer, which is in ``scores``, ``candidates`` or
        ``answer``. None: answers are not read, and texts must be there.
    progress : callable, optional
        Called with the share of the file read so far.

    Raises
    ------
    DataError
        At the first row that is not a document, or if a column is missing.
    """
    rows = _READERS[format_](path, layout, progress)
    first = next(rows, None)
    if first is None:
        raise DataError(path, None, "the file holds no documents", "give one document a row")
    answers = None if numbers is None else AnswerColumns(path, layout, first[1], numbers)
    others = () if answers is None else answers.columns
    labels = LabelColumns(path, layout, first[1], others) if labelled else None
    has_text = layout.text_column in first[1]
    if not has_text and answers is None:
        raise no_column(path, first[0], layout.text_column, "--text-column", first[1])
    position = 0
    for position, (number, row) in enumerate(chain([first], rows), 1):
        record: dict[str, object] = {
            "id": str(position) if row.get("id") is None else str(row["id"])
        }
        if has_text:
            record["text"] = row.get(layout.text_column)
        if answers is not None:
            record |= answers.of(number, row)
        if labels is not None:
            record["labels"] = labels.of(number, row)
        if row.get("annotator") not in (None, ""):
            record["annotator"] = str(row["annotator"])
        try:
            yield number, json.dumps(record).encode()
        except TypeError as error:
            raise DataError(
                path, number, f"a cell is no JSON ({error})", "give strings, numbers and lists"
            ) from error
    if labels is not None:
        labels.warn_if_never_separated(position)


def _csv_rows(path: str | Path, layout: FileLayout, progress: Progress | None) -> Iterator[Row]:
    """Yield a CSV file's rows, numbered by their first lines."""
    texts = (decode(path, number, line) for number, line in read_lines(path, progress=progress))
    head = next(texts, None)
    if head is None:
        raise DataError(path, None, "the file is empty", "begin with a line of column names")
    csv.field_size_limit(_LONGEST_CELL)
    columns: list[str] = []
    begins_on = 1
    try:
        reader = csv.reader(chain([head], texts), delimiter=_delimiter(head, layout), strict=True)
        for cells in reader:
            if not columns:
                columns = _header(path, cells)
            elif cells:
                if len(cells) != len(columns):
                    raise DataError(
                        path,
                        begins_on,
                        f"{len(cells)} cells, but {len(columns)} columns",
                        "quote cells that hold a separator, a quote or a line break",
                    )
                yield begins_on, dict(zip(columns, cells, strict=True))
            begins_on = reader.line_num + 1
    except csv.Error as error:
        fault = str(error).partition(" - ")[0]
        fault = "a quoted cell that never ends" if "end of data" in fault else fault
        raise DataError(
            path, begins_on, fault, 'quote such a cell as "…", and a quote in it as ""'
        ) from error


def _delimiter(head: str, layout: FileLayout) -> str:
    """Return the delimiter that gives the text's column, or the most columns."""
    columns = {
        delimiter: next(csv.reader([head], delimiter=delimiter), []) for delimiter in _DELIMITERS
    }
    for delimiter, names in columns.items():
        if layout.text_column in map(str.strip, names):
            return delimiter
    return max(columns, key=lambda delimiter: len(columns[delimiter]))


def _header(path: str | Path, cells: list[str]) -> list[str]:
    columns = [cell.strip() for cell in cells]
    _refuse_repeated(path, 1, columns)
    if "" in columns:
        raise DataError(path, 1, f"column {columns.index('') + 1} has no name", "name each column")
    return columns


def _refuse_repeated(path: str | Path, number: int | None, columns: Sequence[str]) -> None:
    for place, name in enumerate(columns):
        if name in columns[:place]:
            raise DataError(
                path, number, f"there are two columns {name!r}", "give each column its own name"
            )


def _parquet_rows(
    path: str | Path,
    layout: FileLayout,  # noqa: ARG001 - Parquet names its columns itself
    progress: Progress | None,
) -> Iterator[Row]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise DataError(path, None, "Parquet needs pyarrow", "install setwise[parquet]") from error
    number = 0
    try:
        with opened_anywhere(path) as content:
            file = parquet.ParquetFile(content)
            _refuse_repeated(path, None, file.schema_arrow.names)
            # A reader of all groups keeps those that it has read.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=[group]):
                    for number, row in enumerate(batch.to_pylist(), number + 1):  # noqa: B020
                        yield number, row
                    if progress is not None:
                        progress(number / max(file.metadata.num_rows, 1))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            path, None, f"not a Parquet file that can be read ({error})", "write it again"
        ) from error


def _json_rows(
    path: str | Path,
    layout: FileLayout,  # noqa: ARG001 - each line names its columns
    progress: Progress | None,
) -> Iterator[Row]:
    return json_records(path, progress=progress)


_READERS = {"csv": _csv_rows, "parquet": _parquet_rows, "huggingface": _json_rows}
