"""Arrays that come from disk, checked before compiled code indexes with them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def checked_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
) -> NDArray[Any]:
    """Return an array after checking its type and shape; None allows any length.

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
    """Return the arrays whose names begin with ``prefix``, under what follows it.

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
    """Check that ``indptr`` cuts ``length`` items into consecutive rows of ``least`` or more.

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
