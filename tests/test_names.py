"""Which texts can be names, in every script."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.spelling import MOST_MARKS, misnamed, spelled, spelled_labels
from tests.odd_labels import PLAIN, WORDS

NAMES = {
    "Arabic with its marks": "\u0627\u0644\u0652\u062d\u064f\u0645\u0651\u064e\u0649",
    "Hebrew with points and an accent": "\u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05b4\u0596",
    "Hindi": "\u092c\u0941\u0916\u093c\u093e\u0930",
    "Thai": "\u0e1c\u0e39\u0e49\u0e1b\u0e48\u0e27\u0e22",
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "B\u1ec7nh vi\u1ec7n"),
    "Persian with a joiner": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "a Persian short form": "\u0647\u200d.\u0642",
    "Bengali before a hyphen": "\u09ac\u09be\u0995\u09cd\u200c-\u09b8",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "Malayalam at the end of a word": "\u0d05\u0d35\u0d28\u0d4d\u200d",
    "Mongolian": "\u182a\u180b\u1820",
    "the tallest stack of Tibetan": "\u0f67\u0f90\u0fb5\u0fa8\u0fb3\u0fba\u0fbc\u0fbb\u0f82",
    "Korean": "\ud55c\uad6d\uc5b4",
    "a Japanese variant": "\u845b\U000e0100\u98fe",
    "Arabic sign of a year": "\u0601\u0661\u0664",
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a skin tone": "\U0001f44d\U0001f3fd",
    "a doctor with a skin tone": "\U0001f469\U0001f3fd\u200d\u2695\ufe0f",
    "a heart": "\u2764\ufe0f",
    "a heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "a rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "a flag of two letters": "\U0001f1eb\U0001f1f7",
    "Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "a key": "1\ufe0f\u20e3",
    "dots beside letters": "...",
    "a hidden file": ".profile",
    "code": "J18.9 (a/b) 100 %",
    "blanks of Braille": "\u2801\u2800\u2803",
}
BAD_NAMES = {
    ".": "is '.', which addresses cannot hold",
    "..": "is '..', which addresses cannot hold",
    "a\u202eb": "U+202E RIGHT-TO-LEFT OVERRIDE at place 2, which reorders",
    "\u2066a\u2069": "U+2066 LEFT-TO-RIGHT ISOLATE at place 1",
    "a\u200f": "U+200F RIGHT-TO-LEFT MARK at place 2",
    "\u061ca": "U+061C ARABIC LETTER MARK",
    "fever\x07": "U+0007 BEL at place 6, a control character",
    "\x00": "U+0000 NUL",
    "a\x1b[31m": "U+001B ESC",
    "fever\x7f": "U+007F DEL",
    "a\x9bb": "U+009B at place 2, a control character",
    "a\uffff": "U+FFFF at place 2, which is no character",
    "\U0001fffe": "U+1FFFE",
    "a\ufdd0": "U+FDD0",
    "\U000effff": "U+EFFFF",
    "a\ue000": "U+E000 at place 2, which each font shows",
    "a\ud800": "U+D800 at place 2, half of a surrogate",
    "\u200d": "U+200D ZERO WIDTH JOINER",
    "fe\u200dver": "U+200D ZERO WIDTH JOINER at place 3, which people cannot see",
    "fe\u200cver": "U+200C ZERO WIDTH NON-JOINER",
    "\u0645\u06cc\u200c": "U+200C ZERO WIDTH NON-JOINER at place 3",
    "fe\u00adver": "U+00AD SOFT HYPHEN",
    "fe\u200bver": "U+200B ZERO WIDTH SPACE",
    "fe\u034fver": "U+034F COMBINING GRAPHEME JOINER",
    "fever\ufe0f": "U+FE0F VARIATION SELECTOR-16",
    "fever\U000e0041": "U+E0041 TAG LATIN CAPITAL LETTER A",
    "\u3164": "U+3164 HANGUL FILLER",
    "\u115f\u1160": "U+115F HANGUL CHOSEONG FILLER",
    "\uffa0": "U+FFA0 HALFWIDTH HANGUL FILLER",
    "\u2800 \u2800": "U+2800 BRAILLE PATTERN BLANK",
    "\u2063": "U+2063 INVISIBLE SEPARATOR",
    "\u180e": "U+180E MONGOLIAN VOWEL SEPARATOR",
    "\ufff9a": "U+FFF9 INTERLINEAR ANNOTATION ANCHOR",
    "\u0301a": "U+0301 COMBINING ACUTE ACCENT at place 1, a mark without a letter",
    "a" + "\u0301" * 400: "more than 8 combining marks",
    "a" + "\u0300\u0323" * 5: "more than 8 combining marks",
    "\u1ea5" + "\u0300" * 7: "more than 8 combining marks",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_of_every_script_pass(name: str) -> None:
    assert misnamed(name) is None
    assert misnamed(spelled(name)) is None


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_that_deceives_or_cannot_be_reached_is_refused_with_its_character(name: str) -> None:
    why = misnamed(name)
    assert why is not None
    assert BAD_NAMES[name] in why.fault
    assert why.cure


@pytest.mark.parametrize("name", [*PLAIN, *WORDS], ids=ascii)
def test_names_that_people_and_tools_choose_pass_once_spelled(name: str) -> None:
    assert misnamed(spelled(name)) is None


@given(st.text(st.characters(categories=["L", "N", "P", "S"], max_codepoint=0x2FF), min_size=3))
def test_letters_digits_and_signs_alone_never_make_a_bad_name(name: str) -> None:
    assert misnamed(name) is None


@given(st.text(min_size=1), st.characters(categories=["Cc", "Cs", "Cn", "Co"]))
def test_no_control_and_no_character_without_a_meaning_passes(text: str, odd: str) -> None:
    why = misnamed(f"a{odd}{text}")
    assert why is not None
    assert f"U+{ord(odd):04X}" in why.fault


@given(st.integers(0, 20))
def test_marks_are_counted_on_each_base(number: int) -> None:
    name = ("a" + "\u0323" * number) * 3
    assert (misnamed(name) is None) == (number <= MOST_MARKS)


def test_a_label_that_is_no_name_is_refused_beside_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"the label '\.\.' is '\.\.', which addresses"):
        spelled_labels(["fever", ".. "])
