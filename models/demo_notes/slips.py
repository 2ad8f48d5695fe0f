"""Typing slips: letters swapped, dropped, doubled or hit beside their key."""

import re
from random import Random

_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_BESIDE = {
    "a": "s", "b": "v", "c": "x", "d": "f", "e": "r", "f": "g", "g": "h", "h": "j", "i": "o",
    "j": "k", "k": "l", "l": "k", "m": "n", "n": "m", "o": "p", "p": "o", "r": "t", "s": "a",
    "t": "y", "u": "i", "v": "b", "w": "e", "x": "c", "y": "u", "z": "x",
}  # fmt: skip


def slip(text: str, rng: Random, rate: float) -> str:
    """Spoil each word of five letters or more with probability ``rate``; numbers stay.

    >>> slip("acute bronchitis for 3 days", Random(4), 1.0) != "acute bronchitis for 3 days"
    True
    >>> slip("acute bronchitis", Random(4), 0.0)
    'acute bronchitis'
    """

    def spoiled(match: re.Match[str]) -> str:
        word = match.group()
        return _spoil(word, rng) if rng.random() < rate else word

    return _LONG_WORD.sub(spoiled, text)


def _spoil(word: str, rng: Random) -> str:
    place = rng.randint(1, len(word) - 2)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    kind = rng.randrange(4)
    if kind == 0:  # swapped with its neighbour
        return before + after[0] + letter + after[1:]
    if kind == 1:  # dropped
        return before + after
    if kind == 2:  # doubled
        return before + letter + letter + after
    return before + _BESIDE.get(letter.lower(), letter) + after
