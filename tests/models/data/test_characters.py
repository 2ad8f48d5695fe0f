"""Bytes for compiled code hold the words that Python finds."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.data.characters import FOLD, encoded, words_of

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=40)


def words_in(content, bounds):
    """Return the words that stand between separators."""
    folded = [bytes(FOLD[content[a:b]]) for a, b in pairwise(bounds)]
    return [[word.decode() for word in text.split(b"\0") if word] for text in folded]


@given(st.lists(ANY_TEXT, max_size=4))
@settings(deadline=None)  # the first call compiles
def test_the_words_of_any_texts_stand_in_their_bytes(texts):
    assert words_in(*encoded(texts)) == [words_of(text) for text in texts]


def test_every_character_of_two_planes_is_taken_as_by_python():
    # Each alone in a text: neighbours may compose.
    texts = list(map(chr, range(0x20000)))
    assert words_in(*encoded(texts)) == [words_of(text) for text in texts]


def test_what_compiled_code_reads_is_of_one_kind():
    plain, beyond = encoded(["fever"])[0], encoded(["fever \u00b7"])[0]
    assert bytes(beyond) == b"fever   "
    assert plain.flags.writeable == beyond.flags.writeable  # or the code is compiled twice
