"""Tables of figures as people and spreadsheets read them."""

import csv
import io
import json

from service.dashboard.figures import Column, Figure, Kind

FIGURE = Figure(
    "sources",
    "Sources",
    "A sentence.",
    [Column("name", Kind.TEXT), Column("documents"), Column("share", Kind.SHARE)],
    [["north, “old”", 12_345, 0.123456], ["=SUM(A1)", 0, None]],
)


def test_people_read_rounded_numbers() -> None:
    assert FIGURE.written() == [["north, “old”", "12,345", "12.3 %"], ["=SUM(A1)", "0", "–"]]  # noqa: RUF001 -- as tables write it


def test_downloads_hold_numbers_in_full() -> None:
    rows = list(csv.DictReader(io.StringIO(FIGURE.as_csv())))
    assert rows[0] == {"name": "north, “old”", "documents": "12345", "share": "0.123456"}
    assert json.loads(FIGURE.as_json())[0]["share"] == 0.123456


def test_a_spreadsheet_takes_no_text_for_a_formula() -> None:
    rows = list(csv.reader(io.StringIO(FIGURE.as_csv())))
    assert rows[2] == ["'=SUM(A1)", "0", ""]
