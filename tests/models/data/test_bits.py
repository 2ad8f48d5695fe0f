import numpy as np

from setwise.models.data.bits import lowest_bit, without_lowest_bit


def test_every_bit_is_found():
    places = []
    left = np.uint64(2**64 - 1)
    while left:
        places.append(lowest_bit(left))
        left = np.uint64(without_lowest_bit(left))
    assert places == list(range(64))
