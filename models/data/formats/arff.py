"""ARFF files, with the labels that Mulan's XML file or MEKA's header names."""

import re
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
    read_bytes,
    read_lines,
)
from setwise.spelling import misnamed, spelled

_NUMERIC = {"NUMERIC", "REAL", "INTEGER"}
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_TRUTH = {"no": False, "false": False, "n": False, "yes": True, "true": True, "y": True}
_ATTRIBUTE = re.compile(
    r"""\s*+@attribute\s++(?:(?P<quoted>'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")|(?P<bare>[^\s'"{]++))\s*+""",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_MEKA = re.compile(r"-C\s+(-?\d{1,9})(?!\S)")
"""Where MEKA says how many attributes are labels: the first ones, or if negative, the last."""


def read_arff(
    path: Path,
    *,
    labelled: bool = True,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> Vectors:
    """Read an ARFF file, dense or sparse, plain or gzipped.

    The XML file beside it is named like it, with or without ``-train`` or ``-test``, or is the only
    one in the folder. Without one, MEKA's option ``-C`` in the relation says which attributes are
    labels. A nominal attribute of numbers that begin with 0 is a feature of these numbers; any
    other becomes a 0/1 feature for each value but the first, named ``name=value``. A sparse row
    that leaves a nominal attribute out has its first value.

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
        At the first line that is not such a document, or if nothing names the labels.
    """
    try:
        import arff  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise DataError(path, None, "ARFF needs liac-arff", "install setwise[arff]") from error
    labels = _labels(path, content)
    lines = _Lines(path, progress, content)
    decoder = arff.ArffDecoder()
    try:
        decoded = decoder.decode(
            lines, return_type=arff.LOD_GEN if lines.sparse else arff.DENSE_GEN
        )
        kinds = (kind for _, kind in decoded["attributes"])
        attributes = list(zip(lines.names, kinds, strict=True))
        if labels is None:
            labels = _first_or_last(path, decoded["relation"], attributes, needed=labelled)
        columns = _Columns(path, attributes, labels, labelled=labelled)
        rows: list[dict[int, float]] = []
        label_sets: list[tuple[int, ...]] = []
        for values in decoded["data"]:
            items = columns.omitted | values if lines.sparse else dict(enumerate(values))
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
    """Iterates over decoded lines and knows the number of the last one.

    Attributes are handed on under their numbers, because liac-arff does not unescape their names.
    """

    def __init__(self, path: Path, progress: Progress | None, content: ContentHash | None) -> None:
        self._path = path
        self.number = 0
        self.names: list[str] = []
        self._distinct: set[str] = set()
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
        in_head = True
        for number, line in self._lines:
            self.number = number
            in_head = in_head and not line.lstrip().lower().startswith("@data")
            attribute = _ATTRIBUTE.match(line) if in_head else None
            if attribute is None:
                yield line
            else:
                self._add(spelled(_unescaped(attribute)))
                yield f"@attribute a{len(self.names)} {line[attribute.end() :]}"

    def _add(self, name: str) -> None:
        if not name or name in self._distinct:
            fault = f"there are two attributes {name!r}" if name else "an attribute has no name"
            raise DataError(self._path, self.number, fault, "give each its own name")
        self._distinct.add(name)
        self.names.append(name)


class _Columns:
    """Sorts attributes into features and labels."""

    def __init__(
        self, path: Path, attributes: list[tuple[str, Any]], labels: list[str], *, labelled: bool
    ) -> None:
        self._path = path
        self._attributes = attributes
        self.names: list[str] = []
        self.omitted: dict[int, str] = {}
        """What sparse rows mean where they leave an attribute out that is not numeric."""
        self._label: dict[int, int] = {}
        self._column: dict[int, int] = {}
        self._nominal: dict[int, dict[str, tuple[int, float]]] = {}
        position = {name: index for index, name in enumerate(labels)}
        for place, (name, values) in enumerate(attributes):
            if isinstance(values, list):
                self.omitted[place] = values[0]
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
        names = {name for name, _ in attributes}
        missing = [name for name in labels if name not in names]
        if missing and labelled:
            raise DataError(
                path, None, f"there is no attribute for the label {missing[0]!r}", "correct the XML"
            )

    def _add(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _add_nominal(self, name: str, values: list[str]) -> dict[str, tuple[int, float]]:
        """Return column and number for each value but the first."""
        numbers = [_number(value) for value in values]
        if all(number is not None for number in numbers) and numbers[0] == 0:
            column = self._add(name)
            return {value: (column, float(value)) for value in values}
        return {value: (self._add(spelled(f"{name}={value}")), 1.0) for value in values[1:]}

    def of(
        self, number: int, values: Mapping[int, Any]
    ) -> tuple[dict[int, float], tuple[int, ...]]:
        """Return the features and labels of a row."""
        row: dict[int, float] = {}
        labels: list[int] = []
        for place, value in values.items():
            if value is None:
                cure = "leave the document out" if place in self._label else "give a value"
                raise self._error(number, place, "is missing (?)", cure)
            if place in self._label:
                if self._truth(number, place, value):
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

    def _truth(self, number: int, place: int, value: object) -> bool:
        truth = _TRUTH.get(str(value).strip().lower())
        if truth is not None:
            return truth
        amount = _number(value)
        if amount not in {0.0, 1.0}:
            raise self._error(number, place, f"is {value!r}", "write 0 or 1 for a label")
        return amount == 1.0

    def _error(self, number: int, place: int, fault: str, cure: str) -> DataError:
        name = self._attributes[place][0]
        return DataError(self._path, number, f"the attribute {name!r} {fault}", cure)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _unescaped(attribute: re.Match[str]) -> str:
    """Return an attribute's name, of quotes and escapes free."""
    if attribute["bare"] is not None:
        return attribute["bare"]
    written = attribute["quoted"][1:-1]
    return _ESCAPED.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1 else match[1], written
    )


def _first_or_last(
    path: Path, relation: str, attributes: list[tuple[str, Any]], *, needed: bool
) -> list[str]:
    """Return the labels that MEKA's header names by their number."""
    option = _MEKA.search(relation)
    n = int(option[1]) if option else 0
    if not 0 < abs(n) <= len(attributes):
        if not needed:
            return []
        stem = _stem(path)
        fault = "there is no XML file beside it"
        if option:
            fault = f"the relation says -C {n}, but there are {len(attributes)} attributes"
        raise DataError(
            path, None, fault, f"name the labels in {_stems(stem)[-1]}.xml, as Mulan does"
        )
    names = [name for name, _ in attributes]
    return names[:n] if n > 0 else names[n:]


def _stem(path: Path) -> str:
    return re.sub(r"\.arff(\.gz)?$", "", path.name, flags=re.IGNORECASE)


def _stems(stem: str) -> list[str]:
    return [stem, stem.removesuffix("-train").removesuffix("-test")]


def _labels(path: Path, content: ContentHash | None) -> list[str] | None:
    """Return the labels that the XML file beside an ARFF file names, None without one."""
    stem = _stem(path)
    stems = _stems(stem)
    files = [beside for name in stems if (beside := path.with_name(f"{name}.xml")).is_file()]
    files = files or sorted(path.parent.glob("*.xml"))
    if not files:
        return None
    if len(files) > 1 and path.with_name(f"{stem}.xml") not in files:
        cure = f"name the labels in {stems[-1]}.xml, as Mulan does"
        raise DataError(path, None, "several XML files are beside it", cure)
    file = files[0]
    try:
        root = ET.fromstring(read_bytes(file, content=content))  # noqa: S314 - expat limits entities
    except ET.ParseError as error:
        raise DataError(file, error.position[0], f"not XML ({error})", "correct it") from error
    written = [e.get("name", "") for e in root.iter() if e.tag.rpartition("}")[2] == "label"]
    names = list(map(spelled, written))
    if not names or "" in names or len(set(names)) < len(names):
        fault = "a label has no name, or a repeated one" if names else "there are no labels"
        raise DataError(file, None, fault, 'write <label name="…"></label> for each')
    for name in names:
        if why := misnamed(name):
            raise DataError(file, None, f"the label {name[:60]!a} {why.fault}", why.cure)
    return names
