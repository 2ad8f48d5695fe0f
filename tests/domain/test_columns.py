"""Rows that are kept by column are the rows they were made of."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.columns import Rows


class Reading(NamedTuple):
    """Any row."""

    place: str
    degrees: int

    @property
    def warm(self) -> bool:
        return self.degrees > 20


class _Pair(NamedTuple):
    left: Reading
    right: Reading


readings = st.lists(st.builds(Reading, st.text(max_size=3), st.integers(0, 40)), max_size=8)


@given(readings)
def test_they_are_a_sequence_of_the_rows(rows: list[Reading]) -> None:
    kept = Rows.of(Reading, rows)
    assert len(kept) == len(rows)
    assert [*kept] == rows
    assert [type(row) for row in kept] == [Reading] * len(rows)
    assert [kept[place] for place in range(-len(rows), len(rows))] == rows + rows
    assert kept == rows
    assert kept == Rows(
        Reading, place=[row.place for row in rows], degrees=[row.degrees for row in rows]
    )
    assert kept != [*rows, Reading("", 0)]
    assert kept != "rows"
    assert repr(kept) == repr(rows)
    assert Rows.of(Reading, kept) is kept
    with pytest.raises(IndexError):
        kept[len(rows)]


@given(readings, st.data())
def test_some_are_picked(rows: list[Reading], data: st.DataObject) -> None:
    kept = Rows.of(Reading, rows)
    places = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    picked = kept.pick(places)
    assert picked == [rows[place] for place in places]
    assert picked.pick(range(len(places))[::-1]) == [rows[place] for place in places[::-1]]
    assert picked.column("place")[1:].count("") == [one.place for one in picked][1:].count("")
    assert Rows(_Pair, left=kept, right=rows).pick(places).column("left") == picked
    chosen = data.draw(st.slices(len(rows)))
    assert kept[chosen] == rows[chosen]


@given(readings)
def test_a_column_is_of_a_field_or_of_a_property(rows: list[Reading]) -> None:
    kept = Rows.of(Reading, rows)
    assert kept.column("place") == [row.place for row in rows]
    assert kept.column("warm") == [row.warm for row in rows]


def test_a_property_that_is_known_already_is_not_worked_out() -> None:
    known = [True, False]
    kept = Rows(Reading, place=["a", "b"], degrees=[1, 2], warm=known)
    assert kept.column("warm") is known
    assert [*kept.pick([1]).column("warm")] == [False]


def test_columns_that_make_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^rows of Reading lack columns: degrees$"):
        Rows(Reading, place=["a"])
    with pytest.raises(ValueError, match=r"^the columns of Reading differ in length$"):
        Rows(Reading, place=["a", "b"], degrees=[1])
    with pytest.raises(AttributeError, match="colour"):
        Rows(Reading, place=["a"], degrees=[1]).column("colour")
