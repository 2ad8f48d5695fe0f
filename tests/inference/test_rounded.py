"""Rounded numbers are near, in order, and finite."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.inference.rounded import Rounded

numbers = st.floats(allow_nan=False, allow_infinity=False)
probabilities = st.one_of(
    st.floats(0.0, 1.0),
    st.builds(
        lambda digits, place: digits * 10.0**-place, st.integers(0, 10**7), st.integers(7, 30)
    ),
)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.one_of(numbers, probabilities)))
@example([0.0, -0.0, 1.0, 1 - 2**-53, 0.9999994, 0.9999995, 9.999995e-6, 1e-17, 9.99e-18, 5e-324])
def test_a_rounded_number_is_the_nearest_one_of_six_digits(values: list[float]) -> None:
    rounded = Rounded.of(np.array(values)).values.tolist()
    for value, near in zip(values, rounded, strict=True):
        assert near == float(f"{near:.5e}")
        assert abs(near - value) <= abs(float(f"{value:.5e}") - value) * (1 + 1e-9)
        assert (near == 0.0) == (value == 0.0)
        assert not abs(value) <= 1.0 < abs(near)


@given(st.lists(st.one_of(numbers, probabilities)))
def test_rounding_keeps_the_order(values: list[float]) -> None:
    rounded = Rounded.of(np.array(sorted(values))).values.tolist()
    assert rounded == sorted(rounded)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        Rounded.of(np.array([0.5, value]))
