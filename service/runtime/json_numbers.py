"""Numbers as JSON, end to end, for compiled code to put where they belong.

Probabilities that nothing is decided on are rounded to six significant digits: more tell nobody
more, and take most of the room of an answer. Compiled code rounds and writes them.
"""

from typing import NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic_core import to_json

from setwise.service.runtime.compiled_text import ROOM, Bytes, Places, Texts, eights

Floats = NDArray[np.float64]

_CLOSE, _COMMA, _POINT, _MINUS, _E = (ord(mark) for mark in "],.-e")
_ZERO, _TEN = ord("0"), np.uint64(10)

_DIGITS = 6
_SEVEN_DIGITS = 1_000_000
_LAST_PLACE = 17
_TENS = np.array([float(f"1e{place}") for place in range(_DIGITS + _LAST_PLACE)])
_TENTHS = np.array([float(f"1e-{place}") for place in range(_LAST_PLACE + 1)])
"""Powers of ten. The former are exact, so that a whole number of six digits divided by one of them
is the double that everybody reads for that decimal."""

_LEAST = float(_TENTHS[_LAST_PLACE])
_LAST_PLAIN_PLACE = 5
"""Behind the point; a number whose first digit is further back is written with an exponent."""

_LONGEST = 12
"""Bytes of a rounded number: 0.0000123456."""


class JsonNumbers(NamedTuple):
    """Numbers, and how they are written.

    Attributes
    ----------
    values : float64 ndarray of shape (n,)
        Finite.
    text : uint8 ndarray
        What ``to_json`` writes for each, behind each other, and room behind them.
    starts : int64 ndarray of shape (n + 1,)
        Where each begins in ``text``.
    """

    values: Floats
    text: Bytes
    starts: Places

    @property
    def texts(self) -> Texts:
        """As compiled code puts them."""
        return eights(self.text), self.starts

    @classmethod
    def exact(cls, values: Floats) -> Self:
        """Write numbers as they are.

        Raises
        ------
        ValueError
            If a number is not finite, which JSON could not hold.
        """
        if not np.isfinite(values).all():
            raise ValueError("a model gave a number that is not finite")
        return cls(values, *_cut(np.frombuffer(to_json(values.tolist()), dtype=np.uint8)))

    @classmethod
    def rounded(cls, values: Floats) -> Self:
        """Round numbers to six digits and write them; none becomes 0, nor passes 1 that did not.

        Raises
        ------
        ValueError
            As above.

        >>> JsonNumbers.rounded(np.array([2 / 3, 1 - 1e-9, 1.23456789e-30])).values.tolist()
        [0.666667, 1.0, 1.23457e-30]
        """
        near, text, starts, left = _round(np.ascontiguousarray(values, dtype=np.float64))
        if not left:
            return cls(near, text, starts)
        others = np.flatnonzero(np.isnan(near))
        near[others] = [float(f"{value:.{_DIGITS - 1}e}") for value in values[others].tolist()]
        return cls.exact(near)


@njit(cache=True, nogil=True)
def _cut(numbers: Bytes) -> tuple[Bytes, Places]:
    """Return the numbers of a JSON array without what is between them, and where each begins."""
    out = np.empty(len(numbers) + ROOM, dtype=np.uint8)
    starts = np.zeros(len(numbers), dtype=np.int64)
    at = count = 0
    for digit in numbers[1:]:  # behind the bracket
        if digit not in (_COMMA, _CLOSE):
            out[at] = digit
            at += 1
        elif at > 0:
            count += 1
            starts[count] = at
    return out, starts[: count + 1]


@njit(cache=True, nogil=True)
def _round(values: Floats) -> tuple[Floats, Bytes, Places, bool]:
    """Round and write; NaN is left of numbers outside [1e-17, 1], 0 apart. Tells if any are."""
    near = np.empty(len(values))
    text = np.empty(_LONGEST * len(values) + ROOM, dtype=np.uint8)
    starts = np.zeros(len(values) + 1, dtype=np.int64)
    at = 0
    left = False
    for n in range(len(values)):
        value = values[n]
        if value == 0.0:
            near[n] = 0.0
            at = _put_whole(text, at, 0)
        elif _LEAST <= value <= 1.0:
            place = 0
            while value < _TENTHS[place]:
                place += 1
            digits = int(value * _TENS[_DIGITS - 1 + place] + 0.5)
            if digits == _SEVEN_DIGITS:
                digits //= 10
                place -= 1
            near[n] = digits / _TENS[_DIGITS - 1 + place]
            at = _put_whole(text, at, 1) if place == 0 else _put_part(text, at, digits, place)
        else:
            near[n] = np.nan
            left = True
        starts[n + 1] = at
    return near, text, starts, left


@njit(cache=True, nogil=True)
def _put_whole(out: Bytes, at: int, digit: int) -> int:
    out[at] = _ZERO + digit
    out[at + 1] = _POINT
    out[at + 2] = _ZERO
    return at + 3


@njit(cache=True, nogil=True)
def _put_part(out: Bytes, at: int, digits: int, place: int) -> int:
    """Put six digits, the first of which is at a place behind the point, as ``to_json`` would."""
    left, kept = np.uint64(digits), _DIGITS
    while left % _TEN == 0:
        left //= _TEN
        kept -= 1
    if place <= _LAST_PLAIN_PLACE:
        end = at + 1 + place + kept
        for step in range(place - 1 + kept):
            out[end - 1 - step] = _ZERO + left % _TEN
            left //= _TEN
        out[at] = _ZERO
        out[at + 1] = _POINT
        return end
    end = at + kept
    for step in range(kept - 1):
        out[end - step] = _ZERO + left % _TEN
        left //= _TEN
    out[at] = _ZERO + left
    if kept > 1:
        out[at + 1] = _POINT
        end += 1
    out[end] = _E
    out[end + 1] = _MINUS
    end += 2
    if place >= 10:
        out[end] = _ZERO + place // 10
        end += 1
    out[end] = _ZERO + place % 10
    return end + 1
