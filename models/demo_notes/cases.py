"""Who the patient is and which codes are true: drawn before a word is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Literal

from setwise.models.demo_notes.catalogue import BY_ID, CODES, fits
from setwise.models.demo_notes.codes import Code

# Share of notes with 1, 2, … 8 codes: mostly one to four.
_CARDINALITY = tuple(accumulate((0.27, 0.27, 0.20, 0.12, 0.07, 0.04, 0.02, 0.01)))
# Further codes come from what the present ones bring along, else from common conditions.
_FROM_COMPANY = 0.55
# A crowded case may find no further code that fits the age and the exclusions.
_TRIES_PER_CODE = 8

_REASONS = tuple(code for code in CODES if code.weight > 0)
_REASON_WEIGHTS = tuple(accumulate(code.weight for code in _REASONS))
_COMMON = tuple(code for code in CODES if code.background > 0)
_COMMON_WEIGHTS = tuple(accumulate(code.background for code in _COMMON))


@dataclass(frozen=True)
class Case:
    """A patient with the codes that apply.

    Attributes
    ----------
    codes : tuple of Code
        The reason for the visit first; never empty, never two that exclude each other.
    """

    age: int
    sex: Literal["F", "M"]
    codes: tuple[Code, ...]


def draw_case(rng: Random) -> Case:
    """Draw a case: a reason for the visit, its company and what the patient carries along."""
    wanted = 1 + _place(_CARDINALITY, rng)
    reason = _REASONS[_place(_REASON_WEIGHTS, rng)]
    codes = [reason]
    if reason.requires:
        cause = _cause_of(reason, rng)
        codes.append(cause)
    youngest = max(code.ages[0] for code in codes)
    oldest = max(youngest, min(code.ages[1] for code in codes))
    age = round(rng.triangular(youngest, oldest, youngest + 0.6 * (oldest - youngest)))
    for _ in range(_TRIES_PER_CODE * wanted):
        if len(codes) >= wanted:
            break
        code = _further_code(codes, rng)
        if code.ages[0] <= age <= code.ages[1] and fits(code, codes):
            codes.append(code)
    return Case(age=age, sex="F" if rng.random() < 0.5 else "M", codes=tuple(codes))


def _cause_of(code: Code, rng: Random) -> Code:
    causes = [BY_ID[other] for other in code.requires]
    weights = tuple(accumulate(cause.weight + cause.background for cause in causes))
    return causes[_place(weights, rng)]


def _further_code(codes: Sequence[Code], rng: Random) -> Code:
    if rng.random() < _FROM_COMPANY:
        company = [pair for code in codes for pair in code.company.items()]
        if company:
            weights = tuple(accumulate(weight for _, weight in company))
            return BY_ID[company[_place(weights, rng)][0]]
    return _COMMON[_place(_COMMON_WEIGHTS, rng)]


def _place(cumulative: Sequence[float], rng: Random) -> int:
    """Draw a place with probability in proportion to its share of ``cumulative``."""
    drawn = rng.random() * cumulative[-1]
    return next(place for place, bound in enumerate(cumulative) if drawn < bound)
