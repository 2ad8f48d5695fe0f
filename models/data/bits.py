"""Bit operations on sets of integers, for compiled code."""

import numpy as np

from setwise.models.compilation import njit

# Multiplying a power of two by this de Bruijn sequence gives the position of its bit.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _PLACE[((int(_DE_BRUIJN) << _bit) & (2**64 - 1)) >> 58] = _bit


@njit(cache=True, nogil=True)
def lowest_bit(bits: np.uint64) -> int:
    """Return the position of the lowest bit that is set, from 0.

    >>> lowest_bit(np.uint64(0b1010000))
    4
    """
    lowest = bits & (~bits + np.uint64(1))
    return int(_PLACE[np.int64((lowest * _DE_BRUIJN) >> np.uint64(58))])


@njit(cache=True, nogil=True)
def without_lowest_bit(bits: np.uint64) -> np.uint64:
    """Return the bits with the lowest set bit cleared."""
    return bits & (bits - np.uint64(1))
