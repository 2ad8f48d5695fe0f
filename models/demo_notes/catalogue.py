"""All chapters together, and the relations that the rest asks for."""

from collections.abc import Sequence

from setwise.models.demo_notes.chapters import (
    circulatory,
    digestive,
    endocrine,
    general,
    injury,
    mental,
    musculoskeletal,
    nervous,
    renal,
    respiratory,
)
from setwise.models.demo_notes.codes import Chapter, Code

CHAPTERS: tuple[Chapter, ...] = (
    respiratory.CHAPTER,
    circulatory.CHAPTER,
    endocrine.CHAPTER,
    renal.CHAPTER,
    digestive.CHAPTER,
    nervous.CHAPTER,
    mental.CHAPTER,
    musculoskeletal.CHAPTER,
    injury.CHAPTER,
    general.SKIN,
    general.BLOOD,
    general.INFECTION,
)

CODES: tuple[Code, ...] = tuple(code for chapter in CHAPTERS for code in chapter.codes)
"""Every code, in the order of the catalogue."""

EXCLUSIVE: tuple[frozenset[str], ...] = tuple(
    frozenset(ids) for chapter in CHAPTERS for ids in chapter.exclusive
)
"""Sets of code ids of which a note carries at most one."""

BY_ID: dict[str, Code] = {code.id: code for code in CODES}
BY_LABEL: dict[str, Code] = {code.label: code for code in CODES}

_SIBLINGS: dict[str, frozenset[str]] = {
    code.id: frozenset().union(*(ids for ids in EXCLUSIVE if code.id in ids)) - {code.id}
    for code in CODES
}


def siblings(code_id: str) -> frozenset[str]:
    """Return the ids of the codes that exclude ``code_id``.

    >>> sorted(siblings("MSK-10"))
    ['MSK-11', 'MSK-12', 'MSK-13']
    """
    return _SIBLINGS[code_id]


def fits(code: Code, present: Sequence[Code]) -> bool:
    """Tell whether ``code`` may join ``present``: new, not excluded, its requirement met.

    >>> fits(BY_ID["END-14"], [BY_ID["CIR-10"]])  # neuropathy of diabetes, without diabetes
    False
    """
    ids = {other.id for other in present}
    if code.id in ids or not ids.isdisjoint(_SIBLINGS[code.id]):
        return False
    return not code.requires or not ids.isdisjoint(code.requires)
