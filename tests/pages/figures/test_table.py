"""Tables of figures as people and spreadsheets read them."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.pages.figures.table import Figure, FigureColumn, Kind

FIGURE = Figure(
    "sources",
    "Sources",
    "A sentence.",
    [FigureColumn("name", Kind.TEXT), FigureColumn("documents"), FigureColumn("share", Kind.SHARE)],
    [["north, “old”", 12_345, 0.123456], ["=SUM(A1)", 0, None]],
)


def test_people_read_rounded_numbers() -> None:
    assert FIGURE.written() == [["north, “old”", "12,345", "12.3 %"], ["=SUM(A1)", "0", "–"]]  # noqa: RUF001 -- as tables write it


def test_downloads_hold_numbers_in_full() -> None:
    rows = list(csv.DictReader(io.StringIO(FIGURE.as_csv())))
    assert rows[0] == {"name": "north, “old”", "documents": "12345", "share": "0.123456"}
    assert json.loads(FIGURE.as_json())[0]["share"] == 0.123456


def test_a_spreadsheet_takes_no_text_for_a_formula() -> None:
    risky = ["=SUM(A1)", "\uff1dSUM(A1)", "\uff0b1", "\uff0d1", "\uff20A1", "\n=1"]
    figure = replace(FIGURE, rows=[[text, 0, None] for text in risky])
    rows = list(csv.reader(io.StringIO(figure.as_csv())))
    assert rows[1:] == [[f"'{text}", "0", ""] for text in risky]


@pytest.mark.parametrize("kind", [Kind.NUMBER, Kind.SHARE, Kind.HOURS, Kind.CONFIDENCE])
@given(value=st.floats(0, 1))
def test_no_number_is_written_with_an_exponent(kind: Kind, value: float) -> None:
    text = kind.write(value)
    assert not re.search(r"e[-+]?\d|nan|inf|-0", text), text
    if kind in {Kind.SHARE, Kind.CONFIDENCE} and 0 < value < 1:
        assert text not in {"0", "1", "0 %", "0.0 %", "100 %", "100.0 %"}


def test_hours_are_written_as_people_say_them() -> None:
    columns = [
        FigureColumn("hours_a_day", Kind.HOURS, "Reviewing per day"),
        FigureColumn("from_week"),
    ]
    figure = replace(FIGURE, columns=columns, rows=[[2.8e-05, 1], [0.25, 2], [120.0, 3]])
    assert [column.head for column in columns] == ["Reviewing per day", "From week"]
    assert [row[0] for row in figure.written()] == ["under a second", "15 minutes", "120 hours"]
    assert figure.as_csv().startswith("hours_a_day,from_week")
