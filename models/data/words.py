"""Maps the words of encoded texts to numbers, in compiled code."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise.characters import characters_of
from setwise.models.compilation import njit
from setwise.models.data.characters import MARK, code_point

_FNV_PRIME = np.uint64(0x100000001B3)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_NUMBER_BITS = np.uint64(32)
_NUMBER_MASK = np.uint64(0xFFFFFFFF)
_DOT, _PLUS, _HASH, _ZERO, _NINE, _STAR = map(np.uint8, b".+#09*")
_MOST_BYTES = 4  # of a letter in UTF-8

MAX_WORD_LENGTH = 100
"""Longer runs are encoded attachments or run-on text, not words, which reach 80 letters."""

SHORTEST_NGRAM, LONGEST_NGRAM = 3, 5
"""Characters of an n-gram, with one for each end of the word that it reaches."""


class WordIndex(NamedTuple):
    """Hash table of known words, compared byte by byte."""

    # Its length is a power of two; open addressing. The upper half holds the upper half of the
    # word's hash, the lower half the word's number plus one, 0 if the slot is free.
    slots: NDArray[np.uint64]
    starts: NDArray[np.int64]  # (n_words + 1,) where each word begins in `letters`
    letters: NDArray[np.uint8]  # the words in UTF-8, concatenated


def index_words(words: Sequence[str]) -> WordIndex:
    """Index distinct words by their position.

    Examples
    --------
    >>> index = index_words(["cough", "fever"])
    >>> fold = np.array([byte if chr(byte).isalpha() else 0 for byte in range(256)], np.uint8)
    >>> text = np.frombuffer(b"fever, no cough", np.uint8)
    >>> number_words(text, np.array([0, len(text)]), fold, index)[0]
    array([ 1, -1,  0], dtype=int32)
    """
    encoded = [word.encode() for word in words]
    starts = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum([len(word) for word in encoded], out=starts[1:])
    letters = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
    size = 8
    while size < 2 * len(words):  # at most half full, so that probes are short
        size *= 2
    slots = np.zeros(size, dtype=np.uint64)
    _fill(slots, starts, letters)
    return WordIndex(slots, starts, letters)


@njit(cache=True, nogil=True)
def _fill(
    slots: NDArray[np.uint64], starts: NDArray[np.int64], letters: NDArray[np.uint8]
) -> None:  # pragma: no cover - compiled
    last = len(slots) - 1
    for word in range(len(starts) - 1):
        value = _FNV_OFFSET
        for k in range(starts[word], starts[word + 1]):
            value = (value ^ np.uint64(letters[k])) * _FNV_PRIME
        value ^= value >> _NUMBER_BITS
        slot = np.int64(value & np.uint64(last))
        while slots[slot] != 0:
            slot = (slot + 1) & last
        slots[slot] = (value & ~_NUMBER_MASK) | np.uint64(word + 1)


@njit(cache=True, nogil=True)
def _look_up(  # noqa: PLR0917 -- array views would cost more than the look-up
    text: NDArray[np.uint8],
    start: int,
    end: int,
    value: np.uint64,
    fold: NDArray[np.uint8],
    index: WordIndex,
) -> int:  # pragma: no cover - compiled
    """Return the number of the word at this place, or -1."""
    slots, starts, letters = index
    last = np.uint64(len(slots) - 1)
    slot = value & last
    while slots[slot] != 0:
        if (slots[slot] ^ value) & ~_NUMBER_MASK == 0:
            number = (slots[slot] & _NUMBER_MASK) - np.uint64(1)
            letters_at = starts[number]
            if starts[number + np.uint64(1)] - letters_at == end - start:
                k = 0
                while k < end - start:
                    sign = text[np.uint64(start + k)]
                    letter = fold[sign] if fold[sign] != 0 else sign
                    if letter != letters[np.uint64(letters_at + k)]:
                        break
                    k += 1
                if k == end - start:
                    return np.int64(number)  # type: ignore[return-value]  # an integer in compiled code
        slot = (slot + np.uint64(1)) & last
    return -1


@njit(cache=True, nogil=True)
def _letter_inside(
    text: NDArray[np.uint8], k: int, stop: int, fold: NDArray[np.uint8]
) -> np.uint8:  # pragma: no cover - compiled
    """Return the letter at ``k`` of a word that began before, or 0 if the word is over."""
    if k >= stop:
        return np.uint8(0)
    byte = text[np.uint64(k)]
    if byte == _DOT and k + 1 < stop:
        following = text[np.uint64(k + 1)]
        return byte if _ZERO <= following <= _NINE else np.uint8(0)
    return np.uint8(fold[byte])


@njit(cache=True, nogil=True)
def _signs_behind(
    text: NDArray[np.uint8], k: int, stop: int, fold: NDArray[np.uint8]
) -> int:  # pragma: no cover - compiled
    """Return the length of the signs, ``++`` or ``#``, that end a word before ``k``."""
    length = 0
    if k < stop and text[k] == _HASH:
        length = 1
    elif k + 1 < stop and text[k] == _PLUS and text[k + 1] == _PLUS:
        length = 2
    over = k + length >= stop or fold[text[k + length]] == 0
    return length if over else 0


@njit(cache=True, nogil=True)
def number_words(
    text: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    fold: NDArray[np.uint8],
    index: WordIndex,
    n_letters: int = 0,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:  # pragma: no cover - compiled
    """Return the numbers of the words, or prefixes, of encoded texts.

    Parameters
    ----------
    text : uint8 ndarray
        The texts, concatenated.
    bounds : int64 ndarray of shape (n + 1,)
        Where each text begins.
    fold : uint8 ndarray of shape (256,)
        Replacement for each byte; 0 separates words, or is a sign of one.
    index : WordIndex
    n_letters : int, default 0
        If positive, each word's first letters are looked up instead of the word; a word of fewer
        letters, or of more than `MAX_WORD_LENGTH`, has none.

    Returns
    -------
    numbers : int32 ndarray
        The number of every word in order, -1 for unknown ones.
    word_bounds : int64 ndarray of shape (n + 1,)
        Where each text begins in ``numbers``.
    """
    n = len(bounds) - 1
    numbers = np.empty((bounds[n] - bounds[0]) // 2 + n, dtype=np.int32)
    word_bounds = np.zeros(n + 1, dtype=np.int64)
    count = 0
    for row in range(n):
        k = bounds[row]
        stop = bounds[row + 1]
        while k < stop:
            # Unsigned indices skip numba's check for negative ones.
            letter = fold[text[np.uint64(k)]]
            if letter == 0:
                k += 1
                continue
            start = end = k
            letters = 0
            value = _FNV_OFFSET
            while letter != 0:
                if n_letters > 0:  # continuation bytes begin with binary 10
                    letters += (text[np.uint64(k)] & 0xC0) != 0x80
                k += 1
                if letters <= n_letters:
                    value = (value ^ np.uint64(letter)) * _FNV_PRIME
                    end = k
                letter = _letter_inside(text, k, stop, fold)
            for _ in range(_signs_behind(text, k, stop, fold)):
                letters += n_letters > 0
                if letters <= n_letters:
                    value = (value ^ np.uint64(text[np.uint64(k)])) * _FNV_PRIME
                    end = k + 1
                k += 1
            numbers[count] = -1
            if n_letters == 0 or n_letters <= letters <= MAX_WORD_LENGTH:
                value ^= value >> _NUMBER_BITS
                numbers[count] = _look_up(text, start, end, value, fold, index)
            count += 1
        word_bounds[row + 1] = count
    return numbers[:count], word_bounds


def ngrams_of(word: str) -> Iterator[str]:
    """Yield the character n-grams of a word, but no whole word; stars stand for any letters.

    >>> list(ngrams_of("rash"))
    ['ra*', 'ras*', '*ras*', '*ash*', '*ash', '*sh']
    """
    characters = characters_of(word)
    padded = ["", *characters, ""]
    for start in range(len(characters)):
        for size in range(SHORTEST_NGRAM, min(LONGEST_NGRAM, len(padded) - start) + 1):
            inside, end = padded[max(start, 1) : start + size], start + size
            if len(inside) - (end == len(padded)) < len(characters):
                yield f"{'*' * (start > 0)}{''.join(inside)}{'*' * (end < len(padded))}"


@njit(cache=True, nogil=True)
def number_ngrams(
    text: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    fold: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    index: WordIndex,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:  # pragma: no cover - compiled
    """Return the numbers of the known n-grams of encoded texts, as `ngrams_of` names them.

    Parameters
    ----------
    text, bounds, fold : ndarray
        As for `number_words`.
    kinds : uint8 ndarray
        Of `setwise.models.data.characters.kinds`.
    index : WordIndex
        Of the n-grams.

    Returns
    -------
    numbers : int32 ndarray
        The numbers of the known n-grams of all words of at most `MAX_WORD_LENGTH` letters.
    ngram_bounds : int64 ndarray of shape (n + 1,)
        Where each text begins in ``numbers``.
    """
    most = LONGEST_NGRAM - SHORTEST_NGRAM + 1  # no character begins more
    numbers = np.empty(most * (bounds[-1] - bounds[0]), dtype=np.int32)
    ngram_bounds = np.zeros(len(bounds), dtype=np.int64)
    starts = np.empty(MAX_WORD_LENGTH + 1, dtype=np.int64)
    count = 0
    for row in range(len(bounds) - 1):
        k, stop = bounds[row], bounds[row + 1]
        while k < stop:
            if fold[text[k]] == 0:
                k += 1
                continue
            start = k
            while _letter_inside(text, k, stop, fold) != 0:
                k += 1
            k += _signs_behind(text, k, stop, fold)
            n = _find_characters(text, start, k, kinds, starts)
            count += _number_windows(text, starts[: n + 1], fold, index, numbers[count:])
        ngram_bounds[row + 1] = count
    return numbers[:count], ngram_bounds


@njit(cache=True, nogil=True)
def _number_windows(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fold: NDArray[np.uint8],
    index: WordIndex,
    numbers: NDArray[np.int32],
) -> int:  # pragma: no cover - compiled
    """Write the numbers of a word's known n-grams; return how many there are."""
    n, count = len(starts) - 1, 0
    key = np.empty(_MOST_BYTES * MAX_WORD_LENGTH + 2, dtype=np.uint8)
    for window in range(n):  # the first begins before the word
        first = max(window - 1, 0)
        value, length = _FNV_OFFSET, 0
        if window > 0:
            key[0], length = _STAR, 1
            value = (value ^ np.uint64(_STAR)) * _FNV_PRIME
        for last in range(first + 1, min(window + LONGEST_NGRAM - 1, n) + 1):
            for place in range(starts[last - 1], starts[last]):
                sign = text[place]
                key[length] = fold[sign] if fold[sign] != 0 else sign
                value = (value ^ np.uint64(key[length])) * _FNV_PRIME
                length += 1
            key[length] = _STAR
            for at_end in range(1 + (last == n)):
                size = last - window + 1 + at_end
                if last - first == n or not SHORTEST_NGRAM <= size <= LONGEST_NGRAM:
                    continue
                whole = value if at_end else (value ^ np.uint64(_STAR)) * _FNV_PRIME
                whole ^= whole >> _NUMBER_BITS
                number = _look_up(key, 0, length + 1 - at_end, whole, fold, index)
                if number >= 0:
                    numbers[count] = number
                    count += 1
    return count


@njit(cache=True, nogil=True)
def _find_characters(
    text: NDArray[np.uint8],
    start: int,
    end: int,
    kinds: NDArray[np.uint8],
    starts: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Write where the characters of a word begin and end; return their number, 0 if too long."""
    letters = count = 0
    while start < end:
        character, length = code_point(text, start)
        letters += 1
        if letters > MAX_WORD_LENGTH:
            return 0
        if count == 0 or kinds[character] != MARK:
            starts[count] = start
            count += 1
        start += length
    starts[count] = end
    return count
