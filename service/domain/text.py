"""Text and JSON that the service can store, ids, and pages of lists."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice, pairwise
from typing import Generic, TypeVar

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.spelling import escaped, misnamed

UNREADABLE = "(cannot be read)"
"""Stands for a stored text that was damaged or moved, or whose key is missing."""

DEEPEST_NESTING = 20
"""Levels of objects and arrays in metadata; deeper ones overflow some parsers."""


def unstorable(text: str) -> str | None:
    r"""Return why ``text`` cannot be stored, or None if it can.

    >>> unstorable("fever, no cough") is None
    True
    >>> unstorable("fever\x00")
    'holds the character U+0000 at place 6, which databases cannot keep; remove it'
    """
    place = text.find("\x00")
    if place >= 0:
        return (
            f"holds the character U+0000 at place {place + 1}, which databases cannot keep; "
            "remove it"
        )
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"is not valid Unicode at place {error.start + 1}: half of a surrogate pair"
    return None


def text_faults(
    text: str, pointer: str, *, longest: int, blank_allowed: bool = False
) -> list[FieldFault]:
    """Return what is wrong with a text that will be stored."""
    faults = []
    if not blank_allowed and (not text or text.isspace()):
        faults.append(FieldFault(pointer, "is empty; write at least one character"))
    if len(text) > longest:
        faults.append(
            FieldFault(pointer, f"has {len(text)} characters; at most {longest} are kept")
        )
    why = unstorable(text)
    if why:
        faults.append(FieldFault(pointer, why))
    return faults


def unnameable(name: str) -> str | None:
    r"""Return why a text that is not blank cannot be stored as a name, or None if it can.

    >>> unnameable("fever\x07")
    'holds U+0007 BEL at place 6, a control character; remove it'
    """
    why = misnamed(name)
    return unstorable(name) or (None if why is None else str(why))


def name_faults(name: str, pointer: str, *, longest: int) -> list[FieldFault]:
    """Return what is wrong with a name that will be stored."""
    faults = text_faults(name, pointer, longest=longest)
    if not faults and (why := unnameable(name)):
        faults.append(FieldFault(pointer, why))
    return faults


def json_faults(value: object, pointer: str, *, depth: int = 0) -> Iterator[FieldFault]:
    """Yield the parts of a JSON value that cannot be stored.

    These are bad text, NaN, infinity, and values nested too deeply.
    """
    if isinstance(value, str):
        why = unstorable(value)
        if why:
            yield FieldFault(pointer, why)
    elif isinstance(value, float) and not math.isfinite(value):
        yield FieldFault(pointer, f"is {value}; a JSON number is finite")
    elif isinstance(value, Mapping | list | tuple):
        if depth >= DEEPEST_NESTING:
            yield FieldFault(pointer, f"is nested deeper than {DEEPEST_NESTING} levels")
            return
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in pairs:
            name = str(key)
            here = f"{pointer}/{escaped(name)}"
            why = unnameable(name)
            if why:
                yield FieldFault(pointer, f"has a name that {why}")
            else:
                yield from json_faults(inner, here, depth=depth + 1)


class RepeatedName(ValueError):
    """A JSON object gives a name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:100]!r} is given twice in one object")


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a `dict`, for `json.loads`; raises `RepeatedName`.

    >>> each_once([("J45", 0.81), ("J18.9", 0.07)])
    {'J45': 0.81, 'J18.9': 0.07}
    """
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise RepeatedName(name)
        members[name] = value
    return members


LEAST_ALIKE = 0.6
"""Names below this ratio of `difflib` are no likely misspellings of each other."""
MOST_HINTED = 5
"""Most unknown names of one request whose nearest names are looked up: that takes time."""
_COMPARED = 20


def nearest(name: str, names: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Return the names that ``name`` may be a misspelling of, likeliest first.

    >>> nearest("feevr", ["cough", "fever", "Fever, recurrent"])
    ('fever',)
    """
    text = name.casefold()[:100]
    parts = {*text, *map("".join, pairwise(text))}

    def share(other: str) -> float:
        folded = other.casefold()
        return sum(part in folded for part in parts) / (len(text) + len(folded) + 1)

    matcher = SequenceMatcher(b=text)
    alike: list[tuple[float, str]] = []
    for other in nlargest(_COMPARED, names, key=share):
        matcher.set_seq1(other.casefold())
        alike.append((matcher.ratio(), other))
    likely = nlargest(most, alike, key=lambda pair: pair[0])
    return tuple(other for ratio, other in likely if ratio >= LEAST_ALIKE)


def hints(unknown: Iterable[str], names: Collection[str]) -> dict[str, str]:
    """Return a question after the nearest name for each of the first unknown names, or "".

    >>> hints(["feevr", "x"], ["cough", "fever"])
    {'feevr': '; is `fever` meant?', 'x': ''}
    """
    near = {name: nearest(name, names) for name in islice(unknown, MOST_HINTED)}
    return {name: question(names) for name, names in near.items()}


def question(near: Sequence[str]) -> str:
    """Return a question after the nearest name, for the end of a fault; "" without one."""
    return f"; is `{near[0]}` meant?" if near else ""


def sentence(text: str) -> str:
    """Return a sentence with its full stop; a question has its mark.

    >>> sentence("labels: is `fever` meant?"), sentence("labels: too many")
    ('labels: is `fever` meant?', 'labels: too many.')
    """
    return text if text.endswith(("?", ".", "!")) else f"{text}."


LONGEST_SHOWN = 200
"""Most characters of a word or a quoted name in a message."""
LONGEST_STEP = 500
"""Most characters of a step of a pointer: as many as a label may have."""
_BEGINNING = 100
_LONG = re.compile(rf"'[^']{{{LONGEST_SHOWN},}}'|\S{{{LONGEST_SHOWN},}}")
_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What moves the cursor, ends a line or turns text around."""


def legible(message: str) -> str:
    r"""Return a message in which no name is very long, or does anything but stand there.

    >>> legible("/a\x1b[31m: is missing"), len(legible("GET /" + 5_000 * "x" + " is unknown"))
    ('/a\\u001b[31m: is missing', 116)
    """
    return _LONG.sub(
        lambda match: f"{match[0][:_BEGINNING]}…" + "'" * (match[0][0] == "'"), _visible(message)
    )


def legible_pointer(pointer: str) -> str:
    """Return a JSON pointer in which no step is longer than a name that is stored, or acts."""
    return "/".join(
        step if len(step) <= LONGEST_STEP else f"{step[:_BEGINNING]}…"
        for step in _visible(pointer).split("/")
    )


def _visible(text: str) -> str:
    """Return a text with control characters as JSON escapes."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_CANONICAL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CANONICAL_BYTES = re.compile(_CANONICAL.pattern.encode())


def is_id(text: str) -> bool:
    """Return whether ``text`` has the canonical form of an id.

    The service writes ids only in this form, so any other text can be rejected without a look-up.

    >>> is_id("019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"), is_id("019AA4C1"), is_id("")
    (True, False, False)
    """
    return _CANONICAL.fullmatch(text) is not None


def ids_in(content: bytes) -> set[str]:
    """Return all ids that occur in a content.

    >>> ids_in(b'{"id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"}')
    {'019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77'}
    """
    return {match[0].decode() for match in _CANONICAL_BYTES.finditer(content)}


def first_id_at(instant: datetime) -> str:
    """Return the least id from ``instant`` on (RFC 9562, section 5.7).

    >>> from datetime import UTC
    >>> first_id_at(datetime(2026, 1, 2, tzinfo=UTC))
    '019b7c01-0400-7000-8000-000000000000'
    """
    return _first_id(int(instant.timestamp() * 1_000))


def id_earlier(than: str, by: timedelta) -> str:
    """Return the least id from ``by`` before another id on.

    >>> id_earlier("019b7c01-0400-7c33-9d54-3b8f0c2f1a77", timedelta(seconds=1))
    '019b7c01-0018-7000-8000-000000000000'
    """
    return _first_id(int(than[:8] + than[9:13], base=16) - by // timedelta(milliseconds=1))


def _first_id(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


def instant(at: datetime) -> str:
    """Return a time in the form of RFC 3339.

    >>> from datetime import UTC
    >>> instant(datetime(2026, 11, 21, 9, tzinfo=UTC))
    '2026-11-21T09:00:00Z'
    """
    return at.isoformat().replace("+00:00", "Z")


_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_PLUS_LOST = re.compile(r" (?=\d\d:\d\d$)")


def instant_in(text: str) -> datetime:
    """Return the time in a text of RFC 3339, in UTC; raises `ValueError` that says what is wrong.

    >>> instant_in("2026-11-27T10:00:00+01:00").isoformat()
    '2026-11-27T09:00:00+00:00'
    """
    if not _RFC_3339.fullmatch(text):
        plus = "; in an address, + is written as %2B" if _PLUS_LOST.search(text) else ""
        raise ValueError(f"must be a time of RFC 3339, such as 2026-11-27T09:00:00Z{plus}")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except ValueError as error:
        raise ValueError(f"is no time: {error}") from None
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 in UTC") from None


_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Page(Generic[_Item]):
    """One page of a list."""

    items: tuple[_Item, ...]
    next_after: str | None
    """Id after which the next page starts; None at the end."""


LONGEST_PAGE = 200
"""Most items in a page; a page is read and sent whole."""


def check_page(after: str | None, limit: int) -> None:
    """Raise `InvalidRequest` if the limit or the id of the last item is invalid."""
    if not 1 <= limit <= LONGEST_PAGE:
        fault = FieldFault("/limit", f"is {limit}; it must lie between 1 and {LONGEST_PAGE}")
        raise InvalidRequest("The limit of the list is out of range.", [fault])
    if after is not None and not is_id(after):
        fault = FieldFault("/cursor", "is not a cursor that this service gave out")
        raise InvalidRequest("The cursor of the list is wrong; start without one.", [fault])
