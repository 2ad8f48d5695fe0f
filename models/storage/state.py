"""Stored state of model parts, checked before compiled code uses it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray


class StoredArray(NamedTuple):
    """One stored array of a part.

    Attributes
    ----------
    name : str
        Name in the file.
    attribute : str
        Attribute of the part that holds it.
    dtype : DTypeLike
    shape : tuple of str
        A name for each length, such as ``"knots"`` or ``"labels+1"``. The same name means the same
        length in all arrays of the part.
    cuts : str
        Name of the length that the array divides into consecutive rows, if any.
    least : int
        Smallest length of such a row.
    picks : str
        Name of the length that the values of the array index, if any.
    """

    name: str
    attribute: str
    dtype: DTypeLike
    shape: tuple[str, ...]
    cuts: str = ""
    least: int = 0
    picks: str = ""


class StoredSetting(NamedTuple):
    """One stored number, flag or text of a part."""

    name: str
    attribute: str
    kind: Callable[[Any], Any]


class StoredPart:
    """Base of model parts that declare their stored arrays and settings.

    Examples
    --------
    >>> class Curve(StoredPart):
    ...     stored = (
    ...         StoredArray("x", "x_", np.float64, ("knots",)),
    ...         StoredArray("y", "y_", np.float64, ("knots",)),
    ...         StoredSetting("slope", "slope", float),
    ...     )
    >>> curve = Curve.from_state({"x": np.zeros(2), "y": np.ones(2)}, {"slope": 1})
    >>> curve.y_.tolist(), curve.get_state()[1]
    ([1.0, 1.0], {'slope': 1.0})
    >>> Curve.from_state({"x": np.zeros(2), "y": np.ones(3)}, {"slope": 1})
    Traceback (most recent call last):
    ...
    ValueError: array 'y' is float64 of shape (3,), not float64 of shape (2)
    """

    stored: ClassVar[tuple[StoredArray | StoredSetting, ...]] = ()

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and JSON settings for `from_state`."""
        arrays = {
            one.name: getattr(self, one.attribute)
            for one in self.stored
            if isinstance(one, StoredArray)
        }
        settings = {
            one.name: getattr(self, one.attribute)
            for one in self.stored
            if isinstance(one, StoredSetting)
        }
        return arrays, settings

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        """Rebuild the fitted part.

        Raises
        ------
        ValueError
            If an array is missing, does not have the declared type and shape, or points outside
            another.
        """
        part = cls()
        declared = [one for one in cls.stored if isinstance(one, StoredArray)]
        for one, array in zip(declared, checked_arrays(arrays, declared), strict=True):
            setattr(part, one.attribute, array)
        for setting in cls.stored:
            if isinstance(setting, StoredSetting):
                setattr(part, setting.attribute, setting.kind(settings[setting.name]))
        return part


def checked_arrays(
    arrays: Mapping[str, NDArray[Any]], declared: Sequence[StoredArray]
) -> list[NDArray[Any]]:
    """Return the declared arrays, checked alone and against each other.

    Raises
    ------
    ValueError
        If one does not fit its declaration.
    """
    lengths: dict[str, int] = {}
    found = []
    for one in declared:
        names = [name.partition("+") for name in one.shape]
        shape = tuple(
            lengths[name] + int(more or 0) if name in lengths else None for name, _, more in names
        )
        found.append(checked_array(arrays, one.name, one.dtype, shape))
        for (name, _, more), length in zip(names, found[-1].shape, strict=True):
            lengths.setdefault(name, length - int(more or 0))
    for one, array in zip(declared, found, strict=True):
        if one.cuts:
            check_ragged(one.name, array, lengths[one.cuts], least=one.least)
        if one.picks and len(array) and not 0 <= array.min() <= array.max() < lengths[one.picks]:
            raise ValueError(f"array {one.name!r} names {one.picks} that do not exist")
    return found


def checked_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
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
        wanted is None or wanted == length
        for wanted, length in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        wanted_shape = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(
            f"array {name!r} is {array.dtype} of shape {array.shape}, "
            f"not {np.dtype(dtype)} of shape ({wanted_shape})"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
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
        or (np.diff(indptr) < least).any()
    ):
        raise ValueError(f"array {name!r} does not divide {length} items into rows")


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
    starts = np.zeros(len(labels) + 1, dtype=bool)
    starts[indptr] = True
    falls = np.flatnonzero(np.diff(labels) <= 0) + 1
    inside = len(labels) == 0 or (labels.min() >= 0 and labels.max() < n_labels)
    if not inside or not starts[falls].all():
        raise ValueError(f"array {name!r} holds labels out of order or out of range")
