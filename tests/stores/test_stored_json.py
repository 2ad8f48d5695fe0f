"""JSON that is stored and sent: numbers and words as they are, or a refusal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from setwise.service.stores.columns.types import stored_json

WORDS = st.sampled_from(["NaN", "Infinity", "-Infinity", "fever", 'say "NaN"'])


@given(st.lists(WORDS | st.floats(allow_nan=False, allow_infinity=False)))
def test_a_word_changes_nothing_of_how_numbers_are_written(values: list[object]) -> None:
    assert stored_json(values) == to_json(values).decode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(number: float) -> None:
    for value in (number, ["NaN", number], {"share": [number]}):
        with pytest.raises(ValueError, match="Out of range float values"):
            stored_json(value)
