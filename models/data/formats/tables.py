"""Tables of documents: CSV, Parquet and other tools' JSON Lines."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from setwise.models.data.formats.columns import AnswerColumns, LabelColumns, no_column
from setwise.models.data.formats.csv_rows import csv_rows, refuse_repeated
from setwise.models.data.formats.layout import FileLayout, Format
from setwise.models.data.formats.reviews import ANNOTATION_COLUMNS
from setwise.models.data.formats.verdicts import Verdicts
from setwise.models.data.json_lines import json_records
from setwise.models.data.lines import (
    DataError,
    Progress,
    decode,
    opened_anywhere,
)
from setwise.spelling import spelled, spelled_keys

Row = tuple[int, Mapping[str, Any]]

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

    Rows without an ``id`` are numbered from "1". Where labels are read, rows that their tool marks
    as no answer are left out.

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

    Warns
    -----
    DataWarning
        If rows are left out.
    """
    rows = _READERS[format_](path, layout, progress)
    first = next(rows, None)
    if first is None:
        raise DataError(path, None, "the file holds no documents", "give one document a row")
    answers = None if numbers is None else AnswerColumns(path, layout, first[1], numbers)
    others = () if answers is None else answers.columns
    labels = _label_columns(path, layout, first[1], others) if labelled else None
    has_text = layout.text_column in first[1]
    if not has_text and answers is None:
        raise no_column(path, first[0], layout.text_column, "--text-column", first[1])
    numbered: Iterator[tuple[int, Row]] = enumerate(chain([first], rows), 1)
    if labels is not None:
        used = {layout.text_column, *others, *labels.names}
        numbered = Verdicts(path, used).answers(numbered)
    for position, (number, row) in numbered:
        cells = _Cells(path, number, row)
        id_ = cells.name("id")
        record: dict[str, object] = {"id": str(position) if id_ is None else id_}
        record |= cells.text(layout.text_column, expected=has_text)
        if answers is not None:
            record |= answers.of(number, row)
        if labels is not None:
            record["labels"] = labels.of(number, row)
        if annotator := cells.name("annotator"):
            record["annotator"] = annotator
        yield number, cells.written(record)
    if labels is not None:
        labels.check_separator()


def _label_columns(
    path: str | Path, layout: FileLayout, columns: Collection[str], others: Sequence[str]
) -> LabelColumns:
    if ANNOTATION_COLUMNS.issubset(columns):
        cure = "export it as JSON Lines (format=jsonl): a document may have several rows"
        raise DataError(path, None, "this is an export of annotations as a table", cure)
    return LabelColumns(path, layout, columns, others)


class _Cells(NamedTuple):
    """The row of a table, with its place."""

    path: str | Path
    number: int
    row: Mapping[str, Any]

    def name(self, column: str) -> str | None:
        """Return an id or annotator as text, None if the row has none."""
        value = self.row.get(column)
        if value is None or (value == "" and column != "id"):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # as pandas writes numbers beside missing ones
        if isinstance(value, bool | list | dict) or str(value) == "nan":
            fault = f"{column!r} is {str(value)[:60]}"
            raise DataError(self.path, self.number, fault, "give a text or a whole number")
        return str(value)

    def text(self, column: str, *, expected: bool) -> dict[str, object]:
        """Return the text as a member of a document, if rows have one."""
        if not expected and column in self.row:
            fault = f"{column!r} is not in the first row"
            raise DataError(self.path, self.number, fault, "give every row its text, or none")
        return {"text": self.row.get(column)} if expected else {}

    def written(self, record: Mapping[str, object]) -> bytes:
        """Return the row's document as JSON."""
        try:
            return json.dumps(record).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(
                self.path,
                self.number,
                f"a cell is no JSON ({error})",
                "give strings, numbers and lists",
            ) from error


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
            refuse_repeated(path, None, list(map(spelled, file.schema_arrow.names)))
            # A reader of all groups keeps those that it has read.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=[group]):
                    for number, row in enumerate(batch.to_pylist(), number + 1):  # noqa: B020
                        yield number, _spelled(path, number, _decoded(path, number, row))
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
    for number, record in json_records(path, progress=progress):
        yield number, _spelled(path, number, record)


def _spelled(path: str | Path, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return spelled_keys(row)
    except ValueError as error:
        fault = f"the column {error}"
        raise DataError(path, number, fault, "give each column its own name") from error


def _decoded(path: str | Path, number: int, value: Any) -> Any:  # noqa: ANN401 - a row or a cell
    """Return a value with bytes as text, in which some tools write strings."""
    if isinstance(value, dict):
        return {name: _decoded(path, number, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_decoded(path, number, inner) for inner in value]
    return decode(path, number, value) if isinstance(value, bytes) else value


def table_rows(path: str | Path, layout: FileLayout | None = None) -> Iterator[Row]:
    """Yield the numbered rows of a CSV, Parquet or JSON Lines file, by column.

    Raises
    ------
    DataError
        At the first row that cannot be read, or if the file is none of these.
    """
    layout = layout or FileLayout()
    format_ = layout.format_of(path, "jsonl")
    format_ = "huggingface" if format_ == "jsonl" else format_
    if format_ not in _READERS:
        raise DataError(path, None, f"{format_} holds no table", "give CSV, Parquet or JSON Lines")
    return _READERS[format_](path, layout, None)


_READERS = {"csv": csv_rows, "parquet": _parquet_rows, "huggingface": _json_rows}
