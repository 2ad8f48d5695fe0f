"""JSON that is stored and sent: numbers and words as they are, or a refusal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json
from sqlalchemy.dialects import sqlite

from setwise.service.domain.breaker import TripEvidence
from setwise.service.domain.errors import StorageDamaged
from setwise.service.stores.columns.types import JsonOf, stored_json

WORDS = st.sampled_from(["NaN", "Infinity", "-Infinity", "fever", 'say "NaN"'])


@given(st.lists(WORDS | st.floats(allow_nan=False, allow_infinity=False)))
def test_a_word_changes_nothing_of_how_numbers_are_written(values: list[object]) -> None:
    assert stored_json(values) == to_json(values).decode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused(number: float) -> None:
    for value in (number, ["NaN", number], {"share": [number]}):
        with pytest.raises(ValueError, match="Out of range float values"):
            stored_json(value)


def test_json_of_another_shape_is_damage_that_names_the_place() -> None:
    evidence = JsonOf(TripEvidence)
    with pytest.raises(
        StorageDamaged, match=r"^Stored JSON is no TripEvidence: at audits, .*integer"
    ):
        evidence.process_result_value({"audits": "many"}, sqlite.dialect())
