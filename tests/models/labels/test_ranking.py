"""The largest values against a full sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from setwise.models.labels.ranking import rank_largest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.data())
@settings(deadline=None)  # the first call compiles
def test_the_largest_values_come_first_and_ties_in_order(dtype, data):
    numbers = st.sampled_from([-1e30, -1.5, 0.0, 0.25, 0.5, 1e30])
    values = data.draw(arrays(dtype, st.integers(0, 30), elements=numbers))
    place = np.full(data.draw(st.integers(0, len(values))), -1)
    rank_largest(values, place)
    assert place.tolist() == np.argsort(-values, kind="stable")[: len(place)].tolist()
