"""The one spelling of a name of a label or feature, also in a JSON pointer."""

import unicodedata
from collections.abc import Mapping
from typing import TypeVar

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
