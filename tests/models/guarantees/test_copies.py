"""What tells near copies: MinHash, against its definition and its probability."""

import hashlib
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.guarantees.copies import BANDS, HASHES, LEAST_WORDS, bands_of

WORDS = st.lists(st.text("abc€", min_size=1, max_size=3), min_size=LEAST_WORDS, max_size=40)


@given(WORDS)
def test_a_band_has_the_least_hashes_of_the_pairs_of_neighbours(words):
    numbers = np.frombuffer(hashlib.shake_256(b"bands").digest(2 * BANDS * HASHES * 8), "<u8")
    multipliers, summands = numbers.reshape(2, -1).tolist()
    pairs = [
        zlib.crc32(one.encode()) * 0x9E3779B97F4A7C15 + zlib.crc32(next_.encode())
        for one, next_ in pairwise(words)
    ]
    least = [
        min((pair * (multiplier | 1) + summand) % 2**64 >> 32 for pair in pairs)
        for multiplier, summand in zip(multipliers, summands, strict=True)
    ]
    assert b"".join(bands_of(words)) == np.array(least, dtype="<u4").tobytes()


@given(WORDS)
def test_what_comes_twice_counts_once(words):
    assert bands_of([*words, *words[-1:], *words]) == bands_of([*words, *words[-1:], *words] * 2)


@pytest.mark.parametrize("alike", [0.3, 0.6, 0.8, 0.95])
def test_texts_have_a_band_in_common_as_often_as_their_pairs_are_alike(alike):
    """Of 1,000 texts of 100 words, each with a copy in which some words are others."""
    draw, found, shares = np.random.default_rng(0), [], []
    for text in range(1_000):
        words = [f"{text}-{place}" for place in range(101)]
        kept = draw.random(101) < (2 * alike / (1 + alike)) ** 0.5
        other = [word if keep else f"{word}!" for word, keep in zip(words, kept, strict=True)]
        one, two = set(pairwise(words)), set(pairwise(other))
        share = len(one & two) / len(one | two)
        shares.append(1 - (1 - share**HASHES) ** BANDS)
        found.append(any(a == b for a, b in zip(bands_of(words), bands_of(other), strict=True)))
    error = np.sqrt(np.mean(np.multiply(shares, np.subtract(1, shares))) / len(found))
    assert np.mean(found) == pytest.approx(np.mean(shares), abs=4 * error + 0.005)


def test_a_short_text_has_none():
    assert bands_of(["a"] * (LEAST_WORDS - 1)) == []
