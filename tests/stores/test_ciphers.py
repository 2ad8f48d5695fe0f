"""Sealed texts: only the right key opens them, at the right place, unchanged."""

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.errors import StorageDamaged
from setwise.service.stores.columns.ciphers import TextCipher, key_of, read_keys

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
PLACE = "predictions.text"


@given(st.text())
def test_what_is_sealed_opens_again_and_shows_nothing(text: str) -> None:
    cipher = TextCipher([ONE])
    sealed = cipher.seal(text, PLACE)
    assert cipher.open(sealed, PLACE) == text
    assert sealed.isascii()
    assert key_of(sealed) == cipher.sealing_id
    # Less may be in there by chance, or be how all that is sealed begins.
    assert len(text) < 8 or text not in sealed
    assert cipher.seal(text, PLACE) != sealed


def test_another_key_opens_nothing() -> None:
    sealed = TextCipher([ONE]).seal("fever", PLACE)
    with pytest.raises(StorageDamaged, match="SETWISE_ENCRYPTION_KEYS lacks"):
        TextCipher([TWO]).open(sealed, PLACE)


def test_an_old_key_goes_on_opening() -> None:
    sealed = TextCipher([ONE]).seal("fever", PLACE)
    both = TextCipher([TWO, ONE])
    assert both.open(sealed, PLACE) == "fever"
    assert key_of(both.seal("x", PLACE)) == TextCipher([TWO]).sealing_id


def test_a_text_that_was_changed_or_moved_does_not_open() -> None:
    cipher = TextCipher([ONE])
    sealed = cipher.seal("fever", PLACE)
    head, body = sealed.rsplit(":", 1)
    content = bytearray(base64.urlsafe_b64decode(body))
    for place in range(len(content)):
        content[place] ^= 1
        forged = f"{head}:{base64.urlsafe_b64encode(content).decode()}"
        with pytest.raises(StorageDamaged, match="damaged"):
            cipher.open(forged, PLACE)
        content[place] ^= 1
    with pytest.raises(StorageDamaged, match="damaged"):
        cipher.open(sealed, "predictions.metadata")
    of_row = cipher.seal("fever", PLACE, ("1", "clinic"))
    assert cipher.open(of_row, PLACE, ("1", "clinic")) == "fever"
    for row in ((), ("1",), ("2", "clinic"), ("1", "other"), ("1clinic", "")):
        with pytest.raises(StorageDamaged, match="another row"):
            cipher.open(of_row, PLACE, row)
    for forged in (head + ":", head + ":A", head + ":é"):
        with pytest.raises(StorageDamaged):
            cipher.open(forged, PLACE)


def test_keys_do_not_show() -> None:
    text = repr(TextCipher([ONE]))
    assert ONE.hex() not in text
    assert base64.b64encode(ONE).decode() not in text


def test_keys_are_read_in_either_alphabet() -> None:
    keys = [os.urandom(32) for _ in range(50)]
    for write in (base64.b64encode, base64.urlsafe_b64encode):
        assert read_keys(" , ".join(write(key).decode() for key in keys)) == keys
    assert read_keys("") == []


@pytest.mark.parametrize("written", ["hunter2", "aHVudGVyMg==", "é" * 43, f"{'A' * 43}=,hunter2"])
def test_a_bad_key_is_refused_without_being_quoted(written: str) -> None:
    with pytest.raises(ValueError, match="32 bytes in base64") as error:
        read_keys(written)
    assert "hunter2" not in str(error.value)
