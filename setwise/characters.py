"""Splits texts into words: one rule for learning, near copies, search and highlighting.

Letters, digits, underscores and the marks on them make a word, in any script. A code keeps its dots
(``E11.9``) and a name its signs (``C++``, ``C#``). Where writing has no spaces, such as Chinese or
Thai, each pair of neighbouring characters is a word. The desk's `text.js` follows the same rule.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from typing import NamedTuple

# Letters of scripts that are written without spaces, and the marks between them.
_WITHOUT_SPACES = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ecd\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer; the line above is Myanmar
    "\u1950-\u19c9\u1a20-\u1a7c\uaa80-\uaadd"  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\U0001aff0-\U0001b16f"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han; two lines above: kana
)
# Nobody sees them inside a word: soft hyphens, joiners and variation selectors.
_UNSEEN = "\u00ad\u034f\u200c\u200d\u2060\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef"
_WITHOUT_UNSEEN = re.compile(f"[{_UNSEEN}]")
_ASCII_WORD = re.compile(r"\w+(?:\.(?=[0-9])\w+)*(?:(?:\+\+|#)(?!\w))?", re.ASCII)
_LETTER = re.compile(r"\w")
# Combining classes of Hebrew, Arabic and Syriac points, and from where marks stand above or below.
_SEMITIC, _AROUND = (10, 36), 200
_NORMALISED_AT_ONCE = 256
"""Characters normalised at a time. Unicode normalisation takes quadratic time in a run of combining
marks, so long texts are cut into slices; a cut inside a composed character spoils at most that
word."""


_RUN_BEGINS = re.compile(f"[{_WITHOUT_SPACES}]")
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


@cache
def _marked_word(*, far: bool) -> re.Pattern[str]:
    """Return what a word is in scripts with spaces, ``far`` with characters beyond 16 bits."""
    more = rf"[\w{''.join(_marks()[: 1 + far])}]"
    return re.compile(rf"\w{more}*(?:\.(?=[0-9]){more}+)*(?:(?:\+\+|#)(?!\w))?")


class _Patterns(NamedTuple):
    """What stands in a text of any script."""

    word: re.Pattern[str]  # its first group is a run of a script without spaces
    character: re.Pattern[str]  # with its marks


@cache
def _patterns(*, unseen: str = "") -> _Patterns:
    """Return the patterns for texts; words of one that is not normalised hold ``unseen`` too."""
    near, far = _marks()
    mark = f"(?:[{near + unseen}]|(?=[\U00010000-\U0010ffff])[{far}])"
    letter = rf"[^\W{_WITHOUT_SPACES}]"
    more = f"(?:{letter}+|{mark}+)"
    word = rf"{letter}{more}*(?:\.(?=[0-9]){more}+)*(?:(?:\+\+|#)(?!{letter}))?"
    return _Patterns(
        re.compile(rf"{word}|((?:(?=\w)[{_WITHOUT_SPACES}]{mark}*)+)"),
        re.compile(f".(?<!{mark}){mark}*", re.DOTALL),
    )


@cache
def marks() -> list[int]:
    """Return the code points of all combining marks except invisible ones."""
    points = (
        point for point in range(0x300, 0x20000) if unicodedata.category(chr(point))[0] == "M"
    )
    return [point for point in points if not _WITHOUT_UNSEEN.match(chr(point))]


@cache
def _marks() -> tuple[str, str]:
    """Return all combining marks as ranges of character classes, those beyond 16 bits apart.

    Python compares a character with one range after the other if they are beyond 16 bits.
    """
    ranges: tuple[list[str], list[str]] = [], []
    points = marks()
    starts = [point for before, point in pairwise([0, *points]) if point > before + 1]
    ends = [point for point, after in pairwise([*points, 0x20000]) if after > point + 1]
    for start, end in zip(starts, ends, strict=True):
        ranges[start > 0xFFFF].append(f"{chr(start)}-{chr(end)}")
    return "".join(ranges[0]), "".join(ranges[1])


def normalised(text: str) -> str:
    """Return a text in Unicode's form NFKC and lower case, without invisible characters."""
    if text.isascii():
        return text.lower()
    text = _WITHOUT_UNSEEN.sub("", text)
    starts = range(0, len(text), _NORMALISED_AT_ONCE)
    slices = (text[start : start + _NORMALISED_AT_ONCE] for start in starts)
    composed = "".join([unicodedata.normalize("NFKC", part) for part in slices])
    return composed.lower().replace("i\u0307", "i")  # of a Turkish capital with a dot


def words_of(text: str) -> list[str]:
    """Return the lower-cased words of a text, in order.

    >>> words_of("E11.9, not C++: 患者发烧")
    ['e11.9', 'not', 'c++', '患者', '者发', '发烧']
    """
    return words_in(normalised(text))


def words_in(plain: str) -> list[str]:
    """Return the words of a text that is normalised already."""
    if not has_runs(plain):
        return _pattern_of(plain).findall(plain)
    matches = _patterns().word.finditer(plain)
    return list(chain.from_iterable(map(_words_in, matches)))


def _pattern_of(plain: str) -> re.Pattern[str]:
    """Return what a word is in a text without a run of a script without spaces."""
    if plain.isascii():
        return _ASCII_WORD
    return _marked_word(far=_BEYOND_16_BITS.search(plain) is not None)


def _words_in(match: re.Match[str]) -> list[str]:
    run: str | None = match[1]
    if run is None:
        return [match[0]]
    characters = _patterns().character.findall(run)
    return list(map("".join, pairwise(characters))) if len(characters) > 1 else characters


def characters_of(word: str) -> list[str]:
    """Return the characters of a word, each with the marks on it.

    >>> characters_of("हिन्दी")
    ['हि', 'न्', 'दी']
    """
    return list(word) if word.isascii() else _patterns().character.findall(word)


def runs_of(text: str) -> list[str]:
    """Return the words of a text, and as one each what is written without spaces.

    >>> runs_of("CRP 升高 3.5")
    ['crp', '升高', '3.5']
    """
    plain = normalised(text)
    if not has_runs(plain):
        return _pattern_of(plain).findall(plain)
    return [match[0] for match in _patterns().word.finditer(plain)]


def has_runs(text: str) -> bool:
    """Return whether a text has letters of a script that is written without spaces."""
    return not text.isascii() and _RUN_BEGINS.search(text) is not None


def has_word(text: str) -> bool:
    """Return whether a text has a word: a letter or a digit."""
    return _LETTER.search(text) is not None


def searched_form(text: str) -> str:
    """Return a text as it is searched: its words with a space on both sides, without accents.

    >>> searched_form("Fièvre, toux!")
    ' fievre toux '
    """
    runs = " ".join(runs_of(text))
    if not runs.isascii():
        plain = [c for c in unicodedata.normalize("NFD", runs) if not _is_accent(c)]
        runs = unicodedata.normalize("NFC", "".join(plain))
    return f" {runs} " if runs else ""


def _is_accent(character: str) -> bool:
    """Return whether a mark may be left out in writing: an accent or a Semitic vowel sign."""
    place = unicodedata.combining(character)
    return _SEMITIC[0] <= place <= _SEMITIC[1] or place >= _AROUND


class PlacedWord(NamedTuple):
    """A word as `words_of` returns it, and where it stands in the text."""

    word: str
    start: int
    end: int


def placed_words(text: str) -> Iterator[PlacedWord]:
    """Yield the words of a text with their places.

    >>> [(word, end) for word, _, end in placed_words("发烧了 38.5")]
    [('发烧', 2), ('烧了', 3), ('38.5', 8)]
    """
    patterns = _patterns(unseen=_UNSEEN)
    for match in patterns.word.finditer(text):
        words, (start, end) = words_of(match[0]), match.span()
        places = [(start, end)] * len(words)
        if match[1] is not None:
            bounds = [start + each.start() for each in patterns.character.finditer(match[0])]
            if len(bounds) == len(words) + 1:
                places = list(zip(bounds, [*bounds[2:], end], strict=False))
        for word, place in zip(words, places, strict=True):
            yield PlacedWord(word, *place)
