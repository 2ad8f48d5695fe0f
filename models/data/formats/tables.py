"""Tables with a document a row: CSV, Parquet and JSON Lines of other tools."""

import csv
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from setwise.models.data.documents import json_records
from setwise.models.data.formats.layout import FileLayout, Format
from setwise.models.data.lines import (
    DataError,
    DataWarning,
    Progress,
    decode,
    names_beside,
    read_lines,
    read_whole,
)

Row = tuple[int, Mapping[str, Any]]

_DELIMITERS = ",;\t"
_LONGEST_CELL = 2**31 - 1  # csv's own limit of 128 kB is below the length of some documents
_ROWS_AT_ONCE = 1024
_BESIDE = ("id", "annotator", "metadata", "__index_level_0__")  # columns that are never labels
_TRUTH = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


def table_lines(
    path: str | Path,
    format_: Format,
    layout: FileLayout,
    *,
    labelled: bool,
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
    labels = _Labels(path, layout, tuple(first[1])) if labelled else None
    if layout.text_column not in first[1]:
        raise _no_column(path, first[0], layout.text_column, "--text-column", first[1])
    position = 0
    for position, (number, row) in enumerate(chain([first], rows), 1):
        record = {
            "id": str(position) if row.get("id") is None else str(row["id"]),
            "text": row.get(layout.text_column),
        }
        if labels is not None:
            record["labels"] = labels.of(number, row)
        if row.get("annotator") not in (None, ""):
            record["annotator"] = str(row["annotator"])
        try:
            yield number, json.dumps(record).encode()
        except TypeError as error:
            raise DataError(
                path, number, f"the text is no string ({error})", "give texts as strings"
            ) from error
    if labels is not None:
        labels.warn_if_never_separated(position)


class _Labels:
    """Reads the labels of a row, however the columns hold them."""

    def __init__(self, path: str | Path, layout: FileLayout, columns: Sequence[str]) -> None:
        self._path = path
        self._separator = layout.label_separator
        self._column = layout.labels_column or "labels"
        self._columns: tuple[str, ...] = layout.label_columns
        self._names: list[str] | None = None
        self._is_0_1: bool | None = None
        self._strings = self._separated = 0
        for name in self._columns:
            if name not in columns:
                raise _no_column(path, None, name, "--label-column", columns)
        if self._columns or self._column in columns:
            return
        others = [name for name in columns if name not in (*_BESIDE, layout.text_column)]
        if layout.labels_column is not None or not others:
            raise _no_column(path, None, self._column, "--labels-column", columns)
        self._columns = tuple(others)

    def of(self, number: int, row: Mapping[str, Any]) -> list[str]:
        """Return the names of the row's labels."""
        if self._columns:
            return [name for name in self._columns if self._is_set(number, name, row.get(name))]
        value = row.get(self._column)
        if value is None:
            return []
        if isinstance(value, str):
            return self._split(number, value)
        return self._listed(number, value)

    def _listed(self, number: int, value: object) -> list[str]:
        if not isinstance(value, list):
            raise self._error(
                number, f"{self._column!r} is {value!r}", "give a list, or a string of labels"
            )
        if all(isinstance(label, str) for label in value):
            return value
        return self._named(number, value)

    def _is_set(self, number: int, name: str, value: object) -> bool:
        found = _TRUTH.get(str(value).strip().lower())
        if found is None:
            held = "is empty" if value in (None, "") else f"holds {str(value)[:60]!r}"
            raise self._error(
                number,
                f"the column {name!r} {held}",
                "write 0 or 1 in the column of a label; if it is none, name the columns of labels "
                "(--labels-column or --label-column)",
            )
        return found

    def _split(self, number: int, cell: str) -> list[str]:
        if not cell.strip():
            return []
        if cell.startswith("["):
            try:
                return self._listed(number, json.loads(cell))
            except json.JSONDecodeError:
                pass  # a label may begin with a bracket
        labels = [label.strip() for label in cell.split(self._separator)]
        if "" in labels:
            raise self._error(
                number,
                f"an empty label in {cell[:60]!r}",
                f"separate labels by one {self._separator!r}",
            )
        self._strings += 1
        self._separated += len(labels) > 1
        return labels

    def _named(self, number: int, value: list[Any]) -> list[str]:
        """Return the names of labels given as a 0/1 list or as numbers from 0."""
        if self._names is None:
            self._names = names_beside(self._path, "label")
        names = self._names
        if names is None:
            raise self._error(
                number,
                f"{self._column!r} holds numbers, and there is no labels.txt beside the file",
                "name one label a line there, label 0 first",
            )
        if not all(isinstance(each, int) or _is_whole(each) for each in value):
            raise self._error(
                number,
                f"{self._column!r} mixes kinds",
                "give a list of names, of 0 and 1, or of label numbers",
            )
        if self._is_0_1 is None:  # the first row decides, so that a later one cannot differ
            self._is_0_1 = len(value) == len(names) and set(value) <= {0, 1}
        if self._is_0_1:
            if len(value) != len(names) or not set(value) <= {0, 1}:
                raise self._error(
                    number,
                    f"{self._column!r} is no list of {len(names)} times 0 or 1, as it was before",
                    "give 0 or 1 for each line of labels.txt",
                )
            return [name for name, is_set in zip(names, value, strict=True) if is_set]
        for each in value:
            if not 0 <= each < len(names):
                raise self._error(
                    number,
                    f"label {each}, but labels.txt ends at label {len(names) - 1}",
                    "count labels from 0, in the order of labels.txt",
                )
        return [names[int(each)] for each in value]

    def warn_if_never_separated(self, n: int) -> None:
        """Warn if no cell holds the separator: another one may be in use."""
        if self._strings and not self._separated and n > 1:
            warnings.warn(
                f"{self._path}: no cell of {self._column!r} holds {self._separator!r}, so each is "
                "read as one label; if that is wrong, give the --label-separator",
                DataWarning,
                stacklevel=2,
            )

    def _error(self, number: int, fault: str, cure: str) -> DataError:
        return DataError(self._path, number, fault, cure)


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def _no_column(
    path: str | Path, number: int | None, name: str, option: str, columns: Iterable[str]
) -> DataError:
    there = ", ".join(islice(columns, 8))
    return DataError(
        path, number, f"there is no column {name!r}", f"name it ({option}); there are {there}"
    )


def _csv_rows(path: str | Path, layout: FileLayout, progress: Progress | None) -> Iterator[Row]:
    """Yield the rows of a CSV file, each numbered by the line that it begins on."""
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
    """Return the delimiter that makes the text's column one of the header's."""
    for delimiter in _DELIMITERS:
        names = next(csv.reader([head], delimiter=delimiter), [])
        if layout.text_column in map(str.strip, names):
            return delimiter
    return _DELIMITERS[0]


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
    content = read_whole(path)
    number = 0
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        _refuse_repeated(path, None, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
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
