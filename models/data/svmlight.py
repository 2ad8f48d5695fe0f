"""Multi-label svmlight files: ``l1,l2 index:value …``, labels 0-based, features 1-based.

Files of the Extreme Classification Repository hold the same lines, with features 0-based, after a
header of three numbers: documents, features, labels.
"""

import re
from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from setwise.models.data.formats.vectors import MOST_COLUMNS
from setwise.models.data.lines import ContentHash, DataError, Progress, decode, read_lines

# Possessive quantifiers match in one pass, without backtracking.
_PLAIN_FEATURES = re.compile(rb"(?: ++[0-9]{1,18}+:[-+.0-9eE]++)*+ *+")
_PLAIN_LABELS = re.compile(rb"[0-9]{1,18}+(?:,[0-9]{1,18}+)*+")
_INDEX = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)",
    re.IGNORECASE,
)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def read_svmlight(
    path: str | Path,
    *,
    n_labels: int,
    n_features: int | None = None,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> tuple[csr_array, list[tuple[int, ...]]]:
    """Read a multi-label svmlight file, plain or gzipped.

    An empty label set is an empty field: the line starts with a space. ``#`` starts a comment.

    Parameters
    ----------
    path : str or Path
        The file.
    n_labels : int
        Labels are in ``[0, n_labels)``.
    n_features : int, optional
        Features are in ``[1, n_features]``; by default the largest index is their number.
    progress, content : optional
        See :func:`setwise.models.data.lines.read_lines`.

    Returns
    -------
    X : csr_array of float64, shape (n, n_features)
        int32 indices, ascending in each row.
    labels : list of tuple of int
        The label indices of each row, ascending; duplicates are kept.

    Raises
    ------
    DataError
        At the first invalid line, or if there is no document.
    """
    parser = _Parser(path, n_labels, MOST_COLUMNS if n_features is None else n_features)
    lines = read_lines(path, progress=progress, content=content)
    return _read(path, lines, parser, n_features)


def read_extreme(
    path: str | Path,
    *,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> tuple[csr_array, list[tuple[int, ...]], int]:
    """Read a file of the Extreme Classification Repository, plain or gzipped.

    The first line holds the numbers of documents, features and labels. Then each line is
    ``l1,l2 index:value …``, all numbers counted from 0.

    Returns
    -------
    X : csr_array of float64, shape (n, n_features)
        int32 indices, ascending in each row.
    labels : list of tuple of int
        The label indices of each row, ascending; duplicates are kept.
    n_labels : int
        As the header says.

    Raises
    ------
    DataError
        At the first invalid line, or if the header does not fit the rest.
    """
    lines = read_lines(path, progress=progress, content=content)
    header = decode(path, 1, next(lines, (1, b""))[1]).split()
    if len(header) != 3 or not all(re.fullmatch("[0-9]{1,9}", field) for field in header):
        raise DataError(
            path,
            1,
            "the header is not three numbers",
            "begin with the numbers of documents, features and labels",
        )
    n, n_features, n_labels = map(int, header)
    if max(n_features, n_labels) > MOST_COLUMNS:
        fault = f"the header says {max(n_features, n_labels)} features or labels"
        raise DataError(path, 1, fault, f"at most {MOST_COLUMNS} can be read")
    parser = _Parser(path, n_labels, n_features, first=0)
    X, labels = _read(path, lines, parser, n_features)
    if len(labels) != n:
        raise DataError(
            path, 1, f"the header says {n} documents, but there are {len(labels)}", "correct it"
        )
    return X, labels, n_labels


def _read(
    path: str | Path, lines: Iterable[tuple[int, bytes]], parser: "_Parser", n_features: int | None
) -> tuple[csr_array, list[tuple[int, ...]]]:
    columns, values, ends = array("i"), array("d"), [0]
    label_sets: list[tuple[int, ...]] = []
    # Equal label fields share one tuple, because distinct sets are few.
    known_sets: dict[bytes, tuple[int, ...]] = {b"": ()}
    for number, line in lines:
        if b"#" in line:
            line = line.partition(b"#")[0]  # noqa: PLW2901 - the rest is a comment
            if not line.strip():
                continue
        label_field, body = _split_labels(line)
        if not label_field and not body:
            cure = "start a document without labels with a space"
            raise parser.error(number, "an empty line", cure)
        labels = known_sets.get(label_field)
        if labels is None:
            labels = known_sets[label_field] = parser.labels(number, label_field)
        label_sets.append(labels)
        row_columns, row_values = parser.features(number, body)
        columns.extend(row_columns)
        values.extend(row_values)
        ends.append(len(columns))
    if not label_sets:
        raise DataError(path, None, "the file holds no documents", "give one document a line")
    indices = np.frombuffer(columns, dtype=np.int32)
    if n_features is None:
        n_features = int(indices.max()) + 1 if len(indices) else 0
    bounds = np.array(ends, dtype="i4" if ends[-1] <= np.iinfo(np.int32).max else "i8")
    X = csr_array(
        (np.frombuffer(values, dtype=np.float64), indices, bounds),
        shape=(len(label_sets), n_features),
    )
    X.has_sorted_indices = True  # the parser refuses unsorted rows
    return X, label_sets


def _split_labels(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into label field and rest (with its leading space)."""
    line = line.rstrip(b"\r\n").replace(b"\t", b" ")
    if line[:1] == b" ":
        return b"", line
    label_field, space, rest = line.partition(b" ")
    if b":" in label_field:  # an empty label set without its leading space
        return b"", b" " + line
    return label_field, space + rest


class _Parser:
    """Parses fields one by one and finds the fault of invalid ones."""

    def __init__(self, path: str | Path, n_labels: int, n_features: int, *, first: int = 1) -> None:
        self._path = path
        self._n_labels = n_labels
        self._n_features = n_features
        self._first = first  # the number of the first feature

    def error(self, number: int, fault: str, cure: str) -> DataError:
        return DataError(self._path, number, fault, cure)

    def labels(self, number: int, label_field: bytes) -> tuple[int, ...]:
        if _PLAIN_LABELS.fullmatch(label_field):
            labels = sorted(map(int, label_field.split(b",")))
            if labels[-1] < self._n_labels:
                return tuple(labels)
            if self._first == 0:
                raise self.error(
                    number,
                    f"label {labels[-1]}, but the header says {self._n_labels} labels",
                    "count labels from 0",
                )
            raise self.error(
                number,
                f"label {labels[-1]}, but labels.txt ends at label {self._n_labels - 1}",
                "count labels from 0, in the order of labels.txt",
            )
        text = decode(self._path, number, label_field)
        for part in text.split(","):
            if part.startswith("-") and part[1:].isdecimal():
                raise self.error(number, f"negative label {part}", "count labels from 0")
        raise self.error(
            number,
            f"{text[:60]!r} is not a list of label numbers",
            "write labels as 0,4,7; a document without labels starts with a space",
        )

    def features(self, number: int, body: bytes) -> tuple[list[int], list[float]]:
        """Return the row's 0-based columns and its values."""
        if not _PLAIN_FEATURES.fullmatch(body):
            raise self._fault(number, body)
        fields = body.replace(b":", b" ").split()
        try:
            values = list(map(float, fields[1::2]))
        except ValueError as error:
            raise self._fault(number, body) from error
        columns = [int(field) - self._first for field in fields[0::2]]
        if columns and (columns[0] < 0 or columns[-1] >= self._n_features):
            raise self._fault(number, body)
        if any(map(int.__ge__, columns, columns[1:])):
            raise self._fault(number, body)
        # A decimal beyond float32 would silently become infinite.
        if max(map(abs, values), default=0.0) > _FLOAT32_MAX:
            raise self._fault(number, body)
        return columns, values

    def _fault(self, number: int, body: bytes) -> DataError:
        """Return the first error in an invalid row."""
        previous = self._first - 1
        for token in decode(self._path, number, body).split():
            name, _, value = token.partition(":")
            quoted = repr(token if len(token) <= 60 else token[:60] + "…")
            if not (_INDEX.fullmatch(name) and value):
                return self.error(
                    number, f"{quoted} is not index:value", "write features as 12:0.5"
                )
            index = int(name)
            fault = self._index_fault(number, index, previous)
            fault = fault or self._value_fault(number, quoted, value)
            if fault is not None:
                return fault
            previous = index
        return self.error(number, "not svmlight", "write l1,l2 index:value index:value …")

    def _index_fault(self, number: int, index: int, previous: int) -> DataError | None:
        order = f"number features from {self._first}, in ascending order, each once"
        if index < self._first:
            return self.error(number, f"feature index {index}", order)
        if index == previous:
            return self.error(number, f"feature {index} is given twice", order)
        if index < previous:
            return self.error(number, f"feature {index} comes after feature {previous}", order)
        if index - self._first >= self._n_features:
            cure = "name every feature in features.txt"
            if self._first == 0:
                cure = "say in the header how many there are"
            elif self._n_features == MOST_COLUMNS:
                cure = f"number features from {self._first} without such gaps"
            return self.error(
                number, f"feature {index}, but there are {self._n_features} features", cure
            )
        return None

    def _value_fault(self, number: int, quoted: str, value: str) -> DataError | None:
        if not _NUMBER.fullmatch(value):
            return self.error(
                number, f"the value in {quoted} is no number", "write it as 0.5 or 1e-3"
            )
        # Negated so that NaN fails too.
        if not abs(float(value)) <= _FLOAT32_MAX:
            return self.error(
                number,
                f"the value in {quoted} is not finite in 32 bits",
                "give a finite number within ±3.4e38",
            )
        return None
