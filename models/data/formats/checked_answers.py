"""Files of checked answers: how sure a model was of each, and whether it was right."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.models.data.formats.audit_tasks import checked_rows
from setwise.models.data.formats.tables import table_rows
from setwise.models.data.lines import DataError
from setwise.models.guarantees.checked import rounded_confidence

Floats = NDArray[np.float64]

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "y"), 1.0),
    **dict.fromkeys(("0", "false", "no", "n"), 0.0),
}
_OPTIONAL = ("audit_probability", "agreed", "reread", "cluster")


class CheckedAnswers(NamedTuple):
    """The columns of a file, each of shape (n,) or None if the file lacks it."""

    confidence: Floats
    right: Floats
    """1, 0, or NaN where it is not known."""
    audit_probability: Floats | None
    agreed: Floats | None
    reread: Floats | None
    cluster: NDArray[np.str_] | None


def read_checked_answers(path: str | Path) -> CheckedAnswers:
    """Read a file with a row for each checked answer.

    CSV, Parquet, JSON Lines, or the JSON export of Label Studio with tasks of `audit_task`.

    Parameters
    ----------
    path : str or Path
        With the columns ``confidence`` and ``right``, and, if you have them, ``audit_probability``,
        ``agreed``, ``reread`` and ``cluster``: the same name for copies of one document, empty for
        an answer without any. Flags are 0 and 1, true and false, or yes and no; ``right`` may
        be empty where it is not known. Other columns are not read.

    Raises
    ------
    DataError
        At the first row with a fault, or if a column is missing.
    """
    columns: dict[str, list[Any]] = {}
    for number, row in _rows(path):
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
            values.append(
                _cluster(number, row) if name == "cluster" else _value(path, number, name, row)
            )
    if not columns:
        raise DataError(path, None, "the file holds no checked answers", "give one a row")
    if np.isnan(columns["right"]).all():
        cure = "say in the column right, or as an annotation, which answers are"
        raise DataError(path, None, "no answer is checked yet", cure)
    return CheckedAnswers(
        np.array(columns["confidence"]),
        np.array(columns["right"]),
        *(np.array(columns[name]) if name in columns else None for name in _OPTIONAL),
    )


def _cluster(number: int, row: Mapping[str, Any]) -> str:
    """Return the cluster of an answer; one without a name is alone."""
    cell = row.get("cluster")
    text = "" if cell is None else str(cell)
    return f"named {text}" if text else f"row {number}"


def _rows(path: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    is_tasks = Path(path).name.lower().removesuffix(".gz").endswith(".json")
    return checked_rows(path) if is_tasks else table_rows(path)


def confidence_of(path: str | Path, number: int, cell: object) -> float:
    """Return the confidence in a cell.

    Raises
    ------
    DataError
        If it is none.
    """
    value = rounded_confidence(_number(str(cell)))
    if 0.0 <= value <= 1.0:
        return value
    raise DataError(path, number, f"confidence is {cell!r}", "give a number between 0 and 1")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _value(path: str | Path, number: int, name: str, row: Mapping[str, Any]) -> float:
    cell = row.get(name)
    text = "" if cell is None else str(cell).strip().lower()
    if name == "right" and text in {"", "nan"}:
        return float("nan")
    if name == "confidence":
        return confidence_of(path, number, cell)
    if name == "audit_probability":
        value = _number(text)
        if 0.0 < value <= 1.0:
            return value
        raise DataError(path, number, f"{name} is {cell!r}", "give a number between 0 and 1")
    flag = _FLAGS.get(text.removesuffix(".0"))
    if flag is None:
        raise DataError(path, number, f"{name} is {cell!r}", "give 0 or 1, or true or false")
    return flag
