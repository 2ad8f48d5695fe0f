"""The few largest of many values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit


@njit(cache=True, nogil=True)
def rank_largest(
    values: NDArray[Any],  # Any: float32 or float64
    place: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Write the positions of the largest values, falling, to ``place``.

    Equal values keep their order. Meant for few places: insertion moves the smaller ones.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite.
    place : int64 ndarray of shape (k,), k <= n
    """
    room = len(place)
    if room == 0:
        return
    held = 0
    for j in range(len(values)):
        value = values[j]
        if held == room and value <= values[place[room - 1]]:
            continue
        if held < room:
            held += 1
        slot = held - 1
        while slot > 0 and values[place[slot - 1]] < value:
            place[slot] = place[slot - 1]
            slot -= 1
        place[slot] = j
