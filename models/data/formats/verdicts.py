"""Rows that their tool marks as no answer: rejected, ignored, skipped, or a draft.

Annotation tools export rows that are no answers beside the answers, with labels in it that were
chosen before: Prodigy has an ``answer``, Label Studio and others a flag, Argilla, Amazon Mechanical
Turk and others a status.
"""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from setwise.models.data.lines import DataError, DataWarning, count_of

_STATES = {
    "answer",
    "status",
    "state",
    "annotation status",
    "assignmentstatus",
    "label status",
    "last action",
    "response status",
    "review status",
    "verdict",
    "workflow status",
}
_NO_ANSWERS = {
    *("reject", "rejected", "ignore", "ignored", "skip", "skipped", "discard", "discarded"),
    *("cancel", "cancelled", "canceled", "draft", "pending", "deleted", "to label"),
}
_FLAGS = {"was cancelled", "was canceled", "was skipped", "is skipped", "isskipped", "is draft"}
"""Columns that say so when they are true; no label has such a name."""

_FLAGS_OF_TOOLS = {
    *("skipped", "cancelled", "canceled", "rejected", "ignored", "discarded", "draft"),
    *("deleted", "is deleted"),
}
_CONSENTS = {"accepted", "is accepted", "approved", "is approved"}
"""Columns that say so when they are false."""

_TRUE = {"true", "1", "1.0", "yes"}
_SAYING_NO = {"flag": _TRUE, "state": _NO_ANSWERS, "consent": {"false"}}
_RESPONSES = "responses"
"""Argilla's answers to a question: objects with a status, or a column of these statuses."""


class Verdicts:
    """Finds rows that are no answer, and says at the end how many there were.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    used : collection of str
        Columns that hold something else: the text, labels, another model's answer.
    """

    def __init__(self, path: str | Path, used: Collection[str]) -> None:
        self._path = path
        self._used = used
        self._kinds: dict[str, str | None] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()

    def answers(
        self, rows: Iterable[tuple[int, tuple[int, Mapping[str, Any]]]]
    ) -> Iterator[tuple[int, tuple[int, Mapping[str, Any]]]]:
        """Yield the numbered rows that are answers.

        Raises
        ------
        DataError
            At the end, if none is.

        Warns
        -----
        DataWarning
            At the end, if rows were left out.
        """
        position = 0
        for position, (number, row) in rows:
            if not self._reject(row):
                yield position, (number, row)
        self._warn(position)

    def _reject(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row is no answer, and count it."""
        for name, value in row.items():
            if name not in self._kinds:
                self._kinds[name] = None if name in self._used else _kind(name)
            if (said := _rejection(self._kinds[name], value)) is not None:
                self._left_out[name, said] += 1
                return True
        return False

    def _warn(self, n: int) -> None:
        """Say what was left out of ``n`` rows."""
        left_out = self._left_out.total()
        if not left_out:
            return
        said = ", ".join(f"{name!r} is {value!r}" for name, value in sorted(self._left_out)[:5])
        if left_out == n:
            cure = "export what was accepted, or rename the column"
            raise DataError(self._path, None, f"no row is an answer ({said})", cure)
        warnings.warn(
            f"{self._path}: {count_of(left_out, 'row')} left out that are no answers ({said}); "
            "rename the column to keep them",
            DataWarning,
            stacklevel=2,
        )


def is_flag(name: str) -> bool:
    """Return whether a column says only that a row is no answer."""
    return _plain(name) in _FLAGS


def is_rejected(answer: Mapping[str, Any]) -> bool:
    """Return whether the members of an answer say that it is none.

    >>> is_rejected({"was_cancelled": True}), is_rejected({"status": "submitted"})
    (True, False)
    """
    return any(_rejection(_kind(name), value) is not None for name, value in answer.items())


def _rejection(kind: str | None, value: object) -> str | None:
    """Return the value of a column that says that a row is no answer, None for any other."""
    if kind is None:
        return None
    if isinstance(value, list):  # of one person each
        each = [one.get("status") if isinstance(one, dict) else one for one in value]
        said = [_rejection(kind, one) for one in each]
        return None if not said or None in said else said[0]
    return str(value) if _plain(str(value)) in _SAYING_NO[kind] else None


def _kind(name: str) -> str | None:
    """Return what the values of a column say, None if it is something else."""
    plain = _plain(name)
    if plain in _FLAGS or plain in _FLAGS_OF_TOOLS:
        return "flag"
    if plain in _CONSENTS:
        return "consent"
    *path, last = plain.split(".")
    is_state = plain in _STATES or plain == _RESPONSES or (_RESPONSES in path and last in _STATES)
    return "state" if is_state else None


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", " ").replace("-", " ")
