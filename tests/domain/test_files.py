"""Rows as text: whole after reading, and harmless in a spreadsheet."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.formulas import FORMULA_STARTS
from setwise.service.domain.files import BadLine, Format, document_in, header, lines
from setwise.service.domain.predictions import Document

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
values = st.one_of(
    st.none(),
    texts,
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(texts),
    st.dictionaries(texts, texts),
)
rows = st.lists(st.fixed_dictionaries({"a": values, "b": values}), max_size=5)


def read_csv(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


@given(rows)
def test_json_lines_come_back_as_they_were(rows: list[dict[str, object]]) -> None:
    content = lines(Format.JSON_LINES, rows)
    assert [json.loads(line) for line in content.decode().split("\n")[:-1]] == rows


@given(rows)
def test_csv_comes_back_and_no_text_begins_a_formula(rows: list[dict[str, object]]) -> None:
    read = read_csv(lines(Format.CSV, rows))
    assert len(read) == len(rows)
    for cells, row in zip(read, rows, strict=True):
        for cell, value in zip(cells, row.values(), strict=True):
            if isinstance(value, str):
                assert cell in {value, f"'{value}"}
                assert not cell.startswith(FORMULA_STARTS)
            elif isinstance(value, bool | list | dict):
                assert json.loads(cell) == value
            elif value is None:
                assert not cell
            else:
                assert float(cell) == float(value)  # type: ignore[arg-type]  # a number


def test_numbers_stay_numbers_and_times_are_rfc_3339() -> None:
    row = {"n": -0.5, "at": datetime(2026, 1, 2, tzinfo=UTC), "labels": ["-x"]}
    assert lines(Format.CSV, [row]) == b'-0.5,2026-01-02T00:00:00Z,"[""-x""]"\r\n'
    assert lines(Format.JSON_LINES, [row]).startswith(b'{"n":-0.5,"at":"2026-01-02T00:00:00Z"')


def test_only_csv_has_a_header() -> None:
    assert header(Format.CSV, ["a", "b"]) == b"a,b\r\n"
    assert header(Format.JSON_LINES, ["a", "b"]) == b""


def test_what_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be written"):
        lines(Format.JSON_LINES, [{"a": object()}])


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ({"answer": [], "labels": ["fever"]}, {"labels": []}),
        ({"answer": ["cough"], "labels": ["fever"]}, {"labels": ["cough"]}),
        ({"answer": None, "labels": ["fever"]}, {"labels": ["fever"]}),
        ({"labels": []}, {"labels": []}),
        ({"answer": None, "labels": None}, None),
        ({"answer": ["fie\u0300vre "]}, {"labels": ["fi\u00e8vre"]}),
        ({"candidates": [{"labels": ["a\u00a0b"]}]}, {"candidates": [{"labels": ["a b"]}]}),
        ({"scores": {" a": 0.5}}, {"scores": {"a": 0.5}}),
    ],
)
def test_an_empty_answer_is_an_answer_and_null_is_none(
    line: dict[str, object], answer: dict[str, object] | None
) -> None:
    read = document_in(b"\xef\xbb\xbf" + json.dumps({"text": "x", **line}).encode(), answered=True)
    assert isinstance(read, Document)
    assert read.answer == answer


def test_json_that_is_nested_too_deeply_is_a_bad_line() -> None:
    read = document_in(b'{"a":' * 100_000)
    assert isinstance(read, BadLine)
    assert "nested too deeply" in read.detail


def test_a_line_may_say_how_urgent_its_review_is() -> None:
    read = document_in(b'{"text": "x", "priority": 1, "due_at": "2026-01-02T01:00:00+01:00"}')
    assert read == Document(text="x", priority=1, due_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert document_in(b'{"text": "x", "priority": null, "due_at": null}') == Document(text="x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": "1"},
        {"priority": True},
        {"priority": 1.0},
        {"due_at": "2026-01-02"},
        {"due_at": 1764201600},
        {"due_at": "0001-01-01T00:00:00+23:00"},
    ],
)
def test_a_line_with_another_urgency_is_refused(wrong: dict[str, object]) -> None:
    read = document_in(json.dumps({"text": "x", **wrong}).encode())
    assert isinstance(read, BadLine)
    assert [fault.pointer for fault in read.faults] == [f"/{name}" for name in wrong]


def test_a_label_that_is_scored_twice_is_named() -> None:
    line = b'{"text": "x", "scores": {"J45": 0.9, "a": 0.2, "J45": 0.3}}'
    assert document_in(line) == BadLine(
        "The line is not valid: 'J45' is given twice in one object."
    )
