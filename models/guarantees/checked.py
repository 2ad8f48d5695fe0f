"""Confidences and verdicts as people give them, checked with an answer that says what is wrong."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MISSING = {"NoneType", "NAType", "NaTType"}


_LEAST_PERCENTAGE = 1.1
"""A number between 1 and this is rather a probability that a coarse format made too large."""

ROUNDING = 1e-5
"""How far 32-bit sums and differences of probabilities may lie outside [0, 1]."""


def rounded_confidence(value: float) -> float:
    """Return 0 or 1 for what is beyond it by rounding, anything else as it is.

    >>> rounded_confidence(1.0000001), rounded_confidence(-1e-7), rounded_confidence(1.5)
    (1.0, 0.0, 1.5)
    """
    return min(max(value, 0.0), 1.0) if -ROUNDING <= value <= 1.0 + ROUNDING else value


def rounded_confidences(values: Floats) -> Floats:
    """Return an array in which `rounded_confidence` is applied to each value."""
    near = (values >= -ROUNDING) & (values <= 1.0 + ROUNDING)
    return np.where(near, np.clip(values, 0.0, 1.0), values)


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or what pandas has in their place."""
    return type(value).__name__ in _MISSING or (isinstance(value, float) and math.isnan(value))


def checked_confidences(name: str, values: ArrayLike) -> Floats:
    """Return checked confidences as a vector.

    Raises
    ------
    ValueError
        If it is not a vector of numbers, or a value is outside [0, 1].
    """
    array = _with_gaps(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a list of confidences, not of shape {array.shape}")
    try:
        confidence = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers; {_first_word(array)}") from None
    confidence = rounded_confidences(confidence)
    odd = np.flatnonzero(~((confidence >= 0) & (confidence <= 1)))
    if len(odd):
        value = float(confidence[odd[0]])
        raise ValueError(f"{name} must lie in [0, 1]; row {odd[0]} holds {value:g}{_cure(value)}")
    return confidence


def checked_flags(name: str, values: ArrayLike, n: int, *, unknown: bool = False) -> Bools:
    """Return checked verdicts as a vector; unknown ones, if they are allowed, are false.

    Raises
    ------
    ValueError
        If there are not ``n`` of them, or one is neither 0 nor 1.
    """
    array = _with_gaps(values)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; {n} confidences need as many values")
    rule = f"{name} must hold 0 and 1, or false and true"
    try:
        numbers = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{rule}; {_first_word(array)}") from None
    if unknown:
        numbers = np.where(np.isnan(numbers), 0.0, numbers)
    odd = np.flatnonzero(~np.isin(numbers, (0.0, 1.0)))
    if len(odd):
        raise ValueError(f"{rule}; row {odd[0]} holds {numbers[odd[0]]:g}")
    flags: Bools = numbers == 1.0
    return flags


def _with_gaps(values: ArrayLike) -> NDArray[Any]:
    """Return an array in which NaN stands for whatever means a missing value."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.array([*values], dtype=object)  # type: ignore[misc]
    if array.dtype != object:
        return array
    gaps = [type(value).__name__ in _MISSING for value in array.ravel()]
    return np.where(np.array(gaps, dtype=bool).reshape(array.shape), np.nan, array)


def _first_word(array: NDArray[Any]) -> str:
    """Say which value is no number."""
    for row, value in enumerate(array.tolist()):
        if not isinstance(value, int | float):
            return f"row {row} holds {value!r}"
    return "one of them is none"


def _cure(value: float) -> str:
    if np.isnan(value):
        return ": leave the row out"
    if value > 100.0 or (1.0 < value < _LEAST_PERCENTAGE):
        return ": give probabilities"
    return ": divide percentages by 100" if value > 1 else ": take exp of log-probabilities"
