"""Turns texts into sparse tf-idf vectors in compiled code."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple, Self
from unicodedata import is_normalized

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.characters import words_of
from setwise.models.compilation import njit
from setwise.models.data.bits import lowest_bit, without_lowest_bit
from setwise.models.data.characters import FOLD, encoded, kinds
from setwise.models.data.rows import SparseRows
from setwise.models.data.words import (
    MAX_WORD_LENGTH,
    index_words,
    ngrams_of,
    number_ngrams,
    number_words,
)
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredNames, StoredParameters
from setwise.models.storage.state import Lengths, StoredPart

_DOCUMENTS_AT_ONCE = 1024  # bounds the tokens in memory
_TINY_CORPUS = 50  # with fewer documents every word is known
MOST_NGRAMS = 100_000  # bounds the size of a model
_BITS, _ONE = 64, np.uint64(1)  # bits of a mark


class TextVectorizer(StoredPart, Estimator):
    r"""Turn texts into l2-normalised sublinear tf-idf vectors.

    Words are those of `setwise.characters`, of at most 100 characters; where writing has no spaces,
    each pair of neighbouring characters is one. A word :math:`t` that occurs :math:`c > 0` times in
    a text weighs
    :math:`(1 + \ln c)\,(1 + \ln\frac{1 + n}{1 + n_t})`, where :math:`n_t` of the :math:`n` training
    texts hold it; the vector of a text is then scaled to length one.

    Parameters
    ----------
    min_df : int, default=2
        Training texts in which a word must occur to be known. 1 is used if there are fewer than
        50 texts, or if no word is in that many.
    bigrams : bool, default=False
        Whether pairs of neighbouring known words are features too.
    bigram_min_df : int, default=5
        Training texts in which a pair must occur to be known.
    beginnings : int, default=0
        If positive, word prefixes of this many letters are features too, subject to `min_df`
        like words: inflections and derivations of a word share its prefix.
    ngrams : bool, default=False
        Whether the character n-grams of words are features too, instead of prefixes: see
        `ngrams_of`. The `MOST_NGRAMS` in the most training texts are kept, subject to `min_df`.
    first_line_twice : bool, default=False
        Whether words in the first line count twice if the text has more lines: the first line
        is often a title, a subject or a chief complaint.

    Attributes
    ----------
    n_features_in_ : int
        Always 1: the text.

    Examples
    --------
    >>> vectorizer = TextVectorizer().fit(["Fever and cough.", "No fever."])
    >>> vectorizer.vocabulary_
    ['and', 'cough', 'fever', 'no']
    >>> vectorizer.transform(["COUGH, cough!", "Rash?"]).toarray().tolist()
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    vocabulary_: list[str]  # the known words, sorted: the first columns
    # The known pairs, sorted: ``first * len(vocabulary_) + second``. The next columns.
    bigrams_: NDArray[np.int64]
    parts_: list[str]  # the known prefixes or n-grams of words, sorted: the last columns
    rare_share_: float  # share of the training texts' words that are too rare; not stored
    idf_: NDArray[np.float32]  # inverse document frequencies by column, at least 1
    stored = (
        StoredParameters("params", {"beginnings": (0, MAX_WORD_LENGTH)}),
        StoredNames("vocabulary", "vocabulary_", "words"),
        StoredNames("beginnings", "parts_", "parts", least=0),
        StoredArray("bigrams", "bigrams_", np.int64, ("pairs",), low=0),
        StoredArray("idf", "idf_", np.float32, ("features",), low=0.0),
    )

    def __init__(
        self,
        *,
        min_df: int = 2,
        bigrams: bool = False,
        bigram_min_df: int = 5,
        beginnings: int = 0,
        ngrams: bool = False,
        first_line_twice: bool = False,
    ) -> None:
        self.min_df = min_df
        self.bigrams = bigrams
        self.bigram_min_df = bigram_min_df
        self.beginnings = beginnings
        self.ngrams = ngrams
        self.first_line_twice = first_line_twice

    def fit(self, texts: Sequence[str], y: object = None) -> Self:  # noqa: ARG002 - pipelines pass y
        """Learn the vocabulary and its document frequencies.

        Parameters
        ----------
        texts : sequence of str
            The training texts; read twice if `bigrams`.
        y : object
            Ignored.

        Returns
        -------
        TextVectorizer
            Itself.

        Raises
        ------
        ValueError
            If no text holds a word, or a parameter is out of range.
        TypeError
            If `texts` is one string, or holds anything but strings.
        """
        _check_texts(texts)
        check_parameters(self)
        if not 0 <= self.beginnings <= MAX_WORD_LENGTH:
            raise ValueError(f"beginnings must be 0 to {MAX_WORD_LENGTH}; it is {self.beginnings}")
        if self.beginnings and self.ngrams:
            raise ValueError("n-grams hold beginnings of words: set beginnings to 0")
        documents: Counter[str] = Counter()
        parts: Counter[str] = Counter()
        for text in texts:
            words_here = {word for word in words_of(text) if len(word) <= MAX_WORD_LENGTH}
            documents.update(words_here)
            parts.update(self._parts_of(words_here))
        if not documents:
            raise ValueError("no training text holds a word; give texts of letters or digits")
        least = 1 if len(texts) < _TINY_CORPUS else self.min_df
        words = _frequent(documents, least) or list(documents)
        words.sort()
        counted = sum(map(documents.__getitem__, words))
        self.rare_share_ = 1.0 - counted / documents.total()
        frequencies = [documents[word] for word in words]
        pairs = self._frequent_pairs(words, texts) if self.bigrams else {}
        self.vocabulary_ = words
        self.bigrams_ = np.array(sorted(pairs), dtype=np.int64)
        known = _frequent(parts, least)
        if self.ngrams and len(known) > MOST_NGRAMS:
            known = sorted(known, key=lambda part: (-parts[part], part))[:MOST_NGRAMS]
        self.parts_ = sorted(known)
        frequencies += [pairs[pair] for pair in self.bigrams_.tolist()]
        frequencies += [parts[part] for part in self.parts_]
        inverse = np.log((1.0 + len(texts)) / (1.0 + np.array(frequencies))) + 1.0
        self.idf_ = inverse.astype(np.float32)
        self.n_features_in_ = 1
        self._index_words()
        return self

    def _parts_of(self, words: set[str]) -> set[str]:
        """Return the parts of a text's words that may be features."""
        if self.ngrams:
            return set(chain.from_iterable(map(_ngrams, words)))
        if self.beginnings:
            return {word[: self.beginnings] for word in words if len(word) >= self.beginnings}
        return set()

    def _frequent_pairs(self, words: list[str], texts: Sequence[str]) -> dict[int, int]:
        """Count the texts that hold each pair of neighbouring known words."""
        number = {word: index for index, word in enumerate(words)}
        counts: defaultdict[int, int] = defaultdict(int)
        for text in texts:
            row = map(number.get, words_of(text), repeat(-1))
            pairs = {a * len(words) + b for a, b in pairwise(row) if a >= 0 and b >= 0}
            for pair in pairs:
                counts[pair] += 1
        least = 1 if len(texts) < _TINY_CORPUS else self.bigram_min_df
        return {pair: count for pair, count in counts.items() if count >= least}

    def _index_words(self) -> None:
        self._index = index_words(self.vocabulary_)
        self._parts_index = index_words(self.parts_)

    @property
    def n_named(self) -> int:
        """Number of columns that people can read: all but those of n-grams."""
        return len(self.vocabulary_) + len(self.bigrams_) + (0 if self.ngrams else len(self.parts_))

    def transform(self, texts: Sequence[str]) -> csr_array:
        """Turn texts into vectors.

        Parameters
        ----------
        texts : sequence of str
            Any strings; one without a known word gives an empty row.

        Returns
        -------
        csr_array of float32, shape (n, d)
            int32 indices, ascending in each row; rows of length 1, or 0 if nothing is known.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        TypeError
            If `texts` is one string, or holds anything but strings.
        """
        check_fitted(self, "idf_")
        rows = self.rows(texts)
        indptr: NDArray[Any] = rows.indptr
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        shape = (rows.n_rows, rows.n_features)
        vectors = csr_array((rows.values, rows.features, indptr), shape=shape)
        vectors.has_sorted_indices = True
        return vectors

    def rows(self, texts: Sequence[str]) -> SparseRows:
        """Return the vectors of texts as plain arrays; see `transform`."""
        _check_texts(texts)
        if len(texts) <= _DOCUMENTS_AT_ONCE:
            return SparseRows(*self._vectors(texts), len(self.idf_))
        starts = range(0, len(texts), _DOCUMENTS_AT_ONCE)
        parts = [self._vectors(texts[start : start + _DOCUMENTS_AT_ONCE]) for start in starts]
        counts = np.concatenate([np.diff(part[0]) for part in parts])
        return SparseRows(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
            len(self.idf_),
        )

    def known_share(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the share of each text's words that are known, 0 without a word; (n,)."""
        _check_texts(texts)
        content, bounds = encoded(texts)
        numbers, ends = number_words(content, bounds, FOLD, self._index)
        known = np.concatenate([np.zeros(1), np.cumsum(numbers >= 0)])[ends]
        return np.asarray(np.diff(known) / np.maximum(np.diff(ends), 1))

    def _vectors(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        if self.first_line_twice:
            texts = [repeat_first_line(text) for text in texts]
        content, bounds = encoded(texts)
        numbers, word_bounds = number_words(content, bounds, FOLD, self._index)
        parts, part_bounds = numbers[:0], word_bounds
        if self.ngrams:
            parts, part_bounds = number_ngrams(content, bounds, FOLD, kinds(), self._parts_index)
        elif self.parts_:
            parts, _ = number_words(content, bounds, FOLD, self._parts_index, self.beginnings)
        indices, values, indptr = _weigh(
            (numbers, parts),
            (word_bounds, part_bounds),
            len(self.vocabulary_),
            self.bigrams_,
            self.idf_,
        )
        return indptr, indices, values

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002 - scikit-learn's signature
        """Return the feature names in column order.

        Words as they are, pairs as "first second", prefixes as "first*", n-grams as `ngrams_of`.

        Returns
        -------
        ndarray of str objects, shape (d,)
        """
        check_fitted(self, "idf_")
        words = self.vocabulary_
        firsts, seconds = np.divmod(self.bigrams_, len(words))
        pairs = [f"{words[a]} {words[b]}" for a, b in zip(firsts, seconds, strict=True)]
        parts = self.parts_ if self.ngrams else [f"{part}*" for part in self.parts_]
        return np.array([*words, *pairs, *parts], dtype=object)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted vectorizer."""
        vectorizer = cls(**fields["parameters"])
        vectorizer.vocabulary_, vectorizer.parts_ = fields["vocabulary"], fields["beginnings"]
        vectorizer.bigrams_, vectorizer.idf_ = fields["bigrams"], fields["idf"]
        vectorizer.n_features_in_ = 1
        n_words, n_pairs, n_parts = lengths["words"], lengths["pairs"], lengths["parts"]
        if len(vectorizer.idf_) != n_words + n_pairs + n_parts:
            raise ValueError(
                f"idf has shape {vectorizer.idf_.shape}, but there are {n_words} words, "
                f"{n_pairs} pairs and {n_parts} parts of words"
            )
        rising = (vectorizer.bigrams_[1:] > vectorizer.bigrams_[:-1]).all()
        if not rising or vectorizer.bigrams_.max(initial=0) >= n_words**2:
            raise ValueError("array 'bigrams' names words that do not exist, or is out of order")
        vectorizer._index_words()
        return vectorizer

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


def _frequent(counts: Counter[str], least: int) -> list[str]:
    """Return what is in enough texts; a word that was cut while normalised is no name."""
    return [name for name, count in counts.items() if count >= least and is_normalized("NFC", name)]


@lru_cache(100_000)  # words repeat
def _ngrams(word: str) -> tuple[str, ...]:
    return tuple(ngrams_of(word))


def repeat_first_line(text: str) -> str:
    """Return the text with its first line doubled, if it has several."""
    first, _, rest = text.lstrip().partition("\n")
    return f"{first}\n{text}" if rest and not rest.isspace() else text


def _check_texts(texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise TypeError("give a sequence of texts, not one string")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is of type {type(text).__name__}; give strings")


class _WordTally(NamedTuple):
    """Column counts of a text, readable in column order without sorting."""

    counts: NDArray[np.int32]  # undefined for columns that do not occur
    marks: NDArray[np.uint64]  # a bit for each column that occurs
    # A bit for each mark that is not zero, so that few marks are visited.
    groups: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def _weigh(
    columns: tuple[NDArray[np.int32], NDArray[np.int32]],
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    n_words: int,
    bigrams: NDArray[np.int64],
    idf: NDArray[np.float32],
) -> tuple[
    NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]
]:  # pragma: no cover - compiled
    """Turn numbers of words and of their parts (-1: unknown), in order, into rows of tf-idf."""
    numbers, parts = columns
    word_bounds, part_bounds = bounds
    n = len(word_bounds) - 1
    capacity = len(numbers) * (1 + (len(bigrams) > 0)) + len(parts)
    indices = np.empty(capacity, np.int32)
    values = np.empty(capacity, np.float32)
    indptr = np.zeros(n + 1, np.int64)
    n_marks = len(idf) // _BITS + 1
    tally = _WordTally(
        np.empty(len(idf), np.int32),
        np.zeros(n_marks, np.uint64),
        np.zeros(n_marks // _BITS + 1, np.uint64),
    )
    end = 0
    for row in range(n):
        words = numbers[word_bounds[row] : word_bounds[row + 1]]
        of_words = parts[part_bounds[row] : part_bounds[row + 1]]
        _count_columns(words, of_words, n_words, bigrams, tally)
        first = end
        squares = 0.0
        for group in range(len(tally.groups)):
            places = tally.groups[group]
            tally.groups[group] = 0
            while places:
                place = group * _BITS + lowest_bit(places)
                places = without_lowest_bit(places)
                marked = tally.marks[place]
                tally.marks[place] = 0
                while marked:
                    column = place * _BITS + lowest_bit(marked)
                    marked = without_lowest_bit(marked)
                    weight = np.float64(idf[column])
                    if tally.counts[column] > 1:
                        weight *= 1.0 + np.log(tally.counts[column])
                    indices[end] = column
                    values[end] = weight
                    squares += weight * weight
                    end += 1
        if squares > 0.0:
            scale = 1.0 / np.sqrt(squares)
            for k in range(first, end):
                values[k] *= scale
        indptr[row + 1] = end
    return indices[:end], values[:end], indptr


@njit(cache=True, nogil=True)
def _count_columns(
    numbers: NDArray[np.int32],
    parts: NDArray[np.int32],
    n_words: int,
    bigrams: NDArray[np.int64],
    tally: _WordTally,
) -> None:  # pragma: no cover - compiled
    """Count the occurrences of each known column in a text."""
    for part in parts:
        if part >= 0:
            _count(n_words + len(bigrams) + part, tally)
    for position in range(len(numbers)):
        word = np.int64(numbers[position])
        if word < 0:
            continue
        _count(word, tally)
        if len(bigrams) and position > 0 and numbers[position - 1] >= 0:
            pair = np.int64(numbers[position - 1]) * n_words + word
            place = np.searchsorted(bigrams, pair)
            if place < len(bigrams) and bigrams[place] == pair:
                _count(n_words + place, tally)


@njit(cache=True, nogil=True)
def _count(
    column: int | np.signedinteger[Any], tally: _WordTally
) -> None:  # pragma: no cover - compiled
    place, bit = column // _BITS, np.uint64(column % _BITS)
    is_counted = (tally.marks[place] >> bit) & _ONE
    tally.counts[column] = tally.counts[column] * np.int64(is_counted) + 1
    tally.marks[place] |= _ONE << bit
    tally.groups[place // _BITS] |= _ONE << np.uint64(place % _BITS)
