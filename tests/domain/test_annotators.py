"""Which noise rates and groups can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.annotators import GroupChange, Rates

RATE = st.floats(-0.5, 1.5, allow_nan=False)


@given(RATE, RATE)
def test_exactly_the_rates_with_which_answers_tell_something_are_taken(
    alpha: float, beta: float
) -> None:
    sound = 0.0 <= alpha < 1.0 and 0.0 <= beta < 1.0 and alpha + beta < 1.0
    assert (not list(Rates(alpha, beta).faults("/noise"))) is sound


@pytest.mark.parametrize(
    ("name", "rates", "pointers"),
    [
        ("x", Rates(1.2, -0.1), ["/noise/alpha", "/noise/beta"]),
        ("x", Rates(float("nan"), 0.1), ["/noise/alpha"]),
        ("x", Rates(0.5, 0.5), ["/noise/alpha"]),
        ("", Rates(0.1, 0.1), ["/name"]),
        ("x" * 101, None, ["/name"]),
        ("Coders", None, []),
    ],
)
def test_each_fault_of_a_group_is_pointed_at(
    name: str, rates: Rates | None, pointers: list[str]
) -> None:
    assert [fault.pointer for fault in GroupChange(name, rates).faults("coders")] == pointers


@pytest.mark.parametrize("group_id", ["", "Coders", "-x", "a b", "ä", "x" * 51])
def test_a_group_has_a_short_plain_id(group_id: str) -> None:
    (fault,) = GroupChange("Coders").faults(group_id)
    assert fault.pointer == "/path/group_id"


@pytest.mark.parametrize("group_id", ["coders", "1st", "a_b-c", "x" * 50])
def test_letters_digits_dashes_and_underscores_make_an_id(group_id: str) -> None:
    assert list(GroupChange("Coders").faults(group_id)) == []
