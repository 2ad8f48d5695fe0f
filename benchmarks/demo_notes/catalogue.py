"""The invented codes, read from `chapters/*.toml`, and how they exclude each other."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

DATA = files(__package__)


# Compared by identity: the catalogue holds each code once, and `company` cannot be hashed.
@dataclass(frozen=True, eq=False)
class Code:
    """A code of the catalogue; `README.md` explains the fields."""

    id: str
    title: str
    group: str
    names: Sequence[str]
    weight: float = 0.0
    background: float = 0.0
    care: str = "any"
    ages: Sequence[int] = (18, 95)
    company: Mapping[str, float] = field(default_factory=dict)
    requires: Sequence[str] = ()
    social: bool = False
    short: Sequence[str] = ()
    vague: Sequence[str] = ()
    presenting: Sequence[str] = ()
    denied: Sequence[str] = ()
    findings: Sequence[str] = ()
    tests: Sequence[str] = ()
    treatment: Sequence[str] = ()
    medicines: Sequence[str] = ()

    @property
    def label(self) -> str:
        """The label in data files: code and title."""
        return f"{self.id} {self.title}"

    @property
    def chapter(self) -> str:
        """The chapter's id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Chapter:
    """A chapter with its codes."""

    id: str
    title: str
    codes: tuple[Code, ...]
    exclusive: Sequence[Sequence[str]] = ()


def read_toml(*path: str) -> dict[str, Any]:
    """Return the contents of a file in this folder."""
    return tomllib.loads(DATA.joinpath(*path).read_text(encoding="utf-8"))


def _codes(entry: dict[str, Any]) -> Iterator[Code]:
    """Yield the code of an entry, or one for each side."""
    if isinstance(entry["id"], str):
        yield Code(**entry)
        return
    template = json.dumps(entry)
    for side, code_id in entry["id"].items():
        sided = template.replace("{side}", side).replace("{initial}", side[0].upper())
        yield Code(**{**json.loads(sided), "id": code_id})


def _chapter(name: str) -> Chapter:
    read = read_toml("chapters", name)
    return Chapter(**{**read, "codes": tuple(c for entry in read["codes"] for c in _codes(entry))})


CHAPTERS = tuple(
    _chapter(name) for name in sorted(file.name for file in DATA.joinpath("chapters").iterdir())
)
CODES = tuple(code for chapter in CHAPTERS for code in chapter.codes)
EXCLUSIVE = tuple(frozenset(ids) for chapter in CHAPTERS for ids in chapter.exclusive)
"""Sets of code ids of which a note has at most one."""

BY_ID = {code.id: code for code in CODES}
BY_LABEL = {code.label: code for code in CODES}
_SIBLINGS = {
    code.id: frozenset[str]().union(*(ids for ids in EXCLUSIVE if code.id in ids)) - {code.id}
    for code in CODES
}


def siblings(code_id: str) -> frozenset[str]:
    """Return the ids of the codes that exclude `code_id`.

    >>> sorted(siblings("MSK-10"))
    ['MSK-11', 'MSK-12', 'MSK-13']
    """
    return _SIBLINGS[code_id]


def fits(code: Code, present: Sequence[Code]) -> bool:
    """Return whether `code` may join `present`: new, not excluded, its requirement met.

    >>> fits(BY_ID["END-14"], [BY_ID["CIR-10"]])  # neuropathy of diabetes, without diabetes
    False
    """
    ids = {other.id for other in present}
    if code.id in ids or not ids.isdisjoint(_SIBLINGS[code.id]):
        return False
    return not code.requires or not ids.isdisjoint(code.requires)
