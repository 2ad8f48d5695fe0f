"""Numbers are written as others read them; rounded ones are near and in order."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from setwise.service.runtime.json_numbers import JsonNumbers

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
    rounded = JsonNumbers.rounded(np.array(values)).values.tolist()
    for value, near in zip(values, rounded, strict=True):
        assert near == float(f"{near:.5e}")
        assert abs(near - value) <= abs(float(f"{value:.5e}") - value) * (1 + 1e-9)
        assert (near == 0.0) == (value == 0.0)
        assert not abs(value) <= 1.0 < abs(near)


@given(st.lists(st.one_of(numbers, probabilities)))
def test_rounding_keeps_the_order(values: list[float]) -> None:
    rounded = JsonNumbers.rounded(np.array(sorted(values))).values.tolist()
    assert rounded == sorted(rounded)


def texts_of(written: JsonNumbers) -> list[bytes]:
    text = bytes(written.text)
    return [text[first:last] for first, last in pairwise(written.starts.tolist())]


@given(st.lists(st.one_of(numbers, probabilities)), st.lists(probabilities))
def test_every_number_is_read_back_to_the_last_bit(mixed: list[float], usual: list[float]) -> None:
    for written in (
        JsonNumbers.exact(np.array(mixed)),
        JsonNumbers.rounded(np.array(mixed)),
        JsonNumbers.rounded(np.array(usual)),
    ):
        read = [json.loads(text) for text in texts_of(written)]
        assert repr(read) == repr(written.values.tolist())  # -0.0 too
    assert JsonNumbers.exact(np.array(mixed)).values.tolist() == mixed


def test_numbers_of_every_size_are_written_as_by_others() -> None:
    digits = [1, 2, 10, 123, 99999, 100001, 120000, 123456, 500000, 999999]
    values = [digit * 10.0**-place for digit in digits for place in range(6, 23)]
    compiled = [value for value in values if 1e-17 <= value <= 1] + [0.0, 1.0, 1e-17, 1 - 1e-9]
    others = [9.9999999e-18, 9.9e-18, 1.00000001, 1.00001, 1e300, -0.5]
    for together in (compiled, compiled + others):
        written = JsonNumbers.rounded(np.array(together))
        assert texts_of(written) == [to_json(value) for value in written.values.tolist()]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        JsonNumbers.rounded(np.array([0.5, value]))
    with pytest.raises(ValueError, match="not finite"):
        JsonNumbers.exact(np.array([0.5, value]))
