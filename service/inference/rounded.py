"""Numbers of six significant digits, and how compiled code writes them as JSON.

More digits of a probability tell nobody more, and take most of the room of an answer.
"""

from typing import NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic_core import to_json

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.float64]

_CLOSE, _COMMA, _POINT, _MINUS, _E = (ord(mark) for mark in "],.-e")
_ZERO, _TEN = ord("0"), 10

_DIGITS = 6
_LAST_PLACE = 17
_TENS = np.array([float(f"1e{place}") for place in range(_DIGITS + _LAST_PLACE)])
_TENTHS = np.array([float(f"1e-{place}") for place in range(_LAST_PLACE + 1)])
"""Powers of ten. The former are exact, so that a whole number of six digits divided by one of them
is the double that everybody reads for that decimal."""

_LEAST = float(_TENTHS[_LAST_PLACE])

_LAST_PLAIN_PLACE = 5
"""Behind the point; a number whose first digit is further back is written with an exponent."""

LONGEST = 12
"""Bytes of a rounded number: 0.0000123456."""


class Rounded(NamedTuple):
    """Numbers of six significant digits.

    Attributes
    ----------
    values : float64 ndarray of shape (n,)
        Finite.
    others : bytes
        JSON array of those outside [1e-17, 1], 0 apart, which compiled code does not write.
    """

    values: Numbers
    others: bytes

    @classmethod
    def of(cls, values: Numbers) -> Self:
        """Round numbers; none becomes 0, nor passes 1 that did not.

        Raises
        ------
        ValueError
            If a number is not finite, which JSON could not hold.

        >>> Rounded.of(np.array([2 / 3, 1 - 1e-9, 1.23456789e-30])).values.tolist()
        [0.666667, 1.0, 1.23457e-30]
        """
        rounded, n_others = _round(np.ascontiguousarray(values, dtype=np.float64))
        if n_others == 0:
            return cls(rounded, b"[]")
        if n_others < 0:
            raise ValueError("a model gave a number that is not finite")
        places = np.flatnonzero(np.isnan(rounded))
        others = [float(f"{value:.{_DIGITS - 1}e}") for value in values[places].tolist()]
        rounded[places] = others
        # Those that rounding brought inside, compiled code writes after all.
        return cls(rounded, to_json([one for one in others if not _LEAST <= one <= 1.0]))


@njit(cache=True, nogil=True)
def _scaled(value: float) -> tuple[int, int]:
    """Return six digits, and the place of the first one, of a number from 1e-17 to 1."""
    place = 0
    while value < _TENTHS[place]:
        place += 1
    digits = int(value * _TENS[_DIGITS - 1 + place] + 0.5)
    if digits == _TEN**_DIGITS:
        return digits // _TEN, place - 1
    return digits, place


@njit(cache=True, nogil=True)
def _round(values: Numbers) -> tuple[Numbers, int]:
    """Round; NaN is left to others. Returns for how many, or -1 if a number is not finite."""
    out = np.zeros(len(values))
    left = 0
    for n in range(len(values)):
        value = values[n]
        if not np.isfinite(value):
            return out, -1
        if _LEAST <= value <= 1.0:
            digits, place = _scaled(value)
            out[n] = digits / _TENS[_DIGITS - 1 + place]
        elif value != 0.0:
            out[n] = np.nan
            left += 1
    return out, left


@njit(cache=True, nogil=True)
def put_written(out: Bytes, at: int, numbers: Bytes, first: int) -> tuple[int, int]:
    """Put the number that begins at ``first``; return where to go on, and where the next begins."""
    digit = numbers[np.uint64(first)]
    while digit not in (_COMMA, _CLOSE):
        out[np.uint64(at)] = digit
        at += 1
        first += 1
        digit = numbers[np.uint64(first)]
    return at, first + 1


@njit(cache=True, nogil=True)
def put_rounded(out: Bytes, at: int, value: float, others: Bytes, other: int) -> tuple[int, int]:
    """Put a number of `Rounded` as ``to_json`` would; ``other`` is the next one of ``others``."""
    if value in (0.0, 1.0):
        out[at] = _ZERO + int(value)
        out[at + 1] = _POINT
        out[at + 2] = _ZERO
        return at + 3, other
    if not _LEAST <= value < 1.0:
        return put_written(out, at, others, other)
    digits, place = _scaled(value)
    kept = _DIGITS
    while digits % _TEN == 0:
        digits //= _TEN
        kept -= 1
    if place > _LAST_PLAIN_PLACE:
        if kept == 1:
            out[at] = _ZERO + digits
            at += 1
        else:
            _put_digits(out, at + 1, digits, kept)
            out[at], out[at + 1] = out[at + 1], _POINT
            at += kept + 1
        out[at] = _E
        out[at + 1] = _MINUS
        return put_whole(out, at + 2, place), other
    out[at] = _ZERO
    out[at + 1] = _POINT
    _put_digits(out, at + 2, digits, place - 1 + kept)
    return at + 1 + place + kept, other


@njit(cache=True, nogil=True)
def _put_digits(out: Bytes, at: int, digits: int, room: int) -> None:
    """Put a whole number behind zeros that fill the room."""
    for step in range(room):
        out[at + room - 1 - step] = _ZERO + digits % _TEN
        digits //= _TEN


@njit(cache=True, nogil=True)
def put_whole(out: Bytes, at: int, number: int) -> int:
    """Put a whole number that is not negative."""
    least = 1
    while number // least >= _TEN:
        least *= _TEN
    while least > 0:
        out[at] = _ZERO + number // least % _TEN
        at += 1
        least //= _TEN
    return at
