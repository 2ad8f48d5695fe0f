"""Multi-label svmlight files: ``l1,l2 index:value …``, labels 0-based, features 1-based."""

import re
from array import array
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.data.lines import ContentHash, DataError, Progress, decode, read_lines

# Possessive quantifiers match in one pass, without backtracking.
_PLAIN_FEATURES = re.compile(rb"(?: ++[0-9]{1,18}+:[-+.0-9eE]++)*+ *+")
_PLAIN_LABELS = re.compile(rb"[0-9]{1,18}+(?:,[0-9]{1,18}+)*+")
_INDEX = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)",
    re.IGNORECASE,
)
_MAX_FEATURES = 2**31 - 1  # column indices are int32
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_POWERS = 10.0 ** np.arange(23)  # all exact
_LINE_FEED, _SPACE, _PLUS, _MINUS, _POINT, _COLON = b"\n +-.:"
_ZERO, _NINE, _LARGE_E, _SMALL_E = b"09Ee"
_BLOCK = 1 << 20  # bytes parsed at a time
_ORDER = "number features from 1, in ascending order, each once"


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
    limit = _MAX_FEATURES if n_features is None else n_features
    parser = _Parser(path, n_labels, limit)
    rows = _Rows(parser, limit)
    label_sets: list[tuple[int, ...]] = []
    # Equal label fields share one tuple, because distinct sets are few.
    known_sets: dict[bytes, tuple[int, ...]] = {b"": ()}
    try:
        for number, line in read_lines(path, progress=progress, content=content):
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
            rows.add(number, body)
    except DataError:
        rows.flush()  # an error in a pending row is on an earlier line
        raise
    if not label_sets:
        raise DataError(path, None, "the file holds no documents", "give one document a line")
    return rows.matrix(n_features), label_sets


def _split_labels(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into label field and rest (with its leading space)."""
    line = line.rstrip(b"\r\n").replace(b"\t", b" ")
    if line[:1] == b" ":
        return b"", line
    label_field, space, rest = line.partition(b" ")
    if b":" in label_field:  # an empty label set without its leading space
        return b"", b" " + line
    return label_field, space + rest


class _Rows:
    """Collects rows and parses them a block at a time."""

    def __init__(self, parser: "_Parser", limit: int) -> None:
        self._parser = parser
        self._limit = limit
        self._numbers: list[int] = []
        self._bodies: list[bytes] = []
        self._waiting = 0
        self._columns, self._values = array("i"), array("d")
        self._counts: list[NDArray[np.int64]] = []

    def add(self, number: int, body: bytes) -> None:
        self._numbers.append(number)
        self._bodies.append(body)
        self._waiting += len(body)
        if self._waiting >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Parse the pending rows; those that are not plain in Python."""
        text = b"".join(body + b"\n" for body in self._bodies)
        n = len(self._bodies)
        most = text.count(b":")
        columns, values = np.empty(most, np.int32), np.empty(most, np.float64)
        counts = np.zeros(n, np.int64)
        content = np.frombuffer(text, np.uint8)
        row = position = filled = 0
        while row < n:
            row, position, filled = _parse(
                content, position, row, self._limit, columns, values, filled, counts
            )
            if row < n:
                body = self._bodies[row]
                row_columns, row_values = self._parser.features(self._numbers[row], body)
                end = filled + len(row_columns)
                columns[filled:end], values[filled:end] = row_columns, row_values
                counts[row] = len(row_columns)
                row, position, filled = row + 1, position + len(body) + 1, end
        self._columns.frombytes(columns[:filled].tobytes())
        self._values.frombytes(values[:filled].tobytes())
        self._counts.append(counts)
        self._numbers, self._bodies, self._waiting = [], [], 0

    def matrix(self, n_features: int | None) -> csr_array:
        """Return all rows; by default the largest index is the width."""
        self.flush()
        columns = np.frombuffer(self._columns, dtype=np.int32)
        if n_features is None:
            n_features = int(columns.max()) + 1 if len(columns) else 0
        counts = np.concatenate(self._counts)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        matrix = csr_array(
            (np.frombuffer(self._values, dtype=np.float64), columns, indptr),
            shape=(len(counts), n_features),
        )
        matrix.has_sorted_indices = True  # the parser rejects unsorted rows
        return matrix


# The compiled functions read plain numbers only: at most 15 digits and a power of ten up to 22, so
# that one multiplication or division rounds as Python does. Python parses the others.


@njit(cache=True, nogil=True)
def _parse(  # noqa: PLR0917 - compiled functions take arguments by position
    content: NDArray[np.uint8],
    position: int,
    row: int,
    limit: int,
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    filled: int,
    counts: NDArray[np.int64],
) -> tuple[int, int, int]:  # pragma: no cover - compiled
    """Parse plain rows; return the row, position and count to resume from."""
    while row < len(counts):
        end, count = _parse_row(content, position, limit, columns[filled:], values[filled:])
        if end < 0:
            break
        counts[row] = count
        filled += count
        position = end
        row += 1
    return row, position, filled


@njit(cache=True, nogil=True)
def _parse_row(
    content: NDArray[np.uint8],
    start: int,
    limit: int,
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the next row's start and this row's length, or -1."""
    at = start
    previous = 0
    count = 0
    while True:
        while content[at] == _SPACE:
            at += 1
        if content[at] == _LINE_FEED:
            return at + 1, count
        index, digits, at = _parse_digits(content, at, 10)
        if at == start or digits == 0 or content[at] != _COLON or not previous < index <= limit:
            return -1, 0
        value, at = _parse_number(content, at + 1)
        if at < 0 or not (content[at] == _SPACE or content[at] == _LINE_FEED):
            return -1, 0
        columns[count] = index - 1
        values[count] = value
        previous = index
        count += 1


@njit(cache=True, nogil=True)
def _parse_number(
    content: NDArray[np.uint8], at: int
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Return the decimal here and its end, -1 if not plain."""
    negative = content[at] == _MINUS
    if negative or content[at] == _PLUS:
        at += 1
    mantissa, digits, at = _parse_digits(content, at, 16)
    power = 0
    if content[at] == _POINT:
        fraction, places, at = _parse_digits(content, at + 1, 16)
        if digits + places <= 15:
            mantissa = mantissa * 10**places + fraction
        digits += places
        power = -places
    if not 0 < digits <= 15:
        return 0.0, -1
    if content[at] == _SMALL_E or content[at] == _LARGE_E:
        at += 1
        falling = content[at] == _MINUS
        if falling or content[at] == _PLUS:
            at += 1
        exponent, places, at = _parse_digits(content, at, 3)
        if places == 0:
            return 0.0, -1
        power += -exponent if falling else exponent
    if not -22 <= power <= 22:
        return 0.0, -1
    value = mantissa * _POWERS[power] if power >= 0 else mantissa / _POWERS[-power]
    return (-value if negative else value), at


@njit(cache=True, nogil=True)
def _parse_digits(
    content: NDArray[np.uint8], at: int, most: int
) -> tuple[int, int, int]:  # pragma: no cover - compiled
    """Return the integer here, its digits (at most `most`) and its end."""
    number = 0
    digits = 0
    while digits < most and _ZERO <= content[at] <= _NINE:
        number = number * 10 + int(content[at]) - _ZERO
        digits += 1
        at += 1
    return number, digits, at


class _Parser:
    """Parses fields one by one and finds the fault of invalid ones."""

    def __init__(self, path: str | Path, n_labels: int, n_features: int) -> None:
        self._path = path
        self._n_labels = n_labels
        self._n_features = n_features

    def error(self, number: int, fault: str, cure: str) -> DataError:
        return DataError(self._path, number, fault, cure)

    def labels(self, number: int, label_field: bytes) -> tuple[int, ...]:
        if _PLAIN_LABELS.fullmatch(label_field):
            labels = sorted(map(int, label_field.split(b",")))
            if labels[-1] < self._n_labels:
                return tuple(labels)
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
        columns = [int(field) - 1 for field in fields[0::2]]
        if columns and (columns[0] < 0 or columns[-1] >= self._n_features):
            raise self._fault(number, body)
        if any(map(int.__ge__, columns, columns[1:])):
            raise self._fault(number, body)
        # A decimal beyond float32 would silently become infinite.
        if not all(-_FLOAT32_MAX <= value <= _FLOAT32_MAX for value in values):
            raise self._fault(number, body)
        return columns, values

    def _fault(self, number: int, body: bytes) -> DataError:
        """Return the first error in an invalid row."""
        previous = 0
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
        if index < 1:
            return self.error(number, f"feature index {index}", _ORDER)
        if index == previous:
            return self.error(number, f"feature {index} is given twice", _ORDER)
        if index < previous:
            return self.error(number, f"feature {index} comes after feature {previous}", _ORDER)
        if index > self._n_features:
            return self.error(
                number,
                f"feature {index}, but there are {self._n_features} features",
                "name every feature in features.txt"
                if self._n_features < _MAX_FEATURES
                else "number features from 1 without such gaps",
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
