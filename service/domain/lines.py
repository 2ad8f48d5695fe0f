"""Rows as lines of text: JSON Lines, and CSV that no spreadsheet runs as formulas."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

Row = Mapping[str, object]

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""With any of these a cell becomes a formula when a spreadsheet opens the file (OWASP)."""


class Format(StrEnum):
    """How rows are written."""

    JSON_LINES = "jsonl"
    CSV = "csv"


def instant(at: datetime) -> str:
    """Write a time as RFC 3339 does.

    >>> from datetime import UTC
    >>> instant(datetime(2026, 11, 21, 9, tzinfo=UTC))
    '2026-11-21T09:00:00Z'
    """
    return at.isoformat().replace("+00:00", "Z")


def header(written: Format, columns: Sequence[str]) -> bytes:
    """Return what comes before the first row."""
    return _csv([columns]) if written is Format.CSV else b""


def lines(written: Format, rows: Iterable[Row]) -> bytes:
    r"""Return rows, a line each; in CSV whatever is no text or number is JSON.

    >>> lines(Format.CSV, [{"id": "=1+1", "labels": ["a"], "n": -1, "at": None}])
    b'\'=1+1,"[""a""]",-1,\r\n'
    """
    if written is Format.CSV:
        return _csv([[_cell(value) for value in row.values()] for row in rows])
    return b"".join(_json(row).encode() + b"\n" for row in rows)


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else _json(value)
    # What spreadsheets hide, and nothing else changes in the cell.
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _json(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in a file")
