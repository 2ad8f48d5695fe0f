"""Which text and which JSON the service can keep, and where in a request it cannot."""

import math
from collections.abc import Iterator, Mapping

from setwise.service.domain.errors import FieldFault

DEEPEST_NESTING = 20
"""Levels of objects and arrays in metadata; deeper ones exhaust the stack of some reader."""


def unstorable(text: str) -> str | None:
    r"""Say why ``text`` cannot be kept, or None when it can.

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
    """Return what is wrong with a text that the service is to keep.

    Parameters
    ----------
    text : str
        As the caller sent it.
    pointer : str
        Where in the request body it stands.
    longest : int
        Most characters it may have.
    """
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


def json_faults(value: object, pointer: str, *, depth: int = 0) -> Iterator[FieldFault]:
    """Yield what in a JSON value cannot be kept: bad text, NaN, infinity, endless nesting."""
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
            why = unstorable(name)
            if why:
                yield FieldFault(pointer, f"has a name that {why}")
            else:
                yield from json_faults(inner, here, depth=depth + 1)


def escaped(name: str) -> str:
    """Return ``name`` as one step of a JSON pointer (RFC 6901, section 3).

    >>> escaped("a/b~c")
    'a~1b~0c'
    """
    return name.replace("~", "~0").replace("/", "~1")
