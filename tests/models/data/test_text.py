"""The vectorizer: equal to scikit-learn's on plain text, unmoved by any other."""

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from setwise.models.classifier import SetClassifier
from setwise.models.data import text as text_module
from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.text import TextVectorizer
from setwise.models.options import TrainingWarning
from setwise.spelling import spelled

TEXTS = [
    "Fever and cough; no rash.",
    "No fever. Cough, cough, COUGH!",
    "The rash is gone, fever_1 too: 38.5 °C",
    "Ärztliche Notiz über Fieber",
]


WORD = r"\w+(?:\.(?=[0-9])\w+)*(?:(?:\+\+|#)(?!\w))?"


def known(vectorizer, texts):
    """Return the number of distinct features in each text."""
    return np.diff(vectorizer.transform(texts).indptr)


# scikit-learn's common checks do not test estimators of strings; this is their gist.
def test_constructors_store_and_clones_forget():
    chosen = {"min_df": 3, "bigrams": True, "bigram_min_df": 4}
    chosen |= {"beginnings": 5, "ngrams": False, "first_line_twice": True}
    vectorizer = TextVectorizer(**chosen)
    assert vectorizer.get_params() == chosen
    assert vectorizer.fit(TEXTS) is vectorizer
    copy = clone(vectorizer)
    assert copy.get_params() == vectorizer.get_params()
    assert not hasattr(copy, "idf_")


@pytest.mark.parametrize("n_copies", [1, 20])
def test_vectors_equal_those_of_scikit_learn(n_copies):
    texts = [f"{text} {i % 7}" for i in range(n_copies) for text in TEXTS]
    theirs = TfidfVectorizer(
        token_pattern=WORD, sublinear_tf=True, min_df=1 if n_copies == 1 else 2
    ).fit(texts)
    ours = TextVectorizer().fit(texts)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    fresh = [*TEXTS, "cough rash rash", ""]
    vectors = ours.transform(fresh)
    assert vectors.dtype == np.float32
    assert vectors.indices.dtype == np.int32
    np.testing.assert_allclose(vectors.toarray(), theirs.transform(fresh).toarray(), atol=1e-6)


def test_the_columns_of_a_large_vocabulary_ascend_and_count_as_by_scikit_learn():
    chosen = np.random.default_rng(0).integers(0, 20_000, (40, 500)) ** 2 // 20_000
    texts = [" ".join(f"w{number}" for number in row) for row in chosen]
    theirs = TfidfVectorizer(token_pattern=WORD, sublinear_tf=True).fit(texts)
    ours = TextVectorizer(min_df=1).fit(texts)
    vectors, expected = ours.transform(texts), theirs.transform(texts)
    assert vectors.shape[1] > 64**2
    expected.sort_indices()
    np.testing.assert_array_equal(vectors.indices, expected.indices)
    np.testing.assert_allclose(vectors.data, expected.data, atol=1e-6)


def test_pairs_equal_those_of_scikit_learn_where_every_word_is_known():
    theirs = TfidfVectorizer(token_pattern=WORD, sublinear_tf=True, ngram_range=(1, 2)).fit(TEXTS)
    ours = TextVectorizer(bigrams=True).fit(TEXTS)
    position = {name: i for i, name in enumerate(ours.get_feature_names_out())}
    order = [position[name] for name in theirs.get_feature_names_out()]
    np.testing.assert_allclose(
        ours.transform(TEXTS).toarray()[:, order], theirs.transform(TEXTS).toarray(), atol=1e-6
    )


def test_beginnings_equal_an_analyzer_that_cuts_words_off():
    def analyze(text):
        words = re.findall(WORD, text.lower())
        return [*words, *(f"{word[:4]}*" for word in words if len(word) >= 4)]

    texts = [*TEXTS, "Feverish fieberhaft fevers", "Fieberkrämpfe"] * 10
    theirs = TfidfVectorizer(analyzer=analyze, sublinear_tf=True, min_df=2).fit(texts)
    ours = TextVectorizer(beginnings=4).fit(texts)
    names = ours.get_feature_names_out().tolist()
    assert sorted(names) == theirs.get_feature_names_out().tolist()
    position = {name: i for i, name in enumerate(names)}
    order = [position[name] for name in theirs.get_feature_names_out()]
    # Of words that training has not: one beginning that it has, and one that it has not.
    fresh = [*TEXTS, "fieberfrei, feverless, cou", "Fibre"]
    np.testing.assert_allclose(
        ours.transform(fresh).toarray()[:, order], theirs.transform(fresh).toarray(), atol=1e-6
    )


def test_pairs_and_beginnings_do_not_mix():
    both = TextVectorizer(bigrams=True, beginnings=4).fit(TEXTS)
    names = both.get_feature_names_out().tolist()
    cut = {"38.5*", "feve*", "coug*", "rash*", "gone*", "ärzt*", "noti*", "über*", "fieb*"}
    assert {name for name in names if name.endswith("*")} == cut
    row = both.transform(["fever cough feverish"])
    found = [names[column] for column in row.indices]
    assert found == ["cough", "fever", "fever cough", "coug*", "feve*"]
    by_name = dict(zip(found, row.data, strict=True))
    assert by_name["feve*"] > by_name["fever"]  # twice and once, both in two texts


def test_ngrams_equal_those_of_scikit_learn():
    windows = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5)).build_analyzer()

    def analyze(text):
        words = re.findall(WORD, text.lower())
        runs = [run for word in words for run in windows(word) if run.strip() != word]
        return [*words, *(f"*{run}*".replace("* ", "").replace(" *", "") for run in runs)]

    texts = [*TEXTS, "Feverish fieberhaft fevers", "Fieberkrämpfe E11.9 c++"] * 10
    theirs = TfidfVectorizer(analyzer=analyze, sublinear_tf=True, min_df=2).fit(texts)
    ours = TextVectorizer(ngrams=True).fit(texts)
    names = ours.get_feature_names_out().tolist()
    assert sorted(names) == theirs.get_feature_names_out().tolist()
    order = [names.index(name) for name in theirs.get_feature_names_out()]
    fresh = [*TEXTS, "fieberfrei, fevrish, cou", "Fibre", "E11.8", ""]
    np.testing.assert_allclose(
        ours.transform(fresh).toarray()[:, order], theirs.transform(fresh).toarray(), atol=1e-6
    )


@pytest.mark.parametrize("ngrams", [False, True])
def test_no_name_has_a_twin_that_looks_like_it(ngrams):
    texts = ["a" * shift + " fie\u0301vre" * 40 for shift in range(8)] * 8
    names = TextVectorizer(ngrams=ngrams).fit(texts).get_feature_names_out().tolist()
    assert len(set(map(spelled, names))) == len(names)


def test_the_ngrams_of_most_texts_are_kept(monkeypatch):
    monkeypatch.setattr(text_module, "MOST_NGRAMS", 4)
    vectorizer = TextVectorizer(ngrams=True).fit(["fever fevers", "fever rash"])
    assert vectorizer.parts_ == ["*er", "*eve*", "*ever", "*ever*"]
    assert vectorizer.n_named == 3


def test_words_of_a_first_line_count_twice_if_more_lines_follow():
    texts = ["Cough\nfever and cough", "fever\n", "rash"]
    plain, headed = (TextVectorizer(first_line_twice=twice).fit(texts) for twice in (False, True))
    assert plain.idf_.tolist() == headed.idf_.tolist()
    for text, same in {
        "\n Rash \n fever": "rash fever rash",
        "fever\n \n": "fever",
        "rash cough": "rash cough",
        "": "",
    }.items():
        assert (headed.transform([text]) != plain.transform([same])).nnz == 0, text


def test_an_unknown_word_between_two_words_parts_them():
    vectorizer = TextVectorizer(bigrams=True).fit(["a b"])
    assert vectorizer.get_feature_names_out().tolist() == ["a", "b", "a b"]
    assert known(vectorizer, ["a b", "a x b"]).tolist() == [3, 2]


def test_batches_of_any_size_give_the_same_rows():
    texts = [f"{TEXTS[i % 4]} {i}" for i in range(2100)]
    vectorizer = TextVectorizer().fit(texts)
    whole = vectorizer.transform(texts)
    assert whole.shape[0] == 2100
    for rows in (slice(0, 1), slice(1023, 1025), slice(2047, 2100)):
        assert abs(whole[rows] - vectorizer.transform(texts[rows])).max() == 0


def test_rare_words_are_unknown_unless_the_corpus_is_tiny():
    texts = ["common"] * 98 + ["rare common"] + ["common odd odd"]
    assert TextVectorizer().fit(texts).vocabulary_ == ["common"]
    assert TextVectorizer().fit(texts[-20:]).vocabulary_ == ["common", "odd", "rare"]
    assert TextVectorizer().fit([f"word{i}" for i in range(60)]).idf_.shape == (60,)


def test_texts_without_known_words_give_empty_rows():
    vectorizer = TextVectorizer().fit(TEXTS)
    assert known(vectorizer, ["zebra quagga", "", "…", "fever"]).tolist() == [0, 0, 0, 1]
    assert vectorizer.transform([]).shape == (0, len(vectorizer.vocabulary_))


def test_forms_of_one_word_are_one_word():
    vectorizer = TextVectorizer().fit(["fièvre office"])
    same = ["FIÈVRE", "fie\u0300vre", "\uff4fffice", "o\ufb03ce", "fi\u00e8vre\x00\x07"]
    assert known(vectorizer, same).tolist() == [1] * len(same)


def test_endless_words_are_not_learnt():
    vectorizer = TextVectorizer().fit(["a" * 101 + " " + "b" * 100])
    assert vectorizer.vocabulary_ == ["b" * 100]


ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=80)


@given(st.lists(ANY_TEXT, max_size=5), st.booleans())
def test_no_string_is_refused_and_rows_have_length_one_or_nothing(texts, bigrams):
    vectorizer = TextVectorizer(bigrams=bigrams).fit([*TEXTS, *texts])
    vectors = vectorizer.transform(texts)
    lengths = np.sqrt((vectors.toarray().astype(np.float64) ** 2).sum(axis=1))
    expected = (known(vectorizer, texts) > 0).astype(float)
    np.testing.assert_allclose(lengths, expected, atol=1e-5)
    for row in range(len(texts)):
        columns = vectors.indices[vectors.indptr[row] : vectors.indptr[row + 1]]
        assert np.all(np.diff(columns) > 0)


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_the_quick_way_for_ascii_finds_the_same_words(text):
    vectorizer = TextVectorizer().fit([f"fever {text}"])
    other = TextVectorizer().fit([f"fever {text} \u00b7"])  # not ASCII, and no word
    assert vectorizer.vocabulary_ == other.vocabulary_


def test_a_megabyte_of_combining_marks_takes_seconds_not_minutes():
    vectorizer = TextVectorizer().fit(TEXTS)
    vectorizer.transform(TEXTS)  # a first call compiles
    started_at = time.process_time()  # what others do meanwhile does not count
    vectorizer.transform(["a" + "\u0300\u0323" * 500_000])
    assert time.process_time() - started_at < 20


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="no training text holds a word"):
        TextVectorizer().fit(["", "?!"])
    with pytest.raises(ValueError, match="beginnings must be 0 to 100"):
        TextVectorizer(beginnings=-1).fit(TEXTS)
    with pytest.raises(ValueError, match="n-grams hold beginnings"):
        TextVectorizer(beginnings=4, ngrams=True).fit(TEXTS)
    with pytest.raises(TypeError, match="not one string"):
        TextVectorizer().fit("fever")
    with pytest.raises(TypeError, match="text 1 is of type NoneType"):
        TextVectorizer().fit(["fever", None])
    with pytest.raises(NotFittedError):
        clone(TextVectorizer().fit(TEXTS)).transform(TEXTS)


def test_the_beginning_of_an_endless_word_is_none():
    vectorizer = TextVectorizer(beginnings=4).fit(["fever", "fevers"])
    assert known(vectorizer, [100 * "f", "feve" + 96 * "r", "feve" + 97 * "r"]).tolist() == [
        0,
        1,
        0,
    ]


@pytest.mark.data
def test_real_stories_are_vectorised_as_by_scikit_learn(data_dir):
    texts = read_dataset(data_dir / "reuters21578", "test").texts[:500]
    theirs = TfidfVectorizer(token_pattern=WORD, sublinear_tf=True, min_df=2).fit(texts)
    ours = TextVectorizer().fit(texts)
    assert ours.vocabulary_ == theirs.get_feature_names_out().tolist()
    assert abs(ours.transform(texts) - theirs.transform(texts)).max() < 1e-6


def test_training_warns_of_texts_without_common_words():
    texts = [f"x{hash_} y{hash_ * 7} fever" for hash_ in range(60)]
    labels = [[("a", "b")[place % 2]] for place in range(60)]
    rare = "67% of the words in the texts occur in fewer than 2 documents"
    with (
        pytest.warns(TrainingWarning, match="too few for exact confidences"),
        pytest.warns(TrainingWarning, match=rare),
    ):
        SetClassifier(preset="fast").fit(texts, labels)
