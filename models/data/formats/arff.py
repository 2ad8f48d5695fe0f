"""ARFF files with Mulan's XML file, which names the labels."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from setwise.models.data.formats.vectors import Vectors, matrix_of
from setwise.models.data.lines import (
    ContentHash,
    DataError,
    Progress,
    decode,
    read_lines,
    read_whole,
)

_NUMERIC = {"NUMERIC", "REAL", "INTEGER"}
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def read_arff(
    path: Path,
    *,
    labelled: bool = True,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> Vectors:
    """Read an ARFF file, dense or sparse, plain or gzipped.

    The XML file beside it is named like it, with or without ``-train`` or ``-test``, or is the only
    one in the folder. A nominal attribute of numbers that begin with 0 is a feature of these
    numbers; any other becomes a 0/1 feature for each value but the first, named ``name=value``.

    Parameters
    ----------
    path : Path
        The file.
    labelled : bool
        Whether the labels must be there.
    progress, content : optional
        See :func:`setwise.models.data.lines.read_lines`.

    Raises
    ------
    DataError
        At the first line that is not such a document, or if the XML file is missing.
    """
    try:
        import arff  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise DataError(path, None, "ARFF needs liac-arff", "install setwise[arff]") from error
    labels = _labels(path, content, needed=labelled)
    lines = _Lines(path, progress, content)
    decoder = arff.ArffDecoder()
    try:
        decoded = decoder.decode(
            lines, return_type=arff.LOD_GEN if lines.sparse else arff.DENSE_GEN
        )
        columns = _Columns(path, decoded["attributes"], labels, labelled=labelled)
        rows: list[dict[int, float]] = []
        label_sets: list[tuple[int, ...]] = []
        for values in decoded["data"]:
            items = values if lines.sparse else dict(enumerate(values))
            row, label_set = columns.of(lines.number, items)
            rows.append(row)
            label_sets.append(label_set)
    except arff.ArffException as error:
        # Its own text fails where the line holds a percent sign.
        fault = (error.message or "not ARFF").replace(" in line %d", "").partition(", at line")[0]
        raise DataError(path, lines.number or None, fault, "correct the ARFF") from error
    except DataError:
        raise
    except (ValueError, IndexError) as error:
        raise DataError(path, lines.number, f"not ARFF ({error})", "correct the line") from error
    if not rows:
        raise DataError(path, None, "the file holds no documents", "add rows below @data")
    return Vectors(
        matrix_of(rows, len(columns.names)), label_sets, tuple(labels), tuple(columns.names)
    )


class _Lines:
    """Iterates over decoded lines and knows the number of the last one."""

    def __init__(self, path: Path, progress: Progress | None, content: ContentHash | None) -> None:
        self.number = 0
        self._lines = [
            (number, decode(path, number, line).replace("\t", " "))
            for number, line in read_lines(path, progress=progress, content=content)
        ]
        head = (line.strip().lower() for _, line in self._lines)
        for line in head:
            if line.startswith("@data"):
                break
        first = next((line for line in head if line and not line.startswith("%")), "")
        self.sparse = first.startswith("{")

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.number = number
            yield line


class _Columns:
    """Sorts attributes into features and labels."""

    def __init__(
        self, path: Path, attributes: list[tuple[str, Any]], labels: list[str], *, labelled: bool
    ) -> None:
        self._path = path
        self._attributes = attributes
        self.names: list[str] = []
        self._label: dict[int, int] = {}
        self._column: dict[int, int] = {}
        self._nominal: dict[int, dict[str, tuple[int, float]]] = {}
        position = {name: index for index, name in enumerate(labels)}
        for place, (name, values) in enumerate(attributes):
            if name in position:
                self._label[place] = position[name]
            elif values in _NUMERIC if isinstance(values, str) else False:
                self._column[place] = self._add(name)
            elif isinstance(values, str):
                raise DataError(
                    path,
                    None,
                    f"the attribute {name!r} is a {values.lower()}",
                    "leave it out, or give texts as CSV or JSON Lines",
                )
            else:
                self._nominal[place] = self._add_nominal(name, values)
        missing = [name for name in labels if name not in dict(attributes)]
        if missing and labelled:
            raise DataError(
                path, None, f"there is no attribute for the label {missing[0]!r}", "correct the XML"
            )

    def _add(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _add_nominal(self, name: str, values: list[str]) -> dict[str, tuple[int, float]]:
        """Return column and number for each value that sparse rows hold."""
        numbers = [_number(value) for value in values]
        if all(number is not None for number in numbers) and numbers[0] == 0:
            column = self._add(name)
            return {value: (column, float(value)) for value in values}
        return {value: (self._add(f"{name}={value}"), 1.0) for value in values[1:]}

    def of(
        self, number: int, values: Mapping[int, Any]
    ) -> tuple[dict[int, float], tuple[int, ...]]:
        """Return the features and labels of a row."""
        row: dict[int, float] = {}
        labels: list[int] = []
        for place, value in values.items():
            if value is None:
                raise self._error(number, place, "is missing (?)", "give a value")
            if place in self._label:
                truth = _number(value)
                if truth not in {0.0, 1.0}:
                    raise self._error(number, place, f"is {value!r}", "write 0 or 1 for a label")
                if truth:
                    labels.append(self._label[place])
            elif place in self._column:
                # Negated so that NaN fails too.
                if not abs(value) <= _FLOAT32_MAX:
                    raise self._error(number, place, "is not finite in 32 bits", "give a number")
                row[self._column[place]] = value
            elif value in self._nominal[place]:
                column, amount = self._nominal[place][value]
                row[column] = amount
        return row, tuple(sorted(labels))

    def _error(self, number: int, place: int, fault: str, cure: str) -> DataError:
        name = self._attributes[place][0]
        return DataError(self._path, number, f"the attribute {name!r} {fault}", cure)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _labels(path: Path, content: ContentHash | None, *, needed: bool) -> list[str]:
    """Return the labels that the XML file beside an ARFF file names."""
    stem = path.name.removesuffix(".gz").removesuffix(".arff")
    stems = [stem, stem.removesuffix("-train").removesuffix("-test")]
    files = [beside for name in stems if (beside := path.with_name(f"{name}.xml")).is_file()]
    files = files or sorted(path.parent.glob("*.xml"))
    if len(files) != 1 and path.with_name(f"{stem}.xml") not in files:
        if not needed:
            return []
        fault = ("several XML files are" if files else "there is no XML file") + " beside it"
        raise DataError(path, None, fault, f"name the labels in {stems[-1]}.xml, as Mulan does")
    file = files[0]
    try:
        root = ET.fromstring(read_whole(file, content=content))  # noqa: S314 - expat limits entities
    except ET.ParseError as error:
        raise DataError(file, error.position[0], f"not XML ({error})", "correct it") from error
    names = [each.get("name", "") for each in root.iter() if each.tag.rpartition("}")[2] == "label"]
    if not names or "" in names or len(set(names)) < len(names):
        fault = "a label has no name, or a repeated one" if names else "there are no labels"
        raise DataError(file, None, fault, 'write <label name="…"></label> for each')
    return names
