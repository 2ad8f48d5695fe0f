"""Phrase templates: ``[this|that]`` picks one, ``{2-5}`` draws a number, ``{days}`` a duration."""

import re
from functools import cache
from random import Random
from typing import Literal

Register = Literal["terse", "full"]
"""Terse notes write ``3/7`` where letters write ``three days``."""

_TOKEN = re.compile(r"\[([^\]]*)\]|\{([^}]*)\}")
_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Slot: fewest, most, denominator of the shorthand.
_DURATIONS = {"days": (2, 6, 7), "weeks": (2, 6, 52), "months": (2, 9, 12)}
_YEARS = (1996, 2021)
# People round large numbers: 1,340 ml, not 1,339.
_ROUNDED_FROM = 400


def say(template: str, rng: Random, register: Register) -> str:
    """Fill in a template.

    >>> say("cough for {days}", Random(1), "full")
    'cough for three days'
    >>> say("cough for {days}", Random(1), "terse")
    'cough for 3/7'
    """
    parts = _parsed(template)
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return "".join(part if isinstance(part, str) else _fill(part, rng, register) for part in parts)


_Choice = tuple[str, ...]


class _Slot(tuple[str]):
    """The name of a slot; a type of its own tells it from a choice."""

    __slots__ = ()


@cache
def _parsed(template: str) -> tuple[str | _Choice, ...]:
    parts: list[str | _Choice] = []
    end = 0
    for match in _TOKEN.finditer(template):
        if match.start() > end:
            parts.append(template[end : match.start()])
        choice, slot = match.groups()
        parts.append(tuple(choice.split("|")) if slot is None else _Slot((slot,)))
        end = match.end()
    if end < len(template):
        parts.append(template[end:])
    return tuple(parts)


def _fill(part: _Choice, rng: Random, register: Register) -> str:
    if not isinstance(part, _Slot):
        return _pick(part, rng)
    (slot,) = part
    if slot == "year":
        return str(rng.randint(*_YEARS))
    if slot in _DURATIONS:
        return _duration(slot, rng, register)
    low, separator, high = slot.partition("-")
    if not separator:  # {5|10}: a choice among numbers
        return _pick(tuple(slot.split("|")), rng)
    if "." in low:
        return f"{rng.uniform(float(low), float(high)):.1f}"
    number = rng.randint(int(low), int(high))
    return str(round(number, -1) if int(high) >= _ROUNDED_FROM else number)


def _duration(unit: str, rng: Random, register: Register) -> str:
    fewest, most, denominator = _DURATIONS[unit]
    number = rng.randint(fewest, most)
    if register == "full":
        return f"{_SPELLED[number]} {unit}"
    return f"{number}/{denominator}" if rng.random() < 0.6 else f"{number} {unit}"


def _pick(options: _Choice, rng: Random) -> str:
    return options[int(rng.random() * len(options))]
