"""Splits texts into normalised words and encodes them for compiled code."""

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Control characters, punctuation and lone surrogates separate words.
_WORD = re.compile(r"\w+")
# For compiled code: lower-cases ASCII word characters; 0 separates words. Non-ASCII bytes are word
# characters here.
FOLD = np.array(
    [
        byte if byte >= 128 else ord(chr(byte).lower()) if _WORD.fullmatch(chr(byte)) else 0
        for byte in range(256)
    ],
    dtype=np.uint8,
)
_NORMALISED_AT_ONCE = 256
"""Characters normalised at a time. Unicode normalisation takes quadratic time in a run of combining
marks, so long texts are cut into slices; a cut inside a composed character spoils at most that
word."""


def words_of(text: str) -> list[str]:
    """Return the lower-cased words of a text, in order."""
    return _WORD.findall(_normalised(text))


def _normalised(text: str) -> str:
    starts = range(0, len(text), _NORMALISED_AT_ONCE)
    slices = (text[start : start + _NORMALISED_AT_ONCE] for start in starts)
    return "".join([unicodedata.normalize("NFKC", part) for part in slices]).lower()


def encoded(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts encoded for the compiled pass, and where each begins."""
    parts = [
        text.encode() if text.isascii() else _normalised(text).encode(errors="surrogatepass")
        for text in texts
    ]
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    joined = b"".join(parts)
    content = np.frombuffer(joined, dtype=np.uint8)
    if not joined.isascii():
        content = _blanked(content, _word_characters())
        content.flags.writeable = False  # like the other branch, so that numba compiles one version
    return content, bounds


@cache
def _word_characters() -> NDArray[np.bool_]:
    """Return for every code point whether it is a word character."""
    in_words = np.zeros(sys.maxunicode + 1, dtype=np.bool_)
    for run in _WORD.finditer("".join(map(chr, range(len(in_words))))):
        in_words[run.start() : run.end()] = True
    return in_words


@njit(cache=True, nogil=True)
def _blanked(
    text: NDArray[np.uint8], is_word: NDArray[np.bool_]
) -> NDArray[np.uint8]:  # pragma: no cover - compiled
    """Blank out the non-ASCII characters of a UTF-8 text outside words."""
    out = text.copy()
    start = 0
    while start < len(text):
        first = text[start]
        if first < 0x80:
            start += 1
            continue
        # The first byte gives the length; each further byte holds six bits of the character.
        length = 2 + (first >= 0xE0) + (first >= 0xF0)
        character = np.int64(first) & (0x7F >> length)
        for k in range(start + 1, start + length):
            character = character << 6 | np.int64(text[k]) & 0x3F
        if not is_word[character]:
            out[start : start + length] = ord(" ")
        start += length
    return out
