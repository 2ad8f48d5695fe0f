"""The compiled word index finds what a dictionary finds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.characters import words_of
from setwise.models.data.characters import FOLD, encoded
from setwise.models.data.words import index_words, number_words

# Few letters, so that words repeat; separators and letters beyond ASCII of every kind.
TEXTS = st.lists(st.text(st.sampled_from("aAbBz09_ -.\n\x00éÉßﬁ中\u0301\ud800🙂"), max_size=40))


def compiled(texts, words):
    content, bounds = encoded(texts)
    numbers, ends = number_words(content, bounds, FOLD, index_words(words))
    return [numbers[ends[i] : ends[i + 1]].tolist() for i in range(len(texts))]


@given(TEXTS, st.data())
@settings(deadline=None)  # the first call compiles
def test_words_get_the_numbers_a_dictionary_gives_them(texts, data):
    seen = sorted({word for text in texts for word in words_of(text)})
    known = data.draw(st.lists(st.sampled_from(seen), unique=True)) if seen else []
    number = {word: index for index, word in enumerate(known)}
    wanted = [[number.get(word, -1) for word in words_of(text)] for text in texts]
    assert compiled(texts, known) == wanted


def test_many_words_are_all_found_and_their_neighbours_are_not():
    words = [f"w{i}" for i in range(20_000)]
    text = " ".join(words)
    assert compiled([text], words) == [list(range(20_000))]
    assert compiled([text.replace("w", "v")], words) == [[-1] * 20_000]


def test_a_word_ends_with_its_text():
    assert compiled(["ab", "c"], ["ab", "abc", "c"]) == [[0], [2]]
