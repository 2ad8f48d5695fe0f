"""What RESULTS.md, the notes and the documentation say was measured, and on today's code."""

import re
from pathlib import Path

import pytest

from benchmarks import results, rows
from tests.docs.pages import PAGES, ROOT

TABLES = sorted(rows.TABLES.glob("*.jsonl"))
LEARNING = ("peers", "training")
"""Tables of what models learn; other rows say at which commit they were measured."""

FIGURE = re.compile(r"<!-- figure: (.+?) = (.+?) \| (.+?) \| (.+?) -->")
MEASURED = re.compile(r"\]\([./]*benchmarks/(?:RESULTS\.md|notes/)")
NUMBER = re.compile(r"(\d[\d,]*)?(\.\d+)?( ?%)?")


def _value(text: str) -> tuple[float, float]:
    """Return the first number of a text, a share if in percent, and half its last digit."""
    match = next(each for each in NUMBER.finditer(text) if each[1] or each[2])
    digits = f"{match[1] or 0}{match[2] or ''}".replace(",", "")
    scale = 0.01 if match[3] else 1.0
    half = 0.5 * 10.0 ** -(len(match[2]) - 1 if match[2] else 0)
    return float(digits) * scale, half * scale


def test_the_page_is_what_its_rows_give_and_no_row_of_learning_is_outdated() -> None:
    assert results.faults() == []


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_a_row_says_where_when_and_how_it_was_measured(table: Path) -> None:
    for row in rows.read(table.stem):
        assert row.figures
        assert re.fullmatch(r"[0-9a-f]{8}", row.commit), row.subject
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.measured_at), row.subject
        assert row.machine
        assert row.command


def test_a_row_of_learning_names_the_code_that_it_measured() -> None:
    for table in LEARNING:
        for row in rows.read(table):
            ours = row.subject.endswith((", fast", ", best"))
            assert bool(row.code) == ours, row.subject


def test_a_change_of_the_code_outdates_a_row_and_one_of_its_comments_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    module = tmp_path / "learner.py"
    module.write_text('"""Learns."""\nC = 1\n')
    code = {"learner.py": rows.code_digest("learner.py")}
    row = rows.Row("a", {"x": 1.0}, "python -m b", "0" * 8, "m", "2026-01-01", code=code)
    module.write_text('"""Learns well."""\nC   =   1  # a strength\n')
    assert row.outdated() == []
    module.write_text('"""Learns."""\nC = 2\n')
    assert row.outdated() == ["learner.py"]


def test_a_row_takes_the_place_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "TABLES", tmp_path)
    rows.record("t", "a", {"x": 1.0}, seed=0)
    rows.record("t", "b", {"x": 2.0}, seed=0)
    rows.record("t", "a", {"x": 3.0}, seed=0)
    rows.record("t", "a", {"x": 5.0}, seed=1)
    held = [(row.subject, row.seed, row.figures["x"]) for row in rows.read("t")]
    assert held == [("a", 0, 3.0), ("b", 0, 2.0), ("a", 1, 5.0)]


def test_notes_are_short_and_all_of_them_are_listed() -> None:
    notes = sorted((ROOT / "benchmarks" / "notes").glob("*.md"))
    index = (ROOT / "benchmarks" / "notes" / "README.md").read_text()
    for note in notes:
        assert len(note.read_text().split()) <= 400, note.name
        if note.name != "README.md":
            assert f"({note.name})" in index, note.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_figure_in_the_documentation_is_that_of_a_row(page: Path) -> None:
    for paragraph in page.read_text().split("\n\n"):
        shown = re.sub(r"\s+", " ", FIGURE.sub("", paragraph))
        marks = FIGURE.findall(paragraph)
        if MEASURED.search(paragraph) and page.name != "benchmarks.md":
            plain = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", "", shown)
            assert marks or not re.search(r"\d", plain), plain
        for figure, table, subject, column in marks:
            assert figure in shown, figure
            row = next(row for row in rows.read(table) if row.subject == subject)
            value, half = _value(figure)
            held = row.figures[column]
            exact = _value(held)[0] if isinstance(held, str) else held
            assert abs(value - exact) <= half * 1.001, f"{figure}: the row has {held}"
