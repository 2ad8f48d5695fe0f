"""Lists of labels that people type, paste or upload: one name a line."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.labels import LONGEST_LABEL, Catalogue, folded
from setwise.service.domain.text import name_faults
from setwise.spelling import spelled

MOST_LISTED_LABELS = 50_000
_LIST = "/labels"
_SHOWN = 60  # characters of a label in a fault
MOST_LISTED_FAULTS = 20
"""Faults of a list that are stated; the others are much like them."""


_TITLES = frozenset({"label", "labels"})
_BETWEEN_CELLS = re.compile(r"[,;|\t]")


def read_label_list(text: str, *, insist: bool = False) -> dict[str, int]:
    r"""Return the labels of a list, each with the number of its line; raises `InvalidRequest`.

    Blank lines are left out.

    ``insist``: Take lines that look like parts of a table or of JSON for labels.

    >>> read_label_list("grain\n\n corn \n")
    {'grain': 1, 'corn': 3}
    >>> read_label_list("label,name\ncorn,Maize")
    Traceback (most recent call last):
    setwise.service.domain.errors.InvalidRequest: The labels cannot be added like this.
    """
    named: dict[str, int] = {}
    faults = []
    for number, line in enumerate(text.lstrip("\N{BYTE ORDER MARK}").splitlines(), 1):
        label = spelled(line)
        if not label:
            continue
        if not insist and (looks := unlike_a_label(line.strip())):
            faults.append(
                _fault(number, label, f"which looks like {looks}, or say that it is meant")
            )
        if label in named:
            faults.append(_fault(number, label, f"as on line {named[label]}; name it once"))
        faults += [
            _fault(number, label, f"which {fault.detail}")
            for fault in name_faults(label, "", longest=LONGEST_LABEL)
        ]
        named.setdefault(label, number)
    if not named:
        faults.append(FieldFault(_LIST, "is empty; write one label a line"))
    if len(named) > MOST_LISTED_LABELS:
        faults.append(FieldFault(_LIST, f"has more than {MOST_LISTED_LABELS:,} labels"))
    _refuse(faults)
    return named


def unlike_a_label(line: str) -> str:
    """Say what a line looks like that hardly is a label, and what to do; "" for others.

    >>> unlike_a_label("Label;Name"), unlike_a_label("Food label")
    ('the titles of columns; leave them out', '')
    """
    cells = {cell.strip(" \t\"'").casefold() for cell in _BETWEEN_CELLS.split(line)}
    if not _TITLES.isdisjoint(cells):
        return "the titles of columns; leave them out"
    if "\t" in line:
        return "a row of a table; give labels alone, one a line"
    if _is_json(line):
        return "JSON or a quoted cell; write one label a line, without quotes or brackets"
    return ""


def _is_json(line: str) -> bool:
    """Return whether a line is a list, an object or a string in JSON, or begins a longer one."""
    if line in {"[", "{"}:
        return True
    if not line.startswith(("[", "{", '"')):
        return False
    try:
        json.loads(line.removesuffix(","))
    except (ValueError, RecursionError):
        # As CSV writes a quote within quotes.
        return len(line) > 1 and line[0] == line[-1] == '"'
    return True


def check_alike(named: Mapping[str, int], catalogue: Catalogue) -> None:
    """Raise `InvalidRequest` for labels that differ from others in no more than their spelling.

    >>> check_alike({"long-covid": 1, "Long COVID": 2}, Catalogue([], []))
    Traceback (most recent call last):
    setwise.service.domain.errors.InvalidRequest: The labels cannot be added like this.
    """
    _refuse(list(_alike(named, catalogue)))


def _alike(named: Mapping[str, int], catalogue: Catalogue) -> Iterator[FieldFault]:
    known = catalogue.by_folded()
    first: dict[str, str] = {}
    for label, number in named.items():
        key = folded(label)
        other = first.setdefault(key, label)
        where = f"on line {named[other]}"
        if other == label:
            there = known.get(key, ())
            if label in there or not there:
                continue
            other, where = there[0], "that is there already"
        alike = (
            f"spelt almost like {other[:_SHOWN]!r} {where}; keep one, or say that both are meant"
        )
        yield _fault(number, label, alike)


def _fault(number: int, label: str, why: str) -> FieldFault:
    return FieldFault(_LIST, f"has on line {number} {label[:_SHOWN]!r}, {why}")


def _refuse(faults: Sequence[FieldFault]) -> None:
    if faults:
        raise InvalidRequest("The labels cannot be added like this.", faults[:MOST_LISTED_FAULTS])
