"""Texts as bytes, end to end, which compiled code puts where they belong."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Eights = NDArray[np.uint64]

Texts = tuple[Eights, Places]
"""The `eights` of texts end to end, and where each begins and the last one ends."""

_EIGHT = 8
_NUMBER = np.dtype(np.uint64)
_AT_ONCE = 32
ROOM = _AT_ONCE
"""Bytes behind the last text and behind what is written: copying runs over the end of a text."""


def eights(text: Bytes) -> Eights:
    """Return the eight bytes from each place on as one number, in the same memory."""
    return np.ndarray(len(text) - _EIGHT + 1, _NUMBER, text, 0, (1,))


def end_to_end(parts: list[str]) -> Texts:
    """Put texts end to end, in UTF-8."""
    encoded = [part.encode() for part in parts]
    starts = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in encoded], out=starts[1:])
    return eights(np.frombuffer(b"".join([*encoded, bytes(ROOM)]), dtype=np.uint8)), starts


@njit(cache=True, nogil=True)
def put(out: Eights, at: int, texts: Texts, which: int) -> int:
    """Put one of the texts at a place and return the place behind it.

    Nearly all are so short that they are copied at once, without asking for their length. What is
    copied from behind them is written over by whatever comes next.
    """
    text, starts = texts
    first, size = starts[which], int(starts[which + 1] - starts[which])
    for step in range(0, size, _AT_ONCE):
        for part in range(step, step + _AT_ONCE, _EIGHT):
            # Of places without a sign nobody asks whether they count from the end.
            out[np.uint64(at + part)] = text[np.uint64(first + part)]
    return at + size
