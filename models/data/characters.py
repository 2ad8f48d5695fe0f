"""Encodes texts for compiled code, which finds the words of `setwise.characters` in them."""

import re
import sys
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from setwise.characters import has_runs, marks, normalised, words_in
from setwise.models.compilation import njit

_LETTERS = re.compile(r"\w+")
# For compiled code: lower-cases ASCII letters; 0 separates words, but for the signs that
# `setwise.models.data.words` keeps. Non-ASCII bytes are word characters here.
FOLD = np.array(
    [
        byte if byte >= 128 else ord(chr(byte).lower()) if _LETTERS.fullmatch(chr(byte)) else 0
        for byte in range(256)
    ],
    dtype=np.uint8,
)
_LETTER, MARK = 1, 2


def encoded(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts encoded for the compiled pass, and where each begins."""
    parts = [text.encode() if text.isascii() else _encoded(text) for text in texts]
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    joined = b"".join(parts)
    content = np.frombuffer(joined, dtype=np.uint8)
    if not joined.isascii():
        content = _blanked(content, bounds, kinds())
        content.flags.writeable = False  # like the other branch, so that numba compiles one version
    return content, bounds


def _encoded(text: str) -> bytes:
    plain = normalised(text)
    spaced = " ".join(words_in(plain)) if has_runs(plain) else plain
    return spaced.encode(errors="surrogatepass")


@cache
def kinds() -> NDArray[np.uint8]:
    """Return for every code point whether it is a letter or a mark."""
    of_points = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    for run in _LETTERS.finditer("".join(map(chr, range(len(of_points))))):
        of_points[run.start() : run.end()] = _LETTER
    of_points[marks()] = MARK
    return of_points


@njit(cache=True, nogil=True)
def code_point(
    text: NDArray[np.uint8], start: int
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the character that begins at a byte of UTF-8, and its length in bytes."""
    first = text[start]
    if first < 0x80:
        return np.int64(first), 1  # type: ignore[return-value]  # an integer in compiled code
    # The first byte gives the length; each further byte holds six bits of the character.
    length = 2 + (first >= 0xE0) + (first >= 0xF0)
    character = np.int64(first) & (0x7F >> length)
    for k in range(start + 1, start + length):
        character = character << 6 | np.int64(text[k]) & 0x3F
    return character, length


@njit(cache=True, nogil=True)
def _blanked(
    text: NDArray[np.uint8], bounds: NDArray[np.int64], kinds: NDArray[np.uint8]
) -> NDArray[np.uint8]:  # pragma: no cover - compiled
    """Blank out the non-ASCII characters of UTF-8 texts outside words."""
    out = text.copy()
    for row in range(len(bounds) - 1):
        start, in_word = bounds[row], False
        while start < bounds[row + 1]:
            first = text[start]
            if first < 0x80:
                in_word = kinds[first] == _LETTER
                start += 1
                continue
            character, length = code_point(text, start)
            in_word = kinds[character] == _LETTER or (in_word and kinds[character] == MARK)
            if not in_word:
                out[start : start + length] = ord(" ")
            start += length
    return out
