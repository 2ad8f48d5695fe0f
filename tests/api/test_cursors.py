"""Opaque cursors."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.api.http.cursors import Cursors
from setwise.service.domain.errors import InvalidRequest

CURSORS = Cursors(b"secret")


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_a_cursor_leads_back_to_its_place(place: str, scope: str) -> None:
    cursor = CURSORS.write(place, scope)
    assert cursor is not None
    assert cursor.isascii()
    assert CURSORS.read(cursor, scope) == place


@given(st.text(max_size=60))
def test_what_was_not_written_here_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        CURSORS.read(cursor, "list")
    assert [fault.pointer for fault in error.value.faults] == ["/query/cursor"]


@given(st.integers(0), st.integers(1, 255))
def test_a_cursor_with_any_byte_changed_is_refused(place: int, change: int) -> None:
    cursor = CURSORS.write("019b7a0b-0000-7000-8000-00000000ffff", "list")
    assert cursor is not None
    content = bytearray(base64.urlsafe_b64decode(cursor))
    content[place % len(content)] ^= change
    with pytest.raises(InvalidRequest):
        CURSORS.read(base64.urlsafe_b64encode(content).decode(), "list")


def test_the_end_of_a_list_has_no_cursor() -> None:
    assert CURSORS.write(None, "list") is None
    assert CURSORS.read(None, "list") is None


def test_a_cursor_of_another_installation_is_refused() -> None:
    cursor = Cursors(b"other").write("place", "list")
    with pytest.raises(InvalidRequest):
        CURSORS.read(cursor, "list")
