"""What the columns of a table hold: labels, and another model's answers."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from setwise.models.data.formats.cells import Unreadable, is_structured, listed
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.formats.separators import Separators
from setwise.models.data.formats.verdicts import is_flag
from setwise.models.data.lines import DataError, names_beside

_BESIDE = ("id", "annotator", "metadata", "__index_level_0__")  # columns that are never labels
_TRUTH = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


class LabelColumns:
    """Reads the labels of a row, however the columns hold them."""

    def __init__(
        self, path: str | Path, layout: FileLayout, columns: Collection[str], others: Sequence[str]
    ) -> None:
        self._path = path
        self._separators = Separators(path, layout.label_separator)
        self._column = layout.labels_column or "labels"
        self._columns: tuple[str, ...] = layout.label_columns
        self._is_0_1: bool | None = None
        self._has_empty = False  # no list of 0 and 1 is empty
        self._first: frozenset[str] = frozenset()
        for name in self._columns:
            if name not in columns:
                raise no_column(path, None, name, "--label-column", columns)
        if self._columns or self._column in columns:
            return
        beside = {*_BESIDE, layout.text_column, *others}
        left = [name for name in columns if name not in beside and not is_flag(name)]
        if layout.labels_column is not None or not left:
            raise no_column(path, None, self._column, "--labels-column", columns)
        self._columns = tuple(left)
        self._first = frozenset(columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that hold labels."""
        return self._columns or (self._column,)

    def of(self, number: int, row: Mapping[str, Any]) -> list[str]:
        """Return the names of the row's labels."""
        if self._first and not self._first.issuperset(row):
            new = next(name for name in row if name not in self._first)
            raise self._error(
                number,
                f"the column {new!r} is not in the first row",
                "give every row the same columns, or name those of labels (--label-column)",
            )
        if self._columns:
            return [name for name in self._columns if self._is_set(number, name, row.get(name))]
        value = row.get(self._column)
        if value is None:
            raise self._error(
                number,
                f"{self._column!r} is null",
                "leave the document out if its labels are unknown; [] says that none applies",
            )
        return self._split(number, value) if isinstance(value, str) else self._listed(number, value)

    def _listed(self, number: int, value: object) -> list[str]:
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_whole(value):
            value = [value]  # one class
        if not isinstance(value, list):
            raise self._error(
                number, f"{self._column!r} is {value!r}", "give a list, or a string of labels"
            )
        self._has_empty = self._has_empty or not value
        if not all(isinstance(label, str) for label in value):
            return self._named(number, value)
        for label in value:
            self._check_plain(number, label)
        return value

    def _check_plain(self, number: int, label: str) -> None:
        if is_structured(label):
            raise self._error(
                number,
                f"the label {label[:60]!r} looks like a list or is in quotes",
                'write labels as they are, or lists as JSON: ["fever", "cough"]',
            )

    def _is_set(self, number: int, name: str, value: object) -> bool:
        truth = _TRUTH.get(str(value).strip().lower())
        if truth is None:
            held = "is empty" if value in (None, "") else f"holds {str(value)[:60]!r}"
            raise self._error(
                number,
                f"the column {name!r} {held}",
                "write 0 or 1 in the column of a label; if it is none, name the columns of labels "
                "(--labels-column or --label-column)",
            )
        return truth

    def _split(self, number: int, cell: str) -> list[str]:
        if not cell.strip():
            return []
        try:
            members = listed(cell)
        except Unreadable as error:
            raise self._error(
                number,
                f"{self._column!r} holds {cell[:60]!r}, {error}",
                'write lists as JSON: ["fever", "cough"], or fever;cough',
            ) from error
        if members is not None:
            self._separators.count(len(members))
            return self._listed(number, members)
        labels = self._separators.split(number, cell)
        for label in labels:
            self._check_plain(number, label)
        numerals = all(map(str.isdecimal, labels))
        if numerals and self._names and self._names.keys().isdisjoint(labels):
            return self._named(number, [int(label[:20]) for label in labels])
        return labels

    @cached_property
    def _names(self) -> dict[str, int] | None:
        """Labels in ``labels.txt``, with their numbers."""
        names = names_beside(self._path, "label")
        return None if names is None else {name: place for place, name in enumerate(names)}

    def _named(self, number: int, value: list[Any]) -> list[str]:
        """Return the names of labels given as 0/1 list or numbers."""
        if all(isinstance(each, bool) for each in value) and len(value) == len(self._names or ()):
            value = list(map(int, value))
        if not all(_is_whole(each) for each in value):
            raise self._error(
                number,
                f"{self._column!r} mixes kinds",
                "give a list of names, of 0 and 1, or of label numbers",
            )
        if self._names is None:
            raise self._error(
                number,
                f"{self._column!r} holds numbers, and there is no labels.txt beside the file",
                "name one label a line there, label 0 first",
            )
        names = list(self._names)
        could_be_0_1 = len(value) == len(names) and set(value) <= {0, 1}
        is_0_1 = could_be_0_1 and (len(set(value)) < len(value) or value == [1])
        if self._is_0_1 is None:  # the first row decides, so that a later one cannot differ
            self._is_0_1 = is_0_1 or (could_be_0_1 and not self._has_empty)
        if self._is_0_1 is not could_be_0_1 and (self._is_0_1 or is_0_1):
            kind = f"list of {len(names)} times 0 or 1" if self._is_0_1 else "list of label numbers"
            raise self._error(
                number,
                f"{self._column!r} is no {kind}, as it was before",
                "give 0 or 1 for each line of labels.txt, or label numbers everywhere",
            )
        if self._is_0_1:
            return [name for name, is_set in zip(names, value, strict=True) if is_set]
        if len(set(value)) < len(value):
            cure = "give each number once, or 0 or 1 for each line of labels.txt"
            raise self._error(number, f"{self._column!r} repeats a label number", cure)
        for each in value:
            if not 0 <= each < len(names):
                raise self._error(
                    number,
                    f"label {each}, but labels.txt ends at label {len(names) - 1}",
                    "count labels from 0, in the order of labels.txt; [] says that none applies, "
                    "and documents without a known label are left out",
                )
        return [names[int(each)] for each in value]

    def check_separator(self) -> None:
        """Warn or raise if cells seem to hold several labels that were read as one."""
        self._separators.check(self._column)

    def _error(self, number: int, fault: str, cure: str) -> DataError:
        return DataError(self._path, number, fault, cure)


class AnswerColumns:
    """Reads another model's answer, however the columns hold it."""

    def __init__(
        self, path: str | Path, layout: FileLayout, columns: Collection[str], numbers: Sequence[str]
    ) -> None:
        self._path = path
        self._numbers = numbers
        for name in numbers:
            if name not in columns and "metadata" not in columns:
                raise no_column(path, None, name, "--number", columns)
        bare = replace(layout, labels_column="answer", label_columns=())
        self._bare = LabelColumns(path, bare, {"answer"}, ())
        if not any(name in columns for name in ("answer", "scores", "candidates")):
            raise DataError(
                path,
                None,
                "there is no column scores, candidates or answer",
                "give what the other model says in one of them",
            )
        self.columns = ("answer", "scores", "candidates", *numbers)

    def of(self, number: int, row: Mapping[str, Any]) -> dict[str, object]:
        """Return the answer's members of a line."""
        record: dict[str, object] = {}
        if row.get("answer") is not None:
            record["answer"] = self._bare.of(number, row)
        for name in ("scores", "candidates"):
            value = row.get(name)
            if value is not None and value != "":
                record[name] = _without_nulls(self._parsed(number, name, value))
        extra = {
            name: _as_number(row[name]) for name in self._numbers if row.get(name) not in (None, "")
        }
        metadata = row.get("metadata")
        metadata = {} if metadata in (None, "") else self._parsed(number, "metadata", metadata)
        record["metadata"] = metadata | extra if isinstance(metadata, dict) else metadata
        return record

    def _parsed(self, number: int, name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            fault = f"{name!r} is no JSON (column {error.colno}: {error.msg})"
            cure = 'write scores as {"label": 0.9}, candidates as [{"labels": ["label"]}]'
            raise DataError(self._path, number, fault, cure) from error
        except (ValueError, RecursionError, MemoryError) as error:
            fault = f"{name!r} is JSON beyond reading ({type(error).__name__})"
            raise DataError(self._path, number, fault, "write plain JSON") from error


def _without_nulls(value: object) -> object:
    """Return a value without unset members, which Parquet gives every row."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _as_number(cell: object) -> object:
    try:
        return float(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell  # named as a fault with the answer


def _is_whole(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def no_column(
    path: str | Path, number: int | None, name: str, option: str, columns: Iterable[str]
) -> DataError:
    """Return the error for a missing column, naming the option."""
    there = ", ".join(islice(columns, 8))
    return DataError(
        path, number, f"there is no column {name!r}", f"name it ({option}); there are {there}"
    )
