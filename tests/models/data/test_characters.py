"""Compiled code finds the words that Python finds, in any script."""

import json
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.characters import has_word, marks, placed_words, runs_of, words_of
from setwise.models.data.characters import FOLD, encoded, kinds
from setwise.models.data.words import (
    MAX_WORD_LENGTH,
    index_words,
    ngrams_of,
    number_ngrams,
    number_words,
)

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=40)
# Marks, signs, digits and letters of scripts with and without spaces, next to each other.
MARKS = "\u0301\u05bc\u093f\u094d\u0e31\u3099\U00011038\u200d\u00ad\ufe0f"
LETTERS = "aB1_éकअใผ患ー々ကខກ𠀀𑀓İｶﾞẞ"
HARD_TEXT = st.text(st.sampled_from(MARKS + LETTERS + ".+# "), max_size=12)


def words_in(texts):
    """Return the words that compiled code finds, by an index of all that Python finds."""
    known = sorted({word for text in texts for word in words_of(text)} - {""})
    plain = [word for word in known if not any("\ud800" <= each <= "\udfff" for each in word)]
    content, bounds = encoded(texts)
    numbers, ends = number_words(content, bounds, FOLD, index_words(plain))
    names = [*plain, None]
    return [[names[number] for number in numbers[a:b]] for a, b in pairwise(ends)]


def storable(words):
    return [None if any("\ud800" <= each <= "\udfff" for each in word) else word for word in words]


@given(st.lists(ANY_TEXT | HARD_TEXT, max_size=4))
@settings(deadline=None, max_examples=300)  # the first call compiles
def test_compiled_code_finds_the_words_of_any_texts(texts):
    assert words_in(texts) == [storable(words_of(text)) for text in texts]


def test_every_character_of_two_planes_is_taken_as_by_python():
    # Each alone in a text: neighbours may compose.
    texts = list(map(chr, range(0x20000)))
    assert words_in(texts) == [storable(words_of(text)) for text in texts]


def test_every_mark_after_a_letter_is_taken_as_by_python():
    texts = [f"a{chr(point)}b" for point in [*range(0x300), *marks()]]
    assert words_in(texts) == [storable(words_of(text)) for text in texts]


def windows(word):
    """Return the n-grams of a word by sliding a window over its letters, with their marks."""
    letters = []
    for character in word:
        if letters and unicodedata.category(character)[0] == "M":
            letters[-1] += character
        else:
            letters.append(character)
    padded = ["", *letters, ""]
    found = []
    for size in (3, 4, 5):
        for start in range(len(padded) - size + 1):
            inside = "".join(padded[start : start + size])
            rest = "*" * (start > 0), "*" * (start + size < len(padded))
            found += [inside.join(rest)] * (inside != word)
    return found


@given(ANY_TEXT | HARD_TEXT | st.just(99 * "a" + "\u0301b a" + 99 * "\u0301"))
@settings(deadline=None)
def test_compiled_code_finds_the_ngrams_of_any_text(text):
    words = [word for word in words_of(text) if len(word) <= MAX_WORD_LENGTH]
    expected = sorted(run for word in words for run in windows(word))
    assert sorted(run for word in words for run in ngrams_of(word)) == expected
    storable_runs = [run for run in expected if storable([run]) == [run]]
    known = sorted(set(storable_runs))
    content, bounds = encoded([text, text])
    numbers, ends = number_ngrams(content, bounds, FOLD, kinds(), index_words(known))
    for start, end in pairwise(ends):
        assert sorted(known[number] for number in numbers[start:end]) == storable_runs


@given(ANY_TEXT | HARD_TEXT)
def test_places_hold_the_words(text):
    placed = list(placed_words(text))
    assert all(0 <= start < end <= len(text) for _, start, end in placed)
    assert [start for _, start, _ in placed] == sorted(start for _, start, _ in placed)
    assert bool(runs_of(text)) == bool(words_of(text))
    assert has_word(text) or not placed


CASES = json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", CASES)
def test_words_of_every_script_are_whole(text):
    assert words_of(text) == CASES[text]


def test_what_compiled_code_reads_is_of_one_kind():
    plain, beyond = encoded(["fever"])[0], encoded(["fever \u00b7"])[0]
    assert bytes(beyond) == b"fever   "
    assert plain.flags.writeable == beyond.flags.writeable  # or the code is compiled twice
