"""Fill in the phrases of the data files, and misspell words."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Literal

Register = Literal["terse", "full"]
"""Terse notes write ``3/7`` where letters write ``three days``."""

_TOKEN = re.compile(r"(\[[^\]]*\]|\{[^}]*\})")
_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Slot: fewest, most, denominator of the shorthand.
_DURATIONS = {"days": (2, 6, 7), "weeks": (2, 6, 52), "months": (2, 9, 12)}
_YEARS = (1996, 2021)
# People round large numbers: 1,340 ml, not 1,339.
_ROUNDED_FROM = 400
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_BESIDE = str.maketrans("abcdefghijklmnoprstuvwxyz", "svxfrghjoklknmpotayibecux")


def say(
    phrase: str, rng: Random, register: Register, value: Callable[[str], str] | None = None
) -> str:
    """Return a phrase with its slots filled.

    `value` returns the text of slots that are not drawn.

    >>> say("cough for {days}", Random(1), "full")
    'cough for three days'
    >>> say("cough for {days}", Random(1), "terse")
    'cough for 3/7'
    """
    filled = ""
    for part in _parts(phrase):
        if part.startswith("["):
            filled += pick(part[1:-1].split("|"), rng)
        elif part.startswith("{"):
            filled += _fill(part[1:-1], rng, register, value)
        else:
            filled += part
    return filled


@cache
def _parts(phrase: str) -> tuple[str, ...]:
    return tuple(part for part in _TOKEN.split(phrase) if part)


def _fill(slot: str, rng: Random, register: Register, value: Callable[[str], str] | None) -> str:
    if slot == "year":
        return str(rng.randint(*_YEARS))
    if slot in _DURATIONS:
        return _duration(slot, rng, register)
    if "|" in slot:
        return pick(slot.split("|"), rng)
    low, separator, high = slot.partition("-")
    if not separator:
        if value is None:
            raise ValueError(f"unknown slot {slot!r}")
        return value(slot)
    if "." in low:
        return f"{rng.uniform(float(low), float(high)):.1f}"
    number = rng.randint(int(low), int(high))
    return f"{round(number, -1) if int(high) >= _ROUNDED_FROM else number:0{len(low)}}"


def _duration(unit: str, rng: Random, register: Register) -> str:
    fewest, most, denominator = _DURATIONS[unit]
    number = rng.randint(fewest, most)
    if register == "full":
        return f"{_SPELLED[number]} {unit}"
    return f"{number}/{denominator}" if rng.random() < 0.6 else f"{number} {unit}"


def pick(options: Sequence[str], rng: Random) -> str:
    """Draw one of the options."""
    return options[int(rng.random() * len(options))]


def slip(text: str, rng: Random, rate: float) -> str:
    """Misspell each word of five letters or more with probability `rate`.

    >>> slip("acute bronchitis for 3 days", Random(4), 1.0) != "acute bronchitis for 3 days"
    True
    >>> slip("acute bronchitis", Random(4), 0.0)
    'acute bronchitis'
    """

    def misspelt(match: re.Match[str]) -> str:
        word = match.group()
        return _misspell(word, rng) if rng.random() < rate else word

    return _LONG_WORD.sub(misspelt, text)


def _misspell(word: str, rng: Random) -> str:
    place = rng.randint(1, len(word) - 2)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    swapped, dropped, doubled = after[0] + letter + after[1:], after, letter + letter + after
    beside = letter.lower().translate(_BESIDE) + after
    return before + (swapped, dropped, doubled, beside)[rng.randrange(4)]
