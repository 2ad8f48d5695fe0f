"""Files of checked answers: how sure a model was of each, and whether it was right."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.data.formats.tables import table_rows
from setwise.models.data.lines import DataError

Floats = NDArray[np.float64]

_FLAGS = {"1": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "false": 0.0, "no": 0.0}
_NUMBERS = ("confidence", "audit_probability")
_OPTIONAL = ("audit_probability", "agreed", "reread")


class CheckedAnswers(NamedTuple):
    """The columns of a file, each of shape (n,) or None if the file lacks it."""

    confidence: Floats
    right: Floats
    """1, 0, or NaN where it is not known."""
    audit_probability: Floats | None
    agreed: Floats | None
    reread: Floats | None


def read_checked_answers(path: str | Path) -> CheckedAnswers:
    """Read a CSV, Parquet or JSON Lines file with a row for each checked answer.

    Parameters
    ----------
    path : str or Path
        With the columns ``confidence`` and ``right``, and, if you have them, ``audit_probability``,
        ``agreed`` and ``reread``. Flags are 0 and 1, true and false, or yes and no; ``right`` may
        be empty where it is not known. Other columns are not read.

    Raises
    ------
    DataError
        At the first row with a fault, or if a column is missing.
    """
    columns: dict[str, list[float]] = {}
    for number, row in table_rows(path):
        if not columns:
            columns = {name: [] for name in CheckedAnswers._fields if name in row}
            missing = [name for name in ("confidence", "right") if name not in columns]
            if missing:
                raise DataError(
                    path,
                    None,
                    f"no column {missing[0]!r} among {', '.join(map(repr, row))}",
                    "name the columns confidence and right",
                )
        for name, values in columns.items():
            values.append(_value(path, number, name, row))
    if not columns:
        raise DataError(path, None, "the file holds no checked answers", "give one a row")
    return CheckedAnswers(
        np.array(columns["confidence"]),
        np.array(columns["right"]),
        *(np.array(columns[name]) if name in columns else None for name in _OPTIONAL),
    )


def _value(path: str | Path, number: int, name: str, row: Mapping[str, Any]) -> float:
    cell = row.get(name)
    text = "" if cell is None else str(cell).strip().lower()
    if name == "right" and text in {"", "nan"}:
        return float("nan")
    if name in _NUMBERS:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if 0.0 <= value <= 1.0 and (value > 0.0 or name == "confidence"):
            return value
        raise DataError(path, number, f"{name} is {cell!r}", "give a number between 0 and 1")
    flag = _FLAGS.get(text.removesuffix(".0"))
    if flag is None:
        raise DataError(path, number, f"{name} is {cell!r}", "give 0 or 1, or true or false")
    return flag
