"""The one spelling of a name of a label or feature, also in a JSON pointer."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

_Value = TypeVar("_Value")

# Nobody sees them, and they stand beside names by accident: a byte-order mark, a zero-width space
# and a word joiner.
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))


def spelled(name: str) -> str:
    r"""Return a name in Unicode's composed form (NFC), with single spaces and none around it.

    What people cannot tell apart is one name: every reader and every door of the service passes
    names through this function.

    >>> spelled("fie\u0300vre\u00a0 Q") == "fi\u00e8vre Q"
    True
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", name.translate(_INVISIBLE))
    return " ".join(name.split())


class NameFault(NamedTuple):
    """Why a text is no name."""

    fault: str
    cure: str

    def __str__(self) -> str:
        return f"{self.fault}; {self.cure}"


MOST_MARKS = 8
"""Most combining marks on a base: the longest stack of real writing, in Tibetan, has as many."""


@lru_cache(4096)
def misnamed(name: str) -> NameFault | None:
    r"""Return why a text that is not blank cannot be a name, or None if it can.

    A name must be reachable in an address, and must look like what it is. Marks of all scripts
    pass, as do joiners inside words of scripts that join, and sequences of emoji.

    >>> print(misnamed("invoice\u202e"))
    holds U+202E RIGHT-TO-LEFT OVERRIDE at place 8, which reorders the text around it; remove it
    >>> misnamed("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645") is None
    True
    """
    if name in {".", ".."}:
        return NameFault(f"is {name!r}, which addresses cannot hold", "write a word")
    if name.isascii() and name.isprintable():
        return None
    for place, character in enumerate(name):
        if not character.isprintable() or character in _UNSEEN or _is_selector(character):
            before, after = name[place - 1 : place], name[place + 1 : place + 2]
            if why := _why_unreadable(character, before, after, name[:place]):
                return _at(character, place, why, "remove it")
    if all(character.isspace() or character in _BLANK for character in name):
        return _at(name[0], 0, "and no character that people can see", "write a word")
    return _mark_fault(name)


def _mark_fault(name: str) -> NameFault | None:
    """Return the fault of a mark without a base, or of one too many."""
    if unicodedata.category(name[0])[0] == "M":
        return _at(name[0], 0, "a mark without a letter before it", "write the letter first")
    number = 0
    for character in unicodedata.normalize("NFD", name):
        number = number + 1 if unicodedata.category(character)[0] == "M" else 0
        if number > MOST_MARKS:
            fault = f"holds more than {MOST_MARKS} combining marks on one character, the last"
            return NameFault(f"{fault} {_called(character)}", f"write at most {MOST_MARKS}")
    return None


def _why_unreadable(character: str, before: str, after: str, head: str) -> str | None:
    """Return why a character may not stand where it does, or None if it may."""
    category = unicodedata.category(character)
    if ord(character) in _DIRECTIONS:
        return "which reorders the text around it"
    if category == "Zs" or _stands_well(character, before, after, head):
        return None
    if category == "Cf" and character not in _UNSEEN:
        return None  # signs that people see, such as the Arabic sign of a year
    return _WHYS.get(category, "which people cannot see here")


def _stands_well(character: str, before: str, after: str, head: str) -> bool:
    """Return whether a joiner, selector or tag does what it is for."""
    if not before:
        return False
    code, category = ord(character), unicodedata.category(before)
    if code in _JOINERS:
        return _joins(character, before, after)
    if code in _EMOJI_SELECTORS:
        return category in {"So", "Sm", "Sk"} or before in _EMOJI_BASES
    if code in _MONGOLIAN_SELECTORS:
        return ord(before) in _MONGOLIAN
    if _is_selector(character):
        return category in {"Lo", "So", "Sm"} and before not in _UNSEEN
    # A flag of a region, such as Scotland's: a black flag, and tags behind it.
    return code in _TAGS and head.rstrip("".join(map(chr, _TAGS))).endswith("\U0001f3f4")


def _joins(joiner: str, before: str, after: str) -> bool:
    """Return whether a joiner changes what people see, in a script or between pictures."""
    if unicodedata.combining(before) == _VIRAMA:
        return True
    scripted = [
        bool(side) and any(ord(side) in script for script in _JOINING) for side in (before, after)
    ]
    if joiner == "\u200c":
        return all(scripted)
    pictured = unicodedata.category(before) in {"So", "Sk"} or before == "\ufe0f"
    return scripted[0] or (pictured and bool(after) and unicodedata.category(after) in {"So", "Sm"})


def _at(character: str, place: int, why: str, cure: str) -> NameFault:
    return NameFault(f"holds {_called(character)} at place {place + 1}, {why}", cure)


def _called(character: str) -> str:
    r"""Return a character's number and name.

    >>> _called("\x07"), _called("\uffff")
    ('U+0007 BEL', 'U+FFFF')
    """
    code = ord(character)
    control = "DEL" if code == _DEL else _CONTROLS[code] if code < len(_CONTROLS) else ""
    return f"U+{code:04X} {unicodedata.name(character, control)}".rstrip()


def _is_selector(character: str) -> bool:
    return any(ord(character) in selectors for selectors in _SELECTORS)


_C0 = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN "
    "EM SUB ESC FS GS RS US"
)
_CONTROLS = _C0.split()
_WHYS = {
    "Cc": "a control character",
    "Zl": "a line break",
    "Zp": "a line break",
    "Cs": "half of a surrogate pair",
    "Co": "which each font shows in its own way",
    "Cn": "which is no character of Unicode",
}
_JOINERS = range(0x200C, 0x200E)
_EMOJI_SELECTORS = range(0xFE0E, 0xFE10)
_DEL = 0x7F
_DIRECTIONS = frozenset((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
_TAGS = range(0xE0020, 0xE0080)
_MONGOLIAN = range(0x1820, 0x18AB)
_MONGOLIAN_SELECTORS = range(0x180B, 0x1810)
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x180B, 0x1810))
_EMOJI_BASES = frozenset("0123456789#*\u203c\u2049\u2139\u3030")
# Letters and marks of Arabic, Syriac, Mandaic and the Indic scripts, of Tibetan, Myanmar, Khmer and
# Mongolian, and the presentation forms of Arabic: here a joiner changes what people see.
_JOINING = (
    range(0x620, 0x8A0), range(0x8A0, 0x1000), range(0x1000, 0x10A0), range(0x1700, 0x17E0),
    range(0x1820, 0x18AB), range(0x1A20, 0x1C50), range(0xA800, 0xAAE0), range(0x11000, 0x11FFF),
)  # fmt: skip
_VIRAMA = 9
_BLANK = frozenset("\u2800")
# What Unicode lets a font leave out, and fillers, whatever their category.
_UNSEEN = frozenset(
    map(chr, (
        0xAD, 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, *range(0x200B, 0x2010),
        *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, 0xFEFF, 0xFFA0,
        *range(0xFFF0, 0xFFFD), *range(0x1BCA0, 0x1BCA4), 0x1D159, *range(0x1D173, 0x1D17B),
        *range(0xE0000, 0xE1000),
    ))
)  # fmt: skip


def spelled_keys(members: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return an object with its names spelled.

    Raises `ValueError` if two of them are one name.

    >>> spelled_keys({"age ": 1})
    {'age': 1}
    """
    if _is_plain("|".join(members)):  # many documents name thousands of features
        return dict(members)
    result: dict[str, _Value] = {}
    for name, value in members.items():
        if (plain := spelled(name)) in result:
            raise ValueError(f"{plain[:60]!r} is given twice, in two spellings")
        result[plain] = value
    return result


def spelled_names(what: str, names: Iterable[Any]) -> list[Any]:
    """Return distinct names, spelled; those that are no strings as they are.

    Raises `ValueError` if two of them are one name.

    ``what``: Of what they are names, for messages.

    >>> spelled_names("label", ["age ", 7])
    ['age', 7]
    """
    plain = [spelled(name) if isinstance(name, str) else name for name in names]
    if len(set(plain)) < len(plain):
        name = next(name for name, count in Counter(plain).items() if count > 1)
        raise ValueError(f"the {what} {name!r} is named twice, or in two spellings; name it once")
    return plain


def spelled_labels(names: Iterable[Any]) -> list[Any]:
    """Return distinct names of labels, spelled; those that are no strings as they are.

    Raises `ValueError` if two of them are one name, or one is no name.
    """
    plain = spelled_names("label", names)
    for name in plain:
        if isinstance(name, str) and (why := misnamed(name)):
            raise ValueError(f"the label {name[:60]!a} {why}")
    return plain


def escaped(name: str) -> str:
    """Return ``name`` escaped for a JSON pointer (RFC 6901, section 3).

    >>> escaped("a/b~c")
    'a~1b~0c'
    """
    return name.replace("~", "~0").replace("/", "~1")


def _is_plain(names: str) -> bool:
    """Return whether names between bars are ASCII with single spaces inside."""
    return (
        names.isascii()
        and names.isprintable()
        and not any(odd in f"|{names}|" for odd in ("  ", "| ", " |"))
    )
