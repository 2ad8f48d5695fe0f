"""Checks of values from a file, alone and against each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from setwise.spelling import misnamed, spelled

_LARGEST_FLOAT = float(np.finfo(np.float64).max)
_INTEGERS = 2**63  # compiled code takes no larger ones
# Characters of a value that a message repeats.
_SHOWN = 60

_KINDS = {
    bool: "true or false",
    int: "a whole number of 64 bits",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def shown(value: object) -> str:
    """Return a short form of a value for a message."""
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def is_a(value: object, kind: type) -> bool:
    """Return whether a value has a JSON type; flags are no numbers.

    Examples
    --------
    >>> is_a(1, float), is_a(1.0, int), is_a(True, int), is_a(float("inf"), float)
    (True, False, False, False)
    """
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and bool(abs(value) <= _LARGEST_FLOAT)  # type: ignore[arg-type]  # a number
    if kind is int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and bool(abs(value) < _INTEGERS)  # type: ignore[arg-type]  # a number
    return isinstance(value, kind)


def checked_value(
    name: str,
    value: object,
    kind: type,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[object] = (),
) -> Any:  # noqa: ANN401  # any JSON value
    """Return a setting of checked type and range.

    Raises
    ------
    ValueError
        If it is of another type, out of range, or none of the choices.

    Examples
    --------
    >>> checked_value("share", 1, float, low=0.0, high=1.0)
    1.0
    """
    if isinstance(value, np.generic):
        value = value.item()
    if not is_a(value, kind):
        raise ValueError(f"setting {name!r} is {shown(value)}; it must be {_KINDS[kind]}")
    number: Any = value
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f"setting {name!r} is {shown(value)}, not {low} to {high}")
    if choices and value not in choices:
        raise ValueError(f"setting {name!r} is {shown(value)}, which is unknown")
    return float(number) if kind is float else value


def checked_names(what: str, names: object, *, least: int = 1) -> list[str]:
    """Return distinct names as `setwise.spelling.spelled` writes them, none of them blank.

    Raises
    ------
    ValueError
        If one is not, or there are fewer than ``least``.
    """
    if not isinstance(names, list | tuple) or len(names) < least:
        raise ValueError(f"setting {what!r} is {shown(names)}; it must list names")
    for name in names:
        if not isinstance(name, str) or not spelled(name) or not is_storable(name):
            raise ValueError(f"setting {what!r} lists {shown(name)}, which is no name")
    plain = list(map(spelled, names))
    if len(set(plain)) < len(plain):
        raise ValueError(f"setting {what!r} lists a name twice")
    return plain


def checked_labels(names: object) -> list[str]:
    """Return distinct names of labels as `checked_names` does.

    Raises
    ------
    ValueError
        If one cannot be a name.
    """
    plain = checked_names("label_names", names)
    for name in plain:
        if why := misnamed(name):
            raise ValueError(f"setting 'label_names' lists {shown(name)}, which {why}")
    return plain


def is_storable(text: str) -> bool:
    """Return whether databases and UTF-8 can hold a text.

    It has no NUL and no half surrogate pair.
    """
    return "\0" not in text and (
        text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
    )


def is_plain(value: object, depth: int = 16) -> bool:
    """Return whether databases and pages can hold a JSON value.

    Its texts are storable, its numbers finite and of 64 bits, and it is not deeply nested.
    """
    if isinstance(value, dict):
        return depth > 0 and all(
            is_storable(key) and is_plain(inner, depth - 1) for key, inner in value.items()
        )
    if isinstance(value, list):
        return depth > 0 and all(is_plain(inner, depth - 1) for inner in value)
    if isinstance(value, str):
        return is_storable(value)
    return not isinstance(value, int) or abs(value) < _INTEGERS


def checked_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    *,
    finite: bool = True,
) -> NDArray[Any]:
    """Return an array of checked type and shape; None allows any length.

    Raises
    ------
    ValueError
        If the array is missing, of another type or shape, or holds a value that is not finite.

    Examples
    --------
    >>> checked_array({"a": np.zeros(3)}, "a", np.float64, (None,))
    array([0., 0., 0.])
    """
    if name not in arrays:
        raise ValueError(f"array {name!r} is missing")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        expected is None or expected == length
        for expected, length in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        wanted_shape = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(
            f"array {name!r} is {array.dtype} of shape {array.shape}, "
            f"not {np.dtype(dtype)} of shape ({wanted_shape})"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"array {name!r} holds a value that is not finite")
    return array


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays with a name prefix, which is removed.

    Examples
    --------
    >>> part_of({"gate.a": np.zeros(1), "b": np.ones(1)}, "gate.")
    {'a': array([0.])}
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def check_ragged(name: str, indptr: NDArray[np.integer], length: int, *, least: int = 0) -> None:
    """Check that ``indptr`` divides ``length`` items into valid rows.

    Each row must have at least ``least`` items.

    Raises
    ------
    ValueError
        If it does not.
    """
    if (
        len(indptr) == 0
        or indptr[0] != 0
        or indptr[-1] != length
        or (indptr[1:] < indptr[:-1]).any()
        or (np.diff(indptr) < least).any()
    ):
        raise ValueError(f"array {name!r} does not divide {length} items into rows")


def check_rises(name: str, indptr: NDArray[np.integer], values: NDArray[Any]) -> None:
    """Check that values rise strictly inside the rows of a checked ``indptr``.

    Raises
    ------
    ValueError
        If they do not.
    """
    starts = np.zeros(len(values) + 1, dtype=bool)
    starts[indptr] = True
    falls = np.flatnonzero(values[1:] <= values[:-1]) + 1
    if not starts[falls].all():
        raise ValueError(f"array {name!r} is out of order")


def check_labels(
    name: str, indptr: NDArray[np.integer], labels: NDArray[np.integer], n_labels: int
) -> None:
    """Check that every row holds strictly rising label columns below ``n_labels``.

    Raises
    ------
    ValueError
        If one does not.
    """
    check_ragged(name, indptr, len(labels))
    check_rises(name, indptr, labels)
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_labels:
        raise ValueError(f"array {name!r} holds labels out of range")
