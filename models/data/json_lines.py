"""JSON in files: one object a line, or a whole file; errors name the line."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from setwise.models.data.lines import DataError, Progress, decode, read_lines, read_text

_QUOTED = 60  # characters of a value from the file that a message quotes
_LINE = "give one JSON object a line"


def json_records(
    path: str | Path,
    lines: Iterable[tuple[int, bytes]] | None = None,
    *,
    progress: Progress | None = None,
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number and JSON object of each non-blank line."""
    if lines is None:
        lines = read_lines(path, progress=progress)
    for number, line in lines:
        record = record_of(path, number, line)
        if record is not None:
            yield number, record


def record_of(path: str | Path, number: int, line: bytes) -> dict[str, object] | None:
    """Return a line's JSON object, None for a blank line."""
    text = decode(path, number, line)
    if not text.strip():
        return None
    record = parse_json(path, number, text, cure=_LINE)
    if not isinstance(record, dict):
        raise DataError(path, number, f"the JSON here is {type_name(record)}", _LINE)
    return record


def read_json(path: str | Path, cure: str) -> object:
    """Return the JSON value in a file; ``cure`` says what would be right."""
    return parse_json(path, None, read_text(path), cure=cure)


def parse_json(path: str | Path, number: int | None, text: str, *, cure: str) -> object:
    """Return the value of a JSON text, in which no object repeats a key.

    Parameters
    ----------
    path, number : str or Path, int or None
        Where the text stands, for messages; without a number the text is the whole file.
    cure : str
        What would be right, for messages.

    Raises
    ------
    DataError
        If the text is no JSON, or cannot be read.
    """
    try:
        return json.loads(text.rstrip(), object_pairs_hook=_once_each)
    except _RepeatedKey as error:
        fault = f"{quoted(str(error))} is given twice"
        raise DataError(path, number, fault, "give each name once") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if number is None else ""
        fault = f"not JSON ({line}column {error.colno}: {error.msg})"
        raise DataError(path, number, fault, cure) from error
    except (RecursionError, MemoryError, ValueError) as error:
        # Too deeply nested, or an integer with too many digits.
        fault = f"JSON beyond reading ({str(error) or type(error).__name__})"
        raise DataError(path, number, fault, "write plain JSON, nested little") from error


class _RepeatedKey(Exception):
    """A JSON object has a key twice."""


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _RepeatedKey(next(name for name, count in counts.items() if count > 1))
    return record


def quoted(value: object) -> str:
    """Return a value, or its beginning, as messages repeat it; a string in quotes."""
    if isinstance(value, str):
        return repr(value if len(value) <= _QUOTED else value[:_QUOTED] + "…")
    text = repr(value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"


def type_name(value: object) -> str:
    """Return the JSON name of a value's type."""
    names: dict[type, str] = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
    }
    return names.get(type(value), "an object")
