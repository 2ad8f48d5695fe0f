"""Lists of labels as other tools write them into a cell."""

import ast
import json
import re

# How Python, NumPy and JSON write one member: quoted, or a number or constant.
_MEMBER = re.compile(
    r"""\s*+(?:
        (?P<wrap>np\.str_\()?+u?+(?P<quoted>'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")(?(wrap)\))
        |(?P<bare>[^\s,'"\[\]{}()]++)
    )(?P<after>\s*+,\s*+|\s++|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_CONSTRUCTED = re.compile(
    r"[A-Za-z_][\w.]*\(\s*([\[{(].*)\)|(?:set|frozenset|list|tuple)\(\)", re.DOTALL
)
_DTYPE = re.compile(r", *dtype=[\w<>'\"]+\Z")
_CONSTANTS = {"True": True, "False": False, "true": True, "false": False, "None": None}
_CLOSING = {"[": "]", "{": "}", "(": ")"}


class Unreadable(ValueError):
    """A cell looks like a list of labels, but cannot be read as one."""


def listed(cell: str) -> list[object] | None:
    """Return the members of a list in a cell; None if it holds no list.

    Lists are those of Python, NumPy and JSON, also as sets and tuples, and Label Studio's
    ``{"choices": […]}``.

    Raises
    ------
    Unreadable
        If the cell looks like a list or an object, but is none of these.

    Examples
    --------
    >>> listed("['fever', 'dry cough']"), listed("['fever' 'dry cough']"), listed("{}")
    (['fever', 'dry cough'], ['fever', 'dry cough'], [])
    >>> listed("fever"), listed("(other)"), listed("[0 1 1]")
    (None, None, [0, 1, 1])
    """
    text = cell.strip()
    if constructed := _CONSTRUCTED.fullmatch(text):
        text = _DTYPE.sub("", constructed[1] or "").strip() or "[]"
    if text[:1] not in _CLOSING:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        return _members(text)
    return _choices(value) if isinstance(value, dict) else value


def is_structured(name: str) -> bool:
    """Return whether a label's name looks like a list, an object, or a name in quotes."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        return True
    try:
        return listed(name) is not None
    except Unreadable:
        return True


def _choices(value: dict[str, object]) -> list[object]:
    """Return the labels in an object: as Label Studio writes several choices."""
    if not value:
        return []  # an empty set
    choices = value.get("choices")
    if len(value) > 1 or not isinstance(choices, list | str):
        raise Unreadable("an object")
    return [choices] if isinstance(choices, str) else choices


def _members(text: str) -> list[object] | None:
    """Return the members of a list that is no JSON."""
    inner = text[1:-1].rstrip() if len(text) > 1 and text[-1] == _CLOSING[text[0]] else None
    if inner is None and text[1:2] not in {"'", '"'}:
        return None  # a name may begin with a bracket
    members: list[object] = []
    place = 0
    commas = False
    while inner is not None and place < len(inner):
        match = _MEMBER.match(inner, place)
        if match is None:
            inner = None
            break
        try:
            members.append(_value(match["quoted"], match["bare"]))
        except (ValueError, SyntaxError):
            inner = None
            break
        commas = commas or "," in match["after"]
        place = match.end()
    if text[0] == "(":  # a name may stand in parentheses
        is_tuple = inner is not None and (commas or not members or isinstance(members[0], str))
        if is_tuple:
            return members
        if text[1:].lstrip()[:1] not in {"'", '"', "[", "{"}:
            return None
    if inner is None:
        raise Unreadable("a list that is neither JSON nor Python")
    return members


def _value(quoted: str | None, bare: str | None) -> object:
    if quoted is not None:
        return ast.literal_eval(quoted)
    if bare in _CONSTANTS:
        return _CONSTANTS[bare]
    number = float(bare or "")
    return int(number) if number.is_integer() else number
